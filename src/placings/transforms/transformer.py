"""`Transform`: the one interface. A transform fills in what it learns and computes; the rest is here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints, MissingExtra, map_in_order
from placings.data import (
    Matrix,
    RankingData,
    align_features,
    as_ids,
    as_matrix,
    check_length,
    name_features,
    number_ids,
    order_by_query,
    say_one_query,
)
from placings.transforms.policy import Indicator, Missing, fill_values, find_indicators, resolve_missing
from placings.transforms.statistics import Statistics, measure_statistics

if TYPE_CHECKING:
    from placings.transforms.layers import Layer, Prepared

BLOCK_CELLS = 1 << 20  # numbers turned to float64 at a time: 8 MB
DENSE_CELLS = 1 << 27  # the largest CSR matrix that is made dense: 512 MB
SLICE = 65_536  # rows of a chunk that are counted exactly before they join the rest
MEDIAN_KNOTS = 1_000  # of a feature that is sketched for its median only
LARGEST = np.finfo(np.float32).max
TINY = float(np.finfo(np.float32).tiny)  # a spread below the smallest normal float32 counts as none


class Transform(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer of features that also becomes a torch module.

    `fit(X)` takes `[rows, features]` (an array, a table, CSR) or a RankingData; `partial_fit` adds a chunk
    and `merge` another machine's transform. `transform(X)` gives float32 `[rows, features + indicators]`,
    in row order; statistics and arithmetic are float64. `module()` is the same function for torch.

    Missing (NaN) values are left out of the statistics and replaced by `missing` before the function:
    "median", "mean", "zero", a number, or one of these by feature (a mapping by name, or a sequence).
    `indicator=True` appends a column `NAME__missing` for each feature that had a missing value in training
    ("all": for every feature; or name them). ±inf is refused. A result beyond float32 becomes the largest
    float32. CSR stays CSR where the function keeps 0 at 0, else it is made dense if it fits 2^27 numbers.

    After `fit`: `n_features_in_`, `feature_names_`, `fill_` (what replaces a missing value), `indicator_`
    (the places of the features with an indicator), and what each transform adds.
    """

    feature_names_: tuple[str, ...]
    fill_: Floats32
    indicator_: Ints
    _statistics: Statistics | None

    def __init__(self, *, missing: Missing = "median", indicator: Indicator = False) -> None:
        self.missing = missing
        self.indicator = indicator

    # -- what a transform fills in -----------------------------------------------------------------

    @property
    def _per_query(self) -> bool:
        """Whether it needs to know which rows belong together."""
        return False

    def _check_settings(self) -> None:
        """Refuse settings that make no sense; called before anything is fitted."""

    def _count_knots(self, features: int) -> Ints:
        """How many knots the sketch of each feature may have, 0 for none `[features]`."""
        return np.zeros(features, dtype=np.int64)

    def _learn(self, statistics: Statistics) -> None:
        """Turn statistics into the numbers that `_compute` needs."""

    def _compute(self, X: Floats32, offsets: Ints) -> Floats | Floats32:
        """The function of filled rows `[rows, features]`; whole queries when `_per_query`."""
        raise NotImplementedError

    def _layer(self, export: bool) -> Layer:
        """The function of filled rows as a torch layer."""
        raise NotImplementedError

    def _count_columns(self) -> int:
        """How many columns it gives, indicators left out."""
        return int(self.n_features_in_)

    def _name_columns(self, names: Sequence[str]) -> Sequence[str]:
        """The names of these columns, from those of the features."""
        return names

    def _keeps_zero(self) -> bool:
        """Whether 0 becomes 0 in every feature, and `_compute_stored` is there."""
        return False

    def _compute_stored(self, values: Floats, columns: Ints) -> Floats:
        """The function of single values of some columns, for CSR."""
        raise NotImplementedError

    def _give_arrays(self) -> dict[str, AnyArray]:
        """What `_learn` found, as arrays."""
        return {}

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        """The reverse of `_give_arrays`, checked."""

    def _give_facts(self) -> dict[str, Any]:
        """What was learned and is no array, as JSON can hold it."""
        return {}

    def _take_facts(self, facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
        """The reverse of `_give_facts`."""

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the statistics of these rows, and of no others; `y` is ignored."""
        matrix = self._read(X, reset=True, least=1)
        self._check_settings()
        self._finish(self._measure(matrix))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a chunk of rows: the order of chunks changes nothing beyond float64 and a sketch's error."""
        if not hasattr(self, "fill_"):
            return self.fit(X)
        found, matrix = self._need_statistics(), self._read(X, reset=False)
        for start in range(0, matrix.shape[0], SLICE):
            found = found.merge(self._measure(matrix[start : start + SLICE], shrink=False))
        self._finish(found)
        return self

    def merge(self, other: Transform) -> Self:
        """A new transform, as if fitted on the rows of both; neither is changed."""
        check_is_fitted(self)
        if type(other) is not type(self) or self._settings() != other._settings():
            raise BadInput(
                f"only transforms of one kind and the same settings merge. Got {self} and {other}."
            )
        if self.feature_names_ != other.feature_names_:
            raise BadInput("only transforms fitted on the same features, in the same order, merge.")
        both = clone(self)
        both.n_features_in_, both.feature_names_ = self.n_features_in_, self.feature_names_
        if hasattr(self, "feature_names_in_"):
            both.feature_names_in_ = self.feature_names_in_
        both._finish(self._need_statistics().merge(other._need_statistics()))
        return both  # type: ignore[no-any-return]

    # -- transforming ------------------------------------------------------------------------------

    def transform(self, X: Any, qid: Any = None) -> Any:
        """The transformed features, float32 `[rows, features + indicators]`; `X` is left as it is.

        `qid` matters only where a query's rows are scaled together; a RankingData brings its own, and
        without one all rows are one query, which a warning says.
        """
        return self._run(X, qid)

    def apply(self, X: Matrix, offsets: Ints) -> Matrix:
        """`transform` of float32 rows that stand query by query, without a check: for who checked them."""
        check_is_fitted(self)
        codes = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) if self._per_query else None
        return self._run_codes(tidy(X), codes)

    def fit_transform(self, X: Any, y: Any = None, qid: Any = None) -> Any:
        """`fit`, then `transform`."""
        return self.fit(X).transform(X, qid)

    def transform_data(self, data: RankingData) -> RankingData:
        """The same RankingData with transformed features and their names."""
        names = tuple(map(str, self.get_feature_names_out()))
        return data.replace(X=self.transform(data), feature_names=names)

    def module(self, *, export: bool = False) -> Prepared:
        """The same function as a torch module, rows `[rows, features]` float32 → float32.

        Call it with `(x)` or `(x, offsets)`. Statistics are buffers that keep their precision whatever the
        model is cast to, and are not part of its `state_dict`. `export=True` avoids what has no ONNX form.
        """
        check_is_fitted(self)
        if find_spec("torch") is None:
            raise MissingExtra(f"{type(self).__name__}.module", "PyTorch", "neural")
        from placings.transforms.layers import Prepared

        return Prepared(self._layer(export), self.fill_, self.indicator_)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """The names of the columns that `transform` gives."""
        check_is_fitted(self)
        names: Sequence[str] = self.feature_names_
        if input_features is not None:
            names = list(input_features)
            if len(names) != self.n_features_in_:
                raise BadInput(
                    "input_features should have length equal to the number of features, "
                    f"{self.n_features_in_}. Got {len(names)}."
                )
            if hasattr(self, "feature_names_in_") and tuple(names) != self.feature_names_:
                raise BadInput("input_features is not equal to feature_names_in_")
        told = [*self._name_columns(names), *(f"{names[place]}__missing" for place in self.indicator_)]
        return np.array(told, dtype=object)

    def find_owners(self) -> Ints:
        """The feature of each column, int64 `[columns]`; an indicator's is the feature it tells of."""
        return np.concatenate([np.arange(self.n_features_in_), self.indicator_])

    # -- state -------------------------------------------------------------------------------------

    def state(self, *, statistics: bool = False) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """What is fitted, as a dict for JSON and arrays for npy or safetensors; see `from_state`.

        `statistics=True` adds what `partial_fit` and `merge` need to go on.
        """
        from placings.transforms.states import give_state

        check_is_fitted(self)
        return give_state(self, statistics=statistics)

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Self:
        """The transform that `state` described; what could not have come from it is refused."""
        from placings.transforms.states import take_state

        found = take_state(facts, arrays)
        if not isinstance(found, cls):
            raise BadInput(f"this is the state of a {type(found).__name__}, not of a {cls.__name__}.")
        return found

    # -- scikit-learn ------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fill_")

    # -- inside ------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        from placings.transforms.states import plain_settings

        return plain_settings(self)

    def _policies(self) -> list[str | float]:
        return resolve_missing(self.missing, self.feature_names_)

    def _adopt(self, names: Sequence[str], statistics: Statistics) -> None:
        """Be fitted as a part of another transform, which fills missing values itself."""
        self.n_features_in_, self.feature_names_ = len(names), tuple(names)
        self._check_settings()
        self._learn(statistics)

    def _need_statistics(self) -> Statistics:
        if self._statistics is None:
            raise BadInput(
                "this transform was restored without its statistics, so rows cannot be added. "
                "Store it with state(statistics=True)."
            )
        return self._statistics

    def _measure(self, matrix: Matrix, *, shrink: bool = True) -> Statistics:
        bounds = self._count_knots(matrix.shape[1])
        if not isinstance(matrix, np.ndarray):
            if not bounds.any():
                return measure_statistics(matrix, bounds)
            matrix = self._make_dense(matrix)
        policies = self._policies()
        median = np.array([policy == "median" for policy in policies], dtype=bool)
        return measure_statistics(
            matrix, np.where(median, np.maximum(bounds, MEDIAN_KNOTS), bounds), shrink=shrink
        )

    def _finish(self, statistics: Statistics) -> None:
        policies = self._policies()
        self._learn(statistics)
        self._statistics = statistics
        self.indicator_ = find_indicators(self.indicator, self.feature_names_, statistics)
        self.fill_ = fill_values(policies, statistics)

    def _read(self, X: Any, *, reset: bool, least: int = 0) -> Matrix:
        if isinstance(X, RankingData):
            if X.n_rows < least:
                raise BadInput("fit needs at least one row. Got none.")
            if reset:
                self.n_features_in_, self.feature_names_ = X.n_features, X.feature_names
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
                return tidy(X.X)
            return tidy(align_features(X, self.feature_names_, "transform was fitted").X)
        with np.errstate(over="ignore"):
            checked = validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=np.float32, ensure_all_finite=False,
                ensure_min_samples=least,
            )  # fmt: skip
        if reset:
            named = getattr(self, "feature_names_in_", None)
            count = self.n_features_in_
            self.feature_names_ = name_features(count) if named is None else tuple(map(str, named))
        return tidy(as_matrix(checked))

    def _run(self, X: Any, qid: Any) -> Matrix:
        check_is_fitted(self)
        matrix = self._read(X, reset=False)
        return self._run_codes(matrix, self._number_queries(X, qid, matrix.shape[0]))

    def _run_codes(self, matrix: Matrix, codes: Ints | None) -> Matrix:
        if isinstance(matrix, np.ndarray):
            return self._transform_dense(matrix, codes)
        if not self._per_query and self._keeps_zero():
            return self._transform_stored(matrix)
        return self._transform_dense(self._make_dense(matrix), codes)

    def _number_queries(self, X: Any, qid: Any, rows: int) -> Ints | None:
        if not self._per_query:
            return None
        if isinstance(X, RankingData):
            return X.query_index
        if qid is None:
            say_one_query(rows, f"{type(self).__name__}.transform", stacklevel=6)
            return np.zeros(rows, dtype=np.int64)
        ids = as_ids(qid, "qid")
        check_length(ids, rows, "qid")
        return number_ids(ids)[0]

    def _transform_dense(self, X: Floats32, codes: Ints | None) -> Floats32:
        rows, width = X.shape[0], self._count_columns()
        out = np.empty((rows, width + len(self.indicator_)), dtype=np.float32)
        order, offsets = None, np.arange(0, dtype=np.int64)
        if codes is not None and self._per_query:
            order, offsets = order_by_query(codes, int(codes.max(initial=-1)) + 1)

        def work(part: tuple[int, int, Ints]) -> None:
            start, stop, borders = part
            chosen = slice(start, stop) if order is None else order[start:stop]
            block = X[chosen]
            gone = np.isnan(block)
            filled = np.where(gone, self.fill_, block)
            out[chosen, :width] = np.clip(self._compute(filled, borders), -LARGEST, LARGEST)
            out[chosen, width:] = gone[:, self.indicator_]

        parts = list(cut_rows(rows, width, offsets if self._per_query else None))
        for _ in map_in_order(work, parts, threads=None if len(parts) > 1 else 1):
            pass
        return out

    def _transform_stored(self, X: Matrix) -> Matrix:
        from scipy.sparse import csr_array, hstack

        assert not isinstance(X, np.ndarray)
        gone = np.isnan(X.data)
        columns = X.indices.astype(np.int64)
        filled = np.where(gone, self.fill_[columns], X.data).astype(np.float64)
        values = np.clip(self._compute_stored(filled, columns), -LARGEST, LARGEST).astype(np.float32)
        made = csr_array((values, X.indices.copy(), X.indptr.copy()), shape=X.shape)
        if len(self.indicator_):
            flags = csr_array((gone.astype(np.float32), X.indices.copy(), X.indptr.copy()), shape=X.shape)
            made = csr_array(hstack([made, flags[:, self.indicator_]], format="csr"))
        return made  # type: ignore[return-value]

    def _make_dense(self, X: Matrix) -> Floats32:
        rows, width = X.shape
        if rows * width > DENSE_CELLS:
            raise BadInput(
                f"{type(self).__name__} does not keep zeros at zero, so CSR rows must become dense, and "
                f"{rows} × {width} numbers are too many. Use raw, log1p, or clip or minmax around 0, "
                "or fewer rows at once."
            )
        assert not isinstance(X, np.ndarray)
        return np.asarray(X.toarray(), dtype=np.float32)


PLAIN = ("transform", "_run", "_transform_dense", "_transform_stored", "_compute", "_compute_stored")
TORCH = ("module", "_layer")


def refuse_half(transform: Transform) -> None:
    """Refuse a subclass with its own function in numpy and another class's in torch, which rankers run."""
    order = type(transform).__mro__
    plain, name = next((n, m) for n, each in enumerate(order) for m in PLAIN if m in vars(each))
    torch = next(n for n, each in enumerate(order) if any(m in vars(each) for m in TORCH))
    if plain < torch:
        own, other = order[plain].__name__, order[torch].__name__
        raise BadInput(
            f"{own} has a `{name}` of its own but the `module` of {other}, and a ranker runs the module: "
            f"it would learn from what {other} computes. Write {own}.module with the same function for "
            f"torch, or transform the data first, data = {own}().fit(data).transform_data(data), and train "
            "with transform='raw'."
        )


def is_foreign(transform: Transform) -> bool:
    """Whether its class is none of ours and not registered, so that it cannot be saved."""
    from placings.transforms.names import TRANSFORMS
    from placings.transforms.own import find_registered
    from placings.transforms.sklearn_form import SklearnTransform

    if isinstance(transform, SklearnTransform):
        return find_registered(transform.transformer, transform.name) is None
    return type(transform) not in TRANSFORMS.values() and find_registered(transform) is None


def cut_rows(rows: int, width: int, offsets: Ints | None) -> Iterator[tuple[int, int, Ints]]:
    """Blocks of rows (start, stop, query borders inside); whole queries where borders are given."""
    step = max(1, BLOCK_CELLS // max(1, width))
    if offsets is None:
        for start in range(0, rows, step):
            yield start, min(rows, start + step), np.array([0, min(rows, start + step) - start])
        return
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + step, side="right")) - 1
        last = max(first + 1, min(last, len(offsets) - 1))
        yield int(offsets[first]), int(offsets[last]), offsets[first : last + 1] - offsets[first]
        first = last


def tidy(X: Matrix) -> Matrix:
    """The same rows; CSR entries that stand twice are added up, in a copy."""
    if isinstance(X, np.ndarray) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
