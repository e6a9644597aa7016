"""Do the intervals of `evaluate` and `compare` hold what they say, on logs with few sessions and with many?

    python benchmarks/interval_coverage.py [--quick] [--logs 2000] [--sessions 30 100 1000] [--jobs N]
                                           [--worlds several] [--designs fresh] [--out FOLDER]

Sessions of one to many searches see lists that an engine ordered; people look at a position k with
probability 1/k, and click what they look at and want. Two rankings of the same lists are judged: the engine's
and a candidate's. Both are fixed. A log covers if the 95 % interval of a mean (`evaluate`), or of the
candidate's difference to the engine (`compare`), holds the value that the mean of all logs has.

Worlds: `several` (each item is wanted with a probability of its own, sessions differ in how much they want)
and `one` (each search wants exactly one item, so that `mrr:ips` is a mean reciprocal rank). Logs: `fresh`
draws sessions, lists and clicks anew, as next week does; `redrawn` keeps the sessions and lists of one log
and draws the clicks anew, where the truth is that of these sessions.

`compare` has the interval of each mean too, made as `evaluate` makes it. So `evaluate` is called on the first
ten logs of each piece, where both must be equal, and `compare` alone on the others. Rows are printed as they
come; pieces are kept in `--out`, so that a stopped run goes on.

Exits 1 unless every interval covers in at least 94 % of the logs (with `--quick`: 94 % less three standard
errors).

Needs numpy, scipy, numba and the package itself; no trees, no duckdb.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, keep_cell
from placings.data import RankingData
from placings.evaluation import compare, evaluate
from placings.metrics import measure

WORLDS = ("several", "one")
DESIGNS = ("fresh", "redrawn")
DEBIASED = ("dcg@10:ips", "clicks@3:ips", "mrr:ips")
PLAIN = ("ndcg@10", "mrr")
LEAST = 0.94
MANY = 150_000  # sessions behind a truth
PART = 10_000  # of them drawn at a time
PIECE, CHECKED, VERSION = 200, 10, 1  # logs kept together, those with both calls, the version of what is kept
ENGINE, CANDIDATE = "engine", "candidate"


@dataclass(frozen=True)
class Sessions:
    """Lists that people saw: what each row is worth to them, and the scores of both rankings `[rows]`."""

    offsets: AnyArray  # [searches + 1]
    session: AnyArray  # [searches]
    wanted: AnyArray  # [rows] the probability of a click, once it is looked at
    scores: dict[str, AnyArray]
    propensity: AnyArray


def draw_sessions(world: str, sessions: int, rng: np.random.Generator) -> Sessions:
    """Sessions of 1 to many searches (2 on average) with 4 to 15 hits each, in the engine's order."""
    searches = rng.geometric(0.5, sessions)
    session = np.repeat(np.arange(sessions), searches)
    taste = np.repeat(rng.gamma(2.0, 0.5, sessions), searches)  # how much a session wants, mean 1
    skill = np.repeat(rng.normal(0.0, 0.7, sessions), searches)  # how well the engine does in a session
    sizes = rng.integers(4, 16, len(session))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    worth = rng.normal(size=len(owner))
    seen = worth * np.exp(skill[owner]) + 1.5 * rng.normal(size=len(owner))  # what the engine makes of it
    order = np.lexsort((-seen, owner))  # rows stand as the engine put them
    worth = worth[order]
    position = np.arange(len(owner)) - offsets[:-1][owner] + 1
    if world == "one":
        best = worth + rng.gumbel(size=len(owner))
        wanted = (best == np.maximum.reduceat(best, offsets[:-1])[owner]).astype(np.float64)
    else:
        wanted = np.clip(0.25 * taste[owner] * np.exp(worth - 0.5), 0.0, 1.0)
    scores = {
        ENGINE: -position.astype(np.float64),
        CANDIDATE: worth + 1.2 * rng.normal(size=len(owner)),
    }
    return Sessions(offsets, session, wanted, scores, 1.0 / position)


def draw_clicks(seen: Sessions, rng: np.random.Generator) -> AnyArray:
    """A click where an item is looked at and wanted."""
    return (rng.random(len(seen.wanted)) < seen.wanted * seen.propensity).astype(np.float64)


def make_log(seen: Sessions, clicks: AnyArray) -> RankingData:
    """The log as `evaluate` takes it; sessions are its clusters."""
    sizes = np.diff(seen.offsets)
    return RankingData.from_arrays(
        np.zeros((len(clicks), 1), dtype=np.float32),
        clicks,
        np.repeat(np.arange(len(sizes)), sizes),
        propensity=seen.propensity,
        segments={"session_id": np.repeat(seen.session, sizes)},
    )


def measure_wanted(seen: Sessions, metrics: tuple[str, ...]) -> dict[str, dict[str, AnyArray]]:
    """What debiased metrics estimate: their value of what is wanted, every look taken `[searches]`."""
    found: dict[str, dict[str, AnyArray]] = {}
    whole = np.ones(len(seen.wanted))
    for ranking, scores in seen.scores.items():
        found[ranking] = {}
        for name in metrics:  # Σ wanted · discount: the gain of DCG, of which the others are kin
            ranks = np.empty(len(scores))
            owner = np.repeat(np.arange(len(seen.offsets) - 1), np.diff(seen.offsets))
            ranks[np.lexsort((-scores, owner))] = np.arange(len(scores)) - seen.offsets[:-1][owner] + 1
            word, _, depth = name.removesuffix(":ips").partition("@")
            discount = {"dcg": 1.0 / np.log2(1.0 + ranks), "clicks": whole, "mrr": 1.0 / ranks}[word]
            inside = ranks <= (int(depth) if depth else math.inf)
            found[ranking][name] = np.add.reduceat(seen.wanted * discount * inside, seen.offsets[:-1])
    return found


def find_truth(world: str, metrics: tuple[str, ...]) -> dict[str, float]:
    """The mean of each ranking's metrics, and of their difference, over very many sessions."""
    rng = np.random.default_rng([7, WORLDS.index(world)])
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for _ in range(MANY // PART):
        seen = draw_sessions(world, PART, rng)
        clicks = draw_clicks(seen, rng)
        values = measure_wanted(seen, tuple(name for name in metrics if name.endswith(":ips")))
        for ranking, scores in seen.scores.items():
            plain = [name for name in metrics if not name.endswith(":ips")]
            if plain:
                values[ranking] |= measure(plain, scores, clicks, seen.offsets)
        for key, each in list_values(values):
            known = each[~np.isnan(each)]
            sums[key] = sums.get(key, 0.0) + float(known.sum())
            counts[key] = counts.get(key, 0) + len(known)
    return {key: sums[key] / counts[key] for key in sums}


def list_values(values: dict[str, dict[str, AnyArray]]) -> Iterator[tuple[str, AnyArray]]:
    """What is estimated, by name: the candidate's mean and its difference to the engine."""
    for name, each in values[CANDIDATE].items():
        yield f"evaluate {name}", each
        yield f"compare {name}", each - values[ENGINE][name]


@dataclass(frozen=True)
class Job:
    """Some logs of one cell, for one process."""

    world: str
    design: str
    sessions: int
    first: int
    last: int
    truth: dict[str, float]
    draws: int
    cells: Path | None = None


def run_job(job: Job) -> dict[str, list[float]]:
    """For each estimate: how many logs missed low, missed high, and the sum of the widths."""
    facts = {**asdict(job), "cells": None, "version": VERSION}
    name = f"{job.world}-{job.design}-{job.sessions}-{job.first}"
    return keep_cell(job.cells, name, facts, lambda: dict(count_misses(job)))


def count_misses(job: Job) -> dict[str, list[float]]:
    """`run_job`, counted now."""
    metrics = DEBIASED if job.design == "redrawn" else DEBIASED + PLAIN
    found: dict[str, list[float]] = {}
    fixed = None
    truth = job.truth
    if job.design == "redrawn":
        fixed = draw_sessions(
            job.world, job.sessions, np.random.default_rng([11, WORLDS.index(job.world), job.sessions])
        )
        truth = {key: float(each.mean()) for key, each in list_values(measure_wanted(fixed, metrics))}
    for log in range(job.first, job.last):
        rng = np.random.default_rng([log, job.sessions, WORLDS.index(job.world), DESIGNS.index(job.design)])
        seen = draw_sessions(job.world, job.sessions, rng) if fixed is None else fixed
        data = make_log(seen, draw_clicks(seen, rng))
        both = compare(
            seen.scores, data, metrics, baseline=ENGINE, permutations=1, random_state=log, bootstrap=job.draws
        )
        ends = {f"evaluate {name}": both.intervals[CANDIDATE][name] for name in metrics}
        if log < job.first + CHECKED:
            alone = evaluate(seen.scores[CANDIDATE], data, metrics, random_state=log, bootstrap=job.draws)
            for name in metrics:
                np.testing.assert_allclose(alone.interval(name), ends[f"evaluate {name}"], rtol=1e-9)
        for name in metrics:
            each = both.difference(CANDIDATE, name)
            ends[f"compare {name}"] = (each.low, each.high)
        for key, (low, high) in ends.items():
            tally = found.setdefault(key, [0.0, 0.0, 0.0])
            tally[0] += not low <= truth[key]
            tally[1] += not truth[key] <= high
            tally[2] += high - low
    return found


def run_cells(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every world, design and number of sessions; one row for each estimate."""
    cells = [
        (world, design, sessions)
        for sessions in arguments.sessions
        for world in arguments.worlds
        for design in arguments.designs
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs) as pool:
        truths = dict(
            zip(WORLDS, pool.starmap(find_truth, [(w, DEBIASED + PLAIN) for w in WORLDS]), strict=True)
        )
        for world, design, sessions in cells:
            jobs = [
                Job(
                    world, design, sessions, first, min(first + PIECE, arguments.logs), truths[world],
                    arguments.draws, arguments.out,
                )
                for first in range(0, arguments.logs, PIECE)
            ]  # fmt: skip
            total: dict[str, list[float]] = {}
            for part in pool.imap_unordered(run_job, jobs):
                for key, tally in part.items():
                    total[key] = [a + b for a, b in zip(total.get(key, [0.0] * 3), tally, strict=True)]
            for key, (below, above, width) in total.items():
                what, metric = key.split()
                yield {
                    "world": world, "logs": design, "sessions": sessions, "call": what, "metric": metric,
                    "covered": 1.0 - (below + above) / arguments.logs,
                    "missed_below": above / arguments.logs, "missed_above": below / arguments.logs,
                    "width": width / arguments.logs,
                }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=2000, help="logs in each cell")
    parser.add_argument("--sessions", type=int, nargs="+", default=[30, 100, 1000])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=DESIGNS)
    parser.add_argument("--draws", type=int, default=1000, help="draws of the bootstrap")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--quick", action="store_true", help="200 logs with 30 and 100 sessions")
    parser.add_argument("--out", type=Path, help="keep pieces here, so that a stopped run goes on")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLACINGS_THREADS"):
        os.environ.setdefault(name, "1")  # for the processes to come: one a core is enough
    if arguments.quick:
        arguments.logs, arguments.sessions = 200, [30, 100]
    began = time.perf_counter()
    least = LEAST
    if arguments.quick:
        least -= 3.0 * math.sqrt(0.95 * 0.05 / arguments.logs)
    header = ("world", "logs", "sessions", "call", "metric", "covered", "below", "above", "width")
    if not arguments.json:
        print("{:8} {:8} {:>8} {:8} {:13} {:>8} {:>6} {:>6} {:>8}".format(*header))
    rows = []
    for row in run_cells(arguments):
        rows.append(row)
        if arguments.json:
            continue
        shares = (row["covered"], row["missed_below"], row["missed_above"], row["width"])
        print(
            f"{row['world']:8} {row['logs']:8} {row['sessions']:>8} {row['call']:8} {row['metric']:13} "
            "{:>8.2%} {:>6.1%} {:>6.1%} {:>8.4f}".format(*shares)
            + ("  <" if row["covered"] < least else ""),
            flush=True,
        )
    failed = [row for row in rows if row["covered"] < least]
    if arguments.json:
        print(json.dumps({"logs": arguments.logs, "rows": rows, "failed": len(failed)}, indent=1))
        return 1 if failed else 0
    print(
        f"{arguments.logs} logs a cell; lowest {min(row['covered'] for row in rows):.2%}; "
        f"{len(failed)} of {len(rows)} below {least:.1%}; {time.perf_counter() - began:.0f} s."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
