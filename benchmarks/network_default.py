"""The default network's settings, chosen for each real set without that set.

    python benchmarks/network_default.py run                 # a GPU; some 8 minutes
    python benchmarks/network_default.py table
    python benchmarks/network_default.py run --sets dev05,wikitables --arms "default;no line" --device cpu

`default` is `NeuralRanker()` without ridges; the other arms change what they name, at all sizes: `ridges` is
the default with them, `former default` what `NeuralRanker()` was before 2026-11-18. An eighth of the training
queries stops each training. The made families for development learn from their training queries and are
judged on 1,000 test queries. Of a real set only the training part of the first fold of `default_ranker.py` is
used, in five inner folds, each of which judges once.

Printed: mean NDCG@10 in percent by arm, each set with the same weight, and the difference to the first arm
with a 95 % interval over sets; then, for each real set, the arm that is
best on all other sets, and what it, the default and the former default have on the set left out. Queries
without anything relevant are left out. An arm on a set with a seed is one file below --out, so that a run
goes on, also on another machine.

Needs placings[neural], and a GPU unless --device cpu is given; real sets need `$PLACINGS_DATA/ltr`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import placings as pg
from default_ranker import DATA, GROUPS, OLD, OLD_LARGE, REAL, list_sets, read_fold
from placings.core import (
    Cell,
    Grid,
    UnknownName,
    estimate_mean,
    format_difference,
    format_interval,
    keep_cell,
    name_cell,
    read_facts,
    render_grid,
)
from placings.simulate import FAMILIES

OUT = "benchmarks/results/network_default"
REVISION = 1  # raise it when NeuralRanker() changes: cells of `default` are of the network of its day
# The first cells of `former default` were of another network: it had the default's shared members and line.
REVISIONS = {"former default": 2}
INNER = 5  # folds of a real set's training part
ARMS: dict[str, dict[str, Any]] = {
    "default": {},
    "ridges": {"ridge": True},
    "former default": OLD,
    "32 members of 128": {"members": 32, "hidden": (128,)},
    "dropout 0.5": {"dropout": 0.5},
    "8 members of 64": {"members": 8, "hidden": (64,)},
    "128 and 64": {"hidden": (128, 64)},
    "separate members": {"ensemble": "separate"},
    "no line": {"skip": False},
    "8 pieces": {"pieces": 8},
}


def list_parts(name: str) -> Iterator[tuple[pg.RankingData, pg.RankingData]]:
    """What is learnt from and what judges: a family's draw, or the inner folds of a real set."""
    train, test = read_fold(name, 0)
    if name in FAMILIES:
        yield train, test
        return
    order = np.random.default_rng(5).permutation(train.n_queries)
    for held in np.array_split(order, INNER):
        yield train[np.setdiff1d(order, held)], train[np.sort(held)]


def measure(name: str, arm: str, seed: int, device: str) -> dict[str, Any]:
    """The mean NDCG@10 of each part."""
    import torch

    torch.set_num_threads(1)
    found = []
    for train, judged in list_parts(name):
        settings = {"ridge": False} | ARMS[arm]
        if arm == "former default" and train.n_queries >= 1000:
            settings |= OLD_LARGE
        settings |= {
            "holdout": 0.125, "precision": "float32", "budget": "none", "device": device,
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = pg.NeuralRanker(**settings, random_state=seed).fit(train)
        found.append(float(np.nanmean(pg.ndcg(ranker.predict(judged), judged.y, judged.offsets, k=10))))
    return {"set": name, "arm": arm, "seed": seed, "ndcg@10": found, "device": device}


def describe(name: str, arm: str, seed: int) -> tuple[str, dict[str, Any]]:
    """A cell's name, and what could change it."""
    label = f"{name} {arm} seed{seed}"
    return label, {"set": name, "arm": arm, "settings": ARMS[arm], "seed": seed,
                   "revision": REVISIONS.get(arm, REVISION)}  # fmt: skip


def make_cell(name: str, arm: str, seed: int, device: str, out: Path) -> None:
    keep_cell(out, *describe(name, arm, seed), lambda: measure(name, arm, seed, device))


def read_means(
    sets: Sequence[str], arms: Sequence[str], seeds: int, out: Path
) -> dict[tuple[str, str], float]:
    """Set and arm → the mean over seeds of the mean over parts, in percent; only where all seeds are."""
    found = {}
    for name in sets:
        for arm in arms:
            cells = [
                read_facts(out / f"{name_cell(*describe(name, arm, seed), longest=80)}.json")
                for seed in range(seeds)
            ]
            values = [np.mean(cell["ndcg@10"]) for cell in cells if cell is not None]
            if len(values) == seeds:
                found[name, arm] = 100.0 * float(np.mean(values))
    return found


def compare_sets(means: dict[tuple[str, str], float], arm: str, first: str, sets: Sequence[str]) -> str:
    """The mean difference to the first arm, with Student's 95 % interval over sets."""
    if arm == first or len(sets) < 2:
        return ""
    found = estimate_mean([means[name, arm] - means[name, first] for name in sets])
    return f"{format_difference(found.mean)} {format_interval(found.low, found.high, signed=True)}"


def print_tables(sets: Sequence[str], arms: Sequence[str], seeds: int, out: Path, form: str) -> None:
    """The means, and what is chosen for each real set without it."""
    means = read_means(sets, arms, seeds, out)
    whole = [arm for arm in arms if all((name, arm) in means for name in sets)]
    print(f"{len(arms) - len(whole)} of {len(arms)} arms lack cells; {seeds} seeds")
    if not whole:
        return

    def average(arm: str, chosen: Sequence[str]) -> float:
        return float(np.mean([means[name, arm] for name in chosen])) if chosen else np.nan

    parts = {
        "real": [name for name in sets if name in REAL],
        "additive": [name for name in sets if name in FAMILIES and FAMILIES[name].truth == "additive"],
        "interacting": [name for name in sets if name in FAMILIES and FAMILIES[name].truth != "additive"],
    }
    rows = [
        (
            Cell(arm), Cell(f"{average(arm, sets):.2f}"), Cell(compare_sets(means, arm, whole[0], sets)),
            *(Cell(f"{average(arm, part):.2f}") for part in parts.values()),
        )
        for arm in whole
    ]  # fmt: skip
    about = (f"{len(part)} {name}" for name, part in parts.items())
    head = (f"{len(sets)} sets", "mean", f"minus {whole[0]}, over sets", *about)
    print(render_grid(Grid(head, tuple(rows)), form), end="\n\n")
    rows = []
    for left in parts["real"]:
        others = [name for name in sets if name != left]
        best = max(whole, key=lambda arm: average(arm, others))
        known = [
            f"{means[left, arm]:.2f}" if (left, arm) in means else "–"
            for arm in (best, "default", "former default")
        ]
        rows.append((Cell(left), Cell(best), *map(Cell, known)))
    if rows:
        head = ("left out", "best on the others", "which has there", "the default", "the former default")
        print(render_grid(Grid(head, tuple(rows)), form))


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("command", choices=("run", "table"))
    options.add_argument("--sets", default="real,dev", help="names and groups, with commas between them")
    options.add_argument("--arms", default=";".join(ARMS), help="with semicolons between them")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--device", default="cuda")
    options.add_argument("--processes", type=int, default=14)
    options.add_argument("--out", type=Path, default=Path(OUT))
    options.add_argument("--format", choices=("text", "markdown"), default="text")
    chosen = options.parse_args(arguments)
    sets, arms = list_sets(chosen.sets), chosen.arms.split(";")
    for arm in arms:
        if arm not in ARMS:
            raise UnknownName("arm", arm, ARMS)
    for name in sets:
        if name in (*GROUPS["final"], *GROUPS["fresh"]):
            raise SystemExit(f"{name} is a final family: nothing is chosen on it.")
    if chosen.command == "table":
        print_tables(sets, arms, chosen.seeds, chosen.out, chosen.format)
        return 0
    import torch

    if chosen.device == "cuda" and not torch.cuda.is_available():
        print("skipped: no GPU is here. --device cpu takes hours for all sets, minutes for one small one.")
        return 0
    if not DATA.exists() and any(name in REAL for name in sets):
        print(f"skipped: {DATA} is not there, so no real set is run. Set PLACINGS_DATA to what holds ltr/.")
        sets = [name for name in sets if name not in REAL]
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLACINGS_THREADS"), "1"))
    jobs = [(name, arm, seed) for seed in range(chosen.seeds) for arm in arms for name in sets]
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(make_cell, *job, chosen.device, chosen.out): job for job in jobs}
        for number, future in enumerate(as_completed(futures), 1):
            future.result()
            print(f"{number}/{len(jobs)} {' '.join(map(str, futures[future]))}", flush=True)
    print_tables(sets, arms, chosen.seeds, chosen.out, chosen.format)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
