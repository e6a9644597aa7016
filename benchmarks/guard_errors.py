"""SIMULATED: how often the guard re-orders a kind that loses, how soon it sees a gain, and what it costs.

    python benchmarks/guard_errors.py [--trials 1000] [--quick] [--seed 0] [--processes N] [--out FOLDER]

Differences of reciprocal rank are drawn with a known mean, as skewed as they can be, in clusters (people who
search several times and fare alike), and given to the guard beside a large kind that gains. Four tables:

1. Errors: the share of trials in which a kind that truly loses 0.02, the guard's margin, is re-ordered, by n,
   its searches. The guard says 5 % at most. Beside it Student's bound with nothing added, a sign-flip test
   around the margin, and a betting bound (Waudby-Smith and Ramdas, Estimating means of bounded random
   variables by betting, 2024), none of which the guard uses.
2. Small losses: the same for a kind that loses less than the margin, of which the guard promises nothing.
3. Cost: the share of the gain that is forgone where no kind loses, by how many searches judge, over kinds of
   half, a fifth, 15, 10 and 5 % of them. Every search of a re-ranker's log judges, cross-fitted. Of a log of
   200,000 or more a fifth is set aside, and two thirds of it judge.
4. Power: the share of trials in which a kind that truly gains is re-ordered; for people who search eight
   times also in larger kinds, to see how many of them decide.

Tables are printed as they come; cells are kept in `--out`, so that a stopped run goes on.
Half a minute with --quick, some six minutes of one core without.

Needs nothing but the development install; numpy and scipy are enough.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import Floats, Ints, keep_cell
from placings.rerank import Guard, bound_gain, judge_gains

SIZES = (10, 30, 80, 200, 1000)
LARGER = (1_000, 2_000, 4_000, 8_000, 16_000)
MARGIN, LOSS, ALPHA = Guard.tolerance, 0.02, 0.05
SMALLER = (0.005, 0.01)  # losses that the guard does not promise to keep out
BETWEEN = (200, 400, 1_000, 4_000, 16_000)  # searches of a kind that loses little: where most of them pass
ENGINE = np.array([0.72, 0.12, 0.06, 0.04, 0.03, 0.03])  # how often a click is on the engine's rank 1, 2, …
GAINS = (0.0, 0.01, 0.02, 0.05, 0.1)
SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)  # of the searches in each kind, for the cost
LOGS = {500: 500, 2_500: 2_500, 5_000: 5_000, 10_000: 10_000, 20_000: 20_000, 200_000: 26_667}  # judge
NONE, PAIRS, CROWDS = 1.0, 2.5, 8.0  # searches of a person, in the mean
VERSION = 2  # of the cells

Draw = Callable[[np.random.Generator, int, float], Floats]


def draw_moves(rng: np.random.Generator, n: int, mean: float) -> Floats:
    """A click on the engine's rank r; in three of ten searches the model puts the item somewhere else.

    It moves up with the probability that makes the mean difference of 1/rank what was asked for.
    """
    rank = rng.choice(len(ENGINE), size=n, p=ENGINE) + 1
    up = 1.0 / np.maximum(rank // 2, 1) - 1.0 / rank
    down = 1.0 / (rank + rng.integers(1, 4, size=n)) - 1.0 / rank
    places = np.arange(1, len(ENGINE) + 1)
    rise = float((ENGINE * (1.0 / np.maximum(places // 2, 1) - 1.0 / places)).sum())
    fall = float((ENGINE * (sum(1.0 / (places + k) for k in (1, 2, 3)) / 3 - 1.0 / places)).sum())
    moved = 0.3
    chance = (mean / moved - fall) / (rise - fall)
    if not 0.0 <= chance <= 1.0:  # so large a gain needs more moves
        moved, chance = mean / rise, 1.0
    return np.where(rng.random(n) < moved, np.where(rng.random(n) < chance, up, down), 0.0)


def draw_rare(rng: np.random.Generator, n: int, mean: float) -> Floats:
    """Nearly always the same; a half is lost (or won) now and then, with a few of the other sign."""
    other = 0.01
    chance = abs(mean) / 0.5 + other
    luck = rng.random(n)
    return np.sign(mean or 1.0) * np.where(luck < chance, 0.5, np.where(luck > 1.0 - other, -0.5, 0.0))


def draw_trap(rng: np.random.Generator, n: int, mean: float) -> Floats:
    """The worst there is: each search gains a little, and one in some tens loses everything.

    The little gain is 3.2/n, so that about three losses are expected and none is often seen.
    """
    small = min(0.5, max(3.2 / n, mean))
    lost = (small - mean) / (1.0 + small)
    return np.where(rng.random(n) < lost, -1.0, small)


def draw_quiet(rng: np.random.Generator, n: int, mean: float) -> Floats:
    """All or nothing: a list is lost as a whole with the probability of the mean; nothing else moves."""
    return np.sign(mean) * (rng.random(n) < abs(mean)).astype(np.float64)


CROWD = "moves, 8 a person"
KINDS: dict[str, tuple[Draw, float]] = {
    "moves": (draw_moves, NONE),
    "moves, 2.5 a person": (draw_moves, PAIRS),
    CROWD: (draw_moves, CROWDS),
    "rare halves": (draw_rare, NONE),
    "rare halves, 2.5 a person": (draw_rare, PAIRS),
    "all or nothing": (draw_quiet, NONE),
    "trap": (draw_trap, NONE),
    "trap, 2.5 a person": (draw_trap, PAIRS),
}


def draw_people(rng: np.random.Generator, n: int, size: float) -> Ints:
    """The person of each of n searches; how many searches a person has is geometric with this mean."""
    if size <= 1.0:
        return np.arange(n)
    sizes = rng.geometric(1.0 / size, size=n)
    return np.repeat(np.arange(n), sizes)[:n]


def draw_kind(name: str, rng: np.random.Generator, n: int, mean: float) -> tuple[Floats, Ints]:
    """Differences `[n]` and the person of each; two of three searches of a person fare as their first did."""
    draw, size = KINDS[name]
    people = draw_people(rng, n, size)
    own, shared = draw(rng, n, mean), draw(rng, n, mean)[people]
    return np.where((rng.random(n) < 2 / 3) & (size > 1.0), shared, own), people


# -- other tests --------------------------------------------------------------------------------------------


def pass_student(gains: Floats, people: Ints) -> bool:
    """Student's lower bound over people, nothing added."""
    from scipy.special import stdtrit

    size, sums = np.bincount(people), np.bincount(people, gains)
    size, sums = size[size > 0].astype(np.float64), sums[size > 0]
    count, mean = len(size), sums.sum() / size.sum()
    if count < 2:
        return False
    error = math.sqrt(count / (count - 1) * ((sums - mean * size) ** 2).sum()) / size.sum()
    return bool(mean - stdtrit(count - 1, 1.0 - ALPHA) * error >= -MARGIN)


def pass_flips(gains: Floats, people: Ints, rng: np.random.Generator, flips: int = 400) -> bool:
    """Signs of each person's sum above the margin, flipped at random."""
    sums = np.bincount(people, gains + MARGIN)
    flipped = (2.0 * rng.integers(0, 2, size=(flips, len(sums)), dtype=np.int8) - 1.0) @ sums
    return bool((1 + (flipped >= sums.sum() - 1e-12).sum()) / (1 + flips) <= ALPHA)


def pass_bets(gains: Floats, people: Ints) -> bool:
    """A mixture of constant bets that the mean is above the margin; bounded by the largest person."""
    sums, size = np.bincount(people, gains + MARGIN), np.bincount(people)
    worst = size.max() * (1.0 - MARGIN)
    bets = np.linspace(0.01, 0.99, 50)[:, None] / worst
    wealth = np.log1p(bets * sums).sum(axis=1)
    return bool(np.exp(wealth - math.log(len(bets))).sum() >= 1.0 / ALPHA)


# -- tables -------------------------------------------------------------------------------------------------


def pass_guard(gains: Floats, people: Ints, rng: np.random.Generator) -> bool:
    """Whether the guard re-orders the kind, beside one of 300 searches that gains much."""
    other = rng.choice([0.0, 0.5], size=300, p=[0.8, 0.2])
    both = np.concatenate([gains, other])
    kinds = np.repeat(["this", "other"], [len(gains), len(other)])
    who = np.concatenate([people, len(gains) + np.arange(len(other))])
    guard = judge_gains(both[:, None], {"kind": kinds}, clusters=who)
    return bool(guard.find_weights({"kind": ["this"]}, 1)[0] > 0.0)


def count_passes(name: str, n: int, mean: float, trials: int, seed: int) -> dict[str, float]:
    """The share of trials in which each test lets a kind pass; slow ones only where the margin is lost."""
    rng = np.random.default_rng([seed, n, round(1e6 * (mean + 1)), list(KINDS).index(name)])
    found = dict.fromkeys(("guard", "student", "flips", "bets"), 0)
    for _ in range(trials):
        gains, people = draw_kind(name, rng, n, mean)
        found["guard"] += pass_guard(gains, people, rng)
        found["student"] += pass_student(gains, people)
        if mean <= -min(LOSS, MARGIN):
            found["flips"] += pass_flips(gains, people, rng)
            found["bets"] += pass_bets(gains, people)
    return {test: count / trials for test, count in found.items()}


def count_cost(name: str, n: int, mean: float, trials: int, seed: int) -> dict[str, float]:
    """The share of the gain that is forgone where every kind gains; no person has searches of two kinds."""
    rng = np.random.default_rng([seed, n, round(1e6 * (mean + 1)), list(KINDS).index(name), 1])
    got = whole = 0.0
    for _ in range(trials):
        true = mean * rng.uniform(0.5, 1.5, size=len(SHARES))
        for share, gain in zip(SHARES, true, strict=True):
            gains, people = draw_kind(name, rng, max(2, round(n * share)), float(gain))
            low = bound_gain(gains, clusters=people).low
            got += share * gain * float(low >= -MARGIN and gains.mean() >= 0.0)
            whole += share * gain
    return {"cost": 1.0 - got / whole}


@dataclass(frozen=True)
class Cell:
    """Trials of one kind: what is counted, of how many searches with which mean gain."""

    what: str
    name: str
    n: int
    mean: float
    trials: int
    seed: int
    folder: Path | None


def run_cell(cell: Cell) -> dict[str, float]:
    """What is kept of this cell, or counted now."""
    count = count_cost if cell.what == "cost" else count_passes
    given = (cell.name, cell.n, cell.mean, cell.trials, cell.seed)
    facts = {"what": cell.what, "given": given, "version": VERSION}
    return keep_cell(
        cell.folder, f"{cell.what}-{cell.mean:g}-{cell.name}-{cell.n}", facts, lambda: count(*given)
    )


def print_table(title: str, rows: list[tuple[str, list[str]]], heads: list[str]) -> None:
    print(f"\n{title}\n")
    print(f"{'':28}" + "".join(f"{head:>11}" for head in heads))
    for name, cells in rows:
        print(f"{name:28}" + "".join(f"{cell:>11}" for cell in cells), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--quick", action="store_true", help="100 trials of each")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path, help="keep cells here")
    chosen = options.parse_args()
    trials = 100 if chosen.quick else chosen.trials
    with ProcessPoolExecutor(chosen.processes, mp_context=multiprocessing.get_context("spawn")) as pool:

        def run(what: str, mean: float, names: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
            cells = [
                Cell(what, name, n, mean, trials, chosen.seed, chosen.out) for name in names for n in sizes
            ]
            found = list(pool.map(run_cell, cells))
            return {
                name: found[place * len(sizes) : (place + 1) * len(sizes)] for place, name in enumerate(names)
            }

        def show(title: str, test: str, found: dict[str, Any], digits: int, sizes: Sequence[int]) -> None:
            rows = [(name, [f"{each[test]:.{digits}%}" for each in cells]) for name, cells in found.items()]
            print_table(f"SIMULATED · {title}", rows, [f"n = {n:,}" for n in sizes])

        # The margin too, where somebody has changed the guard's default.
        worst = 0.0
        for loss in sorted({LOSS, MARGIN}):
            passes = run("errors", -loss, list(KINDS), SIZES)
            for test in ("guard", "student", "flips", "bets"):
                show(
                    f"errors · {test} · a kind that truly loses {loss:g}, {trials:,} trials",
                    test,
                    passes,
                    1,
                    SIZES,
                )
            if loss == LOSS:
                worst = max(each["guard"] for found in passes.values() for each in found)
        names = ["moves", "moves, 2.5 a person", "rare halves"]
        for loss in SMALLER:
            passes = run("small", -loss, [*names, CROWD], BETWEEN)
            show(f"small losses · guard · a kind that truly loses {loss:g}", "guard", passes, 1, BETWEEN)
        for gain in (0.01, 0.02, 0.05):
            costs = run("cost", gain, [*names, CROWD], list(LOGS.values()))
            rows = [(name, [f"{each['cost']:.1%}" for each in found]) for name, found in costs.items()]
            print_table(
                f"SIMULATED · cost · five kinds that gain {gain / 2:g} to {1.5 * gain:g}: the share of the "
                "gain forgone, by searches in the log (and those that judge)",
                rows, [f"{log:,}" for log in LOGS],
            )  # fmt: skip
            print(f"{'':28}" + "".join(f"{f'({n:,})':>11}" for n in LOGS.values()))
        for gain in GAINS:
            passes = run("power", gain, names, SIZES)
            for test in ("guard", "student"):
                show(f"power · {test} · a kind that truly gains {gain:g}", test, passes, 0, SIZES)
        for gain in (0.01, 0.02):
            passes = run("power", gain, [CROWD], LARGER)
            show(f"power · guard · a kind that truly gains {gain:g}", "guard", passes, 0, LARGER)
    print(f"\nThe guard re-ordered a kind that loses {LOSS:g} in at most {worst:.1%} of {trials:,} trials.")


if __name__ == "__main__":
    main()
