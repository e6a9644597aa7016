"""SIMULATED: what a person's own past clicks add to a re-ranker of places, on the place that was meant.

    python benchmarks/personal_history.py [--places FILE] [--searches 8000] [--seeds 11 12] [--half-life 30]
        [--zone Europe/Berlin] [--quick]

For each seed people search (`simulate_log`), three in ten sessions for a place that they meant before. The
first 80 % of the sessions are learned from, a fifth of these to stop early, and the last ones are the test.
The same boosted trees (LightGBM, features "places", no guard) are fitted with and without `history=True`. MRR
of the place meant within the first 40 hits, 0 where they do not hold it, over all test searches of two items
or more; intervals of 95 % are over people, drawn whole. Two histories are judged: as training left it
("kept"), and with what the person has clicked since, up to the session's begin ("followed"), as a service
knows it.

Places are `$PLACINGS_DATA/places/places_karlsruhe.jsonl.gz` (default ../shared/data) unless named. Some two
minutes a seed on one core; `--quick` has 1,500 searches of one seed.

Needs LightGBM, DuckDB and `$PLACINGS_DATA/places`; without the places it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from placings.core import bootstrap_means
from placings.logs import ClickLog, add_own_clicks, find_offsets, name_people
from placings.metrics import mrr
from placings.places import Place, SqliteEngine, build_index, read_places
from placings.rankers import make_ranker
from placings.rerank import Reranker
from placings.simulate import simulate_log

PLACES = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "places" / "places_karlsruhe.jsonl.gz"
POOL = 40
DRAWS = 2000


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--places", type=Path, default=PLACES)
    options.add_argument("--searches", type=int, default=8000)
    options.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    options.add_argument("--half-life", type=float, default=30.0, help="days")
    options.add_argument("--zone", default="Europe/Berlin", help="time zone of the places")
    options.add_argument("--quick", action="store_true", help="1,500 searches, one seed")
    chosen = options.parse_args()
    if not chosen.places.is_file():
        print(f"skipped: no places at {chosen.places}. Name a file with --places, or set PLACINGS_DATA.")
        return
    warnings.simplefilter("ignore")
    if chosen.quick:
        chosen.searches, chosen.seeds = 1500, chosen.seeds[:1]
    places = read_places(chosen.places, zone=chosen.zone)
    for seed in chosen.seeds:
        judge_seed(places, seed, chosen.searches, chosen.half_life)


def judge_seed(places: list[Place], seed: int, searches: int, half_life: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(build_index(places, Path(folder) / "places.db"))
        rows = simulate_log(places, engine, searches, k=POOL, random_state=seed).to_rows(
            unsuccessful="negatives"
        )
    train, valid, test = (part.rows for part in ClickLog(rows).split(0.64, 0.16, 0.20, by="time"))
    sizes = test.groupby("search_id", sort=False)["item_id"].transform("size")
    test = test[sizes >= 2].reset_index(drop=True)
    known = pd.concat([train, valid], ignore_index=True)
    print(
        f"seed {seed}: {rows['search_id'].nunique():,} searches of {rows['user_id'].nunique():,} people, "
        f"{test['search_id'].nunique():,} in the test, half-life {half_life:g} days",
        flush=True,
    )
    plain, personal = (fit(train, valid, history, half_life) for history in (False, True))
    followed = add_own_clicks(test, pd.concat([known, test], ignore_index=True), half_life=half_life)
    found = {
        "engine": -test["position"].to_numpy(dtype=np.float64),
        "without": plain.score(test),
        "kept": personal.score(test),
        "followed": personal.score(followed),
    }
    values = {name: measure(test, scores) for name, scores in found.items()}
    first = find_offsets(test)[:-1]
    person = test["user_id"].to_numpy(dtype=object)[first]
    everybody = np.ones(len(first), dtype=np.bool_)
    seen = {
        "kept": name_people(test, known)[first],
        "followed": name_people(test, pd.concat([known, test], ignore_index=True))[first],
    }
    for name in ("engine", "without"):
        print(f"  {name:28} {values[name].mean():.4f}")
    for name in ("kept", "followed"):
        tell(f"with history, {name}", values["without"], values[name], everybody, person)
        for value in ("seen before", "never seen"):
            tell(f"  {value}", values["without"], values[name], seen[name] == value, person)


def fit(train: pd.DataFrame, valid: pd.DataFrame, history: bool, half_life: float) -> Reranker:
    ranker = make_ranker(
        "lightgbm", rounds=300, early_stopping=60, debias=False, metric="mrr", random_state=0
    )
    made = Reranker("places", ranker, False, pool=POOL, history=history, half_life=half_life)
    return made.fit(train, valid=valid)


def measure(rows: pd.DataFrame, scores: Any) -> Any:
    """The reciprocal rank of the place meant in each search, 0 where the list does not hold it."""
    truth = rows["is_target"].to_numpy(dtype=np.float64)
    return np.nan_to_num(mrr(scores, truth, find_offsets(rows)))


def tell(name: str, before: Any, after: Any, here: Any, person: Any) -> None:
    """One line: the mean, and the difference with its interval over people."""
    if not here.any():
        return
    gap = (after - before)[here]
    low, high = bootstrap_means(gap[:, None], draws=DRAWS, random_state=0, clusters=person[here])
    print(
        f"  {name:28} {after[here].mean():.4f}  {gap.mean():+.4f} [{low[0]:+.4f}, {high[0]:+.4f}]  "
        f"{int(here.sum()):,} searches",
        flush=True,
    )


if __name__ == "__main__":
    main()
