"""`XGBoostRanker`: XGBoost's LambdaMART under the one interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from placings.core import AnyArray, BadFile, BadInput, Floats, Floats32, OverLimit, UnknownName, need_library
from placings.data import Matrix, RankingData, name_features
from placings.metrics import metric
from placings.rankers.bad_models import BadModel
from placings.rankers.boosting import (
    Advance,
    BoostingWatch,
    TreeRanker,
    are_whole,
    as_threads,
    check_rounds,
    drop_empty_queries,
    exponential_gain,
    merge_params,
    pop_param,
    read_file,
    show_rounds,
)
from placings.rankers.estimator import as_seed
from placings.rankers.facts import Choice, Float, Int, RankerFacts
from placings.rankers.item_weights import differ_within, find_better, name_uneven, weigh_queries
from placings.rankers.xgb_files import check_model, read_model

if TYPE_CHECKING:
    from placings.rankers.lambda_kernels import LambdaGradients

OBJECTIVES = ("rank:ndcg", "rank:pairwise", "rank:map")
LARGEST_LABEL = 31  # with XGBoost's own exponential gain
LARGEST_EXPONENT = 127  # labels are float32 there
CELLS = 32_000_000  # values that are made dense together: 128 MB


def prepare_labels(train: RankingData, params: dict[str, Any]) -> Floats:
    """Labels as XGBoost wants them; sets `ndcg_exp_gain` in `params` where gains are passed instead."""
    y, objective = train.y, params.get("objective")
    if objective == "rank:map" and not ((y == 0) | (y == 1)).all():
        raise BadInput(
            f"rank:map takes labels 0 and 1. Got {y[(y != 0) & (y != 1)][0]:g}. Use rank:ndcg, or "
            "data.replace(y=(data.y > 0).astype(float))."
        )
    if objective != "rank:ndcg" or "ndcg_exp_gain" in params or (are_whole(y) and y.max() <= LARGEST_LABEL):
        return y
    params["ndcg_exp_gain"] = False
    return exponential_gain(y, LARGEST_EXPONENT)


def order_by_position(train: RankingData) -> RankingData:
    """Rows of each query as they were shown: XGBoost takes a row's place for its position."""
    assert train.position is not None
    order = np.lexsort((train.position, train.query_index))
    return train.replace(**train._map_rows(order))


def make_matrix(
    xgboost: Any,
    data: RankingData,
    labels: Floats,
    weight: Floats | None,
    params: Mapping[str, Any],
    reference: Any = None,
) -> Any:
    """What XGBoost trains on or watches: quantised where the trees are grown from histograms."""
    threads = params.get("nthread", params.get("n_jobs"))
    if params.get("tree_method") in ("exact", "approx") or params.get("booster") == "gblinear":
        dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
        return xgboost.DMatrix(dense, labels, group=data.sizes, weight=weight, nthread=threads)
    more = {"max_bin": params["max_bin"]} if "max_bin" in params else {}
    more |= {"nthread": threads, "ref": reference}
    parts = list(_cut_at_queries(data))
    if len(parts) <= 1:
        dense = next(make_dense(data.X))
        return xgboost.QuantileDMatrix(dense, labels, group=data.sizes, weight=weight, **more)
    return xgboost.QuantileDMatrix(_make_iterator(xgboost, data, labels, weight, parts), **more)


def _cut_at_queries(data: RankingData) -> Iterator[tuple[int, int]]:
    """First and last query (exclusive) of each part that is made dense together; dense data are one part."""
    if isinstance(data.X, np.ndarray):
        yield 0, data.n_queries
        return
    rows = max(1, CELLS // max(1, data.n_features))
    start = 0
    while start < data.n_queries:
        fitting = int(np.searchsorted(data.offsets, data.offsets[start] + rows, side="right")) - 1
        stop = max(start + 1, fitting)
        yield start, stop
        start = stop


def _make_iterator(
    xgboost: Any, data: RankingData, labels: Floats, weight: Floats | None, parts: list[tuple[int, int]]
) -> Any:
    matrix: Any = data.X

    class Parts(xgboost.DataIter):  # type: ignore[misc]
        """Sparse data, a dense part at a time."""

        def __init__(self) -> None:
            self.place = 0
            super().__init__()

        def reset(self) -> None:
            self.place = 0

        def next(self, input_data: Any) -> bool:
            if self.place == len(parts):
                return False
            start, stop = parts[self.place]
            rows = slice(int(data.offsets[start]), int(data.offsets[stop]))
            input_data(
                data=matrix[rows].toarray(), label=labels[rows], qid=data.query_index[rows],
                weight=None if weight is None else weight[start:stop],
            )  # fmt: skip
            self.place += 1
            return True

    return Parts()


def choose_weights(
    train: RankingData, labels: Floats, params: Mapping[str, Any], threads: int
) -> tuple[Floats | None, LambdaGradients | None]:
    """The weights `[queries]` that XGBoost is given, and gradients in place of its own if needed."""
    unbiased = _is_on(params, "lambdarank_unbiased", False)
    if unbiased and train.propensity is not None:
        raise BadInput(
            "lambdarank_unbiased and a propensity of the data both correct for position bias. Leave "
            "lambdarank_unbiased out, or use data.replace(propensity=None)."
        )
    if train.weight is None:
        return None, None
    if not differ_within(train):
        return np.asarray(train.weight[train.offsets[:-1]], dtype=np.float64), None
    objective, method = params.get("objective"), params.get("lambdarank_pair_method", "topk")
    by_query = weigh_queries(train) if objective in OBJECTIVES else None
    if by_query is not None:
        return by_query, None
    for wrong, what in (
        (objective not in OBJECTIVES[:2], f"the objective {objective}"),
        (method != "topk", f"the pair method {method}"),
        (unbiased, "lambdarank_unbiased"),
    ):
        if wrong:
            raise BadInput(
                f"XGBoost with {what} takes one weight for each query, but rows of query "
                f"{name_uneven(train)!r} have several. Use rank:ndcg or rank:pairwise with topk pairs."
            )
    return None, make_gradients(train, labels, params, threads)


def make_gradients(
    train: RankingData, labels: Floats, params: Mapping[str, Any], threads: int
) -> LambdaGradients:
    """XGBoost's gradients with a weight for each item, which are divided by the mean over queries."""
    from placings.rankers.lambda_kernels import LambdaGradients, LambdaRules

    better, weight = find_better(train), np.asarray(train.weight, dtype=np.float64)
    counted = np.add.reduceat(better.astype(np.float64), train.offsets[:-1])
    total = np.add.reduceat(weight * better, train.offsets[:-1])
    of_query = np.where(counted > 0, total / np.maximum(counted, 1.0), weight[train.offsets[:-1]])
    rules = LambdaRules(
        depth=int(params.get("lambdarank_num_pair_per_sample", 32)),
        swap=params["objective"] == "rank:ndcg",
        by_distance=_is_on(params, "lambdarank_score_normalization", True),
        by_total=_is_on(params, "lambdarank_normalization", True),
        curvature=2.0,
        least=1e-16,
    )
    gains = 2.0**labels - 1.0 if _is_on(params, "ndcg_exp_gain", True) else labels
    return LambdaGradients(labels, gains, weight / (of_query.mean() or 1.0), train.offsets, rules, threads)


def _is_on(params: Mapping[str, Any], name: str, default: bool) -> bool:
    value = params.get(name, default)
    return value.lower() in ("true", "1") if isinstance(value, str) else bool(value)


def make_dense(X: Matrix) -> Iterator[Floats32]:
    """Dense as it is; CSR in parts of rows, absent values as zeros."""
    if isinstance(X, np.ndarray):
        yield X
        return
    rows = max(1, CELLS // max(1, X.shape[1]))
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows].toarray()


MODEL = "model.json"

ALIASES = (
    ("learning_rate", "eta"),
    ("gamma", "min_split_loss"),
    ("reg_lambda", "lambda"),
    ("reg_alpha", "alpha"),
    ("seed", "random_state"),
    ("nthread", "n_jobs"),
)
ROUNDS = ("num_boost_round", "n_estimators")
UNSEEN = {"verbosity", "eval_metric"}  # parameters that XGBoost knows but does not list in a configuration


class XGBoostRanker(TreeRanker):
    """Boosted trees by XGBoost, with LambdaRank's gradients.

    `params` are XGBoost's parameters by any of its names; they win over the arguments here, and a name that
    XGBoost makes no use of is an error. None anywhere stands for XGBoost's default. The same seed gives the
    same bits, whatever `n_jobs`.

    - `rounds`, `early_stopping`: trees at most, and how many rounds without a better `metric` on `valid` end
      the training; the best round's trees are kept. None, or no `valid`: all rounds.
    - `metric`: any metric's name, or a function of your own, measured as everywhere in placings.
    - `pair_method`, `pairs`: which pairs of a query are looked at ("topk" or "mean"), and how deep or many.
    - `verbose`: a progress bar on a terminal, elsewhere a line now and then.

    Labels are grades with gain `2^y − 1`. Fractions and grades above 31, which XGBoost refuses, become
    their exact gains with `rank:ndcg`; `rank:map` takes 0 and 1 only. NaN is missing and an absent value of
    CSR is 0, as everywhere in placings; XGBoost itself would take the latter for missing, so sparse data
    are made dense 128 MB at a time (and beyond the first 128 MB the bins differ from dense data's within
    the error of XGBoost's sketch). Positions are used with `params={"lambdarank_unbiased": True}`.

    `sample_weight` weighs items. Where one weight of queries gives each pair the weight of its better row,
    XGBoost is given that; otherwise the gradients are placings' own, by XGBoost's formulas with each pair
    times its weight, for `rank:ndcg` and `rank:pairwise` with pairs of the "topk" method. As XGBoost has
    it, weights are divided by their mean.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(20, n_features=5, random_state=0).data
    >>> ranker = XGBoostRanker(rounds=10, random_state=0).fit(data)
    >>> ranker.predict(data).shape == (data.n_rows,), len(ranker.feature_importances("split"))
    (True, 5)
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={
            "default": {
                "objective": Choice(("rank:ndcg", "rank:pairwise")),
                "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
                "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
                "max_depth": Int(2, 10, grid=(3, 6, 9)),
                "min_child_weight": Float(0.01, 100.0, log=True, grid=(0.1, 1.0, 10.0)),
                "subsample": Float(0.4, 1.0, grid=(0.6, 1.0)),
                "colsample": Float(0.3, 1.0, grid=(0.5, 1.0)),
                "reg_lambda": Float(1e-3, 100.0, log=True, grid=(0.1, 1.0, 10.0)),
                "reg_alpha": Float(1e-3, 10.0, log=True, grid=(0.01,)),
            },
            "thesis": {
                "objective": Choice(("rank:ndcg", "rank:pairwise", "rank:map")),
                "rounds": Int(100, 500, grid=(100, 500)),
                "min_child_weight": Float(0.1, 1.0, log=True, grid=(0.1, 1.0)),
                "max_depth": Int(4, 8, grid=(4, 6, 8)),
            },
        },
        libraries=("xgboost", "xgboost-cpu"),
        familiar={
            "num_round": ("XGBoost", ("rounds",)),
            "max_leaves": ("XGBoost", ("leaves",)),
            "max_depth": ("XGBoost", ("depth",)),
            "eta": ("XGBoost", ("learning_rate", "lr")),
            "early_stopping_rounds": ("XGBoost", ("early_stopping", "patience")),
            "seed": ("XGBoost", ("random_state",)),
            "nthread": ("XGBoost", ("n_jobs",)),
            "reg_lambda": ("XGBoost", ("l2_leaf_reg",)),
            "alpha": ("XGBoost", ("reg_alpha",)),
            "lambda": ("XGBoost", ("reg_lambda",)),
            "subsample": ("XGBoost", ("bagging_fraction",)),
            "colsample_bytree": ("XGBoost", ("colsample", "feature_fraction", "rsm")),
            "eval_metric": ("XGBoost", ("metric",)),
            "lambdarank_pair_method": ("XGBoost", ("pair_method",)),
            "lambdarank_num_pair_per_sample": ("XGBoost", ("pairs",)),
            "min_split_loss": ("XGBoost", ("gamma",)),
            "min_sum_hessian_in_leaf": ("LightGBM", ("min_child_weight",)),
            "min_gain_to_split": ("LightGBM", ("gamma",)),
        },
        passed=(
            "max_leaves",
            "max_bin",
            "grow_policy",
            "tree_method",
            "booster",
            "max_delta_step",
            "device",
            "colsample_bylevel",
            "colsample_bynode",
            "monotone_constraints",
            "interaction_constraints",
            "scale_pos_weight",
            "base_score",
            "num_parallel_tree",
            "sampling_method",
            "ndcg_exp_gain",
            "lambdarank_unbiased",
            "lambdarank_bias_norm",
            "lambdarank_normalization",
            "rate_drop",
        ),
        notes={
            "num_leaves": "XGBoost's trees are bounded by their depth: max_depth=6. With "
            "params={'grow_policy': 'lossguide', 'max_leaves': 31} also by leaves.",
        },
        quick={"rounds": 20, "random_state": 0},
    )

    def __init__(
        self,
        *,
        objective: str = "rank:ndcg",
        rounds: int = 300,
        learning_rate: float = 0.05,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        subsample: float = 1.0,
        colsample: float = 1.0,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        gamma: float = 0.0,
        pair_method: str | None = None,
        pairs: int | None = None,
        early_stopping: int | None = 50,
        metric: str | Callable[..., Any] = "ndcg@10",
        params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.objective = objective
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample = colsample
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.gamma = gamma
        self.pair_method = pair_method
        self.pairs = pairs
        self.early_stopping = early_stopping
        self.metric = metric
        self.params = params
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_model(cls, path: str | Path) -> Self:
        """A fitted ranker from a model that XGBoost saved as JSON or UBJSON, with equal (raw) scores.

        Features without names in the file are called f1, f2, …
        """
        ranker = cls()
        try:
            ranker._load(read_file(path))
        except OverLimit:
            raise
        except BadInput as error:
            raise BadFile(path, str(error)) from error
        ranker.rounds = ranker.rounds_
        names = ranker.booster_.feature_names
        ranker._adopt(name_features(ranker.booster_.num_features()) if names is None else names)
        return ranker

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        xgboost = need_library("xgboost", "XGBoostRanker", "trees")
        params, rounds, patience = self._collect()
        train = drop_empty_queries(train)
        if params.get("lambdarank_unbiased") and train.position is not None:
            train = order_by_position(train)
        labels = prepare_labels(train, params)
        weight, gradients = choose_weights(train, labels, params, as_threads(self.n_jobs))
        matrix = make_matrix(xgboost, train, labels, weight, params)
        names = train.feature_names
        if not any(set(name) & set("[]<") for name in names):
            matrix.feature_names = list(names)
        watched: dict[str, Any] = {}
        stoppers = []
        if valid is not None:
            held = drop_empty_queries(valid)
            matrix_held = make_matrix(xgboost, held, held.y, None, params, matrix)
            matrix_held.feature_names = matrix.feature_names
            watched["evals"] = [(matrix_held, "valid")]
            maximize = None
            if "eval_metric" not in params:
                watch = BoostingWatch(self.metric, held)
                maximize = watch.higher_is_better
                name = watch.name.replace(":", "_")  # XGBoost parts names from values at a colon
                watched["custom_metric"] = lambda scores, data: (name, watch(scores))
            if patience is not None:
                stoppers.append(xgboost.callback.EarlyStopping(rounds=patience, maximize=maximize))
        if gradients is not None:
            watched["obj"] = lambda scores, data: gradients.at(scores)
        with show_rounds("XGBoost", rounds, self.verbose) as advance:
            keeper = _make_keeper(xgboost, self.params, advance)
            try:
                booster = xgboost.train(
                    params, matrix, rounds, verbose_eval=False, callbacks=[keeper, *stoppers], **watched
                )
            except xgboost.core.XGBoostError as error:
                raise BadInput(f"XGBoost refused: {_first_line(error)}") from error
        if stoppers:
            booster = booster[: booster.best_iteration + 1]
        self._load(bytes(booster.save_raw("json")))
        self.history_ = tuple(keeper.history)

    def _check_settings(self) -> None:
        need_library("xgboost", "XGBoostRanker", "trees")
        self._collect()
        metric(self.metric)

    def _collect(self) -> tuple[dict[str, Any], int, int | None]:
        if self.objective not in OBJECTIVES:
            raise UnknownName("objective (others go into params)", str(self.objective), OBJECTIVES)
        own = {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample,
            "reg_lambda": self.reg_lambda,
            "reg_alpha": self.reg_alpha,
            "gamma": self.gamma,
            "lambdarank_pair_method": self.pair_method,
            "lambdarank_num_pair_per_sample": self.pairs,
            "nthread": as_threads(self.n_jobs),
            "seed": as_seed(self.random_state),
            "tree_method": "hist",
            "verbosity": 0,
        }
        params = merge_params(own, self.params, ALIASES)
        if "eval_metric" not in params:
            params["disable_default_eval_metric"] = True
        rounds, patience = check_rounds(
            pop_param(params, ROUNDS, self.rounds),
            pop_param(params, ("early_stopping_rounds",), self.early_stopping),
        )
        return params, rounds, patience

    # -- using -------------------------------------------------------------------------------------

    def _score(self, X: Matrix) -> AnyArray:
        parts = [self._score_part(part) for part in make_dense(X)]
        return np.concatenate([np.empty(0, dtype=np.float32), *parts])

    def _score_part(self, part: Floats32) -> AnyArray:
        if not self._linear:
            found = self.booster_.inplace_predict(part, predict_type="margin", validate_features=False)
            return np.asarray(found)
        xgboost = need_library("xgboost", "XGBoostRanker", "trees")  # a linear booster has no quick way
        matrix = xgboost.DMatrix(part, nthread=as_threads(self.n_jobs))
        return np.asarray(self.booster_.predict(matrix, output_margin=True, validate_features=False))

    def _contribute(self, X: Matrix) -> AnyArray:
        xgboost = need_library("xgboost", "XGBoostRanker", "trees")
        parts = [
            self.booster_.predict(
                xgboost.DMatrix(part, nthread=as_threads(self.n_jobs)), pred_contribs=True,
                validate_features=False,
            )
            for part in make_dense(X)
        ]  # fmt: skip
        return np.concatenate([np.empty((0, X.shape[1] + 1), dtype=np.float32), *parts])

    def _weigh_features(self, kind: str) -> Floats:
        names = self.booster_.feature_names or [f"f{place}" for place in range(self.n_features_in_)]
        found = self.booster_.get_score(importance_type={"gain": "total_gain", "split": "weight"}[kind])
        return np.array([found.get(name, 0.0) for name in names], dtype=np.float64)

    def _give_weights(self) -> dict[str, bytes]:
        return {MODEL: bytes(self.booster_.save_raw("json"))}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        self._load(files[MODEL])

    def _load(self, content: bytes) -> None:
        """Take a model in XGBoost's JSON or UBJSON; what is used is always what a bundle would hold."""
        xgboost = need_library("xgboost", "XGBoostRanker", "trees")
        booster = xgboost.Booster({"nthread": as_threads(self.n_jobs), "verbosity": 0})
        try:
            model = read_model(content)
            width = check_model(model)
        except BadModel as error:
            raise BadInput(f"this is not an XGBoost model (JSON or UBJSON): {error}.") from error
        self._refuse_width(width, "XGBoost")
        try:
            booster.load_model(bytearray(content))
        except xgboost.core.XGBoostError as error:
            raise BadInput(f"this is not an XGBoost model (JSON or UBJSON): {_first_line(error)}") from error
        self.booster_ = booster
        self._linear = model["learner"]["gradient_booster"]["name"] == "gblinear"
        self.rounds_ = int(booster.num_boosted_rounds())
        self.history_ = ()


# -- training -------------------------------------------------------------------------------------


def _make_keeper(xgboost: Any, given: Mapping[str, Any] | None, advance: Advance) -> Any:
    class Keeper(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        """Moves the bar, keeps the watched values, and refuses parameters that XGBoost passed over."""

        def __init__(self) -> None:
            super().__init__()
            self.history: list[float] = []

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch == 0:
                _refuse_unused(model, given)
            value = None
            if evals_log:
                value = next(iter(evals_log["valid"].values()))[-1]
                self.history.append(float(value))
            advance(value)
            return False

    return Keeper()


def _refuse_unused(model: Any, given: Mapping[str, Any] | None) -> None:
    known = _list_keys(json.loads(model.save_config())) | UNSEEN | {*ROUNDS, "early_stopping_rounds"}
    known |= {name for names in ALIASES for name in names}
    for name in given or {}:
        if name not in known:
            raise UnknownName("XGBoost parameter in use with these settings", str(name), known)


def _list_keys(part: Any) -> set[str]:
    if isinstance(part, dict):
        return set(part).union(*map(_list_keys, part.values()))
    return set().union(*map(_list_keys, part)) if isinstance(part, list) else set()


def _first_line(error: Exception) -> str:
    """XGBoost's message without the place in its source and the stack."""
    line = (str(error).splitlines() or [""])[0]
    return line.rpartition("Check failed: ")[2] if "Check failed" in line else line.rpartition("] ")[2]
