"""A scikit-learn transformer as one of ours: for trees of numpy rows, for a network, and in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints
from placings.data import RankingData
from placings.transforms.basic import Gauss
from placings.transforms.own import OWN_TRANSFORMS, find_registered
from placings.transforms.policy import Indicator, Missing
from placings.transforms.transformer import LARGEST, Transform

if TYPE_CHECKING:
    from placings.transforms.layers import Layer

ROWS_AT_ONCE = 65_536


class SklearnTransform(Transform):
    """A transformer of scikit-learn (or one with its `fit` and `transform`) in place of a transform of ours.

    Missing values are filled first, by `missing`, so the transformer sees none. It may give more or fewer
    columns than it takes. `transform=StandardScaler()` makes one of these; `name` is what it is registered
    as, if it is.

    After `fit`: `transformer_`, fitted, and `columns_`, how many it gives.

    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> SklearnTransform(PolynomialFeatures(2, include_bias=False)).fit_transform([[2.0], [3.0]]).tolist()
    [[2.0, 4.0], [3.0, 9.0]]
    """

    transformer_: Any
    columns_: int

    def __init__(
        self,
        transformer: Any = None,
        *,
        name: str | None = None,
        missing: Missing = "median",
        indicator: Indicator = False,
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.transformer = transformer
        self.name = name

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer on these rows, missing values filled; a RankingData brings its labels along."""
        matrix = self._read(X, reset=True, least=1)
        rows = self._make_dense(matrix) if not isinstance(matrix, np.ndarray) else matrix
        self._finish(self._measure(rows))
        labels = X.y if isinstance(X, RankingData) else y
        self.transformer_ = clone(self.transformer)
        try:
            self.transformer_.fit(self._fill(rows), labels)
        except Exception as error:  # whatever the transformer says
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadInput(f"{self._title} could not be fitted: {said}") from error
        self.columns_ = self._compute(self._fill(rows[:1]), np.array([0, 1])).shape[1]
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Refused once fitted: a transformer of scikit-learn is fitted on all rows at once."""
        if hasattr(self, "transformer_"):
            raise BadInput(f"{self._title} is fitted on all rows at once. Use fit.")
        return self.fit(X, y)

    def merge(self, other: Transform) -> Self:
        """Refused: what two transformers of scikit-learn learned cannot be added up."""
        raise BadInput(f"{self._title} is fitted on all rows at once, so two of them do not merge.")

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """The names of the columns; those of the transformer, or numbers if it tells none."""
        check_is_fitted(self)
        given = list(self.feature_names_ if input_features is None else input_features)
        try:
            told = [str(name) for name in self.transformer_.get_feature_names_out(given)]
        except (AttributeError, TypeError, ValueError):
            told = given if self.columns_ == len(given) else []
        if len(told) != self.columns_ or len(set(told)) != len(told):
            told = [f"column_{place}" for place in range(self.columns_)]
        return np.array([*told, *(f"{given[place]}__missing" for place in self.indicator_)], dtype=object)

    # -- what a transform fills in -----------------------------------------------------------------

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        found = self.transformer_.transform(X)
        rows = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != len(X):
            raise BadInput(f"{self._title} must give {len(X)} rows of numbers. Got shape {rows.shape}.")
        if np.isnan(rows).any():
            column = int(np.isnan(rows).any(axis=0).argmax())
            raise BadInput(
                f"{self._title} gives NaN in column {column} for rows without missing values. Change it so "
                "that it gives a number for every number, such as log1p for log."
            )
        return rows

    def _layer(self, export: bool) -> Layer:
        if export:
            raise BadInput(
                f"{self._title} is Python code, for which ONNX has no form. Serve the ranker from its "
                "bundle, or use one of placings' transforms. StandardScaler, MinMaxScaler, MaxAbsScaler and "
                "RobustScaler become one by themselves."
            )
        from placings.transforms.layers import Called

        return Called(self._compute)

    def _transform_dense(self, X: Floats32, codes: Ints | None) -> Floats32:
        rows, flags = X.shape[0], len(self.indicator_)
        out = np.empty((rows, self.columns_ + flags), dtype=np.float32)
        for start in range(0, rows, ROWS_AT_ONCE):
            block = X[start : start + ROWS_AT_ONCE]
            found = self._compute(self._fill(block), np.array([0, len(block)]))
            out[start : start + len(block), : self.columns_] = np.clip(found, -LARGEST, LARGEST)
            out[start : start + len(block), self.columns_ :] = np.isnan(block)[:, self.indicator_]
        return out

    # -- state -------------------------------------------------------------------------------------

    def _describe(self) -> dict[str, Any]:
        """Which registered transform it is, with which settings; refused if it is none."""
        name = find_registered(self.transformer, self.name)
        if name is None:
            raise BadInput(
                f"{self._title} is known in this process only: a bundle holds no code. Register it, "
                "pg.register_transform('my_transform', …, get_state=…, set_state=…), and train with "
                "transform='my_transform'; or transform the data first and train without one."
            )
        settings: dict[str, Any] = {"missing": self.missing, "indicator": self.indicator}
        if self.name is None:
            settings["params"] = dict(self.transformer.get_params(deep=False))
        return {"transform": name, "settings": settings}

    def _give_facts(self) -> dict[str, Any]:
        name = str(self._describe()["transform"])
        plain, _ = OWN_TRANSFORMS[name].give(self.transformer_, name)
        return {"own": plain, "columns": self.columns_}

    def _give_arrays(self) -> dict[str, AnyArray]:
        name = str(self._describe()["transform"])
        return {
            f"own.{key}": each for key, each in OWN_TRANSFORMS[name].give(self.transformer_, name)[1].items()
        }

    def _take_facts(self, facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
        name = str(facts["transform"])
        plain, columns = facts.get("own"), facts.get("columns")
        if not isinstance(plain, Mapping) or isinstance(columns, bool) or not isinstance(columns, int):
            raise BadInput(f"the state of the transform {name!r} lacks what it learned.")
        own = {key.removeprefix("own."): each for key, each in arrays.items() if key.startswith("own.")}
        self.transformer_, self.columns_ = clone(self.transformer), columns
        OWN_TRANSFORMS[name].take(self.transformer_, plain, own)

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"the transform {self.name or type(self.transformer).__name__!r}"

    def _fill(self, rows: Floats32) -> Floats32:
        filled = np.where(np.isnan(rows), self.fill_, rows)
        return np.clip(filled, -LARGEST, LARGEST).astype(np.float32)


def simplify(transform: Transform) -> Transform:
    """A fitted scaler of scikit-learn as ours, `(x − shift) / divisor`; anything else as it is.

    Ours is saved, runs in a network on any device, and goes into an ONNX file.
    """
    if not isinstance(transform, SklearnTransform):
        return transform
    found = _find_scale(transform.transformer_)
    if found is None:
        return transform
    width = (transform.n_features_in_,)
    shift, divisor = (np.broadcast_to(np.asarray(each, dtype=np.float64), width).copy() for each in found)
    if not (np.isfinite(shift).all() and np.isfinite(divisor).all() and (divisor > 0.0).all()):
        return transform
    ours = Gauss(missing=transform.missing, indicator=transform.indicator)
    ours.n_features_in_, ours.feature_names_ = transform.n_features_in_, transform.feature_names_
    ours.shift_, ours.divisor_ = shift, divisor
    ours.fill_, ours.indicator_, ours._statistics = transform.fill_, transform.indicator_, None
    return ours


def _find_scale(fitted: Any) -> tuple[Any, Any] | None:
    """What a scaler subtracts and divides by; None if it is none of those that do only that."""
    from sklearn import preprocessing

    kind = type(fitted)
    if kind is preprocessing.StandardScaler:
        return _or(fitted.mean_, fitted.with_mean, 0.0), _or(fitted.scale_, fitted.with_std, 1.0)
    if kind is preprocessing.RobustScaler:
        return _or(fitted.center_, fitted.with_centering, 0.0), _or(fitted.scale_, fitted.with_scaling, 1.0)
    if kind is preprocessing.MaxAbsScaler and not getattr(fitted, "clip", False):
        return 0.0, fitted.scale_
    if kind is preprocessing.MinMaxScaler and not fitted.clip:
        return -fitted.min_ / fitted.scale_, 1.0 / fitted.scale_
    return None


def _or(values: Any, used: bool, otherwise: float) -> Any:
    return values if used and values is not None else otherwise
