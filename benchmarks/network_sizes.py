"""Widths, members, dropout and weight decay of the default network for more training queries.

    python benchmarks/network_sizes.py                            # 5,000 queries, a GPU, some 8 minutes
    python benchmarks/network_sizes.py --queries 1500 --arms "default;dropout 0.1" --seeds 1
    python benchmarks/network_sizes.py --queries 200 --sets dev05 --device cpu --processes 1

Nine of the made families for development, with so many training queries of 20 rows each in place of their own
sizes; 1,000 test queries. `default` is 8 shared members of 128 and 64 units, dropout 0.3, weight decay 5, a
line beside them: what `NeuralRanker()` is from 1,000 to 3,000 queries. The other rows change what they name.
A fifth of the training queries stops each training. Float32. Printed: NDCG@10 in percent by family, the mean,
on how many families an arm is ahead of `default`, and the mean seconds of a fit (`--processes` at once).

Needs placings[neural], and a GPU unless --device cpu is given.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import placings as pg
from placings.core import Cell, Grid, UnknownName, render_grid
from placings.simulate import FAMILIES, make_family

SETS = ("dev01", "dev02", "dev03", "dev05", "dev06", "dev09", "dev11", "dev12", "dev13")
DEFAULT: dict[str, Any] = {
    "hidden": (128, 64), "members": 8, "dropout": 0.3, "weight_decay": 5.0, "ensemble": "shared",
    "skip": True, "ridge": False, "batch": 32, "steps": 20_000, "check_every": 200,
}  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "default": {},
    "dropout 0.1": {"dropout": 0.1},
    "weight decay 1": {"weight_decay": 1.0},
    "dropout 0.1, weight decay 1": {"dropout": 0.1, "weight_decay": 1.0},
    "dropout 0.05, weight decay 1": {"dropout": 0.05, "weight_decay": 1.0},
    "16 members, dropout 0.1": {"members": 16, "dropout": 0.1},
    "16 members of 64": {"members": 16, "hidden": (64,)},
    "256 and 128": {"hidden": (256, 128)},
    "256 and 128, dropout 0.1": {"hidden": (256, 128), "dropout": 0.1},
    "256 and 128, dropout 0.1, weight decay 1": {"hidden": (256, 128), "dropout": 0.1, "weight_decay": 1.0},
    "256, 128 and 64": {"hidden": (256, 128, 64)},
    "512 and 256": {"hidden": (512, 256)},
    "512 and 256, dropout 0.5": {"hidden": (512, 256), "dropout": 0.5},
}
ROWS = 20  # of a query, in the mean


def measure(name: str, arm: str, seed: int, queries: int, device: str) -> tuple[float, float]:
    """NDCG@10 on the test queries, and the seconds of the fit."""
    import torch

    torch.set_num_threads(1)
    drawn = make_family(name, queries=queries, mean_size=ROWS)
    began = time.perf_counter()
    ranker = pg.NeuralRanker(
        **DEFAULT | ARMS[arm], random_state=seed, device=device, precision="float32", budget="none"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(drawn.train)
    took = time.perf_counter() - began
    values = pg.ndcg(ranker.predict(drawn.test), drawn.test.y, drawn.test.offsets, k=10)
    return float(np.nanmean(values)), took


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--queries", type=int, default=5000)
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument("--arms", default=";".join(ARMS), help="with semicolons between them")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--device", default="cuda")
    options.add_argument("--processes", type=int, default=12)
    chosen = options.parse_args(arguments)
    import torch

    sets, arms = chosen.sets.split(","), chosen.arms.split(";")
    for name, known in [*((each, FAMILIES) for each in sets), *((each, ARMS) for each in arms)]:
        if name not in known:
            raise UnknownName("family or arm", name, known)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print("skipped: no GPU is here. --device cpu takes hours for 5,000 queries, minutes for 200.")
        return 0
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLACINGS_THREADS"), "1"))
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        jobs = {
            (name, arm, seed): pool.submit(measure, name, arm, seed, chosen.queries, chosen.device)
            for arm in arms
            for name in sets
            for seed in range(chosen.seeds)
        }
        found = {key: job.result() for key, job in jobs.items()}
    means = {
        arm: [100.0 * float(np.mean([found[name, arm, s][0] for s in range(chosen.seeds)])) for name in sets]
        for arm in arms
    }
    first = means[arms[0]]
    rows = [
        (
            Cell(arm), Cell(f"{np.mean(values):.2f}"),
            Cell(str(sum(a > b for a, b in zip(values, first, strict=True)))),
            *(Cell(f"{value:.1f}") for value in values),
            Cell(f"{np.mean([took for (_, a, _), (_, took) in found.items() if a == arm]):.0f}"),
        )
        for arm, values in means.items()
    ]  # fmt: skip
    head = (f"{chosen.queries:,} queries", "mean", "ahead on", *sets, "s")
    print(render_grid(Grid(head, tuple(rows)), "text"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
