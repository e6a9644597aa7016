"""`LightGBMRanker`: LightGBM's LambdaRank and XE-NDCG under the one interface."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from placings.core import AnyArray, BadFile, BadInput, Floats, PlacingsWarning, UnknownName, need_library
from placings.data import Matrix, RankingData
from placings.metrics import metric
from placings.rankers.bad_models import BadModel
from placings.rankers.boosting import (
    BoostingWatch,
    TreeRanker,
    are_whole,
    as_old_sparse,
    as_threads,
    check_rounds,
    code_labels,
    drop_empty_queries,
    merge_params,
    pop_param,
    read_file,
    show_rounds,
)
from placings.rankers.estimator import as_seed
from placings.rankers.facts import POSITIVE_WEIGHT, Choice, Float, Int, RankerFacts
from placings.rankers.item_weights import are_classes, differ_within, weigh_queries

if TYPE_CHECKING:
    from placings.rankers.lambda_kernels import CrossEntropyGradients, LambdaGradients

Fields = dict[str, str]
NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|inf|nan)")


def check_model(text: bytes) -> int:
    """The number of features of a model with one score a row; BadModel if LightGBM could stumble over it.

    Checked: the header, that each tree is where the header says, that its arrays have the lengths its
    leaves ask for, that children form one tree, and that features exist.
    """
    if not text.startswith(b"tree\n"):
        raise BadModel("it does not begin with the line 'tree'")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise BadModel("it is not UTF-8") from error
    head, gap, rest = text.partition(b"\n\n")
    fields = _read_fields(head)
    width = _check_header(fields)
    sizes = _read_numbers(fields, "tree_sizes", int)
    if not gap or not len(sizes) or (sizes <= 0).any() or sizes.sum() > len(rest):
        raise BadModel("it ends before its trees do")
    body = rest.lstrip(b"\n")
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if not body[ends[-1] :].lstrip(b"\n").startswith(b"end of trees"):
        raise BadModel("its trees do not end where its header says")
    for number, (start, stop) in enumerate(pairwise(ends.tolist())):
        block = body[start:stop]
        if not block.startswith(b"Tree=%d\n" % number):
            raise BadModel(f"tree {number} is not where its header says")
        try:
            if not all(b"=" in line for line in block.rstrip(b"\n").split(b"\n")):
                raise BadModel("it has a line that is not name=value")
            _check_tree(_read_fields(block), width)
        except BadModel as error:
            raise BadModel(f"tree {number}: {error}") from error
    _check_parameters(body[ends[-1] :])
    return width


def _check_header(fields: Fields) -> int:
    """One score a row, and every feature named and described; the number of features."""
    for name in ("num_class", "num_tree_per_iteration"):
        if _read_numbers(fields, name, int, 1)[0] != 1:
            raise BadModel(f"it gives several scores a row ({name} is {fields[name]})")
    width = int(_read_numbers(fields, "max_feature_idx", int, 1)[0]) + 1
    if width < 1 or len(fields.get("feature_names", "").split(" ")) != width:
        raise BadModel(f"it does not name its {width} features")
    if len(fields.get("feature_infos", "").split(" ")) != width:
        raise BadModel(f"it does not describe its {width} features")
    return width


def _check_parameters(tail: bytes) -> None:
    """The parameters that are told after the trees: `[name: value]`, one a line."""
    _, begin, rest = tail.partition(b"\nparameters:")
    told, end, _ = rest.partition(b"\nend of parameters")
    if bool(begin) != bool(end) or (b"parameters" in tail and not begin):
        raise BadModel("its parameters have no beginning or no end")
    for line in told.split(b"\n"):
        if line.strip() and not re.fullmatch(rb"\[\w+: .*\]", line):
            raise BadModel(f"among its parameters is a line {line.decode()[:40]!r}")


def _check_tree(fields: Fields, width: int) -> None:
    for name in fields:
        _read_numbers(fields, name, float)
    leaves = int(_read_numbers(fields, "num_leaves", int, 1)[0])
    categories = int(_read_numbers(fields, "num_cat", int, 1)[0])
    if leaves < 1 or categories < 0:
        raise BadModel("its number of leaves is wrong")
    if not np.isfinite(_read_numbers(fields, "leaf_value", float, leaves)).all():
        raise BadModel("a leaf's value must be a finite number")
    if leaves == 1:
        return
    nodes = leaves - 1
    features = _read_numbers(fields, "split_feature", int, nodes)
    threshold = _read_numbers(fields, "threshold", float, nodes)
    decision = _read_numbers(fields, "decision_type", int, nodes)
    children = np.stack([_read_numbers(fields, name, int, nodes) for name in ("left_child", "right_child")])
    if not _are_within(features, width):
        raise BadModel("a split uses a feature that does not exist")
    wanted = np.concatenate([np.arange(-leaves, 0), np.arange(1, nodes)])  # every leaf and node but the root
    inner = children >= 0
    if (
        not np.array_equal(np.sort(children, axis=None), wanted)
        or (children <= np.arange(nodes))[inner].any()
    ):
        raise BadModel("its nodes form no tree")
    told = dict.fromkeys(("split_gain", "internal_value", "internal_weight", "internal_count"), nodes)
    told |= dict.fromkeys(("leaf_weight", "leaf_count"), leaves)
    for name in told.keys() & fields.keys():  # older versions leave some out
        _read_numbers(fields, name, float, told[name])
    of_category = (decision & 1) == 1
    if categories or of_category.any():
        _check_categories(fields, categories, threshold[of_category])
    if fields.get("is_linear", "0") != "0":
        counts = _read_numbers(fields, "num_features", int, leaves)
        used = _read_numbers(fields, "leaf_features", int, int(counts.sum()))
        _read_numbers(fields, "leaf_coeff", float, int(counts.sum()))
        _read_numbers(fields, "leaf_const", float, leaves)
        if (counts < 0).any() or not _are_within(used, width):
            raise BadModel("a leaf uses a feature that does not exist")


def _check_categories(fields: Fields, categories: int, places: AnyArray) -> None:
    borders = _read_numbers(fields, "cat_boundaries", int, categories + 1)
    words = _read_numbers(fields, "cat_threshold", int)
    falling = (np.diff(borders) < 0).any() or borders[0] < 0 or borders[-1] > len(words)
    if falling or not _are_within(places, categories):
        raise BadModel("a split uses categories that do not exist")


def _are_within(places: AnyArray, count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())


def _read_fields(block: bytes) -> Fields:
    lines = block.decode().split("\n")
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def _read_numbers(
    fields: Fields, name: str, kind: type[int] | type[float], count: int | None = None
) -> AnyArray:
    try:
        words = [word for word in fields[name].split(" ") if word]
        if not all(map(NUMBER.fullmatch, words)):  # Python reads more as numbers than LightGBM does
            raise ValueError(name)
        numbers: AnyArray = np.array([kind(word) for word in words], dtype=kind)
    except (KeyError, ValueError, OverflowError) as error:
        raise BadModel(f"{name} is not there or not numbers") from error
    if count is not None and len(numbers) != count:
        raise BadModel(f"{name} must have {count} numbers, and has {len(numbers)}")
    return numbers


OBJECTIVES = ("lambdarank", "rank_xendcg")
LARGEST_QUERY = 10_000  # rows; lambdarank refuses more
LARGEST_LABEL = 30  # lambdarank's own table of gains ends here
MODEL = "model.txt"


class LightGBMRanker(TreeRanker):
    """Boosted trees by LightGBM, with LambdaRank's gradients or XE-NDCG's.

    The defaults are smaller trees than LightGBM's own, chosen on validation queries of MQ2008, OHSUMED and
    generated data. The same seed gives the same bits, whatever `n_jobs`. `params` are LightGBM's parameters
    by any of its names; they win over the arguments here, and a name that LightGBM does not know is an
    error. None stands for LightGBM's default.

    - `rounds`, `early_stopping`: trees at most, and how many rounds without a better `metric` on `valid` end
      the training; the best round's trees are kept. None, or no `valid`: all rounds.
    - `min_data_in_leaf`: rows a leaf has at least; None is 50, but no more than a twentieth of the rows.
    - `metric`: any metric's name, or a function of your own, measured as everywhere in placings.
    - `debias`: if the data have positions, learn with LightGBM's correction for position bias.
    - `verbose`: a progress bar on a terminal, elsewhere a line now and then.

    Labels are grades with gain `2^y − 1`. Fractions and grades above 30, which LightGBM refuses, are coded
    with exactly that gain (lambdarank; rank_xendcg takes any whole number, and fractions are refused).
    lambdarank refuses queries of more than 10,000 rows. NaN is missing; in CSR an absent value is 0.

    `sample_weight` weighs items. Where it is one number for each query, it is LightGBM's own; where one
    weight of queries gives each pair the weight of its better row, LightGBM is given that. Otherwise the
    gradients are placings' own, by LightGBM's formulas with each pair (or gain, for rank_xendcg) times its
    item's weight. Weights that only tell relevant rows from others, by the same factor in each query
    (`positive_weight`), scale the gradients of rows, as LightGBM has it. A propensity of the data takes the
    place of `debias`.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(20, n_features=5, random_state=0).data
    >>> ranker = LightGBMRanker(rounds=10, random_state=0).fit(data)
    >>> ranker.predict(data).shape == (data.n_rows,), len(ranker.feature_importances("split"))
    (True, 5)
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={
            "default": {
                "objective": Choice(("lambdarank", "rank_xendcg")),
                "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
                "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
                "leaves": Int(4, 255, log=True, grid=(7, 31, 127)),
                "min_data_in_leaf": Int(1, 200, log=True, grid=(5, 20, 100)),
                "reg_lambda": Float(1e-3, 100.0, log=True, grid=(0.01, 10.0)),
                "reg_alpha": Float(1e-3, 10.0, log=True, grid=(0.01,)),
                "feature_fraction": Float(0.3, 1.0, grid=(0.5, 1.0)),
                "bagging_fraction": Float(0.4, 1.0, grid=(0.6, 1.0)),
                "lambdarank_truncation_level": Int(5, 100, log=True, grid=(10, 30, 100)),
            },
            "thesis": {
                "objective": Choice(("lambdarank", "rank_xendcg")),
                POSITIVE_WEIGHT: Choice((1.0, 10.0)),
                "rounds": Int(100, 500, grid=(100, 500)),
                "params.min_sum_hessian_in_leaf": Float(0.001, 0.1, log=True, grid=(0.001, 0.1)),
                "params.max_depth": Int(4, 8, grid=(4, 6, 8)),
            },
        },
        libraries=("lightgbm",),
        familiar={
            "n_estimators": ("LightGBM", ("rounds",)),
            "num_boost_round": ("LightGBM", ("rounds",)),
            "num_iterations": ("LightGBM", ("rounds",)),
            "num_trees": ("LightGBM", ("rounds",)),
            "num_leaves": ("LightGBM", ("leaves",)),
            "max_leaf_nodes": ("scikit-learn", ("leaves",)),
            "shrinkage_rate": ("LightGBM", ("learning_rate",)),
            "early_stopping_round": ("LightGBM", ("early_stopping", "patience")),
            "early_stopping": ("LightGBM", ("patience",)),
            "num_threads": ("LightGBM", ("n_jobs",)),
            "min_child_samples": ("LightGBM", ("min_data_in_leaf",)),
            "min_samples_leaf": ("scikit-learn", ("min_data_in_leaf",)),
            "lambda_l1": ("LightGBM", ("reg_alpha",)),
            "lambda_l2": ("LightGBM", ("reg_lambda", "l2_leaf_reg")),
            "bagging_fraction": ("LightGBM", ("subsample",)),
            "subsample_freq": ("LightGBM", ("bagging_freq",)),
            "feature_fraction": ("LightGBM", ("colsample", "rsm")),
            "objective": ("LightGBM", ("loss",)),
            "num_iteration": ("LightGBM", ("rounds",)),
            "n_iter": ("LightGBM", ("rounds",)),
            "max_leaf": ("LightGBM", ("leaves",)),
            "min_data": ("LightGBM", ("min_data_in_leaf",)),
            "truncation_level": ("LightGBM", ("lambdarank_truncation_level",)),
            "l1_regularization": ("LightGBM", ("reg_alpha",)),
            "l2_regularization": ("scikit-learn", ("reg_lambda", "l2_leaf_reg", "weight_decay")),
            "max_features": ("scikit-learn", ("feature_fraction", "colsample", "rsm")),
            "max_iter": ("scikit-learn", ("rounds", "steps")),
        },
        passed=(
            "max_depth",
            "max_bin",
            "min_sum_hessian_in_leaf",
            "min_child_weight",
            "min_gain_to_split",
            "min_split_gain",
            "label_gain",
            "lambdarank_norm",
            "sigmoid",
            "boosting",
            "boosting_type",
            "linear_tree",
            "extra_trees",
            "path_smooth",
            "monotone_constraints",
            "categorical_feature",
            "device_type",
            "device",
            "force_col_wise",
            "force_row_wise",
            "deterministic",
            "cat_smooth",
            "feature_fraction_bynode",
            "data_sample_strategy",
            "subsample_for_bin",
            "max_delta_step",
        ),
        quick={"rounds": 20, "min_data_in_leaf": 2, "random_state": 0},
    )

    def __init__(
        self,
        *,
        objective: str = "lambdarank",
        rounds: int = 300,
        learning_rate: float = 0.05,
        leaves: int = 15,
        min_data_in_leaf: int | None = None,
        reg_lambda: float = 0.0,
        reg_alpha: float = 0.0,
        feature_fraction: float = 0.7,
        bagging_fraction: float = 1.0,
        bagging_freq: int = 1,
        lambdarank_truncation_level: int | None = None,
        early_stopping: int | None = 50,
        metric: str | Callable[..., Any] = "ndcg@10",
        debias: bool = True,
        params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.objective = objective
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_data_in_leaf = min_data_in_leaf
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.feature_fraction = feature_fraction
        self.bagging_fraction = bagging_fraction
        self.bagging_freq = bagging_freq
        self.lambdarank_truncation_level = lambdarank_truncation_level
        self.early_stopping = early_stopping
        self.metric = metric
        self.debias = debias
        self.params = params
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_model(cls, path: str | Path) -> Self:
        """A fitted ranker from a model that LightGBM saved as text, with equal (raw) scores."""
        ranker = cls()
        try:
            ranker._load(read_file(path))
        except BadModel as error:
            raise BadFile(path, f"this is not a LightGBM text model: {error}.") from error
        ranker.rounds = ranker.rounds_
        ranker._adopt(ranker.booster_.feature_name())
        return ranker

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        lightgbm = need_library("lightgbm", "LightGBMRanker", "trees")
        train = drop_empty_queries(train)
        params, rounds, patience, own_metric = self._collect(lightgbm, train.n_rows)
        labels = self._prepare_labels(train, params)
        names = _name_columns(train.feature_names)
        ranking = _is_ranking(params)
        weight, gradients = self._choose_weights(train, labels, params) if ranking else (train.weight, None)
        position = train.position if self.debias and ranking and train.propensity is None else None
        if gradients is not None and position is not None:
            position = None
            _say_unused()
        categorical = pop_param(params, lightgbm.basic._ConfigAliases.get("categorical_feature"), "auto")
        silent = {"verbosity": -1}
        dataset = lightgbm.Dataset(
            as_old_sparse(train.X), labels, group=train.sizes, weight=weight, position=position,
            feature_name=names, categorical_feature=categorical, params=silent,
        )  # fmt: skip
        history: list[float] = []
        with show_rounds("LightGBM", rounds, self.verbose) as advance:

            def after_round(env: Any) -> None:
                value = env.evaluation_result_list[0][2] if env.evaluation_result_list else None
                if value is not None:
                    history.append(float(value))
                advance(value)

            watched: dict[str, Any] = {"callbacks": [after_round]}
            if valid is not None:
                held = drop_empty_queries(valid)
                watched["valid_sets"] = [
                    lightgbm.Dataset(
                        as_old_sparse(held.X), held.y, group=held.sizes, reference=dataset, params=silent
                    )
                ]
                watched["valid_names"] = ["valid"]
                if not own_metric:
                    watch = BoostingWatch(self.metric, held)
                    watched["feval"] = lambda scores, data: (
                        watch.name,
                        watch(scores),
                        watch.higher_is_better,
                    )
                if patience is not None:
                    watched["callbacks"].append(
                        lightgbm.early_stopping(patience, first_metric_only=True, verbose=False)
                    )
            if gradients is not None:
                params = {**params, "objective": lambda scores, data: gradients.at(scores)}
            try:
                booster = lightgbm.train(params, dataset, rounds, **watched)
            except lightgbm.basic.LightGBMError as error:
                raise BadInput(f"LightGBM refused: {error}") from error
        best = booster.best_iteration if patience is not None and booster.best_iteration > 0 else None
        self._load(booster.model_to_string(num_iteration=best).encode())
        self.history_ = tuple(history)

    def _check_settings(self) -> None:
        self._collect(need_library("lightgbm", "LightGBMRanker", "trees"), 1)
        metric(self.metric)

    def _collect(self, lightgbm: Any, rows: int) -> tuple[dict[str, Any], int, int | None, bool]:
        """LightGBM's parameters, the rounds, the patience, and whether to watch a metric of its own."""
        if self.objective not in OBJECTIVES:
            raise UnknownName("objective (others go into params)", str(self.objective), OBJECTIVES)
        fewest = self.min_data_in_leaf
        own = {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": min(50, max(1, rows // 20)) if fewest is None else fewest,
            "lambda_l2": self.reg_lambda,
            "lambda_l1": self.reg_alpha,
            "feature_fraction": self.feature_fraction,
            "bagging_fraction": self.bagging_fraction,
            "bagging_freq": self.bagging_freq,
            "lambdarank_truncation_level": self.lambdarank_truncation_level,
            "num_threads": as_threads(self.n_jobs),
            "seed": as_seed(self.random_state),
            "metric": "None",
            "verbosity": -1,
            "deterministic": True,
            "force_row_wise": True,
        }
        aliases = {name: lightgbm.basic._ConfigAliases.get(name) for name in own}
        known = lightgbm.basic._ConfigAliases.get(*_list_params(lightgbm))
        for name in self.params or {}:
            if known and name not in known:
                raise UnknownName("LightGBM parameter", str(name), known)
        params = merge_params(own, self.params, [*aliases.values(), ("force_row_wise", "force_col_wise")])
        rounds, patience = check_rounds(
            pop_param(params, lightgbm.basic._ConfigAliases.get("num_iterations"), self.rounds),
            pop_param(params, lightgbm.basic._ConfigAliases.get("early_stopping_round"), self.early_stopping),
        )
        own_metric = bool(aliases["metric"] & set(self.params or {}))
        return params, rounds, patience, own_metric

    def _prepare_labels(self, train: RankingData, params: dict[str, Any]) -> Floats:
        """Labels as LightGBM wants them; puts `label_gain` into `params` where it is needed."""
        objective = params.get("objective")
        if objective == "lambdarank" and train.sizes.max() > LARGEST_QUERY:
            place = int(train.sizes.argmax())
            raise BadInput(
                f"lambdarank takes queries of at most {LARGEST_QUERY:,} rows. Query "
                f"{train.qids.tolist()[place]!r} has {int(train.sizes[place]):,}. Keep the rows that an "
                'engine would retrieve, or use objective="rank_xendcg", which has no such limit.'
            )
        whole = are_whole(train.y)
        if objective == "rank_xendcg" and not whole:
            raise BadInput(
                "rank_xendcg would cut fractional labels to whole ones. Round them yourself, or use "
                'objective="lambdarank", which gives each its exact gain.'
            )
        if objective != "lambdarank" or "label_gain" in params:
            return train.y
        if whole and train.y.max() <= LARGEST_LABEL:
            return train.y
        codes, params["label_gain"] = code_labels(train.y)
        return codes

    def _choose_weights(
        self, train: RankingData, labels: Floats, params: Mapping[str, Any]
    ) -> tuple[AnyArray | None, LambdaGradients | CrossEntropyGradients | None]:
        """The weights `[rows]` that LightGBM is given, and gradients in place of its own if needed."""
        if not differ_within(train) or (train.propensity is None and are_classes(train)):
            return train.weight, None
        by_query = weigh_queries(train)
        if by_query is not None:
            return np.repeat(by_query, train.sizes), None
        weight, threads = np.asarray(train.weight, dtype=np.float64), as_threads(self.n_jobs)
        if params["objective"] == "rank_xendcg":
            from placings.rankers.lambda_kernels import CrossEntropyGradients

            random = np.random.default_rng(as_seed(self.random_state) or 0)
            return None, CrossEntropyGradients(train.y, weight, train.offsets, random, threads)
        from placings.rankers.lambda_kernels import LambdaGradients, LambdaRules

        rules = LambdaRules(
            depth=int(params.get("lambdarank_truncation_level", 30)),
            sigmoid=float(params.get("sigmoid", 1.0)),
            by_distance=bool(params.get("lambdarank_norm", True)),
            by_total=bool(params.get("lambdarank_norm", True)),
        )
        return None, LambdaGradients(
            labels, _find_gains(labels, params), weight, train.offsets, rules, threads
        )

    # -- using -------------------------------------------------------------------------------------

    def _score(self, X: Matrix) -> AnyArray:
        return np.asarray(self._ask(X))

    def _contribute(self, X: Matrix) -> AnyArray:
        if not isinstance(X, np.ndarray):
            found = self._ask(X.astype(np.float64), pred_contrib=True)  # answered in the type asked
            return np.asarray(found.toarray())
        return np.asarray(self._ask(X, pred_contrib=True))

    def _ask(self, X: Any, **what: Any) -> Any:
        threads = as_threads(self.n_jobs)
        return self.booster_.predict(
            as_old_sparse(X), raw_score=True, num_threads=threads, verbosity=-1, **what
        )

    def _weigh_features(self, kind: str) -> Floats:
        return np.asarray(self.booster_.feature_importance(kind), dtype=np.float64)

    def _give_weights(self) -> dict[str, bytes]:
        return {MODEL: self.booster_.model_to_string().encode()}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        try:
            self._load(files[MODEL])
        except BadModel as error:
            raise BadInput(f"{MODEL} is not a LightGBM text model: {error}.") from error

    def _load(self, text: bytes) -> None:
        """Take a model in LightGBM's text format; what is used is always what a bundle would hold."""
        lightgbm = need_library("lightgbm", "LightGBMRanker", "trees")
        self._refuse_width(check_model(text), "LightGBM")
        try:
            self.booster_ = lightgbm.Booster(model_str=text.decode())
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise BadModel(str(error)) from error
        self.rounds_ = int(self.booster_.current_iteration())
        self.history_ = ()


def _is_ranking(params: Mapping[str, Any]) -> bool:
    return params.get("objective") in OBJECTIVES


def _find_gains(labels: Floats, params: Mapping[str, Any]) -> Floats:
    """The gain of each row: 2^y − 1, or what `label_gain` says of its code."""
    if "label_gain" not in params:
        return np.asarray(2.0**labels - 1.0)
    told = params["label_gain"]
    table = np.array([float(each) for each in (told.split(",") if isinstance(told, str) else told)])
    codes = labels.astype(np.int64)
    if codes.max(initial=0) >= len(table):
        raise BadInput(
            f"label_gain must have a gain for each label up to {codes.max()}. Got {len(table)} gains."
        )
    return table[codes]


def _say_unused() -> None:
    """Say that positions are not used beside weights that differ within a query."""
    warnings.warn(
        "LightGBM corrects for positions in its own gradients only, and weights that differ within a "
        "query need ours, so positions are not used. Pass debias=False, or data with a propensity.",
        PlacingsWarning,
        stacklevel=4,
    )


def _list_params(lightgbm: Any) -> tuple[str, ...]:
    """The names LightGBM knows; none where this version cannot say, and then no name is refused."""
    lister = getattr(lightgbm.basic._ConfigAliases, "_get_all_param_aliases", None)
    return tuple(lister()) if lister is not None else ()


def _name_columns(names: tuple[str, ...]) -> list[str] | str:
    """Names that LightGBM keeps as they are, or "auto" (its model then says Column_0, …)."""
    kept = all(name and not (set(name) & set('",:[]{}') or any(map(str.isspace, name))) for name in names)
    return list(names) if kept else "auto"
