"""`Reranker`: features, a ranker, a guard and past clicks as one, learned from any click log."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, clone

from placings.core import (
    LATE,
    OLD,
    PART,
    BadBundle,
    BadInput,
    Bools,
    Bundle,
    Floats,
    Ints,
    PlacingsError,
    UnknownName,
    hold_part,
    make_features,
    need_library,
    parse_json,
    read_bundle,
    read_settled,
    refuse_other,
    swap_folder,
    take_turns,
    write_bundle,
)
from placings.data import Matrix, RankingData, find_clusters
from placings.evaluation import Comparison, compare
from placings.features import FeatureSet, Rows, history_features
from placings.logs import (
    HALF_LIFE,
    MADE,
    OPT_OUT,
    OWN,
    PAST,
    SEARCH,
    ClickLog,
    OwnClicks,
    add_past_clicks,
    carry_clicks,
    check_half_life,
    continue_clicks,
    find_offsets,
    look_up_clicks,
    order_rows,
)
from placings.metrics import mrr
from placings.rankers import MeanRanker, Ranker, Scorer, load_ranker, make_ranker, make_scorer
from placings.rerank.calibration import heeds_valid, learn_apart
from placings.rerank.debiased_fit import (
    CARRIED,
    PropensitySource,
    check_source,
    describe_source,
    find_propensities,
    learn_debiased,
)
from placings.rerank.engines import Engine
from placings.rerank.guard import TOLERANCE as TOLERANCE_OF_KIND
from placings.rerank.guard import Guard, check_tolerance, fit_guard
from placings.rerank.own_histories import PERSON, give_own_clicks, learn_histories
from placings.rerank.requests import Focus, Hit, Request, Reranked, read_time
from placings.rerank.search_kinds import describe_searches

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("model", "reranker")  # the bundles in a re-ranker's folder
NEXT = "model-next"  # the model that `reranker` pins already while `model` is still the one before
VERSIONS = (1, 2, 3)  # 2 holds a sample request, 3 what people clicked themselves
FEATURES, GUARD, CLICKS, SAMPLE = "features.json", "guard.json", "clicks.json", "sample_request.json"
OWN_CLICKS = "own_clicks.json"
OLD_FEATURES = "place_features.json"  # as version 1 called it
FEATURE_SETS = tuple(LATE["features"])
KINDS = ("length", "location", "match")  # what tells kinds of searches apart, the first always
LEAST_OF_KIND = 400  # searches that a finer kind needs to be told apart
UNSEEN = (*MADE, "kind")  # columns that nobody knows when a search is made
PERSONAL = ("user_id", "session_id", "search_id")
OF_PERSON = ("user_id", OPT_OUT)  # of the search too, where a log has them
ENGINE_POSITION, SHOWN_POSITION = "engine_position", "shown_position"  # of a log that a service wrote
METRICS = ("mrr", "ndcg@10")
WATCHED = "dcg@10:ips"  # by the early stopping of clicks that are weighed: plain ones would pull them back
ENGINE, OURS = "engine", "re-ranker"
TOLERANCE = 1e-5  # relative and absolute, between a sample's stored scores and those of the loaded re-ranker


@dataclass(frozen=True, eq=False)
class TrainingLists:
    """What a re-ranker learns from: the lists of a log, `train`, and those that stop the training, `valid`.

    `features` made both of them from the rows of `tables`. `clicks` says how often each item was clicked in
    the two logs, by id, and `clicks_until` up to when; `own_clicks` is what people clicked themselves.
    """

    features: FeatureSet
    train: RankingData
    valid: RankingData
    tables: tuple[pd.DataFrame, pd.DataFrame]
    clicks: dict[str, int]
    clicks_until: int | None
    own_clicks: OwnClicks | None


class Reranker(BaseEstimator):  # type: ignore[misc]
    """Learns from a click log in which order an engine's hits should stand.

    `features` is "places", "shop" or a FeatureSet; `ranker` is "mean" (the mean of boosted trees and a
    network), the name of any other ranker, or a Ranker. With `guard=True` a guard is fitted on validation
    searches that did not stop the training: kinds of searches in which the model was not shown to lose less
    than `guard_tolerance` in MRR keep the engine's order. `pool` is how many hits of a list are looked at. A
    fitted FeatureSet with a fitted Ranker, and a Guard and `clicks` if there are any, make a re-ranker that
    needs no `fit`.

    With `history=True` a person's own past clicks are features: the log must have `user_id` and `time`, and
    the re-ranker keeps how often each person clicked each item, under a hash of their id. A click counts half
    after `half_life` days. People with a true `no_history` are left out.

    After `fit`: `features_`, `ranker_`, `guard_` (None without one), `clicks_` (how often each item was
    clicked in the log, by id), `clicks_until_` (the time of the newest search that they are of, microseconds
    since 1970), `valid_` (MRR on the validation lists of the ranker, and of each member of a
    mean), `lists_`, how many lists were learned from, `own_clicks_` (an OwnClicks; None without history), and
    `debias_`, what `propensity` did (None without it).

    People click what they look at, and they look at the top. `propensity`, a curve that
    `pg.estimate_propensity` made, or "log" for the column `propensity` of the log, weighs each click by one
    over the probability of a look at where people saw the item, and each label that a later click of the
    session gave by how often such labels came about there. Two models are then fitted, with these weights
    and without; the weighed one is taken unless validation shows it to be worse. A ranker that is named here
    stops early by `dcg@10:ips`; one that is given keeps its own metric. See docs/honest_learning.md.

    >>> Reranker(features="shop", ranker="ridge")
    Reranker(features='shop', ranker='ridge')
    """

    features_: FeatureSet
    ranker_: Ranker
    guard_: Guard | None
    clicks_: dict[str, int]
    valid_: dict[str, float]
    lists_: int
    clicks_until_: int | None
    digest_: str | None
    own_clicks_: OwnClicks | None
    debias_: dict[str, Any] | None
    _sample: Request | None
    _scorer: tuple[Ranker, Any, Scorer] | None = None  # of which ranker, as it was fitted then

    def __init__(
        self,
        features: str | FeatureSet = "places",
        ranker: str | Ranker = "mean",
        guard: bool | Guard | None = True,
        clicks: Mapping[str, int] | None = None,
        *,
        pool: int = 40,
        propensity: PropensitySource | None = None,
        random_state: int = 0,
        history: bool = False,
        half_life: float = HALF_LIFE,
        guard_tolerance: float = TOLERANCE_OF_KIND,
    ) -> None:
        self.features = features
        self.ranker = ranker
        self.guard = guard
        self.clicks = clicks
        self.pool = pool
        self.propensity = propensity
        self.random_state = random_state
        self.history = history
        self.half_life = half_life
        self.guard_tolerance = guard_tolerance
        ready = isinstance(ranker, Ranker) and hasattr(ranker, "n_features_in_")
        if ready and isinstance(features, FeatureSet) and features.is_fitted:
            self._take(features, ranker, guard if isinstance(guard, Guard) else None, dict(clicks or {}))

    # -- learning ----------------------------------------------------------------------------------

    def fit(self, log: ClickLog | pd.DataFrame, *, valid: ClickLog | pd.DataFrame | None = None) -> Self:
        """Learn from a log; `valid` is what the ranker stops early by.

        Without `valid` a fifth of the sessions is set aside. The guard is fitted on lists that their ranker
        neither learned from nor was stopped by: of 40,000 validation lists or more two thirds are the
        guard's; of fewer, four more rankers are trained, and each judges the third of `log`, or the part set
        aside, that it did not know (`learn_apart`). Without a guard there is one fit. Both are whole logs:
        lists of one item and searches without a click count too, because a search without a click is used
        where its list held what its session clicked later. Where rows have a `time`, past clicks are counted
        here: as of each search of `log`, and for `valid` those of `log` before it; the re-ranker keeps the
        clicks of both. A log that a service wrote is learned from as its model saw it: `position` is then the
        engine's (`engine_position`), and `past_clicks` are those that were served.
        """
        lists = self.make_lists(log, valid=valid)
        ranker, guard, debias = self._learn_guarded(lists.train, lists.valid, *lists.tables)
        self.valid_ = _judge_members(ranker, lists.valid)
        self.lists_ = lists.train.n_queries
        self._take(lists.features, ranker, guard, lists.clicks)
        self.own_clicks_ = lists.own_clicks
        self.debias_ = debias
        self.clicks_until_ = lists.clicks_until
        self._sample = _choose_sample(lists.tables[1], lists.features.columns)
        return self

    def make_lists(
        self, log: ClickLog | pd.DataFrame, *, valid: ClickLog | pd.DataFrame | None = None
    ) -> TrainingLists:
        """What `fit` learns from a log: for other rankers that are to learn from the very same lists.

        A ranker that was fitted to them makes a re-ranker too: `Reranker(lists.features, ranker, None,
        lists.clicks)`. With `history=True` that one lacks `own_clicks`.
        """
        self.check_settings()
        train = _as_log(log)
        if valid is None:
            train, held = train.split(0.8, 0.2, by="session", random_state=self.random_state)
        else:
            held = _as_log(valid)
        known, later = see_as_model(train.rows), see_as_model(held.rows)
        own = None
        if self.history:
            known, later, own = learn_histories(
                known, later, half_life=self.half_life, served=ENGINE_POSITION
            )
        rows, others = (gather_lists(each, self.pool, mark=CARRIED) for each in (known, later))
        carried = [each.pop(CARRIED).to_numpy(dtype=np.bool_) for each in (rows, others)]
        timed = "time" in known and "time" in later
        if timed:
            rows = add_past_clicks(rows, known, keep=ENGINE_POSITION in rows)
            others = add_past_clicks(others, known, keep=ENGINE_POSITION in others)
        features = self._declare(rows).fit(rows)
        learned, data = features.to_ranking(rows), features.to_ranking(others)
        # without the setting a column weighs nothing; a metric such as dcg@10:ips may still stop by it
        learned = learned.replace(propensity=find_propensities(rows, self.propensity, carried[0]))
        if self.propensity is not None:
            data = data.replace(propensity=find_propensities(others, self.propensity, carried[1]))
        counts = timed and PAST in features.columns
        clicks, until = _count_all(known, later) if counts else ({}, None)
        return TrainingLists(features, learned, data, (rows, others), clicks, until, own)

    def check_settings(self) -> None:
        """Refuse settings that cannot be used, before anything is read."""
        if isinstance(self.features, str):
            if self.features not in FEATURE_SETS:
                raise UnknownName("set of features", self.features, FEATURE_SETS)
        elif not isinstance(self.features, FeatureSet):
            raise BadInput(
                f"features must be {' or '.join(map(repr, FEATURE_SETS))} or a FeatureSet. Got "
                f"{type(self.features).__name__}."
            )
        if not isinstance(self.guard, bool | Guard | None):
            raise BadInput(f"guard must be True, False or a Guard. Got {self.guard!r}.")
        check_tolerance("guard_tolerance", self.guard_tolerance)
        if not isinstance(self.pool, int) or self.pool < 2:
            raise BadInput(f"pool must be a whole number, 2 or more. Got {self.pool!r}.")
        if not isinstance(self.history, bool):
            raise BadInput(f"history must be True or False. Got {self.history!r}.")
        check_half_life(self.half_life)
        check_source(self.propensity)
        self._make_ranker()._check_settings()

    def _learn_guarded(
        self, train: RankingData, valid: RankingData, *tables: pd.DataFrame
    ) -> tuple[Ranker, Guard | None, dict[str, Any] | None]:
        """The ranker, its guard, and what propensities did; `tables` are the rows of both data."""
        told: list[dict[str, Any] | None] = []

        def learn(part: RankingData, held: RankingData) -> Ranker:
            ranker, facts = self._learn(part, held)
            told.append(facts)
            return ranker

        if self.guard is not True:
            return learn(train, valid), self.guard or None, told[0]
        heeds = self.propensity is not None or heeds_valid(self._make_ranker())  # both models are compared
        ranker, apart = learn_apart(learn, train, valid, heeds=heeds, random_state=self.random_state)
        return ranker, self._fit_guard([train, valid], tables, apart), told[0]

    def _learn(self, train: RankingData, valid: RankingData) -> tuple[Ranker, dict[str, Any] | None]:
        if self.propensity is None:
            return self._make_ranker().fit(train, valid=valid), None
        found = learn_debiased(lambda weighed: self._make_ranker(weighed=weighed), train, valid)
        return found.ranker, {**describe_source(self.propensity), **found.facts}

    def _declare(self, rows: pd.DataFrame) -> FeatureSet:
        if isinstance(self.features, FeatureSet):
            declared = FeatureSet(self.features.features)
        else:
            declared = make_features(self.features, rows)
        if self.history and OWN not in declared.columns:
            declared = FeatureSet((*declared.features, *history_features().features))
        return declared

    def _make_ranker(self, *, weighed: bool = False) -> Ranker:
        if isinstance(self.ranker, Ranker):
            copy: Ranker = clone(self.ranker)
            return copy
        if not isinstance(self.ranker, str):
            raise BadInput(f"ranker must be a ranker or the name of one. Got {type(self.ranker).__name__}.")
        if self.ranker == "mean":
            members = list_members(self.random_state)
            if weighed:
                members = {kind: {**each, "metric": WATCHED} for kind, each in members.items()}
            return MeanRanker(members=members)
        made = make_ranker(self.ranker)
        known, shared = made.get_params(deep=False), self._shared_settings()
        if weighed:
            shared["metric"] = WATCHED
        made.set_params(**{name: value for name, value in shared.items() if name in known})
        return made

    def _shared_settings(self) -> dict[str, Any]:
        return {"metric": "mrr", "random_state": self.random_state}

    def _fit_guard(
        self, parts: Sequence[RankingData], tables: Sequence[pd.DataFrame], scores: Floats
    ) -> Guard:
        """The guard of the lists that have scores; without a score a list says nothing.

        With propensities it judges by these: they know of labels that were carried to a list, too.
        """
        described = [describe_searches(rows, data.offsets) for rows, data in zip(tables, parts, strict=True)]
        known = [name for name in described[0] if name in described[1]]
        chosen = [name for name in KINDS if name in known] or known
        people = find_clusters(parts)
        labels = np.concatenate([data.y for data in parts])
        apart: Bools = ~np.isnan(scores)
        if apart.any():  # where none is apart all are of one person, who decides nothing
            labels = np.where(apart, labels, 0.0)
        engine = -np.concatenate([rows["position"].to_numpy(dtype=np.float64) for rows in tables])
        seen = [data.propensity for data in parts if data.propensity is not None]
        return fit_guard(
            np.where(apart, scores, engine), engine, labels, _join_offsets(parts),
            {name: np.concatenate([each[name] for each in described]) for name in chosen},
            clusters=None if people is None else people.codes,
            propensity=None if self.propensity is None else np.concatenate(seen), least=LEAST_OF_KIND,
            tolerance=self.guard_tolerance,
        )  # fmt: skip

    def _take(self, features: FeatureSet, ranker: Any, guard: Guard | None, clicks: dict[str, int]) -> None:
        self.features_, self.ranker_, self.guard_, self.clicks_ = features, ranker, guard, clicks
        self.digest_ = self.clicks_until_ = self.debias_ = None
        self._sample = self.own_clicks_ = None

    def _need_fit(self) -> None:
        if not hasattr(self, "features_"):
            raise BadInput("the re-ranker is not fitted. Call fit(log) first, or load one: pg.load(path).")

    # -- one request -------------------------------------------------------------------------------

    @overload
    def rerank(self, request: Request | Mapping[str, Any]) -> Reranked: ...

    @overload
    def rerank(self, request: str, hits: Sequence[Hit], **told: Any) -> list[Hit]: ...

    def rerank(
        self, request: Request | Mapping[str, Any] | str, hits: Sequence[Hit] = (), **told: Any
    ) -> Reranked | list[Hit]:
        """The new order of one request's items, as a `Reranked`: the way of everything that is served.

        A request is a `Request` or a dict `{"context": {…}, "items": [{…}, …]}`. An item that does not say
        its `past_clicks` has those of the log that was learned from. A request without `time` is of now.

        A text with hits, as version 0.1 took them, still gives a list of hits back, and warns.
        """
        if isinstance(request, str):
            warnings.warn(
                "rerank(text, hits) goes in version 0.3. Use wrap(engine).search(text), or "
                "rerank(Request.of_hits(text, hits)).",
                DeprecationWarning,
                stacklevel=2,
            )
            known = {**(told.pop("context", None) or {}), **told}
            return self.reorder(Request.of_hits(request, hits, **known), hits)
        self._need_fit()
        asked = request if isinstance(request, Request) else Request.from_dict(request)
        known = {**asked.context}
        if "time" not in known or _is_known(known["time"]):
            known["time"] = read_time(known.get("time"))
        items: list[Mapping[str, Any]] = [
            _place_item(item, place) for place, item in enumerate(asked.items, 1)
        ]
        if self.clicks_:
            items = [item if PAST in item else self._add_clicks(item) for item in items]
        items = [*give_own_clicks(self.own_clicks_, known, items)]
        rows = self.features_.read_request(known, items)
        scores = self._score_list(rows, known, items)
        order = np.argsort(-scores, kind="stable")
        return Reranked(order, scores, self.digest_, rows.count_missing())

    def reorder(self, request: Request, hits: Sequence[Hit]) -> list[Hit]:
        """The hits of a request in their new order; each keeps the engine's rank and score."""
        if len(hits) < 2:
            return list(hits)
        return [hits[row] for row in self.rerank(request).order.tolist()]

    def order(self, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Ints:
        """The rows of one live list, best first, `[items]`: `rerank(Request(context, items)).order`."""
        return self.rerank(Request(context, list(items))).order

    def _add_clicks(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {PAST: float(self.clicks_.get(str(item.get("item_id")), 0)), **item}

    def _score_list(
        self, rows: Rows, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
    ) -> Floats:
        if not items:
            return np.zeros(0)
        scores = self._ask_ranker(self.features_.transform_rows(rows))
        return scores if self.guard_ is None else self.guard_.apply_live(scores, context, items)

    def _ask_ranker(self, matrix: Matrix) -> Floats:
        """Scores of one list: by the quick way where it knows one and its scores are finite numbers."""
        if isinstance(matrix, np.ndarray):
            scores = self._find_scorer()(matrix)
            if np.isfinite(scores).all():
                return scores
        return np.asarray(
            self.ranker_.predict(matrix, np.zeros(matrix.shape[0], dtype=np.int64)), dtype=np.float64
        )

    def _find_scorer(self) -> Scorer:
        """The ranker's scorer, made once; a ranker that was fitted again gets another. Two threads that both
        find none make the same."""
        fitted = self.ranker_, self.ranker_.training_
        kept = self._scorer
        if kept is None or kept[0] is not fitted[0] or kept[1] is not fitted[1]:
            kept = self._scorer = (*fitted, make_scorer(self.ranker_))
        return kept[2]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_scorer"}  # made again when asked

    # -- a log -------------------------------------------------------------------------------------

    def score(self, log: ClickLog | pd.DataFrame, *, live: bool = False) -> Floats:
        """Scores of a log's rows `[rows]`, in their order (that of `ClickLog.rows`); higher is better.

        `live=True` asks search by search, each a request with what is known when people search: the columns
        of the search, and every field of its items. Labels and what else a join makes of later events are not
        in it. The order is the same; the batch is quicker.
        """
        self._need_fit()
        rows = see_as_model(log.rows if isinstance(log, ClickLog) else log)
        grouped = _group_searches(rows)
        found = np.empty(len(rows), dtype=np.float64)
        found[grouped] = (self._ask_live if live else self._score_rows)(rows.iloc[grouped])
        return found

    def _score_rows(self, rows: pd.DataFrame) -> Floats:
        """Scores of rows that stand search by search."""
        if self.clicks_ and PAST not in rows:
            rows = rows.assign(**{PAST: look_up_clicks(rows["item_id"].astype(str).tolist(), self.clicks_)})
        if self.own_clicks_ is not None and OWN not in rows:
            rows = self.own_clicks_.add_to(rows)
        data = self.features_.to_ranking(rows, "label" if "label" in rows else None)
        scores = np.asarray(self.ranker_.predict(data), dtype=np.float64)
        return scores if self.guard_ is None else self.guard_.apply(scores, rows, data.offsets)

    def _ask_live(self, rows: pd.DataFrame) -> Floats:
        offsets = find_offsets(rows)
        found = np.empty(len(rows), dtype=np.float64)
        for request, (start, stop) in zip(list_requests(rows), pairwise(offsets.tolist()), strict=True):
            found[start:stop] = self.rerank(request).scores
        return found

    def evaluate(
        self,
        log: ClickLog | pd.DataFrame,
        metrics: str | Sequence[str] = METRICS,
        *,
        live: bool = False,
        **settings: Any,
    ) -> Comparison:
        """The engine's order and the re-ranker's on a log, compared as `pg.compare` does it.

        Lists are cut at `pool`, lists of one item are left out (`min_items=2`). `settings` are those of
        `compare`: `slices`, `bootstrap`, `empty`, … `live=True` judges through the way of a request.
        With `history=True` there is a slice more, "person": whether the person was "seen before" in what was
        learned from, or "never seen".
        """
        self._need_fit()
        frame = see_as_model(_as_log(log).rows)
        rows = frame[frame["position"] <= self.pool]
        rows = rows.iloc[_group_searches(rows)].reset_index(drop=True)
        sizes = rows.groupby("search_id", sort=False)["label"].agg(["size", "max"])
        if not ((sizes["size"] >= 2) & (sizes["max"] > 0)).any():
            raise BadInput("a log is judged by its clicks. Got no list of two items or more with one.")
        scores = {
            ENGINE: -rows["position"].to_numpy(dtype=np.float64),
            OURS: self.score(rows, live=live),
        }
        empty = FeatureSet(()).fit(rows)
        data = empty.to_ranking(rows)
        if self.own_clicks_ is not None:
            who = self.own_clicks_.name_people(rows)
            data = data.replace(segments={**data.segments, PERSON: who})
        data = _add_slices(data, rows, settings.get("slices"))
        return compare(scores, data, metrics, **{"baseline": ENGINE, "min_items": 2, **settings})

    def forget(self, user: Any) -> bool:
        """Take a person out of `own_clicks_`; whether they were in it. What was saved before stays."""
        self._need_fit()
        if self.own_clicks_ is None or not self.own_clicks_.knows(user):
            return False
        self.own_clicks_ = self.own_clicks_.without(user)
        return True

    # -- an engine, a file -------------------------------------------------------------------------

    def wrap(self, engine: Engine, *, depth: int | None = None) -> RerankedEngine:
        """The engine with this in front of it: an engine again. `depth` hits (`pool`) are re-ranked."""
        self._need_fit()
        return RerankedEngine(engine, self, self.pool if depth is None else depth)

    def save(self, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> str:
        """Two bundles in a folder: `model`, and `reranker`, which pins it; its digest pins the whole.

        Whoever loads meanwhile, or after this was interrupted, finds the old re-ranker or the new one. A
        folder of its own is replaced in one step; in a folder that holds other files too, or that cannot be
        replaced itself, the new model stands beside the old one until `reranker` pins it.

        A sample request with its scores is kept, and asked again when the re-ranker is loaded.
        """
        self._need_fit()
        path = Path(path).resolve()
        for name in PARTS:
            refuse_other(path / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        own = _is_own(path)
        with hold_part(path if own else path / PARTS[0], folder=True) as part:
            self.digest_ = self._write(part, metrics)
            if not own or not _swap_whole(part, path):
                with take_turns(path):
                    _swap_parts(part, path)
        return self.digest_

    def _write(self, path: Path, metrics: Mapping[str, float] | None) -> str:
        digest = self.ranker_.save(path / PARTS[0], metrics=metrics)
        files = {FEATURES: _as_json(self.features_.to_state())}
        if self.guard_ is not None:
            files[GUARD] = _as_json(self.guard_.to_state())
        if self.clicks_:
            files[CLICKS] = _as_json(dict(self.clicks_))
        if self._sample is not None:
            scores = self.rerank(Request.from_dict(self._sample.to_dict())).scores
            files[SAMPLE] = _as_json({"request": self._sample.to_dict(), "scores": scores.tolist()})
        version = VERSIONS[-2 if self.own_clicks_ is None else -1]
        if self.own_clicks_ is not None:
            files[OWN_CLICKS] = _as_json(self.own_clicks_.to_state())
        facts: dict[str, Any] = {"reranker": version, "model": digest, "pool": self.pool}
        if self.clicks_until_ is not None:
            facts["clicks_until"] = self.clicks_until_
        if self.debias_ is not None:
            facts["debias"] = self.debias_
        return write_bundle(path / PARTS[1], facts, files)


@dataclass(frozen=True, eq=False)
class RerankedEngine:
    """An engine whose first `depth` hits are put into a learned order."""

    engine: Engine
    reranker: Reranker
    depth: int = 40

    def search(
        self,
        text: str,
        focus: Focus | None = None,
        k: int = 40,
        layers: Sequence[str] | None = None,
        *,
        time: datetime | None = None,
        target: str | None = None,
        platform: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """At most `k` hits, best first; their scores and ranks are those of the engine below.

        `time` is that of the search, now if none is given. `context` is what else is known of the search,
        under the names that the log has for it.
        """
        found = self.engine.search(text, focus, max(k, self.depth), layers)
        head, tail = found[: self.depth], found[self.depth :]
        told = {**(context or {}), "target": target, "platform": platform}
        request = Request.of_hits(text, head, focus=focus, time=time, **told)
        return [*self.reranker.reorder(request, head), *tail][:k]


def load_reranker(path: str | Path, *, digest: str | None = None) -> Reranker:
    """What `Reranker.save` wrote; anything else, or anything changed since, is refused by name.

    `digest`, as `save` returned it, pins the re-ranker: any other one is refused. Its sample request is asked
    again: a library that reads its own file differently today is noticed.
    """
    path = Path(path)
    return read_settled(path, lambda place: _load_once(place, digest))


def _load_once(path: Path, digest: str | None) -> Reranker:
    if path.is_dir() and not (path / "reranker" / "manifest.json").is_file():
        inner = path / "reranker"
        meant = f" Did you mean {inner}?" if (inner / "reranker" / "manifest.json").is_file() else ""
        raise BadBundle(path, f"holds no re-ranker: a folder with the folders model and reranker.{meant}")
    bundle = read_bundle(path / "reranker", digest=digest)
    if bundle.manifest.get("reranker") not in VERSIONS:
        raise BadBundle(bundle.path, f"holds no re-ranker of version {' or '.join(map(str, VERSIONS))}.")
    ranker = _load_pinned(path, str(bundle.manifest.get("model")))
    try:
        reranker = _restore(bundle, ranker)
    except BadBundle:
        raise
    except (PlacingsError, ValueError, TypeError, KeyError) as error:
        raise BadBundle(bundle.path, f"cannot be restored: {' '.join(str(error).split())}") from error
    reranker.digest_ = bundle.digest
    if SAMPLE in bundle.files:
        _ask_sample(reranker, bundle.path, _read_json(bundle, SAMPLE))
    return reranker


def _load_pinned(path: Path, digest: str) -> Ranker:
    """The model with this digest: `model`, or the one that was about to take its place."""
    try:
        return load_ranker(path / PARTS[0], digest=digest)
    except BadBundle:
        if not (path / NEXT).is_dir():
            raise
        return load_ranker(path / NEXT, digest=digest)


def _restore(bundle: Bundle, ranker: Ranker) -> Reranker:
    declared = next((name for name in (FEATURES, OLD_FEATURES) if name in bundle.files), None)
    if declared is None:
        raise BadBundle(bundle.path, f"has no {FEATURES}.")
    features = FeatureSet.from_state(_read_json(bundle, declared))
    if not features.is_fitted:
        raise BadBundle(bundle.path, f"{declared} must be of features that were fitted.")
    width = sum(each.width() for each in features.fitted)
    if width != ranker.n_features_in_:
        raise BadBundle(
            bundle.path, f"{declared} gives {width} features, but the model has {ranker.n_features_in_}."
        )
    guard = Guard.from_state(_read_json(bundle, GUARD)) if GUARD in bundle.files else None
    clicks = _read_json(bundle, CLICKS) if CLICKS in bundle.files else {}
    if not isinstance(clicks, dict) or not all(_is_count(count) for count in clicks.values()):
        raise BadBundle(bundle.path, f"{CLICKS} must map items to whole numbers.")
    pool = bundle.manifest.get("pool", 40)
    if not _is_count(pool) or pool < 2:
        raise BadBundle(bundle.path, f"pool must be a whole number, 2 or more. Got {pool!r}.")
    reranker = Reranker(features, ranker, guard, clicks, pool=pool)
    until = bundle.manifest.get("clicks_until")
    reranker.clicks_until_ = until if type(until) is int else None
    if OWN_CLICKS in bundle.files:
        own = reranker.own_clicks_ = OwnClicks.from_state(_read_json(bundle, OWN_CLICKS))
        reranker.history, reranker.half_life = True, own.half_life
    debias = bundle.manifest.get("debias")
    reranker.debias_ = debias if isinstance(debias, dict) else None
    return reranker


def _read_json(bundle: Bundle, name: str) -> Any:
    try:
        return parse_json(bundle.files[name])
    except ValueError as error:
        raise BadBundle(bundle.path / name, f"is not JSON that can be read: {error}.") from None


def _is_count(value: Any) -> bool:
    """A whole number that float64 holds exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


def _is_own(path: Path) -> bool:
    """Whether a folder holds nothing but a re-ranker, and may be replaced whole."""
    if not os.access(path.parent, os.W_OK):
        return False
    if not path.exists():
        return True
    if not path.is_dir():
        raise BadInput(f"{path} is a file. Name a folder for the re-ranker.")
    names = {each.name for each in path.iterdir()} - {*PARTS, NEXT}
    others = [name for name in names if not name.endswith((PART, OLD))]
    return not others and not path.samefile(Path.cwd())


def _swap_whole(part: Path, path: Path) -> bool:
    """False where the folder itself cannot be replaced: another file system is mounted there."""
    try:
        swap_folder(part, path)
    except OSError:
        return False
    return True


def see_as_model(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a served log as its model saw them: `position` is the engine's.

    Where an item was shown, which the model decided, is then `shown_position`. Other logs, whose engine's
    order was shown, stay as they are.
    """
    if ENGINE_POSITION not in rows or SHOWN_POSITION in rows:
        return rows
    shown, engine = rows["position"], rows[ENGINE_POSITION]
    return rows.assign(**{SHOWN_POSITION: shown, "position": engine.where(engine.notna(), shown)})


def _count_all(known: pd.DataFrame, later: pd.DataFrame) -> tuple[dict[str, int], int | None]:
    """The clicks of both logs, and the time of their newest search."""
    pandas = need_library("pandas", "a re-ranker")
    names = ["item_id", "time", "label", *((PAST,) if PAST in known and PAST in later else ())]
    rows = pandas.concat([known[names], later[names]], ignore_index=True)
    newest = rows["time"].max()
    return continue_clicks(rows), None if pandas.isna(newest) else round(newest.value / 1000)


def _swap_parts(part: Path, path: Path) -> None:
    """Replace the bundles one by one: at every moment the model that `reranker` pins is `model` or NEXT."""
    model, pinned = path / PARTS[0], path / PARTS[1]
    if (path / NEXT).exists():  # a writer was killed: what it left is the pinned model, or one before it
        if pinned.exists() and not _is_pinned(model, pinned):
            swap_folder(path / NEXT, model)
        _remove_model(path / NEXT)
    swap_folder(part / PARTS[0], path / NEXT)
    swap_folder(part / PARTS[1], pinned)
    swap_folder(path / NEXT, model)
    _remove_model(path / NEXT)


def _remove_model(path: Path) -> None:
    """Remove what a replaced model left; whatever stays is looked at by the next save."""
    shutil.rmtree(path, ignore_errors=True)


def _is_pinned(model: Path, pinned: Path) -> bool:
    """Whether a model is the one that a re-ranker's bundle names; not if one of them cannot be read."""
    try:
        return read_bundle(model).digest == read_bundle(pinned).manifest.get("model")
    except BadBundle:
        return False


def gather_lists(rows: pd.DataFrame, pool: int = 40, *, mark: str | None = None) -> pd.DataFrame:
    """Searches of two items or more with a click, and those that the click of their session is carried to.

    Of each list the first `pool` positions are kept. A click is carried back from wherever it was made, also
    from a list of one item or from far down. `mark` names a column that says of each list whether its labels
    were carried to it.
    """
    pandas = need_library("pandas", "a re-ranker")
    frame = order_rows(rows)
    if (unknown := int(frame["position"].isna().sum())) > 0:
        raise BadInput(
            f"a re-ranker learns from positions. Got {unknown:,} of {len(frame):,} rows without one."
        )
    lists = frame[frame["position"] <= pool]
    lists = lists[lists.groupby("search_id", sort=False)["item_id"].transform("size") >= 2]
    clicked = lists.groupby("search_id", sort=False)["label"].transform("max") > 0
    wins, rest = lists[clicked], lists[~clicked]
    if not len(wins):
        raise BadInput("a re-ranker learns from clicks. Got no list of two items or more with one.")
    found = order_rows(pandas.concat([wins, carry_clicks(frame, rest)]))
    if mark is None:
        return found
    return found.assign(**{mark: ~found["search_id"].isin(wins["search_id"].unique())})


def list_requests(rows: pd.DataFrame) -> list[Request]:
    """The searches of a log as requests: what was known when people searched, and nothing that came later."""
    offsets = find_offsets(rows)
    context = [name for name in rows.columns if name in SEARCH or name in OF_PERSON]
    fields = [name for name in rows.columns if name not in context and name not in UNSEEN]
    contexts: list[Any] = rows[context].iloc[offsets[:-1]].to_dict("records")
    if "time" not in context:  # a log that tells no time: unknown, not now
        contexts = [{**known, "time": None} for known in contexts]
    items: list[Any] = rows[fields].to_dict("records")
    return [
        Request(known, items[start:stop])
        for known, (start, stop) in zip(contexts, pairwise(offsets.tolist()), strict=True)
    ]


def list_members(
    random_state: int = 0,
    *,
    rounds: int = 300,
    steps: int = 2000,
    kinds: Sequence[str] = ("lightgbm", "neural"),
) -> dict[str, dict[str, Any]]:
    """The members of the default ranker, trees and a network, with their settings, for a `MeanRanker`."""
    shared = {"metric": "mrr", "random_state": random_state}
    members = {
        # no correction for position: lists with a carried click make up for most of it
        "lightgbm": {"rounds": rounds, "early_stopping": 60, "debias": False, **shared},
        "neural": {"steps": steps, "check_every": 200, "patience": 5, "device": "cpu", **shared},
    }
    for kind in kinds:
        if kind not in members:
            raise UnknownName("kind of re-ranker", kind, members)
    if not kinds:
        raise BadInput(f"kinds must name at least one of {', '.join(members)}. Got none.")
    return {kind: members[kind] for kind in kinds}


def _join_offsets(parts: Sequence[RankingData]) -> Ints:
    """The offsets of the lists of all parts, one after the other."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(data.offsets) for data in parts]))])


def _judge_members(ranker: Ranker, data: RankingData) -> dict[str, float]:
    """MRR on data of each member of a mean, and of the ranker itself."""
    found: dict[str, float] = {}
    if isinstance(ranker, MeanRanker):
        found = {kind: _measure_mrr(member, data) for kind, member in ranker.members_.items()}
        if len(found) == 1:
            return found
    return {**found, _name_ranker(ranker): _measure_mrr(ranker, data)}


def _name_ranker(ranker: Ranker) -> str:
    return "mean" if isinstance(ranker, MeanRanker) else type(ranker).__name__


def _measure_mrr(ranker: Ranker, data: RankingData) -> float:
    return float(np.nanmean(mrr(ranker.predict(data), data.y, data.offsets, min_items=2)))


def _choose_sample(rows: pd.DataFrame, read: Sequence[str], most: int = 10) -> Request:
    """A request of the log to be asked again after loading: of the first search, at most so many items.

    Ids of the search and of who made it are left out, unless a feature reads them: a model is no place for
    them.
    """
    first = list_requests(rows[: find_offsets(rows)[1]])[0]

    def choose(told: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in told.items()
            if _is_plain(value) and (name not in PERSONAL or name in read)
        }

    return Request(choose(first.context), [choose(item) for item in first.items[:most]])


def _ask_sample(reranker: Reranker, path: Path, told: Any) -> None:
    try:
        request, expected = Request.from_dict(told["request"]), np.asarray(told["scores"], dtype=np.float64)
        given = reranker.rerank(request).scores
    except (BadInput, KeyError, TypeError, ValueError) as error:
        raise BadBundle(path, f"its sample request cannot be asked: {error}") from error
    if given.shape != expected.shape or not np.allclose(
        given, expected, TOLERANCE, TOLERANCE, equal_nan=True
    ):
        raise BadBundle(
            path,
            "the re-ranker scores its sample request differently than when it was saved. Install the "
            "versions that its model names, or train it anew.",
        )
    reranker._sample = request


def _as_log(log: ClickLog | pd.DataFrame) -> ClickLog:
    return log if isinstance(log, ClickLog) else ClickLog(log)


def _add_slices(data: RankingData, rows: pd.DataFrame, slices: Any) -> RankingData:
    """The data with the columns of the log that slices are asked by as segments."""
    asked = [slices] if isinstance(slices, str) else slices if isinstance(slices, list | tuple) else []
    more = {
        name: np.array(["unknown" if value != value or value is None else str(value) for value in rows[name]])
        for name in asked
        if isinstance(name, str) and name in rows and name not in data.segments
    }
    return data.replace(segments={**data.segments, **more}) if more else data


def _group_searches(rows: pd.DataFrame) -> Ints:
    """The rows' places with those of a search together, by first appearance; each search in its own order."""
    pandas = need_library("pandas", "a re-ranker")
    codes: Ints = pandas.factorize(rows["search_id"], use_na_sentinel=False)[0]
    return np.argsort(codes, kind="stable")


def _place_item(item: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    """An item with its position: what it says, or its place in the list where it says none."""
    told = item.get("position")
    return {**item, "position": place} if told is None or told != told else item


def _is_known(value: Any) -> bool:
    """Whether a time is one: neither null nor NaT."""
    return value is not None and bool(value == value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | np.generic | datetime | date)


def _as_json(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, ensure_ascii=False).encode()
