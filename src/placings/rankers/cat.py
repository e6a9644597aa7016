"""`CatBoostRanker`: CatBoost's YetiRank and its other ranking losses under the one interface."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from placings.core import AnyArray, BadInput, Floats, need_library, setting
from placings.data import Matrix, RankingData
from placings.metrics import metric
from placings.rankers.bad_models import BadModel
from placings.rankers.boosting import (
    Advance,
    BoostingWatch,
    TreeRanker,
    as_old_sparse,
    as_threads,
    check_rounds,
    drop_empty_queries,
    merge_params,
    pop_param,
    show_rounds,
)
from placings.rankers.cat_files import check_model
from placings.rankers.estimator import as_seed
from placings.rankers.facts import Choice, Float, Int, RankerFacts
from placings.rankers.item_weights import differ_within, name_uneven, weigh_queries

MODEL = "model.cbm"
LARGEST_QUERY = 32_768  # rows with YetiRank: 4 GiB of weights of pairs
MOST_PAIRS = 20_000_000  # that are listed for CatBoost: 480 MB
OF_ROWS = ("QueryRMSE", "QuerySoftMax")  # losses that are linear in the labels, or squares of errors
OF_PAIRS = ("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "LambdaMart")

ALIASES = (
    ("loss_function", "objective"),
    ("iterations", "num_boost_round", "n_estimators", "num_trees"),
    ("learning_rate", "eta"),
    ("depth", "max_depth"),
    ("l2_leaf_reg", "reg_lambda"),
    ("rsm", "colsample_bylevel"),
    ("random_seed", "random_state"),
    ("logging_level", "verbose", "silent", "verbose_eval"),
)
WATCHED = {  # our metrics as CatBoost writes them; a row is relevant when its label is above 0
    "ndcg": "NDCG:type=Exp",
    "map": "MAP:border=0",
    "mrr": "MRR:border=0",
    "p": "PrecisionAt:border=0",
    "recall": "RecallAt:border=0",
}


class CatBoostRanker(TreeRanker):
    """Boosted symmetric trees by CatBoost, with YetiRank or another of its ranking losses.

    `params` are CatBoost's parameters by any of its names; they win over the arguments here, and CatBoost
    itself refuses a name that it does not know. None anywhere stands for CatBoost's default. The same seed
    gives the same bits, whatever `n_jobs`. Nothing is written to disk while training.

    - `loss`: "YetiRank", "YetiRank:mode=NDCG", "YetiRankPairwise", "QueryRMSE", "PairLogit",
      "QuerySoftMax", … as CatBoost writes them. Labels are grades of any size, fractions too. YetiRank
      takes queries of at most 32,768 rows, since its memory grows with their square.
    - `rounds`, `early_stopping`: trees at most, and how many rounds without a better `metric` on `valid` end
      the training; the best round's trees are kept. None, or no `valid`: all rounds.
    - `metric`: ndcg, map, mrr, p or recall, with a cutoff or none: those that CatBoost computes itself. Its
      ties count as badly as they can; early rounds may look worse than elsewhere in placings. Or a metric of
      clicks over propensities, such as "dcg@10:ips", or a function of yours, which placings computes.
    - `verbose`: a progress bar on a terminal, elsewhere a line now and then.

    NaN is missing, below all values (CatBoost's `nan_mode`); an absent value of CSR is 0.

    `sample_weight` weighs items: the errors of rows with "QueryRMSE", the pairs of a better row with
    "PairLogit" and "PairLogitPairwise" (which are then listed, 20 million at most). YetiRank knows weights
    of queries only: it takes weights where one of queries gives each pair that of its better row, such as
    one click for each list, and refuses others. A propensity multiplies the labels of "QueryRMSE" and
    "QuerySoftMax" instead.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(20, n_features=5, random_state=0).data
    >>> ranker = CatBoostRanker(rounds=10, random_state=0).fit(data)
    >>> ranker.predict(data).shape == (data.n_rows,), len(ranker.feature_importances("split"))
    (True, 5)
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={
            "default": {
                "loss": Choice(("YetiRank", "PairLogit", "QueryRMSE")),
                "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
                "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
                "depth": Int(2, 8, grid=(4, 6, 8)),
                "l2_leaf_reg": Float(0.1, 100.0, log=True, grid=(1.0, 3.0, 10.0)),
            },
        },
        libraries=("catboost",),
        familiar={
            "iterations": ("CatBoost", ("rounds", "steps")),
            "depth": ("CatBoost", ("max_depth",)),
            "od_wait": ("CatBoost", ("early_stopping",)),
            "random_seed": ("CatBoost", ("random_state",)),
            "thread_count": ("CatBoost", ("n_jobs",)),
            "loss_function": ("CatBoost", ("loss", "objective")),
            "bagging_temperature": ("CatBoost", ("bagging_fraction", "subsample")),
            "reg_lambda": ("XGBoost", ("l2_leaf_reg",)),
        },
        passed=(
            "subsample",
            "bagging_temperature",
            "bootstrap_type",
            "border_count",
            "max_bin",
            "grow_policy",
            "max_leaves",
            "min_data_in_leaf",
            "nan_mode",
            "one_hot_max_size",
            "cat_features",
            "task_type",
            "boosting_type",
            "score_function",
            "monotone_constraints",
            "leaf_estimation_iterations",
            "od_type",
            "sampling_unit",
            "feature_border_type",
            "model_size_reg",
            "custom_metric",
        ),
        notes={
            "num_leaves": "CatBoost's trees are symmetric and bounded by their depth: depth=6. With "
            "params={'grow_policy': 'Lossguide', 'max_leaves': 31} also by leaves.",
        },
        quick={"rounds": 20, "random_state": 0},
    )

    def __init__(
        self,
        *,
        loss: str = "YetiRank",
        rounds: int = 300,
        learning_rate: float = 0.05,
        depth: int = 6,
        l2_leaf_reg: float = 3.0,
        random_strength: float | None = None,
        rsm: float = 1.0,
        early_stopping: int | None = 50,
        metric: str | Callable[..., Any] = "ndcg@10",
        params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.loss = loss
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.depth = depth
        self.l2_leaf_reg = l2_leaf_reg
        self.random_strength = random_strength
        self.rsm = rsm
        self.early_stopping = early_stopping
        self.metric = metric
        self.params = params
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        catboost = need_library("catboost", "CatBoostRanker", "trees")
        params, rounds, patience = self._collect(valid is not None)
        train = drop_empty_queries(train)
        if train.n_rows == 1:
            raise BadInput("CatBoost cannot learn from 1 sample. Give at least two rows that differ.")
        _refuse_long(train, params)
        names = list(train.feature_names)
        weights = choose_weights(train, _find_loss(params))
        threads = as_threads(self.n_jobs)
        history: list[float] = []
        held = None if valid is None else drop_empty_queries(valid)
        if held is not None and "eval_metric" not in (self.params or {}):
            watch = BoostingWatch(self.metric, held)  # refuses data on which nothing can be watched
            if watch.metric.ips or watch.metric.own:
                params["eval_metric"] = _OurWatch(watch)
        watched = params.get("eval_metric")
        name = type(watched).__name__ if isinstance(watched, _OurWatch) else str(watched)
        with show_rounds("CatBoost", rounds, self.verbose) as advance, warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*optimi?ze method", UserWarning)  # it would compile ours
            how: dict[str, Any] = {"callbacks": [_Keeper(history, advance, name)]}
            try:
                pool = catboost.Pool(
                    _as_writable(train.X), train.y, group_id=train.query_index, feature_names=names,
                    thread_count=threads, **weights,
                )  # fmt: skip
                if held is not None:
                    how["eval_set"] = catboost.Pool(
                        _as_writable(held.X), held.y, group_id=held.query_index, feature_names=names,
                        thread_count=threads,
                    )  # fmt: skip
                    how["use_best_model"] = patience is not None
                    how["early_stopping_rounds"] = patience
                booster = catboost.CatBoost(params)
                booster.fit(pool, **how)
            except catboost.CatBoostError as error:
                raise BadInput(f"CatBoost refused: {_last_part(error)}") from error
        self._load(write_model(booster, "cbm"))
        self.history_ = tuple(history)

    def _weighs_labels(self) -> bool:
        return _find_loss(merge_params({"loss_function": self.loss}, self.params, ALIASES)) in OF_ROWS

    def _check_settings(self) -> None:
        need_library("catboost", "CatBoostRanker", "trees")
        self._collect(False)  # what it can watch matters only where there is something to watch
        metric(self.metric)

    def _collect(self, watching: bool) -> tuple[dict[str, Any], int, int | None]:
        own = {
            "loss_function": self.loss,
            "iterations": self.rounds,
            "learning_rate": self.learning_rate,
            "depth": self.depth,
            "l2_leaf_reg": self.l2_leaf_reg,
            "random_strength": self.random_strength,
            "rsm": self.rsm if self.rsm != 1.0 else None,  # 1 is refused by the pairwise losses
            "thread_count": as_threads(self.n_jobs),
            "random_seed": as_seed(self.random_state),
            "eval_metric": _name_metric(self.metric) if watching else None,
            "logging_level": "Silent",
            "allow_writing_files": False,
        }
        params = merge_params(own, self.params, ALIASES)
        given = pop_param(params, ("early_stopping_rounds", "od_wait"), self.early_stopping)
        rounds, patience = check_rounds(pop_param(params, ALIASES[1], self.rounds), given)
        return params | {"iterations": rounds}, rounds, patience

    # -- using -------------------------------------------------------------------------------------

    def _score(self, X: Matrix) -> AnyArray:
        if X.shape[0] == 0:
            return np.empty(0)
        threads = as_threads(self.n_jobs)
        found = self.booster_.predict(_as_writable(X), prediction_type="RawFormulaVal", thread_count=threads)
        return np.asarray(found)

    def _contribute(self, X: Matrix) -> AnyArray:
        catboost = need_library("catboost", "CatBoostRanker", "trees")
        if X.shape[0] == 0:
            return np.empty((0, X.shape[1] + 1))
        threads = as_threads(self.n_jobs)
        pool = catboost.Pool(
            _as_writable(X), feature_names=list(self.booster_.feature_names_), thread_count=threads
        )
        return np.asarray(self.booster_.get_feature_importance(pool, type="ShapValues", thread_count=threads))

    def _weigh_features(self, kind: str) -> Floats:
        if kind == "gain":
            found = self.booster_.get_feature_importance(type="PredictionValuesChange")
            return np.asarray(found, dtype=np.float64)
        model = json.loads(write_model(self.booster_, "json"))
        counts = np.zeros(self.n_features_in_)
        for tree in (*model.get("oblivious_trees", ()), *model.get("trees", ())):
            for place in _list_splits(tree):
                counts[place] += 1
        return counts

    def _give_weights(self) -> dict[str, bytes]:
        return {MODEL: write_model(self.booster_, "cbm")}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        self._load(files[MODEL])

    def _load(self, content: bytes) -> None:
        """Take a model in CatBoost's binary format; what is used is always what a bundle would hold."""
        catboost = need_library("catboost", "CatBoostRanker", "trees")
        booster = catboost.CatBoost()
        try:
            width = check_model(content)
        except BadModel as error:
            raise BadInput(f"this is not a CatBoost model: {error}.") from error
        self._refuse_width(width, "CatBoost")
        try:
            booster.load_model(blob=content)
        except catboost.CatBoostError as error:
            raise BadInput(f"this is not a CatBoost model: {_last_part(error)}") from error
        self.booster_ = booster
        self.rounds_ = int(booster.tree_count_)
        self.history_ = ()


class _OurWatch:
    """A metric that CatBoost does not have, as it asks for one; only `valid` is measured."""

    def __init__(self, watch: BoostingWatch) -> None:
        self.watch = watch

    def __deepcopy__(self, memo: Any) -> _OurWatch:
        return self  # CatBoost copies its parameters; the data need no copy

    def is_max_optimal(self) -> bool:
        return self.watch.higher_is_better

    def get_final_error(self, error: float, weight: float) -> float:
        return error / (weight or 1.0)

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        scores = np.asarray(approxes[0], dtype=np.float64)
        if len(scores) != self.watch.valid.n_rows:  # CatBoost asks of the training lists too
            return 0.0, 1.0
        return self.watch(scores), 1.0


class _Keeper:
    """Moves the bar and keeps the watched values."""

    def __init__(self, history: list[float], advance: Advance, name: str) -> None:
        self.history = history
        self.name = name
        self.advance = advance

    def after_iteration(self, info: Any) -> bool:
        logs = (info.metrics or {}).get("validation", {})  # the metric and the loss, in any order
        asked = [log for name, log in logs.items() if _split_name(name) == _split_name(self.name)]
        value = float((asked or list(logs.values()))[0][-1]) if logs else None
        if value is not None:
            self.history.append(value)
        self.advance(value)
        return True


def choose_weights(train: RankingData, loss: str) -> dict[str, Any]:
    """What a Pool is given so that items weigh what they should; refused where this loss takes nothing."""
    if train.weight is None:
        return {}
    if not differ_within(train):
        return {"group_weight": np.asarray(train.weight, dtype=np.float64)}
    if loss == "QueryRMSE":
        return {"weight": np.asarray(train.weight, dtype=np.float64)}
    by_query = weigh_queries(train) if loss in OF_PAIRS else None
    if by_query is not None:
        return {"group_weight": np.repeat(by_query, train.sizes)}
    if loss.startswith("PairLogit"):
        return list_pairs(train)
    raise BadInput(
        f"CatBoost's {loss} takes one weight for each query, but rows of query {name_uneven(train)!r} have "
        f"several. Use {setting('loss', 'PairLogit')} or {setting('loss', 'QueryRMSE')}, which take "
        "weights of items, or LightGBM."
    )


def list_pairs(train: RankingData) -> dict[str, Any]:
    """All pairs of rows of a query with different labels, the better one first, and its weight."""
    from placings.rankers.pair_kernels import find_pairs

    assert train.weight is not None
    pairs = find_pairs(train.y, train.offsets)
    total = int(pairs.lower.sum())
    if total > MOST_PAIRS:
        raise BadInput(
            f"CatBoost must be told every pair and its weight, {MOST_PAIRS:,} at most. These have {total:,}. "
            f"Use {setting('loss', 'QueryRMSE')}, or LightGBM."
        )
    better = np.repeat(np.arange(train.n_rows), pairs.lower)
    within = np.arange(total) - np.repeat(np.cumsum(pairs.lower) - pairs.lower, pairs.lower)
    start = np.repeat(train.offsets[:-1], train.sizes)  # rows by rising label stand there in `ranked`
    worse = pairs.ranked[start[better] + within]
    return {"pairs": np.stack([better, worse], axis=1), "pairs_weight": train.weight[better]}


def _find_loss(params: Mapping[str, Any]) -> str:
    """The name of the loss, without its settings."""
    loss = next((str(params[name]) for name in ALIASES[0] if name in params), "")
    return loss.partition(":")[0]


def _refuse_long(train: RankingData, params: Mapping[str, Any]) -> None:
    """YetiRank weighs every two rows of a list: CatBoost ends the process where that is too much memory."""
    name = _find_loss(params)
    longest = int(train.sizes.max())
    if name.startswith("YetiRank") and longest > LARGEST_QUERY:
        query = train.qids.tolist()[int(train.sizes.argmax())]
        raise BadInput(
            f"{name} takes queries of at most {LARGEST_QUERY:,} rows: its memory grows with "
            f"their square. Query {query!r} has {longest:,}. Keep the rows that an engine would retrieve, or "
            f"use {setting('loss', 'QueryRMSE')}, which has no such limit."
        )


def _as_writable(X: Matrix) -> Any:
    """Dense as it is; CSR in arrays that may be written to, which CatBoost asks for though it only reads."""
    given: Any = as_old_sparse(X)
    if isinstance(X, np.ndarray):
        return given
    parts = (given.data, given.indices, given.indptr)
    given.data, given.indices, given.indptr = (p if p.flags.writeable else p.copy() for p in parts)
    return given


def _name_metric(name: Any) -> str | None:
    """`"ndcg@10"` as CatBoost writes it; None for what it is handed as an object: debiased or the user's."""
    chosen = metric(name)
    if chosen.ips or chosen.own:
        return None
    if chosen.name not in WATCHED or chosen.options:
        raise BadInput(
            f"CatBoost can watch {', '.join(sorted(WATCHED))}. Got {name!r}. "
            "Choose one of them, one such as dcg@10:ips, or a metric of CatBoost's own with "
            'params={"eval_metric": …}.'
        )
    return WATCHED[chosen.name] + ("" if chosen.k is None else f";top={chosen.k}")


def _split_name(name: str) -> frozenset[str]:
    """A metric's parts, which CatBoost lists in an order of its own."""
    return frozenset(name.replace(";", ":").split(":"))


def write_model(booster: Any, kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        booster.save_model(str(path), format=kind)
        return path.read_bytes()


def _list_splits(tree: Mapping[str, Any]) -> list[int]:
    """The feature of each split, of a symmetric tree (one a level) or of another (one a node)."""
    found = [int(split["float_feature_index"]) for split in tree.get("splits", None) or ()]
    if "split" in tree:
        found.append(int(tree["split"]["float_feature_index"]))
        found += _list_splits(tree["left"]) + _list_splits(tree["right"])
    return found


def _last_part(error: Exception) -> str:
    """CatBoost's message without the place in its source."""
    head, colon, tail = str(error).partition(": ")
    return tail if colon and ".cpp" in head else str(error)
