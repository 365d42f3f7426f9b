"""The other side of ``retrieval.py``: a plain FastAPI + pydantic + FAISS Flat server.

Built as the server of the Search-R1 line is: a pydantic request, a plain function as the route, one
encoded batch, one search of a Flat index with FAISS's own thresholds, documents copied into dicts
that FastAPI serialises. Only the encoder is another: both sides look the vectors of the queries up,
so that search and server are compared and not a model.

Run by retrieval.py, in an environment with fastapi and faiss-cpu.
"""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class QueryRequest(BaseModel):
    """What Search-R1's clients send."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def build_app(folder: Path, default_topk: int = 3) -> FastAPI:
    """The application over the vectors and the corpus of a folder."""
    vectors = np.load(folder / "vectors.npy")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    del vectors
    query_vectors = np.load(folder / "queries.npy")
    with (folder / "corpus.jsonl").open(encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> Any:
        k = request.topk or default_topk
        numbers = [int(query.rsplit(" ", 1)[1]) for query in request.queries]
        scores, rows = index.search(np.ascontiguousarray(query_vectors[numbers]), k)
        result: list[Any] = []
        for found, values in zip(rows.tolist(), scores.tolist(), strict=True):
            items = [documents[row] for row in found]
            if request.return_scores:
                pairs = zip(items, values, strict=True)
                result.append([{"document": item, "score": score} for item, score in pairs])
            else:
                result.append(items)
        return {"result": result}

    return app


def main() -> None:
    """Serve until killed; prints the address."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    faiss.omp_set_num_threads(args.threads)
    app = build_app(args.folder)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    # as uvicorn's own sockets have it; without it each answer waits 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])


if __name__ == "__main__":
    main()
