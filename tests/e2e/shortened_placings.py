"""`placings` with little work behind the same words, so that long documented commands can be run as written.

What is parsed, read, called, printed and kept is the program's own. Only how much is done is cut down: steps
and widths of networks, steps of a search, rounds and trials, simulated searches, and the cities of GeoNames.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from placings.cli.main import run

SEARCHES, CITIES, TRIALS = int(os.environ.get("SHORTENED_SEARCHES", "900")), 3000, 1
TRIED = 3  # steps of an AutoRanker
NETWORK = {"hidden": (8,), "steps": 4, "check_every": 2, "batch": 8, "draws": 0, "members": 1}
STUDY = {
    "hashed": 2**8, "tree_hashed": 2**5, "rounds": 5, "slow_rounds": 3, "trials": 1, "steps": 3,
    "group_steps": 2, "neural_steps": 6, "variants": ("64",), "counted_rounds": 3, "counted": 200,
    "bootstrap": 50, "least": 20,
}  # fmt: skip


def shorten_networks() -> None:
    from placings.rankers import presets

    for name, settings in presets.PRESETS.items():
        presets.PRESETS[name] = replace(settings, **NETWORK)
    presets.OF_LARGE.update(NETWORK)


def shorten_table1() -> None:
    from placings.studies import table1

    reproduce = table1.reproduce_table1

    def reproduce_few(*given: Any, **options: Any) -> Any:
        return reproduce(*given, **{**options, "steps": NETWORK["steps"], "seeds": 1})

    table1.reproduce_table1 = reproduce_few


def shorten_tuning() -> None:
    from placings.evaluation import tuning

    tune = tuning.tune

    def tune_few(*given: Any, **options: Any) -> Any:
        return tune(*given, **{**options, "trials": min(TRIALS, options.get("trials") or TRIALS)})

    tuning.tune = tune_few


def shorten_search() -> None:
    from placings.evaluation import AutoRanker

    make_plan = AutoRanker._make_plan

    def plan_few(self: AutoRanker, *given: Any) -> Any:
        return replace(make_plan(self, *given), limit=None, most=TRIED)

    AutoRanker._make_plan = plan_few  # type: ignore[method-assign]


def shorten_places() -> None:
    from placings.places import sources
    from placings.simulate import places_log
    from placings.studies import places_demo, places_models

    choose, read = places_models.choose_settings, sources.read_geonames
    simulate = places_log.simulate_log

    def choose_few(searches: int, **given: Any) -> Any:
        return replace(choose(searches, **given), **STUDY)

    def read_few() -> Any:
        return sorted(read(15_000), key=lambda place: -place.weight)[:CITIES]

    def simulate_few(places: Any, engine: Any, searches: int, **options: Any) -> Any:
        return simulate(places, engine, min(SEARCHES, searches), **options)

    places_demo.SETTINGS = replace(places_demo.SETTINGS, **STUDY)
    places_models.choose_settings = choose_few
    sources.read_geonames = read_few
    places_log.simulate_log = simulate_few


def shorten_rerank() -> None:
    from placings.rerank import reranker

    members = reranker.list_members

    def list_few(random_state: int = 0, **options: Any) -> Any:
        return members(random_state, **{**options, "rounds": 5, "steps": 6})

    reranker.list_members = list_few


SHORTEN = {
    "rerank": (shorten_rerank,),
    "compare": (shorten_tuning,), "tune": (shorten_tuning,),
    "fit": (shorten_networks, shorten_search), "reproduce": (shorten_networks, shorten_table1),
    "places": (shorten_places, shorten_networks), "demo": (shorten_places, shorten_networks),
    "simulate-places": (shorten_places,),
}  # fmt: skip

if __name__ == "__main__":
    for word in sys.argv[1:3]:
        for shorten in SHORTEN.get(word, ()):
            shorten()
    run()
