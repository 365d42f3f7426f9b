"""A tokenizer whose tokens are arbitrary pieces of bytes, as those of byte-level models are."""

from __future__ import annotations

from collections.abc import Sequence


class BytePieces:
    """Token i is the i-th piece; decoding joins bytes and replaces what is no UTF-8."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = list(pieces)

    @property
    def ids(self) -> range:
        return range(len(self.pieces))

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.pieces[one] for one in ids).decode("utf-8", "replace")

    def encode(self, text: str) -> list[int]:
        """The pieces that make the text, the longest first at each place; for ASCII texts."""
        rest, ids = text.encode(), []
        while rest:
            fitting = [i for i, piece in enumerate(self.pieces) if piece and rest.startswith(piece)]
            if not fitting:
                raise ValueError(f"no piece for {rest!r}")
            best = max(fitting, key=lambda i: len(self.pieces[i]))
            ids.append(best)
            rest = rest[len(self.pieces[best]) :]
        return ids


def words(text: str) -> list[int]:
    """One id for each character: a tokenizer without any merging."""
    return [ord(one) for one in text]
