"""``UnicodeText``: the space of every observation and action of the suite.

Gymnasium's own ``Text`` space cannot carry blanks, line ends or non-ASCII text by default and,
in an ``AsyncVectorEnv`` with shared memory, returns its first buffer for ever. This space holds
any Unicode string and registers the shared-memory functions that vector environments ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.context import BaseContext
from typing import Any, SupportsIndex

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from numpy.typing import NDArray

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
_LENGTH_BYTES = 4  # a uint32 in front of each string's UTF-8
_MAX_UTF8_BYTES = 4  # no character takes more


def without_surrogates(text: str) -> str:
    """``text`` with every lone surrogate, which UTF-8 cannot carry, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class UnicodeText(Space[str]):
    """All Unicode strings without lone surrogates, between two lengths in characters.

    Args:
        max_length: longest string, in characters.
        min_length: shortest string, in characters.
        examples: strings that ``sample`` picks from; they do not count for equality.
        seed: seed of the space's own generator.

    Raises:
        ValueError: if the lengths are not ``0 <= min_length <= max_length``.
    """

    def __init__(
        self,
        max_length: int = 65536,
        *,
        min_length: int = 0,
        examples: Sequence[str] = (),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if not 0 <= min_length <= max_length:
            raise ValueError(
                f"UnicodeText lengths are {min_length} to {max_length}; "
                "give 0 <= min_length <= max_length"
            )
        super().__init__(None, None, seed)
        self.min_length = int(min_length)
        self.max_length = int(max_length)
        self.examples = tuple(examples)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a string has no fixed-size array form."""
        return False

    def contains(self, x: object) -> bool:
        """Whether ``x`` is a str of allowed length that UTF-8 can encode."""
        if not isinstance(x, str) or not self.min_length <= len(x) <= self.max_length:
            return False
        try:
            x.encode("utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """One of the examples, or at most 64 ASCII letters and blanks (never more work)."""
        if self.examples:
            return self.examples[int(self.np_random.integers(len(self.examples)))]
        longest = min(self.max_length, max(64, self.min_length))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        picks = self.np_random.integers(len(_LETTERS), size=length)
        return "".join(_LETTERS[i] for i in picks)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """The strings themselves."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """The strings themselves."""
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )

    def __hash__(self) -> int:
        return hash((UnicodeText, self.min_length, self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"


class SharedTexts(tuple[str, ...]):
    """A live view of the strings in a shared buffer; copies of it are plain tuples of str.

    ``AsyncVectorEnv(copy=True)`` deep-copies its observations at each call, so users get plain
    tuples. With ``copy=False`` this view reaches the user and changes with the next step. Every
    reading method decodes the buffer. ``%``-formatting reads the (empty) base tuple in C and
    cannot be helped: use ``tuple(view)`` there.
    """

    _buffer: Any
    _num_envs: int
    _stride: int

    def __new__(cls, buffer: Any, num_envs: int, stride: int) -> SharedTexts:
        """A view of ``num_envs`` slots of ``stride`` bytes each."""
        view = super().__new__(cls)
        view._buffer, view._num_envs, view._stride = buffer, num_envs, stride
        return view

    def _read(self) -> tuple[str, ...]:
        memory = memoryview(self._buffer).cast("B")
        texts = []
        for i in range(self._num_envs):
            start = i * self._stride + _LENGTH_BYTES
            size = int.from_bytes(memory[start - _LENGTH_BYTES : start], "little")
            texts.append(bytes(memory[start : start + size]).decode("utf-8"))
        return tuple(texts)

    def __len__(self) -> int:
        return self._num_envs

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._read())

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return self._read()[index]

    def __contains__(self, item: object) -> bool:
        return item in self._read()

    def index(self, *args: Any) -> int:
        """Position of the first equal string."""
        return self._read().index(*args)

    def count(self, value: object) -> int:
        """Number of equal strings."""
        return self._read().count(value)

    def __add__(self, other: Any) -> Any:
        return self._read() + tuple(other)

    def __radd__(self, other: Any) -> Any:
        return tuple(other) + self._read()

    def __mul__(self, times: SupportsIndex) -> tuple[str, ...]:
        return self._read() * times

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return self._read() == (tuple(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: tuple[str, ...]) -> bool:
        return self._read() < tuple(other)

    def __le__(self, other: tuple[str, ...]) -> bool:
        return self._read() <= tuple(other)

    def __gt__(self, other: tuple[str, ...]) -> bool:
        return self._read() > tuple(other)

    def __ge__(self, other: tuple[str, ...]) -> bool:
        return self._read() >= tuple(other)

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def __copy__(self) -> tuple[str, ...]:
        return self._read()

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return self._read()

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._read(),)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


def _stride(space: UnicodeText) -> int:
    return _LENGTH_BYTES + _MAX_UTF8_BYTES * space.max_length


@create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: BaseContext | None = None) -> Any:
    if ctx is None:
        import multiprocessing

        ctx = multiprocessing.get_context()
    return ctx.Array("B", n * _stride(space), lock=False)


@read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n, _stride(space))


@write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    text = np.frombuffer(value.encode("utf-8"), dtype=np.uint8)
    stride = _stride(space)
    if len(text) > stride - _LENGTH_BYTES:
        raise ValueError(
            f"the text of environment {index} has {len(text)} bytes, its buffer "
            f"{stride - _LENGTH_BYTES}; cut it to {space.max_length} characters"
        )
    buffer: NDArray[np.uint8] = np.frombuffer(shared_memory, dtype=np.uint8)
    start = index * stride
    size = np.frombuffer(len(text).to_bytes(_LENGTH_BYTES, "little"), dtype=np.uint8)
    buffer[start : start + _LENGTH_BYTES] = size
    buffer[start + _LENGTH_BYTES : start + _LENGTH_BYTES + len(text)] = text
