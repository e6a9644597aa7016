"""The default re-ranker of places: relation features, the mean of trees and a network, a guard over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import Floats
from placings.clicks.histories import PAST, count_clicks
from placings.data.ranking import RankingData
from placings.data.tables import need_library
from placings.errors import BadInput, UnknownName
from placings.evaluation.guard import Guard, fit_guard
from placings.evaluation.search_kinds import describe_searches
from placings.places.reranking import Reranker
from placings.rankers.estimator import Ranker
from placings.rankers.mean import MeanRanker
from placings.studies.places_models import measure_mrr
from placings.studies.places_parts import carry_clicks, order_rows
from placings.studies.places_settings import Settings

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("lightgbm", "neural")
CROSSES = (("length", "location"), ("match", "location"))
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """A re-ranker and how it came about.

    `chosen` is what orders the lists; `valid` is the MRR of each candidate and of their mean on the
    validation part; `candidates` are as fitted on the training part, `seconds` what each took, and `lists`
    how many lists it learned from.
    """

    reranker: Reranker
    chosen: str
    valid: dict[str, float]
    candidates: dict[str, Ranker]
    seconds: dict[str, float]
    lists: int


def fit_reranker(
    train: pd.DataFrame,
    valid: pd.DataFrame,
    *,
    settings: Settings | None = None,
    features: Any = None,
    kinds: Sequence[str] = KINDS,
    say: Say = lambda text: None,
) -> Trained:
    """Train the default re-ranker on a rows table.

    Searches without a click are used where their list held what their session clicked later. Features are
    `place_features()` unless given, fitted on `train`. The order is the mean of the `kinds`, trees and a
    network: clicks favour the engine too much to choose one of the two by them. The guard is fitted on
    `valid`.
    """
    asked = settings or Settings()
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("kind of re-ranker", kind, KINDS)
    if not kinds:
        raise BadInput(f"kinds must name at least one of {', '.join(KINDS)}. Got none.")
    if features is None:
        from placings.places.preset import place_features

        features = place_features()
    uses_clicks = PAST in train
    rows, others = gather_lists(train), gather_lists(valid)
    features = features.fit(rows)
    learned, held = features.to_ranking(rows), features.to_ranking(others)
    say(f"re-ranker: training {' and '.join(kinds)} on {learned.n_queries:,} lists")
    mean = MeanRanker(members={kind: choose_member(kind, asked) for kind in kinds}).fit(learned, valid=held)
    found = {kind: measure_mrr(ranker, held) for kind, ranker in mean.members_.items()}
    chosen = "mean" if len(kinds) > 1 else kinds[0]
    found[chosen] = measure_mrr(mean, held)
    say("re-ranker, MRR on validation: " + ", ".join(f"{kind} {value:.4f}" for kind, value in found.items()))
    guard = _fit_guard(others, held, mean.predict(held))
    known: Counter[str] = Counter()
    if uses_clicks and any(PAST in name for name in features.names):
        known.update(count_clicks(train))
        known.update(count_clicks(valid))
    return Trained(
        Reranker(features, mean, guard, dict(known)),
        chosen,
        found,
        mean.members_,
        mean.seconds_,
        learned.n_queries,
    )


def gather_lists(rows: pd.DataFrame) -> pd.DataFrame:
    """Searches of two items or more with a click, and those that the click of their session is carried to."""
    pandas = need_library("pandas", "the default re-ranker")
    frame = order_rows(rows)
    groups = frame.groupby("search_id", sort=False)
    frame = frame[groups["item_id"].transform("size") >= 2]
    clicked = frame.groupby("search_id", sort=False)["label"].transform("max") > 0
    wins, rest = frame[clicked], frame[~clicked]
    if not len(wins):
        raise BadInput("a re-ranker learns from clicks. Got no list of two items or more with one.")
    return order_rows(pandas.concat([wins, carry_clicks(wins, rest)]))


def choose_member(kind: str, settings: Settings) -> dict[str, Any]:
    """The settings of one ranker of the default re-ranker."""
    shared = {"metric": "mrr", "random_state": settings.seed}
    if kind == "neural":
        return {"steps": settings.neural_steps, "check_every": 200, "patience": 5, "device": "cpu", **shared}
    # no correction for position: lists with a carried click make up for most of it
    return {"rounds": 2 * settings.rounds, "early_stopping": 60, "debias": False, **shared}


def _fit_guard(rows: pd.DataFrame, data: RankingData, scores: Floats) -> Guard:
    context = describe_searches(rows, data.offsets)
    engine = -rows["position"].to_numpy(dtype=np.float64)
    crosses = [each for each in CROSSES if all(name in context for name in each)]
    return fit_guard(scores, engine, data.y, data.offsets, context, crosses=crosses)
