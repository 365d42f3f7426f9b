"""What retrieval clients send and expect: Search-R1's JSON, gem's msgpack, rLLM's shape.

The clients that exist differ in the name of the number of passages (``topk``, ``top_k``, ``k``), in
one query or many, and in what comes back. One reader serves them all; the server's documentation
has the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_suite.arguments import json_kind, shown_json
from agentgym_suite.errors import MissingExtra
from agentgym_suite.indexes.passages import Found
from agentgym_suite.servers.bodies import invalid
from agentgym_suite.servers.problems import JSON_TYPE, Problem, encode_json

MAX_BODY_BYTES = 8 << 20
# bounds what one request holds; --search-timeout bounds its work, between slices of its queries
MOST_QUERIES = 10_000
# refused before the search; how long the passages are shows only then, see answer_sizes
MOST_PASSAGES = 200_000

_MOST_DIGITS = 4_300

MSGPACK_TYPE = "application/msgpack"

_MSGPACK_TYPES = frozenset({MSGPACK_TYPE, "application/x-msgpack"})
# first bytes of a msgpack map; none of them begins a JSON text
_MSGPACK_MAPS = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
_K_NAMES = ("topk", "top_k", "k")
_RLLM_K_NAMES = ("k", "top_k", "topk")  # its client sends both and means k


@dataclass(frozen=True, slots=True)
class Corpus:
    """What bounds a request.

    Attributes:
        rows: passages that can be found; 0 for an unknown number.
        default_k: passages for each query of a request that names no number.
    """

    rows: int
    default_k: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one request asks for.

    Attributes:
        queries: the texts to search for, in order.
        k: most passages for each.
        scores: whether scores belong into the answer.
        packed: whether it came as msgpack, and the answer goes as msgpack.
        flat: whether the answer is the list of the only query, not a list of lists.
    """

    queries: tuple[str, ...]
    k: int
    scores: bool = False
    packed: bool = False
    flat: bool = False


def read_wanted(body: bytes, content_type: str, corpus: Corpus) -> Wanted:
    """The request of ``/retrieve``; members that it does not know are ignored.

    Args:
        body: the request's bytes.
        content_type: its header, "" if there is none.
        corpus: what bounds it.

    Raises:
        Problem: ``bad-json``, ``media-type`` (msgpack is not installed), ``too-large``, or
            ``invalid`` naming the field.
    """
    packed = _is_msgpack(body, content_type)
    value = _parse_msgpack(body) if packed else _parse_json(body)
    name = "query" if value.get("queries") is None and "query" in value else "queries"
    texts = value.get(name)
    single = name == "query" and isinstance(texts, str)
    if single:
        texts = [texts]
    if not isinstance(texts, list):
        raise invalid(name, f"is {_shown(texts)}; give queries, a list of texts")
    scores = value.get("return_scores", False)
    if not isinstance(scores, bool):
        raise invalid("return_scores", f"is {_shown(scores)}; give true or false")
    k = _read_k(value, _K_NAMES, corpus)
    queries = _check_queries(name, texts, k)
    return Wanted(queries, k, scores=scores, packed=packed, flat=packed and single)


def read_rllm(body: bytes, corpus: Corpus) -> Wanted:
    """The request of ``/rllm/retrieve``: one query, and ``k`` wins over ``top_k``.

    Raises:
        Problem: ``bad-json``, or ``invalid`` naming the field.
    """
    value = _parse_json(body)
    query = value.get("query")
    if not isinstance(query, str):
        raise invalid("query", f"is {_shown(query)}; give a text")
    k = _read_k(value, _RLLM_K_NAMES, corpus)
    return Wanted(_check_queries("query", [query], k), k, scores=True, flat=True)


def encode_answer(wanted: Wanted, results: Sequence[Sequence[Found]]) -> tuple[bytes, str]:
    """The answer of ``/retrieve`` and its media type.

    Raises:
        ValueError: a score is not finite, or UTF-8 cannot carry a passage.
    """
    if wanted.packed:
        import msgpack

        # without scores a client of msgpack still reads item["document"]
        lists = [[_scored(f, f.score if wanted.scores else None) for f in r] for r in results]
        packed: bytes = msgpack.packb({"result": lists[0] if wanted.flat else lists})
        return packed, MSGPACK_TYPE
    # one list at a time, so that a large answer does not hold the interpreter for long
    parts = (
        encode_json([_scored(f, f.score) if wanted.scores else _document(f) for f in found])
        for found in results
    )
    return b'{"result":[' + b",".join(parts) + b"]}", JSON_TYPE


def encode_rllm(wanted: Wanted, results: Sequence[Sequence[Found]], method: str) -> bytes:
    """The answer of ``/rllm/retrieve``: what both generations of its client read.

    The older one reads ``id`` and ``content`` of an item, the newer one ``document``.

    Raises:
        ValueError: a score is not finite, or UTF-8 cannot carry a passage.
    """
    items = [
        {
            "id": f"doc_{rank}",
            "doc_id": found.passage.id,
            "content": found.passage.contents,
            "score": _plain(found.score),
            "document": {"id": found.passage.id, "contents": found.passage.contents},
        }
        for rank, found in enumerate(results[0], start=1)
    ]
    return encode_json(
        {
            "query": wanted.queries[0],
            "method": method,
            "results": items,
            "num_results": len(items),
        }
    )


def _document(found: Found) -> dict[str, str]:
    passage = found.passage
    return {
        "id": passage.id,
        "contents": passage.contents,
        "title": passage.title,
        "text": passage.text,
    }


def _scored(found: Found, score: float | None) -> dict[str, Any]:
    return {"document": _document(found), "score": None if score is None else _plain(score)}


def _plain(score: float) -> float:
    number = float(score)  # an index may count in float32, which JSON has no form for
    if not math.isfinite(number):
        raise ValueError(f"a score is {number}")
    return number


def _is_msgpack(body: bytes, content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type:
        return media_type in _MSGPACK_TYPES
    return bool(body) and body[0] in _MSGPACK_MAPS


def _parse_msgpack(body: bytes) -> dict[str, Any]:
    try:
        import msgpack
    except ImportError:
        raise Problem("media-type", str(MissingExtra("retrieval", "a msgpack body"))) from None
    try:
        value = msgpack.unpackb(body)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise _unreadable("msgpack", type(error).__name__) from None
    return _as_map(value, "msgpack")


def _parse_json(body: bytes) -> dict[str, Any]:
    # NaN is read, where it is no JSON, so that a NaN of topk is named and others do no harm
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_int=_read_int)
    except (ValueError, RecursionError) as error:
        raise _unreadable("JSON", type(error).__name__) from None
    return _as_map(value, "JSON")


def _read_int(digits: str) -> int | float:
    # longer ones Python refuses to read; infinite, they are refused by the name of their field
    return int(digits) if len(digits) <= _MOST_DIGITS else math.copysign(math.inf, int(digits[:2]))


def _as_map(value: Any, form: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Problem("bad-json", f"the body is a {form} {json_kind(value)}; send a {form} object")
    return value


def _unreadable(form: str, reason: str) -> Problem:
    return Problem("bad-json", f"the body is not {form} ({reason}); send a {form} object")


def _read_k(value: Mapping[str, Any], names: Iterable[str], corpus: Corpus) -> int:
    """The first number given; null counts as absent, 0 as the default."""
    k = 0
    for name in names:
        given = value.get(name)
        if given is None:
            continue
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise invalid(name, f"is {_shown(given)}; give a whole number from 1 on")
        k = given
        break
    k = k or corpus.default_k
    return min(k, corpus.rows) if corpus.rows else k


def _check_queries(name: str, texts: list[Any], k: int) -> tuple[str, ...]:
    if len(texts) > MOST_QUERIES:
        raise Problem(
            "too-large", f"{name} has {len(texts):,} texts; send at most {MOST_QUERIES:,} at a time"
        )
    for position, text in enumerate(texts):
        field = f"{name}[{position}]" if len(texts) > 1 or name == "queries" else name
        if not isinstance(text, str):
            raise invalid(field, f"is {_shown(text)}; give a text")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(field, "has a lone surrogate; send text that UTF-8 can carry") from None
    if k * len(texts) > MOST_PASSAGES:
        raise Problem(
            "too-large",
            f"{len(texts):,} queries for {k:,} passages each are more than {MOST_PASSAGES:,}; "
            "send fewer queries at a time or ask for fewer passages",
        )
    return tuple(texts)


def _shown(value: Any) -> str:
    return "missing" if value is None else shown_json(value)
