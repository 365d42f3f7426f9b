"""How a product is kept in the store: compressed JSON, its facts and its nouns.

The facts are what makes the catalogue what it is, and what its digest covers. Neither the
hidden price nor the nouns are among them: the first is derived from the digest, the second
have a source of their own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from agentgym_suite.webshop.products import Product

# Phrases that most records share. Changing one byte of it is a new format version.
_DICTIONARY = (
    '"],["https://m.media-amazon.com/images/I/","color",["black","white","blue","red",'
    '"size",["small","medium","large","x-large","xx-large"]]],"Home & Kitchen › '
    "Clothing, Shoes & Jewelry › Women › Beauty & Personal Care › Electronics › "
    "Grocery & Gourmet Food › beauty electronics fashion garden grocery "
    '[100.0],"$100.0","","",".jpg","https://m.media-amazon.com/images/I/'
).encode()
_RAW_DEFLATE = -15


def facts_of(product: Product) -> str:
    """The facts of a product as one line of JSON."""
    return _json(
        (
            product.asin,
            product.name,
            product.description,
            product.bullets,
            product.category,
            product.query,
            product.product_category,
            product.prices,
            product.price_tag,
            product.options,
            product.option_images,
            product.attributes,
            product.images,
            product.average_rating,
            product.page,
            product.model,
        )
    )


def encode_row(facts: str, nouns: Sequence[str]) -> bytes:
    """The row of a product.

    Raises:
        UnicodeEncodeError: a text holds a lone surrogate.
    """
    packer = zlib.compressobj(wbits=_RAW_DEFLATE, zdict=_DICTIONARY)
    return packer.compress(f"[{facts},{_json(nouns)}]".encode()) + packer.flush()


def decode_row(row: bytes, hidden_price: float | None) -> Product:
    """The product of a row; ``hidden_price`` is None where it has one price."""
    facts, nouns = json.loads(zlib.decompressobj(_RAW_DEFLATE, _DICTIONARY).decompress(row))
    asin, name, description, bullets, category, query, path, prices, tag = facts[:9]
    options, option_images, attributes, images, rating, page, model = facts[9:]
    return Product(
        asin,
        name,
        description,
        tuple(bullets),
        category,
        query,
        path,
        tuple(prices),
        tag,
        prices[0] if hidden_price is None else hidden_price,
        tuple([(group, tuple(values)) for group, values in options]),
        tuple([(value, image) for value, image in option_images]),
        tuple(attributes),
        tuple(images),
        tuple(nouns),
        rating,
        page,
        model,
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
