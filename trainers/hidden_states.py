"""Hidden states where an algorithm reads: before every response token, and after the last one.

Rows are padded on the right, so a causal model needs no mask; rows of one micro-batch should be
of similar length (``row_buckets``), or what is padded is computed for nothing. A row that is a
prefix of another, as the steps of a conversation are, can be read there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from agentgym_suite.engines.cached_rows import cache_keyword
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.config import ONE_WAY

Ids = Sequence[int]


def length_buckets(sizes: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Rows put together with rows of their own length, shortest first.

    Args:
        sizes: tokens of each row.
        most_tokens: bound of rows times longest row in one bucket; a longer row is alone.

    Returns:
        Row numbers of each bucket; every row once, the same for the same sizes.

    Raises:
        UsageError: the bound is below 1.
    """
    if most_tokens < 1:
        raise UsageError(f"most_tokens is {most_tokens}; give at least 1")
    buckets: list[list[int]] = []
    for row in sorted(range(len(sizes)), key=lambda number: (sizes[number], number)):
        if buckets and (len(buckets[-1]) + 1) * sizes[row] <= most_tokens:
            buckets[-1].append(row)
        else:
            buckets.append([row])
    return buckets


def continuations(rows: Sequence[Ids]) -> list[int]:
    """For each row the number of one that it is a prefix of and that is a prefix of no other.

    A row that goes on nowhere has its own. In the order of dictionaries a row stands right before
    those that it is a prefix of.
    """
    order = sorted(range(len(rows)), key=lambda number: tuple(rows[number]))
    found = list(range(len(rows)))
    for number, following in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
        row = rows[number]
        if tuple(rows[following][: len(row)]) == tuple(row):
            found[number] = found[following]
    return found


def row_buckets(
    prompts: Sequence[Ids],
    responses: Sequence[Ids],
    most_tokens: int,
    *,
    merge_append_only: bool = False,
) -> list[list[int]]:
    """Rows that are computed together: those of a length, or of a conversation.

    Args:
        prompts: ids of each row.
        responses: ids behind them.
        most_tokens: bound of a bucket's padded tokens, and of the states that are read of it; what
            exceeds it by itself is alone.
        merge_append_only: whether a row is computed with one that it is a prefix of.

    Returns:
        Row numbers of each bucket; every row once.

    Raises:
        UsageError: the bound is below 1.
    """
    buckets = _sequences(prompts, responses, most_tokens, merge_append_only)
    return [[number for sequence in bucket for number in sequence] for bucket in buckets]


def computed_tokens(
    prompts: Sequence[Ids],
    responses: Sequence[Ids],
    most_tokens: int,
    *,
    merge_append_only: bool = False,
) -> tuple[int, int]:
    """Tokens that a pass over all rows needs, and those it computes, padding included.

    Arguments and errors as in ``row_buckets``.
    """
    needed = computed = 0
    for bucket in _sequences(prompts, responses, most_tokens, merge_append_only):
        sizes = [len(prompts[rows[-1]]) + len(responses[rows[-1]]) for rows in bucket]
        needed += sum(sizes)
        computed += len(sizes) * max(sizes)
    return needed, computed


def _sequences(
    prompts: Sequence[Ids], responses: Sequence[Ids], most_tokens: int, merge_append_only: bool
) -> list[list[list[int]]]:
    """Of each bucket the sequences, of each sequence the rows, the longest one last."""
    sizes = [len(prompt) + len(answer) for prompt, answer in zip(prompts, responses, strict=True)]
    if not merge_append_only:
        return [[[number] for number in bucket] for bucket in length_buckets(sizes, most_tokens)]

    def read(rows: Sequence[int]) -> int:
        return len(rows) * (1 + max(len(responses[number]) for number in rows))

    members: dict[int, list[int]] = defaultdict(list)
    holders = continuations(_joined(prompts, responses))
    for number in sorted(range(len(sizes)), key=lambda number: (sizes[number], number)):
        members[holders[number]].append(number)
    sequences: list[list[int]] = []
    for rows in members.values():
        sequences.append([])
        for number in rows:
            if sequences[-1] and read([*sequences[-1], number]) > most_tokens:
                sequences.append([])
            sequences[-1].append(number)
    buckets: list[list[list[int]]] = []
    for bucket in length_buckets([sizes[rows[-1]] for rows in sequences], most_tokens):
        buckets.append([])
        for place in bucket:
            together = [number for rows in (*buckets[-1], sequences[place]) for number in rows]
            if buckets[-1] and read(together) > most_tokens:
                buckets.append([])
            buckets[-1].append(sequences[place])
    return buckets


def boundary_states(
    trunk: Any,
    prompts: Sequence[Ids],
    responses: Sequence[Ids],
    *,
    share_prefix: bool = False,
    merge_append_only: bool = False,
    packed: bool | None = None,
) -> Tensor:
    """The states that predict each response token, and the one behind the response.

    Args:
        trunk: a causal transformers model without its head, on any device.
        prompts: ids of each row, at least one.
        responses: ids of each row, may be empty.
        share_prefix: compute a prompt that several rows have only once. Worth it where prompts
            are long and repeated; the result is the same up to rounding.
        merge_append_only: read a row that is a prefix of another in that one. Worth it where a
            step's prompt is the conversation so far, to the token; the result is the same up to
            rounding.
        packed: put all rows one behind the other instead of padding them; None does so where
            attention is flash attention, which knows where a row begins. Other kernels compute
            a mask of all tokens by all tokens, and the same states.

    Returns:
        ``[n, R + 1, width]`` for n rows and R the longest response: column 0 is the state at
        the last prompt token (``b_v``), column i the state at response token i; a row's column L
        is ``b_q``. Columns beyond a row's response hold anything.

    Raises:
        UsageError: both ways to compute a prompt once are asked for.
    """
    if share_prefix and merge_append_only:
        raise UsageError(ONE_WAY)
    if not share_prefix:
        if packed is None:
            packed = str(trunk.config._attn_implementation).startswith("flash")
        read = _packed_states if packed else _padded_states
        return read(trunk, prompts, responses, merge_append_only=merge_append_only)
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, prompt in enumerate(prompts):
        alike[tuple(prompt)].append(number)
    alone = [members[0] for members in alike.values() if len(members) == 1]
    width = max(map(len, responses)) + 1
    order: list[int] = []
    parts: list[Tensor] = []
    if alone:
        order += alone
        parts.append(
            _padded_states(trunk, [prompts[n] for n in alone], [responses[n] for n in alone])
        )
    for prompt, members in alike.items():
        if len(members) > 1:
            order += members
            parts.append(_states_after(trunk, prompt, [responses[n] for n in members]))
    wide = [torch.nn.functional.pad(part, (0, 0, 0, width - part.shape[1])) for part in parts]
    place = torch.empty(len(order), dtype=torch.long)
    place[order] = torch.arange(len(order))
    return torch.cat(wide)[place.to(wide[0].device)]


def _padded_states(
    trunk: Any, prompts: Sequence[Ids], responses: Sequence[Ids], *, merge_append_only: bool = False
) -> Tensor:
    rows, places = _held(_joined(prompts, responses), merge_append_only)
    hidden = trunk(input_ids=_right_padded(rows, trunk.device), use_cache=False).last_hidden_state
    first = torch.tensor([len(prompt) - 1 for prompt in prompts], device=hidden.device)
    steps = torch.arange(max(map(len, responses)) + 1, device=hidden.device)
    columns = (first[:, None] + steps).clamp(max=hidden.shape[1] - 1)
    numbers = torch.tensor(places, device=hidden.device)[:, None]
    return hidden[numbers, columns]


def _packed_states(
    trunk: Any, prompts: Sequence[Ids], responses: Sequence[Ids], *, merge_append_only: bool = False
) -> Tensor:
    """One forward of all rows one behind the other; a row begins where positions do."""
    rows, places = _held(_joined(prompts, responses), merge_append_only)
    sizes = list(map(len, rows))
    ids = [token for row in rows for token in row]
    hidden = trunk(
        input_ids=torch.tensor([ids], device=trunk.device),
        position_ids=torch.cat([torch.arange(size) for size in sizes])[None].to(trunk.device),
        use_cache=False,
    ).last_hidden_state[0]
    begins = torch.tensor([0, *sizes[:-1]]).cumsum(0)[places]
    first = begins + torch.tensor([len(prompt) - 1 for prompt in prompts])
    steps = torch.arange(max(map(len, responses)) + 1)
    columns = (first[:, None] + steps).clamp(max=len(ids) - 1)
    found: Tensor = hidden[columns.to(hidden.device)]
    return found


def _joined(prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[tuple[int, ...]]:
    return [(*prompt, *response) for prompt, response in zip(prompts, responses, strict=True)]


def _held(
    rows: list[tuple[int, ...]], merge_append_only: bool
) -> tuple[list[tuple[int, ...]], list[int]]:
    """The rows that are computed, and the place among them where each row is read."""
    if not merge_append_only:
        return rows, list(range(len(rows)))
    holders = continuations(rows)
    kept = sorted(set(holders))
    place = {number: index for index, number in enumerate(kept)}
    return [rows[number] for number in kept], [place[holder] for holder in holders]


def _states_after(trunk: Any, prompt: Ids, responses: Sequence[Ids]) -> Tensor:
    """One forward of the prompt, then all responses behind its keys and values."""
    name = cache_keyword(trunk)
    cache = DynamicCache(config=trunk.config)
    prompt_ids = torch.tensor([list(prompt)], device=trunk.device)
    ended = trunk(input_ids=prompt_ids, use_cache=True, **{name: cache}).last_hidden_state[:, -1:]
    last = ended.expand(len(responses), -1, -1)
    if not any(map(len, responses)):
        return last
    cache.batch_repeat_interleave(len(responses))
    ids = _right_padded([list(response) for response in responses], trunk.device)
    after = trunk(input_ids=ids, use_cache=True, **{name: cache}).last_hidden_state
    return torch.cat([last, after], dim=1)


def _right_padded(rows: Sequence[Ids], device: torch.device) -> Tensor:
    table = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for number, row in enumerate(rows):
        table[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return table.to(device)
