"""`placings serve` as a process on free ports, with a small re-ranker; ended with all that it started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

SERVE = "from placings.cli.main import run; run()"
TOKEN = "token-of-the-tests-0123456789"
LINES = [
    {"query": query, "hits": [
        {"item_id": f"{query}{n}", "name": f"{query.title()} {n}", "price": float(1 + (7 * n) % 12),
         "rating": 4.0, "lat": 49.0 + n / 100, "lon": 8.4, "type": "locality"}
        for n in range(12)
    ]}
    for query in ("a", "st", "new", "ulm", "berlin")
]  # fmt: skip


@dataclass
class ServedProcess:
    """The process, where it listens, and what it wrote."""

    process: subprocess.Popen[str]
    url: str
    admin: str
    log: Path
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30.0))

    def get(self, path: str, **said: Any) -> httpx.Response:
        return self.client.get(self.url + path, **said)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.client.post(self.url + path, json=body)

    def order(self, path: str, body: Any = None) -> httpx.Response:
        """What an operator asks."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return self.client.post(self.admin + path, json=body, headers=headers, timeout=120.0)

    def list_workers(self) -> list[int]:
        told = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in told.split()]

    def list_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def write_hits(folder: Path) -> str:
    """An engine of five queries, from a file."""
    path = folder / "hits.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)) + "\n")
    return f"hits:{path}"


@contextmanager
def serve(folder: Path, model: Path, *words: str, **environment: str) -> Iterator[ServedProcess]:
    """Start the service and wait until it says where it listens."""
    log = folder / "log.jsonl"
    with open(log, "ab") as errors:
        process = subprocess.Popen(
            [
                sys.executable, "-c", SERVE, "serve", "--model", str(model), "--data", str(folder / "data"),
                "--port", "0", "--admin-port", "0", *words,
            ],
            stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PLACINGS_ADMIN_TOKEN": TOKEN, **environment},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        found = [re.search(r"http://127\.0\.0\.1:\d+", line) for line in lines]
        assert all(found), log.read_text()
        served = ServedProcess(process, *(each[0] for each in found if each), log)
        with served.client:
            yield served
    finally:
        if process.poll() is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for number in [*map(int, children), process.pid]:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        process.wait(60)
        process.stdout.close()


def save_model(path: Path, pool: int = 40) -> None:
    """A linear re-ranker of two numbers; models of different pools have different digests."""
    import numpy as np
    import pandas as pd

    from placings.features import FeatureSet
    from placings.features.number import Number
    from placings.rankers.linear import LinearRanker
    from placings.rerank import Reranker

    count = 80
    rows = pd.DataFrame({
        "search_id": [f"s{n // 4}" for n in range(count)], "item_id": [f"i{n}" for n in range(count)],
        "position": [n % 4 + 1 for n in range(count)], "price": [1.0 + n % 4 for n in range(count)],
        "rating": [4.0 if n % 2 else np.nan for n in range(count)],
        "label": [float(n % 4 == 1) for n in range(count)],
    })  # fmt: skip
    features = FeatureSet([Number("price"), Number("rating")]).fit(rows)
    Reranker(features, LinearRanker().fit(features.to_ranking(rows)), None, pool=pool).save(path)
