"""Propensities from made logs whose truth is known: found again, covered by intervals, misfits flagged?

    python benchmarks/propensity_recovery.py [--quick] [--runs 2000] [--sessions 100000] [--processes N]
                                             [--only recovery] [--out FOLDER] [--json]
    python benchmarks/propensity_recovery.py --figures docs

People search 200 queries of 10 items each. What is relevant is drawn once, searches and clicks anew in each
run. A session has 1 to 12 searches, 3.9 on average. The logs:

- swaps: in half of the sessions each list has two neighbours swapped (`--explore 0.5`, the most that the
  service allows); "swaps strong": the same of an engine that agrees more with relevance, so that fewer clicks
  are far down; "swaps 5 %": in one of twenty sessions (`--explore 0.05`)
- any swaps: in half of the sessions two of the ten items are swapped, whichever (`--explore-reach 9`); "any
  swaps strong": the same of the other engine; "any swaps 12 %": in so few sessions that they cost people as
  many clicks as swaps of neighbours in half of them
- randomised: the 10 items are shuffled
- rankers: one of three, dealt by session, which agree with relevance to different degrees
- fixed: one ranker; features are relevance itself, or relevance with noise; at most 20,000 sessions, as such
  curves are wrong by what the features miss and not by chance

1. Recovery: each method on each click model: the error of p_k/p_1 at ranks 2 to 10, and whether the
   diagnostic flags the log. One log each; eight of swaps with the clicks that they assume (two with
   the strong engine), two of trust. For people who read from the top the truth is the mean share of
   lists looked at. Of trust the error is that of alpha, and beside it stands the share of pairs of items, at
   any ranks, that are in the order of relevance by (c − beta)/alpha, and by clicks c alone. Beside swaps
   stands how near any unbiased estimate of such a log can come (`find_least_error`), and which share of
   their clicks the swaps cost people (`find_cost`).
2. Coverage of the 95 % intervals of p_k/p_1 under the position-based model at 30, 100 and 1,000 sessions,
   over all ranks that were not refused. Exits 1 where it is below 94 % (with room for chance).
3. How often the diagnostic flags logs of a position-based model, and of the others. It takes half of the
   time, so it is asked of every tenth log of part 2, and of fewer logs of the other click models.

Lines are printed as they come; cells are kept in `--out`, so that a stopped run goes on.
Half an hour of one core.

Needs nothing but the development install; numpy, scipy and pandas are enough.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import placings as pg
from placings.core import AnyArray, BadInput, Guess, keep_cell
from placings.simulate import Cascade, DynamicBayesian, PositionBased, TrustBias

QUERIES, DEPTH = 200, 10
MODELS: dict[str, Any] = {
    "position": PositionBased(eta=1.0),
    "trust": TrustBias(eta=1.0, trust=0.3),
    "cascade": Cascade(patience=0.9, again=0.3),
    "dbn": DynamicBayesian(),
}
SWAPS = {  # the share of sessions with swaps, and how many places apart two swapped items are at most
    "swaps": (0.5, 1),
    "swaps strong": (0.5, 1),
    "swaps 5 %": (0.05, 1),
    "any swaps": (0.5, 9),
    "any swaps strong": (0.5, 9),
    "any swaps 12 %": (0.12, 9),
}
DESIGNS = ("swaps", "any swaps", "randomised", "rankers", "fixed")  # with clicks of all models, but fixed
LEAST = 0.94
SEEDS, MANY_SEEDS = 2, 8  # logs with swaps, of the click model that a method assumes
DIAGNOSTIC = "placings.logs.propensities.find_misfit"
FLAGGED_OF = 10  # the diagnostic is asked of one in so many logs
VERSION = 2  # of the cells


@dataclass(frozen=True)
class World:
    """What is relevant `[queries, items]`, and how three rankers order it `[rankers, queries, items]`."""

    relevance: AnyArray
    orders: AnyArray
    popularity: AnyArray  # of the queries


def make_world(seed: int = 0) -> World:
    """Relevance from 0 to 1, and rankers that see it with little, some and much noise."""
    rng = np.random.default_rng([seed, 1])
    relevance = rng.beta(0.6, 1.2, (QUERIES, DEPTH))
    orders = [
        np.argsort(-(relevance + noise * rng.normal(size=relevance.shape)), axis=1)
        for noise in (0.2, 0.4, 0.8)
    ]
    popularity = 1.0 / np.arange(1, QUERIES + 1)
    return World(relevance, np.array(orders), popularity / popularity.sum())


def draw_log(world: World, design: str, model: Any, sessions: int, seed: Any) -> pd.DataFrame:
    """The rows of a log."""
    rng = np.random.default_rng(seed)
    searches = np.minimum(rng.geometric(0.25, sessions), 12)
    session = np.repeat(np.arange(sessions), searches)
    query = rng.choice(QUERIES, len(session), p=world.popularity)
    arm = (
        rng.integers(0, 3, sessions)[session]
        if design == "rankers"
        else np.full(len(session), find_engine(design))
    )
    order = world.orders[arm, query]  # [searches, items]
    columns: dict[str, AnyArray] = {}
    if design in SWAPS:
        order, columns = swap(order, *SWAPS[design], session, sessions, rng)
    elif design == "randomised":
        order = np.take_along_axis(order, np.argsort(rng.random(order.shape), axis=1), axis=1)
    shown = world.relevance[query[:, None], order]
    clicked = model.click_lists(shown.ravel(), np.arange(len(session) + 1) * DEPTH, rng)
    rows = {
        "search_id": np.repeat(np.arange(len(session)), DEPTH),
        "session_id": np.repeat(session, DEPTH),
        "query": np.repeat(np.char.add("q", query.astype(str)), DEPTH),
        "item_id": (query[:, None] * DEPTH + order).ravel(),
        "position": np.tile(np.arange(1, DEPTH + 1), len(session)),
        "label": clicked.astype(np.float64),
        **columns,
    }
    if design == "rankers":
        rows["arm"] = np.repeat(np.array(["a", "b", "c"])[arm], DEPTH)
    if design == "fixed":
        rows["exact"] = shown.ravel()
        noise = np.random.default_rng(7).normal(size=world.relevance.shape)
        rows["noisy"] = (world.relevance + 0.5 * noise)[query[:, None], order].ravel()
    return pd.DataFrame(rows)


def find_engine(design: str) -> int:
    """Which of the rankers answers where only one does: the middle one, or the weakest."""
    return 1 if design == "fixed" or design.endswith("strong") else 2


def list_pairs(reach: int) -> AnyArray:
    """The pairs of places from 0 that may be swapped `[pairs, 2]`, the upper one first."""
    return np.array([(one, one + away) for away in range(1, reach + 1) for one in range(DEPTH - away)])


def swap(
    order: AnyArray, rate: float, reach: int, session: AnyArray, sessions: int, rng: np.random.Generator
) -> tuple[AnyArray, dict[str, AnyArray]]:
    """Swaps of two items with their probabilities, as `placings.serve` draws and logs them."""
    pairs = list_pairs(reach)
    chosen = np.where(
        (rng.random(sessions) < rate)[session], rng.integers(1, len(pairs) + 1, len(session)), 0
    )
    shown, rows = order.copy(), np.flatnonzero(chosen)
    upper, lower = pairs[chosen[rows] - 1].T
    shown[rows, upper], shown[rows, lower] = order[rows, lower], order[rows, upper]
    each = rate / len(pairs)
    chance = np.tile(1.0 - each * np.bincount(pairs.ravel()), (len(order), 1))
    chance[rows, upper] = chance[rows, lower] = each
    places = np.where((chosen > 0)[:, None], pairs[chosen - 1] + 1, 0)
    return shown, {
        "shown_probability": chance.ravel(), "swapped": np.repeat(places[:, 0], DEPTH),
        "swapped_with": np.repeat(places[:, 1], DEPTH), "swap_reach": np.full(order.size, reach),
    }  # fmt: skip


def find_truth(world: World, design: str, model: Any) -> AnyArray:
    """p_k/p_1: of models that read from the top the mean look, over the lists that the design shows."""
    orders = world.orders if design == "rankers" else world.orders[[find_engine(design)]]
    looks, total = np.zeros(DEPTH), 0.0
    rng = np.random.default_rng(3)
    for order in orders:
        for query in range(QUERIES):
            for _ in range(20 if design == "randomised" else 1):
                items = rng.permutation(DEPTH) if design == "randomised" else order[query]
                looks += world.popularity[query] * model.examination(DEPTH, world.relevance[query, items])
                total += world.popularity[query]
    found: AnyArray = looks / total
    return found / found[0]


def estimate(rows: pd.DataFrame, method: str, **options: Any) -> pg.PropensityCurve:
    """The curve by a method."""
    if method == "randomised":
        options["depth"] = DEPTH
    return pg.estimate_propensity(rows, method, **options)


# -- 1. recovery -------------------------------------------------------------------------------------------

PLANS = [
    ("swaps", "swaps", {}),
    ("swaps strong", "swaps", {}),
    ("swaps 5 %", "swaps", {}),
    ("any swaps", "swaps", {}),
    ("any swaps strong", "swaps", {}),
    ("any swaps 12 %", "swaps", {}),
    ("swaps", "trust", {}),
    ("rankers", "trust", {}),
    ("randomised", "randomised", {}),
    ("rankers", "adjacent", {}),
    ("rankers", "all-pairs", {}),
    ("fixed", "em", {"features": ["exact"]}),
    ("fixed", "em", {"features": ["noisy"]}),
    ("fixed", "two-tower", {"features": ["exact"]}),
    ("fixed", "two-tower", {"features": ["noisy"]}),
]


def recover(task: tuple[str, str, dict[str, Any], str, int, int]) -> dict[str, Any]:
    """One method on one log: its errors, and whether it was flagged."""
    design, method, options, name, sessions, seed = task
    world, model = make_world(), MODELS[name]
    features = ",".join(options.get("features", ()))
    told = {"log": design, "method": method, "features": features, "clicks": name, "seed": seed}
    start = time.perf_counter()
    try:
        curve = estimate(draw_log(world, design, model, sessions, [seed, 11]), method, **options)
    except BadInput as problem:
        return {**told, "refused": str(problem)}
    truth = true_alpha(model) if method == "trust" else find_truth(world, design, model)
    at = curve.ranks[1:]
    error = curve.values[1:] / truth[at - 1] - 1.0
    inside = (curve.low[1:] <= truth[at - 1]) & (truth[at - 1] <= curve.high[1:])
    return {
        **told, "ranks": int(curve.ranks[-1]), "errors": error.tolist(), "inside": float(inside.mean()),
        "flagged": None if curve.misfit is None else curve.misfit.flagged,
        "order": judge_trust(curve, world, model), "seconds": time.perf_counter() - start,
    }  # fmt: skip


def true_alpha(model: Any) -> AnyArray:
    """α_k/α_1 by construction; of models without trust, p_k/p_1."""
    looks = model.examination(DEPTH)
    if isinstance(model, TrustBias):
        looks = looks * (model.certainty - model.mistake(DEPTH))
    found: AnyArray = looks / looks[0]
    return found


def judge_trust(curve: pg.PropensityCurve, world: World, model: Any) -> list[float] | None:
    """What ordering needs: the share of pairs of showings that (c − β)/α puts as relevance does; c alone.

    c is the true click rate of a showing at its rank, so that nothing but the estimated line is judged. Pairs
    are of showings of the engine's lists, at any ranks, whose relevance differs by 0.1 or more.
    """
    if not isinstance(model, TrustBias) or curve.trust is None:
        return None
    depth = len(curve.ranks)
    relevance = np.take_along_axis(world.relevance, world.orders[2], axis=1)[:, :depth]
    wrong = model.mistake(depth)
    rate = model.examination(depth) * (wrong + (model.certainty - wrong) * relevance)
    one, other = np.random.default_rng(5).integers(0, rate.size, (2, 200_000))
    apart = relevance.ravel()[one] - relevance.ravel()[other]
    clear = np.abs(apart) >= 0.1
    shares = []
    for worth in ((rate - curve.trust.beta) / curve.trust.alpha, rate):
        agree = np.sign(worth.ravel()[one] - worth.ravel()[other]) == np.sign(apart)
        shares.append(float(agree[clear].mean()))
    return shares


def find_least_error(world: World, design: str, model: Any, sessions: int) -> AnyArray:
    """The least standard error of log(p_k/p_1), ranks 2 to 10, that an unbiased estimate from swaps can have.

    Where nothing is swapped there are many clicks and p_k·g_k is known. What tells p_k from p_l is then the
    clicks on items that were moved between k and l: Poisson counts with the means p_k·g_l·n and p_l·g_k·n, n
    lists with this swap, whose information on log(p_k/p_l) is their sum. Pairs are independent, so that their
    information adds up to a matrix (a graph's Laplacian), and its inverse is the least variance. Where only
    neighbours are swapped, variances add up on the way down.
    """
    rate, reach = SWAPS[design]
    pairs, looks = list_pairs(reach), model.examination(DEPTH)
    good = find_worth(world, design)
    searches = sessions * float(np.minimum(np.random.default_rng(0).geometric(0.25, 200_000), 12).mean())
    one, other = pairs.T
    moved = searches * rate / len(pairs) * (looks[one] * good[other] + looks[other] * good[one])
    signs = np.eye(DEPTH)[one] - np.eye(DEPTH)[other]  # [pairs, ranks]
    information = (signs * moved[:, None]).T @ signs
    found: AnyArray = np.sqrt(np.diag(np.linalg.inv(information[1:, 1:])))
    return found


def find_cost(world: World, design: str, model: Any) -> float:
    """The share of their clicks that swaps cost people: one of k and l loses (p_k − p_l)(g_k − g_l)."""
    rate, reach = SWAPS[design]
    one, other = list_pairs(reach).T
    looks, good = model.examination(DEPTH), find_worth(world, design)
    lost = (looks[one] - looks[other]) * (good[one] - good[other])
    return float(rate * lost.mean() / (looks @ good))


def find_worth(world: World, design: str) -> AnyArray:
    """How relevant the item is that the engine has at each rank, the mean over searches `[ranks]`."""
    order = world.orders[find_engine(design)]
    found: AnyArray = world.popularity @ np.take_along_axis(world.relevance, order, axis=1)
    return found


# -- 2. and 3. many logs -----------------------------------------------------------------------------------

COVERED = [
    ("swaps", "swaps"),
    ("any swaps", "swaps"),
    ("randomised", "randomised"),
    ("rankers", "adjacent"),
    ("rankers", "all-pairs"),
]


def cover(task: tuple[str, str, str, int, int, int]) -> dict[str, Any]:
    """Some redrawn logs of one kind: how many intervals hold the truth, and how many logs are flagged."""
    design, method, name, sessions, first, runs = task
    world, model = make_world(), MODELS[name]
    truth = find_truth(world, design, model)
    inside, asked, refused, flagged, none, width = np.zeros(DEPTH), np.zeros(DEPTH), 0, 0, 0, []
    checked = 0
    for run in range(first, first + runs):
        check = name != "position" or run % FLAGGED_OF == 0
        rows = draw_log(world, design, model, sessions, [run, sessions, 29])
        try:
            with nullcontext() if check else patch(DIAGNOSTIC, return_value=None):
                curve = estimate(rows, method)
        except BadInput:
            none += 1
            continue
        checked += check
        at = curve.ranks[1:] - 1
        asked[at] += 1
        inside[at] += (curve.low[1:] <= truth[at]) & (truth[at] <= curve.high[1:])
        refused += len(curve.refused)
        flagged += curve.misfit is not None and curve.misfit.flagged
        width.append(float(np.log(curve.high[1:] / curve.low[1:]).mean()))
    return {
        "log": design, "method": method, "clicks": name, "sessions": sessions, "runs": runs, "none": none,
        "inside": inside.tolist(), "asked": asked.tolist(), "refused": refused, "flagged": flagged,
        "checked": checked, "width": width,
    }  # fmt: skip


SUMS = ("runs", "none", "refused", "flagged", "checked", "inside", "asked")


def gather(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of each kind put together."""
    found: dict[Any, dict[str, Any]] = {}
    for part in parts:
        key = tuple(part[name] for name in ("log", "method", "clicks", "sessions"))
        into = found.setdefault(key, {**part, **dict.fromkeys(SUMS, 0), "width": []})
        for name in SUMS:
            into[name] = into[name] + (np.array(part[name]) if name in ("inside", "asked") else part[name])
        into["width"] = [*into["width"], *part["width"]]
    for each in found.values():
        asked, inside = each.pop("asked")[1:], each.pop("inside")[1:]
        each["coverage"] = float(inside.sum() / max(asked.sum(), 1))
        each["by_rank"] = [float(a / b) if b else None for a, b in zip(inside, asked, strict=True)]
        logs = each["runs"] - each["none"]
        each["flagged"] = each["flagged"] / max(each["checked"], 1)
        each["refused"] = each["refused"] / max(logs * (DEPTH - 1), 1)
        each["factor"] = float(np.exp(np.median(each.pop("width")))) if logs else None
    return list(found.values())


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a minute: 10,000 sessions, 60 runs")
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--only", choices=("recovery", "coverage"))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="keep cells here, so that a stopped run goes on")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", metavar="FOLDER", help="draw the pictures of the documentation and stop")
    options = parser.parse_args()
    if options.figures:
        draw_figures(options.figures)
        return 0
    sessions, runs = (10_000, 60) if options.quick else (options.sessions, options.runs)
    say = (lambda text: None) if options.json else partial(print, flush=True)
    facts: dict[str, Any] = {}
    held = True
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:

        def run(work: Any, tasks: list[Any]) -> Iterator[dict[str, Any]]:
            yield from pool.imap(run_task, [(work, task, options.out) for task in tasks], chunksize=1)

        if options.only != "recovery":
            facts["coverage"], held = show_coverage(run, runs, options.quick, say)
        if options.only != "coverage":
            facts["recovery"] = show_recovery(run, sessions, say)
    if options.json:
        print(json.dumps(facts, indent=1))
    return 0 if held else 1


def run_task(told: tuple[Any, Any, Path | None]) -> dict[str, Any]:
    """What is kept of a task, or made now."""
    work, task, folder = told
    label = "-".join(str(each) for each in (work.__name__, *task))
    return keep_cell(folder, label, {"task": task, "version": VERSION}, lambda: work(task))


def show_recovery(run: Any, sessions: int, say: Any) -> list[dict[str, Any]]:
    """Part 1."""
    tasks = [
        (*plan, name, min(sessions, 20_000) if plan[0] == "fixed" else sessions, seed)
        for plan in PLANS
        for name in MODELS
        if (name == "trust" if plan[1] == "trust" else name == "position" or plan[0] in DESIGNS[:4])
        for seed in range(count_seeds(plan[0], plan[1], name))
    ]
    say(
        f"\n{sessions:,} sessions (fixed: 20,000 at most); error of p_k/p_1 at ranks 2 to the last, over "
        "logs; trust: of alpha"
    )
    say(
        f"{'log':18}{'method':12}{'features':10}{'clicks':10}{'logs':>5}{'last':>5}{'mean':>8}{'at 5':>8}"
        f"{'at 10':>8}{'largest':>9}{'in 95 %':>9}  flagged"
    )
    found: list[dict[str, Any]] = []
    told = run(recover, tasks)
    for _, same in groupby(tasks, key=lambda task: repr(task[:4])):
        group = [next(told) for _ in same]
        found += group
        first, logs = group[0], [each for each in group if "refused" not in each]
        head = f"{first['log']:18}{first['method']:12}{first['features']:10}{first['clicks']:10}"
        if not logs:
            say(f"{head}  refused: {first['refused']}")
            continue
        errors = [np.abs(each["errors"]) for each in logs]
        flags = [each["flagged"] for each in logs]
        flag = "-" if None in flags else f"{sum(flags)} of {len(flags)}"
        order = [each["order"] for each in logs if each["order"]]
        more = f"  pairs in order {order[0][0]:.1%}, by clicks alone {order[0][1]:.1%}" if order else ""
        numbers = [
            float(np.mean([each.mean() for each in errors])), *(_mean_at(errors, rank) for rank in (5, 10)),
            max(float(each.max()) for each in errors),
        ]  # fmt: skip
        say(
            f"{head}{len(logs):>5}{min(each['ranks'] for each in logs):>5}{numbers[0]:>8.1%}"
            f"{numbers[1]:>8.1%}{numbers[2]:>8.1%}{numbers[3]:>9.1%}"
            f"{np.mean([each['inside'] for each in logs]):>9.0%}  {flag}{more}"
        )
        if first["method"] == "swaps" and first["clicks"] == "position":
            least = find_least_error(make_world(), first["log"], MODELS["position"], sessions)
            each = ", ".join(f"{float(one.max()):.1%}" for one in errors)
            last = [np.log1p(log["errors"][-1]) for log in logs if log["ranks"] == DEPTH]
            typical = np.sqrt(np.mean(np.square(last)))
            say(
                f"{'':18}largest of each log: {each}; log(p_10/p_1): root of the mean square error "
                f"{typical:.3f}, the least that can be had {least[-1]:.3f}; the swaps cost "
                f"{find_cost(make_world(), first['log'], MODELS['position']):.2%} of the clicks"
            )
    return found


def count_seeds(design: str, method: str, clicks: str) -> int:
    """How many logs: more of swaps, of the click model that the method assumes."""
    if (
        design not in SWAPS
        or design == "swaps 5 %"
        or clicks != ("trust" if method == "trust" else "position")
    ):
        return 1
    return SEEDS if method == "trust" or design.endswith("strong") else MANY_SEEDS


def _mean_at(errors: list[AnyArray], rank: int) -> float:
    """The mean error at a rank, of the logs that have it."""
    known = [float(each[rank - 2]) for each in errors if len(each) > rank - 2]
    return float(np.mean(known)) if known else math.nan


def draw_figures(folder: str) -> None:
    """The pictures of docs/propensities.md."""
    from placings.report import write_propensity_figure

    world, model = make_world(), MODELS["position"]
    truth = model.examination(DEPTH)
    logs = {design: draw_log(world, design, model, 20_000, [0, 11]) for design in DESIGNS}
    kinds = {
        "swaps of neighbours": ("swaps", "swaps"), "swaps of any two": ("any swaps", "swaps"),
        "all-pairs": ("rankers", "all-pairs"), "randomised": ("randomised", "randomised"),
    }  # fmt: skip
    curves = {told: estimate(logs[design], method) for told, (design, method) in kinds.items()}
    write_propensity_figure(f"{folder}/propensity_methods.svg", curves, truth=truth)
    named = {"all of relevance": ["exact"], "relevance with noise": ["noisy"]}
    features = {
        f"{method}, {told}": estimate(logs["fixed"], method, features=columns)
        for method in ("em", "two-tower")
        for told, columns in named.items()
    }
    write_propensity_figure(f"{folder}/propensity_features.svg", features, truth=truth)


def show_coverage(run: Any, runs: int, quick: bool, say: Any) -> tuple[list[dict[str, Any]], bool]:
    """Parts 2 and 3."""
    step = min(max(runs // 10, 5), 100)
    kinds = [(*each, "position", size, runs) for size in (30, 100, 1_000) for each in COVERED]
    few = {1_000: max(runs // 100, 10), 10_000: 5}
    kinds += [
        (*each, name, size, few[size])
        for size in few
        for each in COVERED
        for name in MODELS
        if name != "position"
    ]
    if quick:
        kinds = [kind for kind in kinds if kind[3] < 10_000]
    tasks = [
        [(*kind[:4], first, min(step, kind[4] - first)) for first in range(0, kind[4], step)]
        for kind in kinds
    ]
    told = run(cover, [task for each in tasks for task in each])
    say("\nintervals of p_k/p_1 that hold the truth, and logs that the diagnostic flags")
    say(
        f"{'log':18}{'method':12}{'clicks':10}{'sessions':>9}{'runs':>6}{'cover':>8}{'no curve':>10}"
        f"{'refused':>9}{'width':>8}{'flagged':>9}"
    )
    held = True
    found = []
    for each in (gather([next(told) for _ in parts])[0] for parts in tasks):
        found.append(each)
        right = each["clicks"] == "position"
        covers = f"{each['coverage']:>8.1%}" if right else f"{'':>8}"
        factor = f"{each['factor']:>8.3g}" if each["factor"] else f"{'-':>8}"
        say(
            f"{each['log']:18}{each['method']:12}{each['clicks']:10}{each['sessions']:>9,}{each['runs']:>6,}{covers}"
            f"{each['none']:>10,}{each['refused']:>9.0%}{factor}{each['flagged']:>9.1%}"
        )
        # ranks of one log hang together: room for chance by the number of logs
        logs = max(each["runs"] - each["none"], 1)
        held &= not right or each["coverage"] >= LEAST - 3 * math.sqrt(0.05 * 0.95 / logs / 3)
    say("width: high/low of an interval, the median; refused: share of ranks 2 to 10")
    return found, held


if __name__ == "__main__":
    warnings.simplefilter("ignore", Guess)
    sys.exit(main())
