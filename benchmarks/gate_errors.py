"""The counterfactual gate: do its intervals cover, how often does it let a worse candidate pass, and a
better one?

    python benchmarks/gate_errors.py [--quick] [--part coverage] [--processes N] [--json]

Made people make one to many searches a session; sessions differ in how much they click. Lists have ten
items, and clicks follow the position-based model. Logs are drawn anew in each run, lists, swaps and clicks,
and the candidate is a fixed rule whose true difference to what is shown is known. Three kinds of log:

- one order, true propensities known: the position-based estimate;
- swaps of neighbours with known probabilities, as `placings serve --explore` makes them: item-position;
- the first three places shuffled at random: IPS, SNIPS and doubly robust of whole lists.

1. Coverage of 95 % intervals over 2,000 logs of 30, 100 and 1,000 sessions; at least 94 % is asked for.
2. A candidate truly 0.01 worse must pass in at most 6.5 % of 1,000 runs, one truly 0.02 better in at least
80 % at
   the number of sessions that is printed.

SIMULATED people. Exits 1 if something asked for is not met. `--quick` runs a tenth and judges nothing.

Needs nothing but numpy and scipy beside placings.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from placings.core import AnyArray, estimate_mean
from placings.evaluation import (
    bound_mean,
    estimate_doubly_robust,
    estimate_ips,
    estimate_item_position,
    estimate_position_based,
    estimate_snips,
)

ITEMS = 10
LOOKS = 1.0 / np.arange(1, ITEMS + 1)
PLACES = np.arange(1, ITEMS + 1)
RATE = 0.5  # of sessions with swaps
PAIRS = ITEMS - 1
HEAD = 3  # places that are shuffled
MARGIN = 0.005
SESSIONS = (30, 100, 1000)
COVERED, PASSED_WORSE, PASSED_BETTER = 0.94, 0.065, 0.80


@dataclass(frozen=True)
class Case:
    """A kind of log, an estimator, a metric, and what the candidate does to the share of lists that it
    changes."""

    log: str
    estimator: str
    metric: str
    candidate: str


CASES = (
    Case("one order", "position-based", "clicks", "better"),
    Case("one order", "position-based", "dcg", "better"),
    Case("one order", "position-based", "clicks", "worse"),
    Case("one order", "position-based", "dcg", "worse"),
    Case("swaps", "item-position", "dcg", "better"),
    Case("swaps", "item-position", "dcg", "worse"),
    Case("shuffled", "ips", "dcg", "better"),
    Case("shuffled", "snips", "dcg", "better"),
    Case("shuffled", "doubly-robust", "dcg", "better"),
)
GATES = (
    (Case("one order", "position-based", "dcg", "worse"), 800),
    (Case("one order", "position-based", "dcg", "better"), 800),
    (Case("swaps", "item-position", "dcg", "worse"), 4000),
    (Case("swaps", "item-position", "dcg", "better"), 4000),
)


@dataclass(frozen=True, eq=False)
class People:
    """Lists `[lists, items]` in the order of the engine: how much each item appeals, whose search it is."""

    session: AnyArray
    appeal: AnyArray
    order: AnyArray  # the candidate's, of the lists that it changes: row of the item at each place
    changed: AnyArray


def draw_people(case: Case, sessions: int, share: float, rng: np.random.Generator) -> People:
    """Sessions with their searches; the candidate changes this share of the lists."""
    searches = rng.geometric(0.4, sessions)
    session = np.repeat(np.arange(sessions), searches)
    lists = len(session)
    eager = rng.beta(2.0, 2.0, sessions)[session][:, None]
    appeal = rng.beta(0.4, 1.2, (lists, ITEMS))
    engine = np.argsort(-(appeal + rng.normal(0.0, 0.3, (lists, ITEMS))), axis=1)
    appeal = np.take_along_axis(appeal, engine, axis=1)
    order = _choose_order(case, appeal, rng)
    return People(session, appeal * eager, order, rng.random(lists) < share)


def _choose_order(case: Case, appeal: AnyArray, rng: np.random.Generator) -> AnyArray:
    lists = len(appeal)
    same = np.tile(np.arange(ITEMS), (lists, 1))
    if case.log == "one order":
        noise = 0.1 if case.candidate == "better" else 1.0
        return np.argsort(-(appeal + rng.normal(0.0, noise, appeal.shape)), axis=1)
    if case.log == "shuffled":
        head = np.argsort(-appeal[:, :HEAD], axis=1)
        return np.concatenate([head, same[:, HEAD:]], axis=1)
    gain = np.diff(appeal, axis=1) * (1.0 if case.candidate == "better" else -1.0)
    upper = np.argmax(gain, axis=1)  # one pair of neighbours changes places, where that helps, or hurts
    worth = gain[np.arange(lists), upper] > 0.0
    same[worth, upper[worth]] = upper[worth] + 1
    same[worth, upper[worth] + 1] = upper[worth]
    return same


def find_worth(metric: str) -> AnyArray:
    """What a click at each place counts."""
    return np.ones(ITEMS) if metric == "clicks" else 1.0 / np.log2(1.0 + PLACES)


@cache
def find_truth(case: Case, lists: int = 400_000) -> tuple[float, float]:
    """The mean difference if the candidate changes every list, and if it changes none: exact for each list.

    A list that it leaves is the engine's own, which a log with swaps or shuffles does not always show.
    """
    people = draw_people(case, lists * 2 // 5, 1.0, np.random.default_rng(99))
    value = LOOKS * find_worth(case.metric)
    theirs = np.take_along_axis(people.appeal, people.order, axis=1) @ value
    shown = people.appeal @ value
    if case.log == "swaps":  # what is shown is the engine's order, and with RATE one pair is changed
        swaps = [_swap_columns(people.appeal, pair) @ value for pair in range(PAIRS)]
        shown = (1.0 - RATE) * shown + RATE * np.mean(swaps, axis=0)
        kept = people.appeal @ value
        return float((theirs - shown).mean()), float((kept - shown).mean())
    if case.log == "shuffled":
        mean = people.appeal[:, :HEAD].mean(axis=1, keepdims=True)
        flat = np.concatenate([np.repeat(mean, HEAD, axis=1), people.appeal[:, HEAD:]], axis=1)
        kept, shown = shown, flat @ value
        return float((theirs - shown).mean()), float((kept - shown).mean())
    return float((theirs - shown).mean()), 0.0


def _swap_columns(values: AnyArray, upper: int) -> AnyArray:
    found = values.copy()
    found[:, [upper, upper + 1]] = found[:, [upper + 1, upper]]
    return found


# -- logs --------------------------------------------------------------------------------------------------


def estimate_differences(case: Case, people: People, rng: np.random.Generator) -> tuple[AnyArray, float]:
    """The estimated difference of each list of one log, and the most that one list can be worth."""
    lists = len(people.session)
    shown = _show(case, people, rng)  # [lists, items]: which item stands at each place
    clicks = (rng.random(shown.shape) < LOOKS * np.take_along_axis(people.appeal, shown, axis=1)).astype(
        float
    )
    wanted = np.where(people.changed[:, None], people.order, np.arange(ITEMS))
    worth = find_worth(case.metric)
    seen = clicks @ worth
    offsets = np.arange(0, lists * ITEMS + 1, ITEMS)
    if case.estimator == "position-based":
        place = np.argsort(wanted, axis=1)  # the new place of each item; it was shown at its own number
        values = estimate_position_based(
            clicks.ravel(), np.tile(LOOKS, lists), LOOKS[place].ravel(), worth[place].ravel(), offsets
        )
        reach = np.abs(LOOKS[place] / LOOKS * worth[place] - worth).ravel()
        return values - seen, _find_reach(reach)
    if case.estimator == "item-position":
        stays = shown == wanted
        q = _find_probability(shown)
        values = estimate_item_position(
            clicks.ravel(), stays.ravel(), q.ravel(), np.tile(worth, lists), offsets
        )
        reach = np.where(people.changed[:, None], (1.0 / _find_probability(wanted)) * worth, worth).ravel()
        return values - seen, _find_reach(reach)
    same = (shown == wanted).all(axis=1).astype(float)
    logged = np.full(lists, 1.0 / math.factorial(HEAD))
    if case.estimator == "doubly-robust":
        half = people.session % 2 == 1
        expected = np.where(half, seen[~half].mean(), seen[half].mean())
        values = estimate_doubly_robust(seen, logged, same, expected, expected)
    else:
        values = (estimate_ips if case.estimator == "ips" else estimate_snips)(seen, logged, same)
    return values - seen, _find_reach(np.full(lists, math.factorial(HEAD) * worth[0]))


def _show(case: Case, people: People, rng: np.random.Generator) -> AnyArray:
    """What the log's policy shows: the engine's order, with a swap in some sessions, or with its head
    shuffled."""
    lists = len(people.session)
    shown = np.tile(np.arange(ITEMS), (lists, 1))
    if case.log == "swaps":
        swapped = (rng.random(people.session[-1] + 1) < RATE)[people.session]
        upper = rng.integers(0, PAIRS, lists)
        rows = np.flatnonzero(swapped)
        shown[rows, upper[rows]], shown[rows, upper[rows] + 1] = upper[rows] + 1, upper[rows]
    elif case.log == "shuffled":
        shown[:, :HEAD] = np.argsort(rng.random((lists, HEAD)), axis=1)
    return shown


def _find_probability(shown: AnyArray) -> AnyArray:
    """`shown_probability` as `placings serve` writes it."""
    pairs = np.where((np.arange(ITEMS) == 0) | (np.arange(ITEMS) == ITEMS - 1), 1, 2)
    return np.where(shown == np.arange(ITEMS), 1.0 - pairs * RATE / PAIRS, RATE / PAIRS)


def _find_reach(moves: AnyArray) -> float:
    """Half of the most that one click can change a list: as `would_have` takes it."""
    return 0.5 * float(moves.max(initial=0.0))


# -- runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Some runs of one case: logs of so many sessions, the share of lists that is changed, the true
    difference."""

    case: Case
    sessions: int
    share: float
    truth: float
    runs: int
    seed: int


Answer = tuple[int, int, int, float]


def run_job(job: Job) -> Answer:
    """In how many runs the interval covers, Student's covers, the candidate passes; and the mean width."""
    covered = by_t = passed = 0
    width = 0.0
    for run in range(job.runs):
        rng = np.random.default_rng([job.seed, run])
        people = draw_people(job.case, job.sessions, job.share, rng)
        differences, reach = estimate_differences(job.case, people, rng)
        found = bound_mean(differences, people.session, reach=reach)
        covered += found.low <= job.truth <= found.high
        usual = estimate_mean(differences, people.session)
        by_t += usual.low <= job.truth <= usual.high
        passed += found.least >= -MARGIN
        width += (found.high - found.low) / job.runs
    return covered, by_t, passed, width


def run_all(jobs: list[Job], processes: int) -> list[Answer]:
    """Every job, in pieces over the processes."""
    pieces = [
        (place, Job(job.case, job.sessions, job.share, job.truth, len(runs), 1000 * place + int(runs[0])))
        for place, job in enumerate(jobs)
        for runs in np.array_split(np.arange(job.runs), min(job.runs, 20))
    ]
    with get_context("fork").Pool(processes) as pool:
        answers = pool.imap(run_job, [piece for _, piece in pieces], chunksize=1)
        found: list[Answer] = [(0, 0, 0, 0.0) for _ in jobs]
        for done, ((place, piece), (covered, by_t, passed, width)) in enumerate(
            zip(pieces, answers, strict=True), 1
        ):
            before, part = found[place], piece.runs / jobs[place].runs
            found[place] = (
                before[0] + covered,
                before[1] + by_t,
                before[2] + passed,
                before[3] + width * part,
            )
            if sys.stderr.isatty():
                print(f"\r{done} of {len(pieces)}", end="", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; judges nothing")
    parser.add_argument("--part", choices=("coverage", "gates"), help="only this one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    began = time.monotonic()
    logs, gates = (200, 100) if chosen.quick else (2000, 1000)
    jobs, told = [], []
    for case in CASES if chosen.part != "gates" else ():
        full, none = find_truth(case)
        for share in (1.0, 0.2):
            for sessions in SESSIONS:
                jobs.append(Job(case, sessions, share, share * full + (1.0 - share) * none, logs, len(jobs)))
    border = len(jobs)
    for case, sessions in GATES if chosen.part != "coverage" else ():
        full, none = find_truth(case)
        wanted = -0.01 if case.candidate == "worse" else 0.02
        share = (wanted - none) / (full - none)
        if not 0.0 <= share <= 1.0:
            print(f"{case}: no share of lists makes {wanted:+g}; {none:+.4f} to {full:+.4f} can be had")
            continue
        jobs.append(Job(case, sessions, share, wanted, gates, len(jobs)))
    good = True
    for place, (job, (covered, by_t, passed, width)) in enumerate(
        zip(jobs, run_all(jobs, chosen.processes), strict=True)
    ):
        gate = place >= border
        value = (passed if gate else covered) / job.runs
        fine = value >= COVERED if not gate else (
            value <= PASSED_WORSE if job.case.candidate == "worse" else value >= PASSED_BETTER
        )  # fmt: skip
        good &= fine
        told.append({
            "what": "passes" if gate else "covers", "log": job.case.log, "estimator": job.case.estimator,
            "metric": job.case.metric, "candidate": job.case.candidate, "changes": job.share,
            "truth": job.truth, "sessions": job.sessions, "runs": job.runs, "share": value,
            "t": by_t / job.runs, "width": width,
            "fine": bool(fine),
        })  # fmt: skip
    seconds = time.monotonic() - began
    _print(told, chosen.json, seconds)
    return 0 if good or chosen.quick else 1


def _print(told: list[dict[str, Any]], as_json: bool, seconds: float) -> None:
    if as_json:
        print(json.dumps({"rows": told, "seconds": seconds}))
        return
    print("SIMULATED people. 95 % intervals; the gate's margin is 0.005.\n")
    for each in told:
        mark = "" if each["fine"] else "  NOT MET"
        usual = f" (t alone covers {each['t']:.1%})" if each["what"] == "covers" else ""
        print(
            f"{each['what']} {each['share']:7.2%} of {each['runs']:,}: {each['log']:9s} "
            f"{each['estimator']:14s} "
            f"{each['metric']:6s} {each['candidate']:6s} changes {each['changes']:5.1%}, truth "
            f"{each['truth']:+.4f}, "
            f"{each['sessions']:6,} sessions, width {each['width']:.4f}{usual}{mark}"
        )
    print(f"\n{seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
