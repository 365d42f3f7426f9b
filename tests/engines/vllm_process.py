"""A vLLM server in processes of its own, for as long as a test needs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

READY_S = 1800.0
"""Far beyond a start, which takes about a minute on two quiet cores."""


@contextmanager
def vllm_server(
    folder: Path, log: Path, *flags: str, variables: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Serve a model's folder in float32; the address, once it answers.

    Args:
        folder: of the model.
        log: what the server says.
        flags: further ones.
        variables: of its environment.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folder), "--dtype", "float32", "--enforce-eager"]
    command += ["--host", "127.0.0.1", "--port", str(port), *flags]
    settings = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={**settings, **(variables or {})}, stdout=output, stderr=output
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _answers(address):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(1)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False
