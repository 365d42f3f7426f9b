"""The embedded WebShop catalogue: invented products in the official files, of any size."""

from __future__ import annotations

from agentgym_suite.webshop.generator.product_maker import GENERATOR_VERSION
from agentgym_suite.webshop.generator.writing import DEFAULT_SEED, generate, products

__all__ = ["DEFAULT_SEED", "GENERATOR_VERSION", "generate", "products"]
