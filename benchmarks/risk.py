"""Coverage at risk against planted losses: is the estimate right, and does its interval hold the truth?

    python benchmarks/risk.py [--seeds 24] [--reference 400] [--day 4000] [--json]

Each seed makes ranking data (12 features, three regions, features naturally missing in some events), trains
LightGBM on one part, takes another as the labelled reference, and a third, large one as today. In one region
one to three of the five most important features lose 30 to 95 % of their events. The planted loss is the
true one: NDCG@10 of that large day without the outage less NDCG@10 with it. `estimate_risk` sees the
reference with its labels, and of the day nothing but its coverage frame. Exits 1 unless the mean estimate is
within 20 % of the mean planted loss and the 95 % intervals hold it in at least 80 % of the seeds: for
features that go dark each by itself, and for such that do in the same events (`jointly="together"`).

Two more tables decide nothing. "biased" breaks the assumption on purpose (in the region, events with the
longest lists go dark first, all features in the same ones); "healthy" has no outage at all.

Needs nothing but the development install.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date
from typing import Any

import numpy as np

import placings as pg
from placings.data import RankingData
from placings.feco import darken, estimate_risk, summarise_coverage
from placings.rankers import LightGBMRanker

METRIC = "ndcg@10"
REGIONS = {"north": 0.5, "south": 0.3, "islands": 0.2}
WITHIN, HELD = 0.20, 0.80


def make_world(
    seed: int, train: int, reference: int, day: int
) -> tuple[RankingData, RankingData, RankingData]:
    """Three parts of one world: the same truth, regions, and events that naturally lack a feature."""
    rng = np.random.default_rng([seed, 1])
    queries = train + reference + day
    data = pg.make_ranking(queries, n_features=12, mean_size=25, max_size=200, random_state=seed).data
    region = rng.choice(list(REGIONS), size=queries, p=list(REGIONS.values()))
    data = data.replace(segments={"region": np.repeat(region, data.sizes)})
    usual = {(name, place): rng.uniform(0.75, 0.98) for name in data.feature_names for place in REGIONS}
    dark = {}
    for name in data.feature_names:
        kept = np.array([usual[name, place] for place in region])
        dark[name] = np.repeat(rng.random(queries) > kept, data.sizes)
    data = darken(data, dark)
    return data[:train], data[train : train + reference], data[train + reference :]


def plant_outage(
    data: RankingData, features: list[str], region: str, share: float, seed: int, kind: str
) -> RankingData:
    """The day with an outage: in one region a share of events loses these features, each by itself.

    "together": the same events lose all of them. "biased": so do the events with the longest lists, first.
    """
    rng = np.random.default_rng([seed, 2])
    inside = data.segments["region"][data.offsets[:-1]] == region
    place = np.zeros(data.n_queries)  # of a query in its region by list size, longest first, from 0 to 1
    order = np.flatnonzero(inside)[np.argsort(-data.sizes[inside], kind="stable")]
    place[order] = np.arange(len(order)) / max(len(order), 1)
    common = rng.random(data.n_queries)
    dark = {}
    for name in features:
        chance = {"biased": place, "together": common}.get(kind, rng.random(data.n_queries))
        dark[name] = np.repeat(inside & (chance < share), data.sizes)
    return darken(data, dark)


def judge_seed(seed: int, sizes: dict[str, int], kind: str) -> dict[str, Any]:
    train, reference, day = make_world(seed, **sizes)
    ranker = LightGBMRanker(rounds=60, n_jobs=1, random_state=0).fit(train)
    rng = np.random.default_rng([seed, 3])
    top = list(ranker.feature_importances())[:5]
    features = list(rng.choice(top, size=int(rng.integers(1, 4)), replace=False))
    region = str(rng.choice(list(REGIONS)))
    share = 0.0 if kind == "healthy" else float(rng.uniform(0.3, 0.95))
    broken = plant_outage(day, features, region, share, seed, kind)
    planted = pg.evaluate(ranker, day, METRIC, bootstrap=0)[METRIC]
    planted -= pg.evaluate(ranker, broken, METRIC, bootstrap=0)[METRIC]
    today = summarise_coverage(broken, by="region")
    began = time.perf_counter()
    jointly = "together" if kind == "together" else "independent"
    risk = estimate_risk(ranker, reference, today, metric=METRIC, jointly=jointly, random_state=seed)
    return {
        "seed": seed, "features": len(features), "region": region, "share": share, "planted": planted,
        "estimate": risk.total.lost, "low": risk.total.low, "high": risk.total.high,
        "held": bool(risk.total.low <= planted <= risk.total.high), "seconds": time.perf_counter() - began,
    }  # fmt: skip


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    planted = float(np.mean([row["planted"] for row in rows]))
    estimate = float(np.mean([row["estimate"] for row in rows]))
    held = float(np.mean([row["held"] for row in rows]))
    return {
        "planted": planted, "estimate": estimate, "held": held,
        "off": (estimate - planted) / planted if planted else float("nan"),
    }  # fmt: skip


def show(kind: str, rows: list[dict[str, Any]], facts: dict[str, float]) -> None:
    print(
        f"\n{kind}\n| seed | features | region  | share | planted | estimate | 95% interval       | holds |"
    )
    print("|------|----------|---------|-------|---------|----------|--------------------|-------|")
    for row in rows:
        print(
            f"| {row['seed']:>4} | {row['features']:>8} | {row['region']:<7} | {row['share']:>5.2f} "
            f"| {row['planted']:>7.4f} | {row['estimate']:>8.4f} | [{row['low']:>7.4f}, {row['high']:>7.4f}] "
            f"| {'yes' if row['held'] else 'NO':<5} |"
        )
    print(
        f"mean planted {facts['planted']:.4f}, mean estimate {facts['estimate']:.4f} ({facts['off']:+.1%}); "
        f"the interval holds the planted loss in {facts['held']:.0%} of {len(rows)} seeds"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--reference", type=int, default=400)
    parser.add_argument("--day", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = {"train": given.train, "reference": given.reference, "day": given.day}
    facts: dict[str, Any] = {"date": date.today().isoformat(), "sizes": sizes, "tables": {}}
    for kind in ("planted", "together", "biased", "healthy"):
        rows = []
        for seed in range(given.seeds):
            rows.append(judge_seed(seed, sizes, kind))
            if sys.stderr.isatty():
                print(f"\r{kind} {seed + 1}/{given.seeds} ", end="", file=sys.stderr, flush=True)
        facts["tables"][kind] = {"rows": rows, **summarise(rows)}
        if not given.json:
            show(kind, rows, summarise(rows))
    judged = [facts["tables"][kind] for kind in ("planted", "together")]
    facts["passed"] = all(abs(each["off"]) <= WITHIN and each["held"] >= HELD for each in judged)
    if given.json:
        print(json.dumps(facts, indent=2))
    else:
        print(f"\nwithin {WITHIN:.0%} and held in {HELD:.0%}: {'yes' if facts['passed'] else 'NO'}")
    sys.exit(0 if facts["passed"] else 1)


if __name__ == "__main__":
    main()
