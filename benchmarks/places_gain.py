"""SIMULATED: what the default re-ranker gains over its engine on a fresh log, and its slices, worst first.

    python benchmarks/places_gain.py [--places FILE] [--searches 20000] [--seed 2] [--zone Europe/Berlin]
        [--split time|session]

The part of `placings places study` that answers whether any slice loses, without the thesis' models; beside
the default re-ranker stand its members and a ridge over each transform, on the same lists. Some five minutes
for 8,000 searches on two cores. Intervals resample sessions.
Places are `$PLACINGS_DATA/places/places_karlsruhe.jsonl.gz` (default ../shared/data) unless named. The first
100 hits are logged, 40 re-ranked, sessions split 64/16/20, the last ones for the test. The re-ranker is
judged as the study judges it: saved, loaded, asked search by search; lines and members have no guard.

Needs `$PLACINGS_DATA/places`; without it, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait do not spin; as the terminal has it

import numpy as np

from placings.logs import find_offsets
from placings.places import SqliteEngine, build_index, read_places
from placings.report import say_history, say_served
from placings.rerank import describe_searches
from placings.simulate import simulate_log
from placings.studies import (
    SPLITS,
    FeatureData,
    StudyCells,
    choose_settings,
    cut_parts,
    find_sessions,
    judge_default,
    judge_default_lines,
    judge_engine,
    judge_slices,
    list_families,
    tell_default_lines,
)

PLACES = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "places" / "places_karlsruhe.jsonl.gz"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--places", type=Path, default=PLACES)
    options.add_argument("--searches", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=2)
    options.add_argument("--zone", default="Europe/Berlin", help="time zone of the places")
    options.add_argument("--split", choices=SPLITS, default=SPLITS[0])
    chosen = options.parse_args()
    if not chosen.places.is_file():
        print(f"skipped: no places at {chosen.places}. Name a file with --places, or set PLACINGS_DATA.")
        return
    warnings.simplefilter("ignore")
    places = read_places(chosen.places, zone=chosen.zone)
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(build_index(places, Path(folder) / "places.db"))
        log = simulate_log(places, engine, chosen.searches, k=100, random_state=chosen.seed)
    print(log.describe(), flush=True)
    settings = choose_settings(
        chosen.searches, seed=chosen.seed, rounds=200, neural_steps=800, split=chosen.split
    )
    parts = cut_parts(log.to_rows(unsuccessful="negatives"), settings)
    store = StudyCells(parts, settings, FeatureData(parts, settings, list_families(settings)), None)
    offsets = find_offsets(parts.test)
    context = describe_searches(parts.test, offsets)
    context["kind"] = parts.test["kind"].astype(str).to_numpy(dtype=object)[offsets[:-1]]
    how: dict[str, Any] = {"draws": 2000, "seed": 0, "sessions": find_sessions(parts.test, offsets)}
    engine_cell = judge_engine(store)
    found = judge_default(store, None, context)
    told = tell_default_lines(engine_cell, judge_default_lines(store), found, **how)
    for row in told["models"]:
        print(
            f"{row['name']:26} true target {row['mrr_true']:.4f}  {row['difference_true']:+.4f} "
            f"[{row['difference_low_true']:+.4f}, {row['difference_high_true']:+.4f}]   clicks "
            f"{row['mrr']:.4f}  {row['difference']:+.4f} [{row['difference_low']:+.4f}, "
            f"{row['difference_high']:+.4f}]"
        )
    print(f"chosen among the lines by validation: {told['best']}; what the others have over it:")
    for row in told["beyond"]:
        print(
            f"  {row['name']:26} true target {row['difference_true']:+.4f} [{row['low_true']:+.4f}, "
            f"{row['high_true']:+.4f}]   clicks {row['difference_clicks']:+.4f} [{row['low_clicks']:+.4f}, "
            f"{row['high_clicks']:+.4f}]"
        )
    slices = judge_slices(engine_cell, found["guarded"], context, least=settings.least, **how)
    for row in slices:
        mark = "loses" if row["loses"] else ""
        print(
            f"  {row['slice']:9} {row['value']:12} {row['searches']:6,}  {row['difference']:+.4f} "
            f"[{row['low']:+.4f}, {row['high']:+.4f}] {mark}"
        )
    print(f"{' '.join(say_served(found))} {say_history({'settings': {'split': chosen.split}})}")
    print(
        f"{sum(row['loses'] for row in slices)} of {len(slices)} slices lose; left in engine order "
        f"{found['left_to_engine']:.1%}; chosen {found['chosen']}; ceiling {np.round(found['oracle'], 4)}"
    )


if __name__ == "__main__":
    main()
