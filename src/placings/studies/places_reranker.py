"""The default re-ranker of places: relation features, the mean of trees and a network, a guard over them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import AnyArray, Floats
from placings.clicks.histories import PAST, count_clicks
from placings.data.concatenation import concat
from placings.data.ranking import RankingData
from placings.data.tables import need_library
from placings.errors import BadInput, UnknownName
from placings.evaluation.guard import Guard, fit_guard
from placings.evaluation.search_kinds import describe_searches
from placings.places.reranking import Reranker
from placings.rankers.estimator import Ranker
from placings.rankers.mean import MeanRanker
from placings.studies.places_models import measure_mrr
from placings.studies.places_parts import carry_clicks, find_offsets, order_rows
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
    network: clicks favour the engine too much for a choice between the two, and the mean errs less than
    either. Its guard is fitted on `valid`. Trees alone are trained once more on both tables, with the rounds
    that `valid` chose; their guard is fitted on all searches of both, each scored by trees that did not see
    its session.
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
    fitted: dict[str, Ranker] = {}
    found: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for kind in kinds:
        began = time.perf_counter()
        fitted[kind] = make_candidate(kind, asked).fit(learned, valid=held)
        found[kind] = measure_mrr(fitted[kind], held)
        seconds[kind] = round(time.perf_counter() - began, 2)
        say(f"re-ranker, {kind}: MRR {found[kind]:.4f} on validation, {seconds[kind]:.1f} s")
    chosen, ranker = next(iter(fitted.items()))
    if len(fitted) > 1:
        chosen, ranker = "mean", MeanRanker.join(fitted, learned, held)
        found[chosen] = measure_mrr(ranker, held)
        say(f"re-ranker, mean of both: MRR {found[chosen]:.4f} on validation")
    if chosen != "lightgbm" or asked.folds < 2:
        guard = _fit_guard(others, held, np.asarray(ranker.predict(held), dtype=np.float64))
    else:
        pandas = need_library("pandas", "the default re-ranker")
        rows, learned = pandas.concat([rows, others]), concat([learned, held])
        ranker, scores = _fit_folds(ranker, rows, learned, asked)
        guard = _fit_guard(rows, learned, scores)
    known: Counter[str] = Counter()
    if uses_clicks and any(PAST in name for name in features.names):
        known.update(count_clicks(train))
        known.update(count_clicks(valid))
    return Trained(
        Reranker(features, ranker, guard, dict(known)), chosen, found, fitted, seconds, learned.n_queries
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


def make_candidate(kind: str, settings: Settings) -> Ranker:
    """An unfitted ranker of the default re-ranker."""
    if kind == "neural":
        from placings.rankers.neural import NeuralRanker

        return NeuralRanker(
            steps=settings.neural_steps, check_every=200, patience=5, metric="mrr",
            random_state=settings.seed, device="cpu",
        )  # fmt: skip
    from placings.rankers.lgbm import LightGBMRanker

    # no correction for position: lists with a carried click make up for most of it
    return LightGBMRanker(
        rounds=2 * settings.rounds, early_stopping=60, metric="mrr", debias=False, random_state=settings.seed
    )


def _fit_guard(rows: pd.DataFrame, data: RankingData, scores: Floats) -> Guard:
    context = describe_searches(rows, data.offsets)
    engine = -rows["position"].to_numpy(dtype=np.float64)
    crosses = [each for each in CROSSES if all(name in context for name in each)]
    return fit_guard(scores, engine, data.y, data.offsets, context, crosses=crosses)


def _fit_folds(
    ranker: Any, rows: pd.DataFrame, data: RankingData, settings: Settings
) -> tuple[Ranker, Floats]:
    """Trees of equally many rounds on all rows, and scores by trees that saw nothing of a row's session."""
    from sklearn.base import clone

    plain = clone(ranker).set_params(rounds=max(1, int(ranker.rounds_)), early_stopping=None)
    offsets = find_offsets(rows)
    unit = rows["session_id" if "session_id" in rows else "search_id"].to_numpy()[offsets[:-1]]
    folds = _deal_folds(unit, settings)
    scores = np.empty(data.n_rows)
    for fold in range(settings.folds):
        inside = folds == fold
        if inside.any():
            learned = data[np.flatnonzero(~inside)] if not inside.all() else data
            held = data[np.flatnonzero(inside)]
            scores[np.repeat(inside, data.sizes)] = clone(plain).fit(learned).predict(held)
    whole: Ranker = clone(plain).fit(data)
    return whole, scores


def _deal_folds(unit: AnyArray, settings: Settings) -> AnyArray:
    """A fold for each search, sessions whole."""
    names, codes = np.unique(unit.astype(str), return_inverse=True)
    dealt = np.random.default_rng(settings.seed).permutation(len(names)) % settings.folds
    return np.asarray(dealt[codes])
