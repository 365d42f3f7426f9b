"""Retrieval indexes: they rank documents and know no environment."""
