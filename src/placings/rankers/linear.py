"""`LinearRanker`: RankSVM and its kin, dense or sparse, without ever listing the pairs."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from placings.core import (
    AnyArray,
    BadInput,
    Floats,
    Ints,
    PlacingsWarning,
    Voice,
    is_quiet,
    parse_json,
    setting,
)
from placings.data import Matrix, RankingData
from placings.rankers.design import Design, average_rows, cut, keep_used, measure_design
from placings.rankers.estimator import Ranker, as_seed
from placings.rankers.facts import Choice, Float, RankerFacts
from placings.rankers.given_transforms import name_transform, say_unsaved
from placings.transforms import Mixture, Transform, is_foreign, make_transform, simplify

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
PAIRS = ("sum", "mean")
CENTERS = ("query", "all")
WIDEST_MATRIX = 4096  # columns up to which ridge solves its normal equations as a matrix
ARRAYS = ("coef", "fill", "scale", "intercept")
TRANSFORM, FACTS = "transform.npz", "transform.json"


class LinearRanker(Ranker):
    """A linear ranker, `score = coef · x`, fitted by pairs (RankSVM, logistic) or by rows (ridge), with L2.

    Pairwise losses minimise, over weights w of the scaled features,
    `½‖w‖² + (C/Q) Σ_queries Σ_{pairs y_i > y_j} weight_i · ℓ(s_i − s_j)` with Q the number of queries: C is
    SVM^rank's `-c`. ℓ(d) is `max(0, 1 − d)` ("hinge"), its square ("squared_hinge") or `log(1 + e^−d)`
    ("logistic"). `pairs="mean"` divides the sum of each query by its number of pairs (SVM^rank's `-l 2`).
    "ridge" puts `Σ_rows weight_i · (y_i − b − s_i)²` in place of the pairs, divided by the number of rows
    with `pairs="mean"`; each query has a b of its own, or all share one with `center="all"`.

    A pair weighs what its better row weighs, so one weight for all rows of a query weighs the query, and
    one over the propensity of each click is Propensity SVM-Rank: a propensity of the data does that by
    itself. With ridge a weight is that of a row's error, and a propensity multiplies labels. Queries of one
    label level teach nothing.

    `transform` is a name ("quantile_normal", "cdf", "log1p", …), a Transform or a scikit-learn transformer:
    the features pass it first, in `fit` and whenever rows are scored; `coef_` is then of what it gives, and
    missing values are filled before it. None: the features as they are.

    `scale=True` divides dense columns by their standard deviation, sparse ones by their largest absolute
    value; a constant dense column gets no weight. `missing` ("median", "mean", "zero") fills NaN in dense
    data; in CSR NaN counts as 0. Training ends when the objective is within `tol` × itself of the minimum,
    which is certified (float64 ends at about 1e-8), or warns after `max_iter` Newton steps. Nothing is random
    (`random_state` is there for the interface), and `valid` is ignored: a convex problem needs no early stop.

    After `fit`: `coef_` `[features]` in the units of the features, `intercept_` (0 but for ridge), `scale_`,
    `fill_`, `objective_`, `gap_` (a bound on what is left to gain) and `n_iter_`.

    >>> ranker = LinearRanker(C=10.0).fit([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]], [0, 1, 2], qid=[1, 1, 1])
    >>> bool(ranker.coef_[0] > 0), float(ranker.coef_[1])
    (True, 0.0)

    >>> ranker = LinearRanker(transform="quantile_normal")
    >>> low, high = ranker.fit([[1.0], [20.0], [300.0]], [0, 1, 2], qid=[1, 1, 1]).predict([[1.0], [300.0]])
    >>> bool(high > low)
    True

    Joachims: Training linear SVMs in linear time, KDD 2006. Lee and Lin: Large-scale linear RankSVM, 2014.
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={
            "default": {
                # the loss is the ranker's own: a ranker called RankSVM stays one
                "C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)),
                "pairs": Choice(("sum", "mean")),
            },
            "losses": {
                "C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)),
                "loss": Choice(("hinge", "squared_hinge", "logistic", "ridge")),
                "pairs": Choice(("sum", "mean")),
            },
            "ridge": {"C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0))},
        },
        random=False,
        familiar={
            "c": ("SVM^rank", ("C",)),
            "epsilon": ("SVM^rank", ("tol",)),
            "n_iter": ("scikit-learn", ("max_iter",)),
            "strategy": ("scikit-learn", ("missing",)),
        },
        notes={
            "alpha": "scikit-learn's alpha is 1 over C here, up to a factor: a smaller C shrinks more.",
            "lambda": "a penalty λ is 1 over C here, up to a factor: a smaller C shrinks more.",
            "reg_lambda": "a penalty λ is 1 over C here, up to a factor: a smaller C shrinks more.",
            "penalty": "the penalty is L2, as strong as C is small.",
            "l1_ratio": "the penalty is L2, as strong as C is small.",
            "solver": "there is one solver; tol and max_iter say when it ends.",
            "dual": "there is one solver; tol and max_iter say when it ends.",
            "kernel": "it is linear; a curve comes from transform='quantile_normal', or from trees.",
            "normalize": "scale=True (the default) divides by the standard deviation.",
            "learning_rate": "nothing is stepped by a rate: a Newton method ends at the minimum, to tol.",
            "n_estimators": "a linear ranker has no trees. Use lightgbm, xgboost or catboost.",
            "num_leaves": "a linear ranker has no trees. Use lightgbm, xgboost or catboost.",
            "max_depth": "a linear ranker has no trees. Use lightgbm, xgboost or catboost.",
            "rounds": "a linear ranker has no rounds; max_iter bounds its steps.",
            "epochs": "a linear ranker has no epochs; max_iter bounds its steps.",
        },
    )

    def __init__(
        self,
        loss: str = "hinge",
        C: float = 1.0,
        *,
        pairs: str = "sum",
        center: str = "query",
        scale: bool = True,
        missing: str = "median",
        transform: Any = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.C = C
        self.pairs = pairs
        self.center = center
        self.scale = scale
        self.missing = missing
        self.transform = transform
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @property
    def transform(self) -> Any:
        """The transform that was given. Without one there is no such attribute.

        scikit-learn takes whatever has an attribute `transform` for a transformer, which a ranker is not.
        """
        if self._given is None:
            raise AttributeError(f"this {type(self).__name__} has no transform")
        return self._given

    @transform.setter
    def transform(self, given: Any) -> None:
        self.__dict__["transform"] = given

    @property
    def _given(self) -> Any:
        return vars(self).get("transform")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings; with `deep` also those of a transform."""
        params = {name: vars(self).get(name) for name in self._get_param_names()}
        if deep and hasattr(self._given, "get_params"):
            inner = self._given.get_params(deep=True)
            params |= {f"transform__{name}": value for name, value in inner.items()}
        return params

    def contributions(self, X: Any) -> Any:
        """What each feature adds to each score `[rows, features + 1]`: `coef · x`, the last column the bias.

        Rows add up to `predict`. Missing values count as what fills them. CSR gives CSR, dense gives dense.
        """
        check_is_fitted(self)
        if self.transform_ is not None and len(self.coef_) != self.n_features_in_:
            raise BadInput(
                "contributions need one column for each feature; this transform gives "
                f"{len(self.coef_)} columns for {self.n_features_in_} features."
            )
        features = self._prepare(self._as_features(X), X.offsets if isinstance(X, RankingData) else None)
        rows, width = features.shape
        if isinstance(features, np.ndarray):
            parts = np.empty((rows, width + 1))
            design = self._design(features)
            for start, stop in cut(0, rows, 1024):
                parts[start:stop, :-1] = design.block(start, stop) * self.coef_
            parts[:, -1] = self.intercept_
            return parts
        from scipy.sparse import csr_array, hstack

        filled = self._fill_stored(features).astype(np.float64)
        terms = csr_array(
            (filled.data * self.coef_[filled.indices], filled.indices, filled.indptr), shape=filled.shape
        )
        return csr_array(hstack([terms, csr_array(np.full((rows, 1), self.intercept_))], format="csr"))

    # -- what Ranker asks for ----------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        self._check_settings()
        self.transform_ = None
        if self._given is not None:
            self.transform_ = simplify(self._make_transform().fit(train))
            if is_foreign(self.transform_):
                say_unsaved(self.transform_, stacklevel=4)
            names = tuple(map(str, self.transform_.get_feature_names_out()))
            train = train.replace(X=self.transform_.transform(train), feature_names=names)
        weight = train.weight if self.loss == "ridge" else None  # elsewhere it weighs pairs, not rows
        X, used = keep_used(train.X)
        design = measure_design(X, scale=bool(self.scale), missing=self.missing, weight=weight)
        w = self._fit_rows(train, design) if self.loss == "ridge" else self._fit_pairs(train, design)
        scale = np.divide(1.0, design.inverse, out=np.zeros(len(w)), where=design.inverse > 0.0)
        self.coef_, self.fill_, self.scale_ = np.zeros((3, train.n_features))
        self.coef_[used], self.fill_[used], self.scale_[used] = w * design.inverse, design.fill, scale

    def _score(self, X: Matrix) -> AnyArray:
        return self._score_prepared(self._prepare(X, None))

    def _score_lists(self, X: Matrix, offsets: Ints | None) -> AnyArray:
        if not self._has_list_transform():
            return self._score(X)
        return self._score_prepared(self._prepare(X, offsets))

    def _score_prepared(self, X: Matrix) -> AnyArray:
        filled = X if isinstance(X, np.ndarray) else self._fill_stored(X)
        return self._design(filled).scores(self.coef_) + self.intercept_

    def _looks_at_list(self) -> bool:
        return type(self)._score_lists is not LinearRanker._score_lists or self._has_list_transform()

    def _has_list_transform(self) -> bool:
        return self.transform_ is not None and self.transform_._per_query

    def _prepare(self, X: Matrix, offsets: Ints | None) -> Matrix:
        """Rows as the weights are for: transformed, if there is a transform."""
        if self.transform_ is None:
            return X
        borders = np.array([0, X.shape[0]]) if offsets is None else offsets
        return self.transform_.apply(X, borders)

    def _make_transform(self) -> Transform:
        if isinstance(self._given, Transform):
            return make_transform(self._given)
        return make_transform(self._given, missing=self.missing)

    def _missing_policy(self) -> str:
        if self.transform_ is not None:
            return f"missing values are filled by the transform: {self.transform_.missing}"
        if not self.fill_.any():
            return "a missing value counts as 0"
        return f"a missing value is replaced by the feature's training {self.missing}"

    def _give_weights(self) -> dict[str, bytes]:
        files = {
            f"{name}.npy": _write_array(np.atleast_1d(np.asarray(getattr(self, f"{name}_"), dtype="<f8")))
            for name in ARRAYS
        }
        if self.transform_ is None:
            return files
        facts, arrays = self.transform_.state()
        out = io.BytesIO()
        np.savez(out, **arrays)  # type: ignore[arg-type]
        told = {"state": facts, "columns": len(self.coef_), "given": not isinstance(self._given, str)}
        return {**files, TRANSFORM: out.getvalue(), FACTS: json.dumps(told).encode()}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        wanted = {f"{name}.npy": name for name in ARRAYS}
        own = {TRANSFORM, FACTS} if self._given is not None else set()
        if set(files) != {*wanted, *own}:
            given = ", ".join(sorted(files)) or "nothing"
            raise BadInput(f"a LinearRanker is stored as {', '.join([*wanted, *sorted(own)])}. Got {given}.")
        count, self.transform_ = int(self.n_features_in_), None
        if own:
            count = self._take_transform(files)
        for file, name in wanted.items():
            values = _read_array(file, files[file], 1 if name == "intercept" else count)
            setattr(self, f"{name}_", float(values[0]) if name == "intercept" else values)

    def _take_transform(self, files: Mapping[str, bytes]) -> int:
        """Restore the transform; how many columns it gives."""
        from placings.rankers.bundles import read_arrays

        facts = parse_json(files[FACTS])
        self.transform_ = Transform.from_state(facts["state"], read_arrays(files[TRANSFORM], TRANSFORM))
        if self.transform_.feature_names_ != self.feature_names_:
            raise BadInput(f"{TRANSFORM} is of other features than the ranker.")
        if facts["given"]:
            self.transform = clone(self.transform_)
        count = len(self.transform_.get_feature_names_out())
        if facts["columns"] != count:
            raise BadInput(f"{FACTS} must say {count} columns. Got {facts['columns']!r}.")
        return count

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        if self._given is not None and not isinstance(self._given, str):
            params["transform"] = name_transform(self)
        return params

    def _weighs_labels(self) -> bool:
        return bool(self.loss == "ridge")

    # -- fitting -----------------------------------------------------------------------------------

    def _fit_pairs(self, train: RankingData, design: Design) -> Floats:
        from threadpoolctl import threadpool_limits

        from placings.rankers.newton import minimise
        from placings.rankers.pair_kernels import Logistic, SmoothHinge, SquaredHinge, find_pairs

        pairs = find_pairs(train.y, train.offsets)
        per_query = np.full(train.n_queries, self.C / max(1, train.n_queries))
        if self.pairs == "mean":
            per_query /= np.maximum(pairs.by_query, 1)
        weight = np.repeat(per_query, train.sizes) * (1.0 if train.weight is None else train.weight)
        pairs = find_pairs(train.y, train.offsets, weight)
        self.intercept_ = 0.0
        if pairs.total == 0.0:
            warnings.warn(
                "there is not one pair to learn from: no query has rows of different labels (and a weight "
                "above 0), so all weights are 0. Check y and qid.",
                PlacingsWarning,
                stacklevel=4,
            )
            self.objective_, self.gap_, self.n_iter_ = 0.0, 0.0, 0
            return np.zeros(design.features)
        kinds: dict[str, Callable[..., Any]] = {
            "hinge": SmoothHinge,
            "squared_hinge": SquaredHinge,
            "logistic": Logistic,
        }
        loss = kinds[self.loss](pairs)
        with threadpool_limits(1, user_api="blas"):  # its threads would spin beside ours
            found = minimise(design, loss, pairs, tol=self.tol, max_iter=self.max_iter, watch=self._watch())
        if not found.converged:
            warnings.warn(
                f"stopped after {found.steps} steps with a gap of {found.gap / found.objective:.1e} of the "
                f"objective, above tol={self.tol:g}. Raise max_iter or tol, lower C, or scale the features.",
                PlacingsWarning,
                stacklevel=4,
            )
        self.objective_, self.gap_, self.n_iter_ = found.objective, found.gap, found.steps
        return found.w

    def _fit_rows(self, train: RankingData, design: Design) -> Floats:
        from placings.rankers.newton import solve

        rows = train.n_rows
        per_row = np.full(rows, self.C / max(1, train.n_queries))
        if self.pairs == "mean":
            per_row /= np.repeat(np.maximum(train.sizes, 1), train.sizes)
        plain = per_row * (1.0 if train.weight is None else train.weight)
        offsets = train.offsets if self.center == "query" else np.array([0, rows])
        weight = 2.0 * plain
        target = _center(train.y, offsets, weight)
        self.n_iter_ = 1
        if isinstance(design.X, np.ndarray) and design.features <= WIDEST_MATRIX:
            matrix, along = design.scatter(offsets, weight, target)
            w = np.asarray(np.linalg.solve(matrix + np.eye(len(along)), along), dtype=np.float64)
        else:
            squares = design.squares(weight)
            w, _ = solve(
                lambda v, shift: v + design.gather(weight * _center(shift, offsets, weight)),
                design.gather(weight * target),
                lambda r: r / (1.0 + squares),
                design.scores,
                tolerance=min(1e-6, self.tol),
                most=10 * self.max_iter,
            )
        scores = design.scores(w)
        rest = train.y - scores
        mass = plain.sum()
        self.intercept_ = float(plain @ rest / mass) if mass > 0.0 else 0.0
        self.objective_ = 0.5 * float(w @ w) + float(plain @ np.square(_center(rest, offsets, weight)))
        gradient = w - design.gather(weight * _center(rest, offsets, weight))
        self.gap_ = 0.5 * float(gradient @ gradient)
        return w

    def _watch(self) -> Callable[[int, float, float], None]:
        if not self.verbose or is_quiet():
            return lambda *_: None
        voice, terminal = Voice(), sys.stderr.isatty()

        def show(step: int, objective: float, gap: float) -> None:
            done = gap <= self.tol * objective
            end = "\n" if done else ""
            text = f"step {step}: objective {objective:.6g}, at most {gap / objective:.1e} above the minimum"
            if not terminal:
                voice(f"{type(self).__name__} {text}")
                return
            print(f"\r\x1b[K{type(self).__name__} {text}", end=end, file=sys.stderr, flush=True)

        return show

    def _check_settings(self) -> None:
        as_seed(self.random_state)
        choices = {"loss": LOSSES, "pairs": PAIRS, "center": CENTERS}
        for name, allowed in choices.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise BadInput(f"{name} must be one of {', '.join(map(repr, allowed))}. Got {value!r}.")
        for name in ("C", "tol"):
            value = getattr(self, name)
            if not _is_number(value) or not 0.0 < value < np.inf:
                raise BadInput(f"{name} must be a number above 0. Got {value!r}.")
        if self._given is not None and isinstance(self._make_transform(), Mixture):
            raise BadInput(
                "a mixture is learned by a network, together with its weights. Use NeuralRanker, or "
                f"{setting('transform', 'quantile_normal')}."
            )
        whole = isinstance(self.max_iter, int | np.integer) and not isinstance(self.max_iter, bool)
        if not whole or self.max_iter < 1:
            raise BadInput(f"max_iter must be a whole number of 1 or more. Got {self.max_iter!r}.")

    # -- scoring -----------------------------------------------------------------------------------

    def _design(self, X: Matrix) -> Design:
        return Design(X, self.fill_, np.ones(len(self.coef_)))

    def _fill_stored(self, X: Any) -> Any:
        """CSR with its stored NaN filled: by 0 after training on CSR, by `missing` after dense data."""
        absent = np.isnan(X.data)
        if not absent.any():
            return X
        data = X.data.astype(np.float64)
        data[absent] = self.fill_[X.indices[absent]]
        return type(X)((data, X.indices, X.indptr), shape=X.shape)


def score_ridges(train: RankingData, lists: RankingData, Cs: Sequence[float]) -> Floats:
    """The scores of `lists` by `LinearRanker("ridge", C=C)` for each C, up to a constant: `[Cs, rows]`.

    A penalty changes only the diagonal of the normal equations, so they are summed up once for all; the
    scores equal those of the single rankers to rounding.

    >>> data = RankingData.from_arrays([[0.0], [1.0], [2.0], [4.0]], [0, 0, 1, 1], [1, 1, 1, 1])
    >>> score_ridges(data, data, [0.1, 10.0]).shape
    (2, 4)
    """
    plain = LinearRanker("ridge")
    weighed = plain._weigh(train)[0]
    if not isinstance(weighed.X, np.ndarray) or weighed.n_features > WIDEST_MATRIX:
        return np.stack([LinearRanker("ridge", C=C).fit(train).predict(lists) for C in Cs])
    design = measure_design(weighed.X, scale=True, missing=plain.missing, weight=weighed.weight)
    weight = np.full(weighed.n_rows, 2.0 / max(1, weighed.n_queries))
    weight *= 1.0 if weighed.weight is None else weighed.weight
    target = _center(weighed.y, weighed.offsets, weight)
    matrix, along = design.scatter(weighed.offsets, weight, target)
    held = Design(lists.X, design.fill, design.inverse)
    penalty = np.eye(len(along))
    weights = [np.asarray(np.linalg.solve(C * matrix + penalty, C * along), dtype=np.float64) for C in Cs]
    return np.stack([held.scores(w) for w in weights])


def _center(values: Floats, offsets: Ints, weight: Floats) -> Floats:
    return values - np.repeat(average_rows(values, offsets, weight), np.diff(offsets))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _write_array(values: AnyArray) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


def _read_array(name: str, content: bytes, count: int) -> Floats:
    """A vector of `count` finite float64, read only after its header says that it is one."""
    source = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(source) != (1, 0):
            raise ValueError("another version of the format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(source)
    except ValueError as error:
        raise BadInput(f"{name} must be a numpy array file. Got {len(content)} bytes: {error}.") from error
    body = content[source.tell() :]
    if shape != (count,) or dtype != np.dtype("<f8") or len(body) != 8 * count:
        raise BadInput(
            f"{name} must hold {count} float64. Got {dtype} of shape {shape} in {len(body)} bytes. "
            "The file does not belong to this ranker; save it again."
        )
    values = np.frombuffer(body, dtype="<f8").copy()
    if not np.isfinite(values).all():
        raise BadInput(f"{name} must be finite. Got {int((~np.isfinite(values)).sum())} values that are not.")
    return values
