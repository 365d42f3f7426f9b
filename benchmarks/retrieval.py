"""The retrieval server beside a plain FastAPI + pydantic + FAISS Flat server, in one run.

Three processes hold the same vectors: one calls our index directly, one serves it, one is the plain
server (``plain_faiss_server.py``). All get the same queries; the ids must be the same. Reported are

* one keep-alive client: wall and server CPU of a request of 1, 8, 32 and 64 queries, and what HTTP
  adds to the direct call;
* 64 clients at once, 50 queries each, one query a request: throughput, latencies, CPU, and whether
  everybody got what the direct call gives.

CPU is that of the server's whole process. ``--threads`` bounds every side's searches.

Run: make benchmark-retrieval   (needs fastapi, in an environment of its own)
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).parent
BATCHES = (1, 8, 32, 64)
QUERIES = 1_024
CLIENTS = 64
TURNS = 50
WARM_UP = 4

Ids = list[list[str]]


# ------------------------------------------------------------------ the three processes


def open_ours(folder: Path, threads: int) -> Any:
    """Our index over the folder's vectors, built if it is not there."""
    from retrieval_vectors import LookupEncoder

    from agentgym_suite.indexes.dense import DenseIndex
    from agentgym_suite.indexes.dense_build import build_dense

    encoder = LookupEncoder(folder)
    build_dense(folder / "dense", folder / "corpus.jsonl", encoder=encoder, index_type="Flat")
    return DenseIndex.open(folder / "dense", encoder=encoder, threads=threads)


def serve_ours(folder: Path, threads: int, window_ms: float) -> None:
    """Serve our index until killed; prints the address."""
    from agentgym_suite.servers.http_server import address_of, open_socket, run_server
    from agentgym_suite.servers.retrieval import retrieval_app
    from agentgym_suite.servers.retrieval_service import RetrievalService, RetrievalSettings

    index = open_ours(folder, threads)
    settings = RetrievalSettings(batch_window_s=window_ms / 1_000)
    service = RetrievalService(index, settings)
    with open_socket("127.0.0.1", 0) as listener:
        print(address_of(listener), flush=True)
        run_server(
            retrieval_app(service),
            listener,
            drain=service.drain,
            in_use=lambda: service.in_use,
            drain_s=5,
        )


def call_directly(folder: Path, threads: int, k: int) -> None:
    """Print, as JSON, what the direct calls give and cost."""
    index = open_ours(folder, threads)
    answer: dict[str, Any] = {"info": index.info(), "batches": {}}
    for size in BATCHES:
        batches = batches_of(size)
        for batch in batches[:WARM_UP]:
            index.retrieve(batch, k)
        cpu, wall = time.process_time(), time.perf_counter()
        found = [index.retrieve(batch, k) for batch in batches]
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        answer["batches"][size] = {
            "cpu_ms": 1_000 * cpu / len(batches),
            "wall_ms": 1_000 * wall / len(batches),
            "ids": [[f.passage.id for f in one] for lists in found for one in lists],
        }
    print(json.dumps(answer))


# -------------------------------------------------------------------------- measuring


def batches_of(size: int) -> list[list[str]]:
    """Every query once, ``size`` at a time; at most 256 requests."""
    numbers = list(range(min(QUERIES, 256 * size)))
    return [
        [f"query {n}" for n in numbers[start : start + size]]
        for start in range(0, len(numbers), size)
    ]


class Client:
    """One kept connection.

    Args:
        address: the server's.
        k: passages for each query.
    """

    def __init__(self, address: str, k: int) -> None:
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=600)
        self._k = k

    def __call__(self, queries: Sequence[str]) -> Ids:
        """The ids found for each query."""
        body = json.dumps({"queries": queries, "topk": self._k, "return_scores": True})
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/retrieve", body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"status {answer.status}: {text[:300]!r}")
        return [[item["document"]["id"] for item in found] for found in json.loads(text)["result"]]


def cpu_seconds(process: int) -> float:
    """User and system time of a process with all its threads (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[tuple[int, str]]:
    """A server process: its number and address."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield process.pid, address
    finally:
        process.terminate()
        process.wait()


def measure_alone(process: int, address: str, k: int) -> dict[int, dict[str, Any]]:
    """One client after another batch."""
    client = Client(address, k)
    figures: dict[int, dict[str, Any]] = {}
    for size in BATCHES:
        batches = batches_of(size)
        for batch in batches[:WARM_UP]:
            client(batch)
        cpu, wall = cpu_seconds(process), time.perf_counter()
        found = [ids for batch in batches for ids in client(batch)]
        wall, cpu = time.perf_counter() - wall, cpu_seconds(process) - cpu
        figures[size] = {
            "cpu_ms": 1_000 * cpu / len(batches),
            "wall_ms": 1_000 * wall / len(batches),
            "ids": found,
        }
    return figures


def measure_together(process: int, address: str, k: int) -> dict[str, Any]:
    """64 clients at once, each with its own connection and queries."""

    def play(number: int) -> tuple[Ids, list[float]]:
        client = Client(address, k)
        found, seconds = [], []
        for turn in range(TURNS):
            began = time.perf_counter()
            found += client([f"query {(number * TURNS + turn) % QUERIES}"])
            seconds.append(time.perf_counter() - began)
        return found, seconds

    with ThreadPoolExecutor(CLIENTS) as pool:
        cpu, wall = cpu_seconds(process), time.perf_counter()
        played = list(pool.map(play, range(CLIENTS)))
        wall, cpu = time.perf_counter() - wall, cpu_seconds(process) - cpu
    ms = [1_000 * second for _, seconds in played for second in seconds]
    cuts = statistics.quantiles(ms, n=100)
    return {
        "requests_per_s": len(ms) / wall,
        "cpu_ms": 1_000 * cpu / len(ms),
        "p50_ms": cuts[49],
        "p99_ms": cuts[98],
        "ids": [ids for found, _ in played for ids in found],
    }


# -------------------------------------------------------------------------- reporting


def main() -> int:
    """Measure and print; non-zero when any id differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, help="a .npy file of unit vectors")
    parser.add_argument("--rows", type=int, default=139_416)
    parser.add_argument("--dim", type=int, default=1_024)
    parser.add_argument("--topk", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="of every side's searches")
    parser.add_argument("--window-ms", type=float, default=0.0, help="our --batch-window-ms")
    parser.add_argument("--folder", type=Path, help="keep vectors and index here")
    parser.add_argument("--report", type=Path, help="write the figures as JSON")
    parser.add_argument("--role", choices=("measure", "serve", "direct"), default="measure")
    args = parser.parse_args()
    if args.role == "serve":
        serve_ours(args.folder, args.threads, args.window_ms)
    elif args.role == "direct":
        call_directly(args.folder, args.threads, args.topk)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            return compare(args, args.folder or Path(temporary))
    return 0


def compare(args: argparse.Namespace, folder: Path) -> int:
    """Run the three processes one after the other, print the tables, count what differs."""
    from retrieval_vectors import write_vectors

    if not (folder / "corpus.jsonl").exists():
        write_vectors(folder, rows=args.rows, dim=args.dim, queries=QUERIES, given=args.vectors)
    threads = str(args.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    ours = [sys.executable, str(HERE / "retrieval.py"), "--folder", str(folder)]
    ours += ["--threads", threads, "--window-ms", str(args.window_ms), "--topk", str(args.topk)]
    plain = [sys.executable, str(HERE / "plain_faiss_server.py"), str(folder), "--threads", threads]
    called = subprocess.run(
        [*ours, "--role", "direct"], stdout=subprocess.PIPE, env=environment, check=True
    )
    direct = json.loads(called.stdout)
    alone = {"direct": {int(size): row for size, row in direct["batches"].items()}}
    together = {}
    for name, command in (("ours", [*ours, "--role", "serve"]), ("plain", plain)):
        with started(command, environment) as (process, address):
            alone[name] = measure_alone(process, address, args.topk)
            together[name] = measure_together(process, address, args.topk)
    differences = count_differences(alone, together)
    print_tables(direct["info"], alone, together, differences)
    if args.report is not None:
        figures = {"info": direct["info"], "alone": alone, "together": together}
        for row in [*(r for rows in alone.values() for r in rows.values()), *together.values()]:
            del row["ids"]
        figures |= {"threads": args.threads, "topk": args.topk, "differences": differences}
        args.report.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if any(differences.values()) else 0


def count_differences(
    alone: dict[str, dict[int, dict[str, Any]]], together: dict[str, dict[str, Any]]
) -> dict[str, int]:
    """Queries whose ids are not those of the direct call, by side."""
    reference: Ids = alone["direct"][8]["ids"]  # all queries, eight at a time
    turns = [reference[place % QUERIES] for place in range(CLIENTS * TURNS)]
    found = {
        side: sum(differing(row["ids"], reference) for row in rows.values())
        for side, rows in alone.items()
    }
    for side, row in together.items():
        found[f"{side}, {CLIENTS} clients"] = differing(row["ids"], turns)
    return found


def differing(found: Ids, wanted: Ids) -> int:
    """Queries whose ids are not the wanted ones in their order; fewer may be found than wanted."""
    return sum(ids != right for ids, right in zip(found, wanted, strict=False))


def print_tables(
    info: dict[str, Any],
    alone: dict[str, dict[int, dict[str, Any]]],
    together: dict[str, dict[str, Any]],
    differences: dict[str, int],
) -> None:
    """The figures for people; times in ms a request."""
    print(json.dumps(info, ensure_ascii=False))
    heads = [f"{side} {what}" for side in ("direct", "ours", "plain") for what in ("wall", "CPU")]
    print(
        "".join(f"{head:>14}" for head in ("queries", *heads, "HTTP adds CPU", "x wall", "x CPU"))
    )
    for size in BATCHES:
        direct, ours, plain = (alone[side][size] for side in ("direct", "ours", "plain"))
        cells = [row[what] for row in (direct, ours, plain) for what in ("wall_ms", "cpu_ms")]
        cells.append(ours["cpu_ms"] - direct["cpu_ms"])
        cells += [plain[what] / ours[what] for what in ("wall_ms", "cpu_ms")]
        print(f"{size:14}" + "".join(f"{cell:14.2f}" for cell in cells))
    print(f"{CLIENTS} clients x {TURNS} queries, one a request:")
    for side, row in together.items():
        print(
            f"  {side:6}{row['requests_per_s']:9.1f} requests/s  p50 {row['p50_ms']:8.1f} ms"
            f"  p99 {row['p99_ms']:8.1f} ms  {row['cpu_ms']:7.2f} ms CPU a request"
        )
    print("queries with other ids than the direct call's: ", end="")
    print(", ".join(f"{side} {count}" for side, count in differences.items()))


if __name__ == "__main__":
    sys.exit(main())
