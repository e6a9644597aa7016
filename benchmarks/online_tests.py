"""Online tests that are looked at all the time: do they hold, and how soon do they see what is there?

    python benchmarks/online_tests.py [--runs 1000] [--people 20000] [--json]

People come one after the other, are dealt to arms, and make 1 to many searches each; a person's value is the
mean over their searches. After every 50 people somebody looks. A run misses if at any look the interval
excludes the true value. Beside each confidence sequence stands the interval of fixed size (1.96 standard
errors) looked at as often. Exits 1 unless every confidence sequence misses in at most 5 % of the runs, A/A
tests and the sample-ratio test included (the latter 0.1 %, with room for chance).

Then power: people until a difference in CTR of 0.02 is seen, and until shares of 51:49 are told from 50:50.

Needs nothing but the development install.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import AnyArray
from placings.evaluation import ConfidenceSequence, follow_difference, follow_mean, weigh_counts

EVERY = 50
SRM_ALPHA = 0.001
MOST_MISSES = 0.05


@dataclass(frozen=True)
class World:
    """What people do: click rate of the control arm and of the other, share of the other, kind of value."""

    name: str
    control: float
    other: float
    share: float = 0.5
    kind: str = "ctr"


WORLDS = [
    World("A/A: CTR 0.40, shares 50:50", 0.40, 0.40),
    World("A/A: CTR 0.02, shares 50:50", 0.02, 0.02),
    World("A/A: CTR 0.40, shares 90:10", 0.40, 0.40, 0.1),
    World("A/A: click MRR, shares 50:50", 0.40, 0.40, 0.5, "mrr"),
    World("A/A: CTR 0.95, shares 90:10", 0.95, 0.95, 0.1),
    World("A/B: CTR 0.40 and 0.42", 0.40, 0.42),
    World("A/B: CTR 0.02 and 0.03, shares 95:5", 0.02, 0.03, 0.05),
    World("interleaving of equal orders", 0.0, 0.0, 0.5, "preference"),
]


def draw_people(world: World, people: int, rng: np.random.Generator) -> tuple[AnyArray, AnyArray]:
    """The value of each person and whether they are in the other arm."""
    treated = rng.random(people) < world.share
    searches = rng.geometric(0.25, people)
    if world.kind == "preference":
        wins = rng.binomial(searches, 0.45)
        losses = rng.binomial(searches - wins, 0.45 / 0.55)
        return (wins - losses) / searches, treated
    rate = np.where(treated, world.other, world.control)
    tilt = rng.beta(rate * 3.0, (1.0 - rate) * 3.0)  # people differ: their searches are not independent
    if world.kind == "ctr":
        return rng.binomial(searches, tilt) / searches, treated
    # the reciprocal rank of a person's usual click, times how often they click
    return rng.binomial(searches, tilt) / searches / rng.geometric(0.5, people), treated


def follow(world: World, values: AnyArray, treated: AnyArray, looks: AnyArray) -> ConfidenceSequence:
    """The confidence sequence of a world."""
    if world.kind == "preference":
        return follow_mean(values, looks, bounds=(-1.0, 1.0))
    return follow_difference(values, treated, looks)


def find_fixed(world: World, values: AnyArray, treated: AnyArray, looks: AnyArray) -> AnyArray:
    """Half the width of the interval of fixed size at each look."""
    error = np.zeros(len(looks))
    groups = [np.ones(len(values), bool)] if world.kind == "preference" else [treated, ~treated]
    for group in groups:
        count = np.cumsum(group)[looks - 1]
        total, squares = (
            np.cumsum(np.where(group, part, 0.0))[looks - 1] for part in (values, values * values)
        )
        error += (squares / count - (total / count) ** 2) / (count - 1)
    return 1.96 * np.sqrt(np.maximum(error, 0.0))


def measure_misses(world: World, runs: int, people: int) -> dict[str, Any]:
    """How often an interval excludes the truth at any look."""
    looks = np.arange(EVERY, people + 1, EVERY)
    truth = world.other - world.control
    missed = fixed = ended = 0
    for run in range(runs):
        values, treated = draw_people(world, people, np.random.default_rng([run, 15]))
        found = follow(world, values, treated, looks)
        known = np.isfinite(found.lows)
        off = np.abs(found.estimates - truth)[known]
        missed += bool(((truth < found.lows) | (truth > found.highs))[known].any())
        with np.errstate(all="ignore"):
            wide = find_fixed(world, values, treated, looks)[known]
        fixed += bool((off > wide).any())
        ended += bool(off[-1] > wide[-1])
    return {
        "world": world.name,
        "misses": missed / runs,
        "fixed, looked at each time": fixed / runs,
        "fixed, looked at once": ended / runs,
    }


def measure_power(runs: int, most: int = 100_000) -> dict[str, Any]:
    """People until a difference of 0.02 in CTR is seen, in both arms together."""
    looks = np.arange(EVERY, most + 1, EVERY)
    world = World("", 0.40, 0.42)
    needed = []
    for run in range(runs):
        values, treated = draw_people(world, most, np.random.default_rng([run, 16]))
        seen = follow(world, values, treated, looks).lows > 0
        needed.append(int(looks[seen.argmax()]) if seen.any() else math.inf)
    spread = float(np.std(values))
    once = 2 * 2 * (1.96 + 0.8416) ** 2 * spread**2 / 0.02**2
    half, most_runs = np.quantile(needed, [0.5, 0.8], method="higher")
    return {"people, half of the runs": half, "people, 80 % of the runs": most_runs, "one look, 80 %": once}


def measure_ratio(share: float, runs: int, most: int) -> dict[str, Any]:
    """Alarms of the sample-ratio test for shares stated as 50:50."""
    looks = np.arange(EVERY, most + 1, EVERY)
    needed = []
    for run in range(runs):
        rng = np.random.default_rng([run, 17])
        ones = np.cumsum(rng.binomial(EVERY, share, len(looks)))
        seen = _find_alarm(looks, ones)
        needed.append(math.inf if seen is None else int(looks[seen]))
    alarms = float(np.mean(np.isfinite(needed)))
    return {"share": share, "people": most, "alarms": alarms, "median": float(np.median(needed))}


def _find_alarm(looks: AnyArray, ones: AnyArray) -> int | None:
    """The first look with an alarm; only looks that are off by two standard errors can have one."""
    far = np.flatnonzero(np.abs(ones - looks / 2) > np.sqrt(looks))
    for place in far:
        counts = {"a": int(ones[place]), "b": int(looks[place] - ones[place])}
        if weigh_counts(counts, {"a": 0.5, "b": 0.5}) > math.log(1 / SRM_ALPHA):
            return int(place)
    return None


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    say: Callable[[str], None] = (lambda text: None) if options.json else print
    start = time.perf_counter()
    say(f"{options.runs:,} runs of {options.people:,} people, looked at after every {EVERY}.")
    say("Share of runs that exclude the truth at any look:")
    say(f"{'':38}{'sequence':>10}{'fixed, each look':>18}{'fixed, one look':>17}")
    misses = []
    for world in WORLDS:
        found = measure_misses(world, options.runs, options.people)
        misses.append(found)
        shares = [found[name] for name in list(found)[1:]]
        say(f"{world.name:38}{shares[0]:>10.1%}{shares[1]:>18.1%}{shares[2]:>17.1%}")
    power = measure_power(max(options.runs // 5, 1))
    say("\npeople in both arms until CTR 0.42 is told from 0.40 (5 % level):")
    say("  " + "; ".join(f"{name}: {value:,.0f}" for name, value in power.items()))
    ratio = [measure_ratio(0.5, options.runs, 100_000), measure_ratio(0.51, options.runs, 100_000)]
    say(f"\nsample-ratio test at {SRM_ALPHA}, looked at after every {EVERY} of 100,000 people:")
    say(f"  50:50: alarms in {ratio[0]['alarms']:.2%} of the runs")
    say(f"  51:49: alarms in {ratio[1]['alarms']:.2%} of the runs, half of them by {ratio[1]['median']:,.0f}")
    took = time.perf_counter() - start
    say(f"\n{took:.0f} s")
    if options.json:
        facts = {"misses": misses, "power": power, "ratio": ratio, "seconds": took}
        print(json.dumps(facts, indent=1))
    # three standard errors of room for chance where few runs are made
    room = 3 * math.sqrt(SRM_ALPHA / options.runs)
    held = all(each["misses"] <= MOST_MISSES for each in misses) and ratio[0]["alarms"] <= SRM_ALPHA + room
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
