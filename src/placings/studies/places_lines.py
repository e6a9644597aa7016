"""A ridge over each transform beside trees and network, on the default re-ranker's features and lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from placings.core import Floats
from placings.features import FeatureSet
from placings.logs import ClickLog
from placings.rankers import LinearRanker, MeanRanker, Ranker
from placings.rerank import Reranker, TrainingLists
from placings.studies.places_measures import compare_two, describe_models, list_measures
from placings.studies.places_models import ENGINE, RELATIONS, StudyCells, measure_mrr

if TYPE_CHECKING:
    import pandas as pd

TRANSFORMS = ("raw", "gauss", "cdf", "log1p", "quantile_normal", "piecewise")
CS = tuple(10.0**power for power in range(-3, 3))  # what each line's C is chosen from
MEAN = "mean"  # of the members of the default re-ranker, as `Reranker.valid_` names it
FACTS = ("C", "valid", "lists")  # of a cell, beside its ranks


def judge_lines(store: StudyCells, default: Reranker, asked: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """A cell for each transform, by name: a ridge that learned from the lists that `default` learns from.

    `asked` are the rows of the test as a re-ranker is asked about them.
    """

    @cache
    def make_lists() -> TrainingLists:
        train, valid = ClickLog(store.parts.train_log), ClickLog(store.parts.valid_log)
        return default.make_lists(train, valid=valid)

    return {f"ridge over {name}": _judge_line(store, name, make_lists, asked) for name in TRANSFORMS}


def _judge_line(
    store: StudyCells, transform: str, make_lists: Callable[[], TrainingLists], asked: pd.DataFrame
) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        lists = make_lists()
        began = time.perf_counter()
        line = fit_line(transform, lists)
        took = time.perf_counter() - began
        return {
            **store.rank(score_bare(lists.features, line, lists.clicks, asked)),
            "C": line.C,
            "valid": measure_mrr(line, lists.valid),
            "lists": lists.train.n_queries,
            "seconds": round(took, 2),
        }

    about = {
        "features": store.feature_data.describe(RELATIONS),
        "settings": make_line(transform, CS[0]).get_params(deep=False),
        "Cs": CS,
    }
    return store.keep(f"ridge over {transform}", about, make)


def make_line(transform: str, C: float) -> LinearRanker:
    """An unfitted line over a transform."""
    return LinearRanker("ridge", C=C, transform=transform)


def fit_line(transform: str, lists: TrainingLists) -> LinearRanker:
    """The line over a transform with the C that orders the validation lists best; of equals the smallest."""
    tried = [make_line(transform, C).fit(lists.train) for C in CS]
    return max(tried, key=lambda line: measure_mrr(line, lists.valid))


def judge_members(
    store: StudyCells, trained: Reranker, served: Reranker, asked: pd.DataFrame
) -> dict[str, dict[str, Any]]:
    """What a cell holds of each member of the default re-ranker, and of their `MEAN`: all without the guard.

    `served` is the one that was `trained`, saved and loaded again.
    """
    mean, fitted = served.ranker_, trained.ranker_
    assert isinstance(mean, MeanRanker)
    assert isinstance(fitted, MeanRanker)
    seconds = {**fitted.seconds_, MEAN: sum(fitted.seconds_.values())}
    return {
        kind: {
            **store.rank(score_bare(served.features_, ranker, served.clicks_, asked)),
            "valid": trained.valid_[kind],
            "lists": trained.lists_,
            "seconds": round(seconds[kind], 2),
        }
        for kind, ranker in {**mean.members_, MEAN: mean}.items()
    }


def score_bare(features: FeatureSet, ranker: Ranker, clicks: Mapping[str, int], rows: pd.DataFrame) -> Floats:
    """Scores of the re-ranker that these make, without a guard."""
    return Reranker(features, ranker, None, clicks).score(rows)


def choose_line(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the line that orders the validation lists best; of equals the first.

    >>> choose_line({"a": {"valid": 0.7}, "b": {"valid": 0.8}, "c": {"valid": 0.8}})
    'b'
    """
    return max(lines, key=lambda name: float(lines[name]["valid"]))


def tell_lines(
    engine: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Any]],
    others: Mapping[str, Mapping[str, Any]],
    **how: Any,
) -> dict[str, Any]:
    """The table of lines and `others` (the default re-ranker, its members), and what these have over a line.

    `best` names the line that orders the validation lists best: the test has no part in the choice. `how` is
    how intervals are drawn.
    """
    cells = {ENGINE: engine, **lines, **others}
    best = choose_line(lines)
    return {
        "models": [
            {**row, **{fact: cells[row["name"]].get(fact) for fact in FACTS}}
            for row in describe_models(cells, ENGINE, **how)
        ],
        "best": best,
        "beyond": [{"name": name, **_compare(lines[best], cell, how)} for name, cell in others.items()],
    }


def _compare(line: Mapping[str, Any], other: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """What another model has over a line, by each measure."""
    found: dict[str, Any] = {}
    for measure, (before, after) in list_measures(line, other).items():
        facts = compare_two(before, after, **how)
        found |= {f"{key}_{measure}": facts[key] for key in ("difference", "low", "high")}
    return found
