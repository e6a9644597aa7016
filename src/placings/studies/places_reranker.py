"""The default re-ranker of places: relation features, the mean of trees and a network, a guard over them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, Floats, Ints, UnknownName, need_library
from placings.data import RankingData
from placings.logs import MADE, PAST, SEARCH, add_past_clicks, count_clicks
from placings.rankers import MeanRanker, Ranker
from placings.rerank import Guard, Reranker, describe_searches, fit_guard, load_reranker
from placings.studies.places_models import measure_mrr
from placings.studies.places_parts import carry_clicks, find_offsets, order_rows
from placings.studies.places_settings import Settings

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("lightgbm", "neural")
CROSSES = (("length", "location"), ("match", "location"))
UNSEEN = (*MADE, "kind")  # columns that nobody knows when a search is made
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

    `train` and `valid` are whole logs of their sessions, lists of one item and searches without a click too.
    A search without a click is used where its list held what its session clicked later. Features are
    `place_features()` unless given, fitted on `train`. The order is the mean of the `kinds`, trees and a
    network: clicks favour the engine too much to choose one of the two by them. The guard is fitted on
    `valid`.

    Where rows have a `time`, past clicks are counted here, all of them: as of each search of `train`, and
    for `valid` those of `train` before it. The re-ranker keeps the clicks of both, by item, for what comes.
    """
    asked = settings or Settings()
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("kind of re-ranker", kind, KINDS)
    if not kinds:
        raise BadInput(f"kinds must name at least one of {', '.join(KINDS)}. Got none.")
    if features is None:
        from placings.places import place_features

        features = place_features()
    rows, others = gather_lists(train, asked.pool), gather_lists(valid, asked.pool)
    counts = "time" in train and "time" in valid
    if counts:
        rows, others = add_past_clicks(rows, train), add_past_clicks(others, train)
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
    if counts and PAST in features.columns:
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


def gather_lists(rows: pd.DataFrame, pool: int = Settings.pool) -> pd.DataFrame:
    """Searches of two items or more with a click, and those that the click of their session is carried to.

    Of each list the first `pool` positions are kept. A click is carried back from wherever it was made, also
    from a list of one item or from far down.
    """
    pandas = need_library("pandas", "the default re-ranker")
    frame = order_rows(rows)
    lists = frame[frame["position"] <= pool]
    lists = lists[lists.groupby("search_id", sort=False)["item_id"].transform("size") >= 2]
    clicked = lists.groupby("search_id", sort=False)["label"].transform("max") > 0
    wins, rest = lists[clicked], lists[~clicked]
    if not len(wins):
        raise BadInput("a re-ranker learns from clicks. Got no list of two items or more with one.")
    return order_rows(pandas.concat([wins, carry_clicks(frame, rest)]))


def save_and_load(
    reranker: Reranker, path: Path | None, metrics: Mapping[str, float]
) -> tuple[Reranker, str]:
    """The re-ranker as it is served: saved (without `path` for a moment) and loaded again; its digest."""
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            return save_and_load(reranker, Path(folder) / "reranker", metrics)
    digest = reranker.save(path, metrics=metrics)
    return load_reranker(path, digest=digest), digest


def ask_live(reranker: Reranker, rows: pd.DataFrame) -> Floats:
    """Minus the rank that each row got when its search was asked live, one request a search, `[rows]`.

    A request holds what is known when people search: the columns of the search, and every field of its
    items. `label` and what else a join makes of later events is not in it.
    """
    offsets = find_offsets(rows)
    context = [name for name in rows.columns if name in SEARCH]
    fields = [name for name in rows.columns if name not in SEARCH and name not in UNSEEN]
    contexts: list[Any] = rows[context].iloc[offsets[:-1]].to_dict("records")
    items: list[Any] = rows[fields].to_dict("records")
    found = np.empty(len(rows), dtype=np.float64)
    for search, (start, stop) in enumerate(pairwise(offsets.tolist())):
        order = reranker.order(contexts[search], items[start:stop])
        found[start + order] = -np.arange(1.0, stop - start + 1)
    return found


def count_unlike(one: Floats, other: Floats, offsets: Ints) -> int:
    """How many lists two columns of scores put into different orders.

    >>> count_unlike(np.array([2.0, 1.0, 5.0, 7.0]), np.array([9.0, 8.0, 1.0, 0.0]), np.array([0, 2, 4]))
    1
    """
    orders = [np.argsort(-scores[start:stop], kind="stable")
              for start, stop in pairwise(offsets.tolist()) for scores in (one, other)]  # fmt: skip
    return sum(not np.array_equal(*pair) for pair in zip(orders[::2], orders[1::2], strict=True))


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
