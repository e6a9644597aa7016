"""The counterfactual gate: do its intervals cover, how often does it let a worse candidate pass, and a
better one?

    python benchmarks/gate_errors.py [--quick] [--part coverage] [--processes N] [--out FOLDER]

Made people make one to many searches a session; sessions differ in how much they click. Lists have ten
items, and clicks follow the position-based model. Logs are drawn anew in each run, lists, swaps and clicks,
and the candidate is a fixed rule whose true difference to what is shown is known. Three kinds of log:

- one order, true propensities known: the position-based estimate;
- swaps of neighbours with known probabilities, as `placings serve --explore` makes them: item-position;
- the first three places shuffled at random: IPS, SNIPS and doubly robust of whole lists.

1. Coverage of 95 % intervals over 2,000 logs of 30, 100 and 1,000 sessions; at least 94 % is asked for.
2. A candidate truly 0.01 worse must pass in at most 6.5 % of 1,000 runs, one truly 0.02 better in at least
   80 % at the number of sessions that is printed.

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
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from placings.core import AnyArray, keep_cell
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
LOGS = ("one order", "swaps", "shuffled")
PIECE, VERSION = 200, 1  # runs that are kept together, and the version of what is kept
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
    appeal: AnyArray  # to anyone; the engine sees it with noise
    worth: AnyArray  # the probability of a click after a look: appeal times how eager the session is


def draw_people(sessions: int, rng: np.random.Generator) -> People:
    """Sessions with their searches."""
    searches = rng.geometric(0.4, sessions)
    session = np.repeat(np.arange(sessions), searches)
    lists = len(session)
    eager = rng.beta(2.0, 2.0, sessions)[session][:, None]
    appeal = rng.beta(0.4, 1.2, (lists, ITEMS))
    engine = np.argsort(-(appeal + rng.normal(0.0, 0.3, (lists, ITEMS))), axis=1)
    appeal = np.take_along_axis(appeal, engine, axis=1)
    return People(session, appeal, appeal * eager)


def choose_order(case: Case, appeal: AnyArray, rng: np.random.Generator) -> AnyArray:
    """The candidate's order of the lists that it changes: row of the item at each place."""
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
    rng = np.random.default_rng(99)
    people = draw_people(lists * 2 // 5, rng)
    order, worth = choose_order(case, people.appeal, rng), people.worth
    value = LOOKS * find_worth(case.metric)
    theirs, kept = np.take_along_axis(worth, order, axis=1) @ value, worth @ value
    shown = kept
    if case.log == "swaps":  # what is shown is the engine's order, and with RATE one pair is changed
        swaps = [_swap_columns(worth, pair) @ value for pair in range(PAIRS)]
        shown = (1.0 - RATE) * kept + RATE * np.mean(swaps, axis=0)
    elif case.log == "shuffled":
        mean = worth[:, :HEAD].mean(axis=1, keepdims=True)
        shown = np.concatenate([np.repeat(mean, HEAD, axis=1), worth[:, HEAD:]], axis=1) @ value
    return float((theirs - shown).mean()), float((kept - shown).mean())


def _swap_columns(values: AnyArray, upper: int) -> AnyArray:
    found = values.copy()
    found[:, [upper, upper + 1]] = found[:, [upper + 1, upper]]
    return found


# -- logs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shown:
    """One log: which item stood at each place `[lists, items]`, and what was clicked there."""

    people: People
    items: AnyArray
    clicks: AnyArray


def draw_log(log: str, sessions: int, rng: np.random.Generator) -> Shown:
    """Lists as the log's policy shows them, with clicks: the engine's order, with a swap in some sessions, or
    with its head shuffled."""
    people = draw_people(sessions, rng)
    lists = len(people.session)
    shown = np.tile(np.arange(ITEMS), (lists, 1))
    if log == "swaps":
        swapped = (rng.random(sessions) < RATE)[people.session]
        upper = rng.integers(0, PAIRS, lists)
        rows = np.flatnonzero(swapped)
        shown[rows, upper[rows]], shown[rows, upper[rows] + 1] = upper[rows] + 1, upper[rows]
    elif log == "shuffled":
        shown[:, :HEAD] = np.argsort(rng.random((lists, HEAD)), axis=1)
    clicks = rng.random(shown.shape) < LOOKS * np.take_along_axis(people.worth, shown, axis=1)
    return Shown(people, shown, clicks.astype(float))


def estimate_differences(
    case: Case, log: Shown, order: AnyArray, changed: AnyArray
) -> tuple[AnyArray, float]:
    """The estimated difference of each list of one log, and the most that one list can be worth."""
    shown, clicks = log.items, log.clicks
    lists = len(shown)
    wanted = np.where(changed[:, None], order, np.arange(ITEMS))
    worth = find_worth(case.metric)
    seen = clicks @ worth
    offsets = np.arange(0, lists * ITEMS + 1, ITEMS)
    if case.estimator == "position-based":
        place = np.argsort(wanted, axis=1)  # the new place of each item; it was shown at its own number
        values = estimate_position_based(
            clicks.ravel(), np.tile(LOOKS, lists), LOOKS[place].ravel(), worth[place].ravel(), offsets
        )
        reach = np.abs(LOOKS[place] / LOOKS * worth[place] - worth)
        return values - seen, _find_reach(reach)
    if case.estimator == "item-position":
        stays = shown == wanted
        q = _find_probability(shown)
        values = estimate_item_position(
            clicks.ravel(), stays.ravel(), q.ravel(), np.tile(worth, lists), offsets
        )
        reach = np.where(changed[:, None], (1.0 / _find_probability(wanted)) * worth, worth)
        return values - seen, _find_reach(reach)
    same = (shown == wanted).all(axis=1).astype(float)
    logged = np.full(lists, 1.0 / math.factorial(HEAD))
    if case.estimator == "doubly-robust":
        half = log.people.session % 2 == 1
        expected = np.where(half, seen[~half].mean(), seen[half].mean())
        values = estimate_doubly_robust(seen, logged, same, expected, expected)
    else:
        values = (estimate_ips if case.estimator == "ips" else estimate_snips)(seen, logged, same)
    return values - seen, _find_reach(np.full(lists, math.factorial(HEAD) * worth[0]))


def _find_probability(shown: AnyArray) -> AnyArray:
    """`shown_probability` as `placings serve` writes it."""
    pairs = np.where((np.arange(ITEMS) == 0) | (np.arange(ITEMS) == ITEMS - 1), 1, 2)
    return np.where(shown == np.arange(ITEMS), 1.0 - pairs * RATE / PAIRS, RATE / PAIRS)


def _find_reach(moves: AnyArray) -> float:
    """Half of the most that one click can change a list: as `would_have` takes it."""
    return 0.5 * float(moves.max(initial=0.0))


# -- runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One row of the answer: a candidate that changes this share of the lists, by how much in truth."""

    case: Case
    share: float
    truth: float


@dataclass(frozen=True)
class Job:
    """Some runs of one kind of log: what is asked of each log that is drawn."""

    log: str
    sessions: int
    questions: tuple[Question, ...]
    first: int
    last: int
    gate: bool
    cells: Path | None


Answer = list[float]  # runs, covered, covered by t, passed, the sum of widths


def run_job(job: Job) -> list[Answer]:
    """For each question: in how many runs the interval covers, Student's covers, the candidate passes."""
    facts = {**asdict(job), "cells": None, "version": VERSION}
    name = f"{job.log}-{job.sessions}-{'gate' if job.gate else 'cover'}-{job.first}"
    return list(keep_cell(job.cells, name, facts, lambda: {"answers": _run(job)})["answers"])


def _run(job: Job) -> list[Answer]:
    found: list[Answer] = [[0.0] * 5 for _ in job.questions]
    for run in range(job.first, job.last):
        rng = np.random.default_rng([run, job.sessions, LOGS.index(job.log), job.gate])
        log = draw_log(job.log, job.sessions, rng)
        luck = rng.random(len(log.items))
        orders: dict[str, AnyArray] = {}  # one for each candidate, whoever estimates it
        for question, tally in zip(job.questions, found, strict=True):
            case = question.case
            if case.candidate not in orders:
                orders[case.candidate] = choose_order(case, log.people.appeal, rng)
            differences, reach = estimate_differences(
                case, log, orders[case.candidate], luck < question.share
            )
            bounds = bound_mean(differences, log.people.session, reach=reach)
            half = float(stdtrit(bounds.clusters - 1, 0.975)) * bounds.error
            tally[0] += 1
            tally[1] += bounds.low <= question.truth <= bounds.high
            tally[2] += abs(bounds.mean - question.truth) <= half
            tally[3] += bounds.least >= -MARGIN
            tally[4] += bounds.high - bounds.low
    return found


def list_jobs(chosen: argparse.Namespace) -> list[Job]:
    """What is asked, in pieces of at most 200 runs."""
    logs, gates = (200, 100) if chosen.quick else (2000, 1000)
    asked: list[tuple[str, int, tuple[Question, ...], int, bool]] = []
    for log in LOGS if chosen.part != "gates" else ():
        questions = []
        for case in (case for case in CASES if case.log == log):
            full, none = find_truth(case)
            questions += [Question(case, share, share * full + (1.0 - share) * none) for share in (1.0, 0.2)]
        asked += [(log, sessions, tuple(questions), logs, False) for sessions in SESSIONS]
    for case, sessions in GATES if chosen.part != "coverage" else ():
        full, none = find_truth(case)
        wanted = -0.01 if case.candidate == "worse" else 0.02
        share = (wanted - none) / (full - none)
        if not 0.0 <= share <= 1.0:
            print(f"{case}: no share of lists makes {wanted:+g}; {none:+.4f} to {full:+.4f} can be had")
            continue
        asked.append((case.log, sessions, (Question(case, share, wanted),), gates, True))
    return [
        Job(log, sessions, questions, first, min(first + PIECE, runs), gate, chosen.out)
        for log, sessions, questions, runs, gate in asked
        for first in range(0, runs, PIECE)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; judges nothing")
    parser.add_argument("--part", choices=("coverage", "gates"), help="only this one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="keep pieces here, so that a stopped run goes on")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    began = time.monotonic()
    jobs = list_jobs(chosen)
    found: dict[tuple[int, bool, Question], Answer] = {}
    with get_context("fork").Pool(chosen.processes) as pool:
        for done, (job, answers) in enumerate(zip(jobs, pool.imap(run_job, jobs), strict=True), 1):
            for question, answer in zip(job.questions, answers, strict=True):
                key = (job.sessions, job.gate, question)
                found[key] = [a + b for a, b in zip(found.get(key, [0.0] * 5), answer, strict=True)]
            print(f"{done} of {len(jobs)}: {job.log}, {job.sessions:,} sessions", file=sys.stderr, flush=True)
    told = [_tell(key, answer) for key, answer in found.items()]
    _print(told, chosen.json, time.monotonic() - began)
    return 0 if all(each["fine"] for each in told) or chosen.quick else 1


def _tell(key: tuple[int, bool, Question], answer: Answer) -> dict[str, Any]:
    """A row of the answer."""
    sessions, gate, question = key
    case, runs = question.case, answer[0]
    value = (answer[3] if gate else answer[1]) / runs
    fine = value >= COVERED
    if gate:
        fine = value <= PASSED_WORSE if case.candidate == "worse" else value >= PASSED_BETTER
    return {
        "what": "passes" if gate else "covers", "log": case.log, "estimator": case.estimator,
        "metric": case.metric, "candidate": case.candidate, "changes": question.share,
        "truth": question.truth, "sessions": sessions, "runs": int(runs), "share": value,
        "t": answer[2] / runs, "width": answer[4] / runs, "fine": bool(fine),
    }  # fmt: skip


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
