"""`Ranker`: the one interface. A ranker fills in `_fit`, `_score` and its weights; the rest is here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints
from placings.data import (
    Matrix,
    RankingData,
    align_features,
    as_ids,
    as_matrix,
    check_length,
    measure_coverage,
    name_features,
    number_ids,
    order_by_query,
    say_one_query,
)
from placings.rankers.click_weights import weigh_clicks
from placings.rankers.facts import RankerFacts

if TYPE_CHECKING:
    from placings.rankers.onnx_files import Exported

SAMPLE_ROWS = 16
LARGEST_SEED = 2**32 - 1  # as in numpy and scikit-learn


class Ranker(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that scores rows so that, within a query, higher is better.

    `fit(X, y, qid=…)` takes arrays with rows in any order, or one RankingData that brings labels,
    query ids, weights and positions along. Without `qid` all rows are one query: a warning says so, and
    above 10,000 rows that is refused. `valid`, a RankingData or `(X, y, qid)`, is what early stopping
    watches. `predict(X)` gives one score a row, in row order.

    A row of a RankingData weighs what its `weight` says, as an item: a pair weighs what its better row
    does. A `propensity` of the training data weighs clicks by one over it (`weigh_clicks`), times `weight`
    if there is one; where rows have squared errors it multiplies their labels.

    After `fit`: `n_features_in_`, `feature_names_` (a name for each column), `coverage_` (the share of
    training rows in which each feature is there and not zero), `training_` (rows, queries; with a propensity
    also what weighing the clicks by it did: `clip`, `share_clipped`, `bias_bound`).
    """

    # what scikit-learn's metadata routing hands on by itself
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True, "sample_weight": None, "position": None}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, Any]] = {"qid": None}

    facts: ClassVar[RankerFacts] = RankerFacts()  # search spaces, libraries and the like; see there

    feature_names_: tuple[str, ...]
    coverage_: Floats32
    coverage_rules_: dict[
        str, str | float
    ]  # where not "present and not zero"; see feco.references.adopt_rules
    training_: dict[str, Any]
    _sample: Matrix

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """A setting that the class does not have is answered by what it is called here, not by Python."""
        if settings:
            plain = cls.__init__ is object.__init__  # whose signature says that it takes anything
            parameters = [] if plain else list(inspect.signature(cls.__init__).parameters.values())
            known = {each.name for each in parameters}
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                for name in settings:
                    if name not in known:
                        from placings.rankers.catalogue import refuse_setting

                        refuse_setting(cls, name)
        made: Self = super().__new__(cls)
        return made

    def set_params(self, **params: Any) -> Self:
        """Change settings, as in scikit-learn; one of another library is answered by its name here."""
        known = self._get_param_names()
        for name in params:
            if name.partition("__")[0] not in known:
                from placings.rankers.catalogue import refuse_setting

                refuse_setting(type(self), name)
        changed: Self = super().set_params(**params)
        return changed

    # -- what a ranker fills in --------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        raise NotImplementedError

    def _score(self, X: Matrix) -> AnyArray:
        """One score a row of `X` `[rows, n_features_in_]` float32, dense or CSR, NaN where missing."""
        raise NotImplementedError

    def _score_lists(self, X: Matrix, offsets: Ints | None) -> AnyArray:
        """Scores of rows that stand query by query; for rankers that look at whole lists."""
        return self._score(X)

    def _looks_at_list(self) -> bool:
        """Whether a row's score depends on the other rows of its list; to be assumed of `_score_lists`."""
        return type(self)._score_lists is not Ranker._score_lists

    def _give_weights(self) -> dict[str, bytes]:
        """The fitted state as files, name → content, in the library's own format; never pickled."""
        raise NotImplementedError

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        """The reverse of `_give_weights`."""
        raise NotImplementedError

    def _weigh(self, train: RankingData) -> tuple[RankingData, dict[str, Any]]:
        """The data with clicks weighed by their propensity, and what that did; as they are without one."""
        if train.propensity is None:
            return train, {}
        found = weigh_clicks(train.y, train.propensity)
        weighs = "labels" if self._weighs_labels() else "rows"
        facts = {"propensity": {"weighs": weighs, **found.to_facts()}}
        if weighs == "labels":
            return train.replace(y=train.y * found.weights), facts
        return train.replace(weight=found.weights * (1.0 if train.weight is None else train.weight)), facts

    def _weighs_labels(self) -> bool:
        """Whether a click is weighed in its label: where the loss is the square of a row's error.

        A mean of errors that are weighed by 1/p is drawn to clicked rows; that of labels y/p is the
        relevance.
        """
        return False

    def _check_settings(self) -> None:
        """Refuse settings with which `fit` would fail, as far as that is known before there are data."""

    def _plain_params(self) -> dict[str, Any]:
        """The settings that a bundle keeps: plain values only, and functions by their registered names."""
        params: dict[str, Any] = self.get_params(deep=False)
        for name in ("loss", "metric"):
            if callable(params.get(name)):
                params[name] = name_registered(name, params[name])
        return params

    def _missing_policy(self) -> str:
        """In words: what happens to a missing value; part of the bundle's contract."""
        return "missing values are passed to the model"

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: Any = None,
        sample_weight: ArrayLike | None = None,
        position: ArrayLike | None = None,
        valid: RankingData | tuple[Any, ...] | None = None,
    ) -> Self:
        """Learn to order rows by their labels; see the class for what the arguments may be."""
        as_seed(getattr(self, "random_state", None))
        train = self._as_data(X, y, qid, sample_weight, position, reset=True)
        if train.n_rows == 0:
            raise BadInput("fit needs at least one row. Got none.")
        refuse_weights(train.weight)
        self.n_features_in_ = train.n_features
        self.feature_names_ = train.feature_names
        held = None
        if isinstance(valid, RankingData):
            held = align_features(valid, train.feature_names)
        elif valid is not None:
            parts = tuple(valid)
            if len(parts) not in (2, 3):
                raise BadInput(f"valid must be a RankingData or (X, y, qid). Got {len(parts)} parts.")
            held = self._as_data(*parts, *[None] * (5 - len(parts)), reset=False, what="fit(valid=…)")
        weighed, facts = self._weigh(train)
        self._fit(weighed, held)
        self.coverage_, self.coverage_rules_ = measure_coverage(train.X), {}
        self.training_ = {"rows": train.n_rows, "queries": train.n_queries, **facts}
        self._sample = take_sample(train.X)
        return self

    # -- predicting --------------------------------------------------------------------------------

    def predict(self, X: Any, qid: Any = None) -> Floats:
        """Scores `[rows]`, higher is better; comparable within a query only.

        A ranker that looks at whole lists wants a RankingData or `qid`: without either all rows are one list.
        """
        check_is_fitted(self)
        features = self._as_features(X)
        scores = self._predict(features, X, qid)
        if not np.isfinite(scores).all():
            self._refuse_scores(features, scores)
        return scores

    def _predict(self, features: Matrix, X: Any, qid: Any) -> Floats:
        if isinstance(X, RankingData):
            return np.asarray(self._score_lists(features, X.offsets), dtype=np.float64)
        if qid is None:
            if self._looks_at_list():
                say_one_query(features.shape[0], f"{type(self).__name__}.predict", stacklevel=4)
            return np.asarray(self._score(features), dtype=np.float64)
        ids = as_ids(qid, "qid")
        check_length(ids, features.shape[0], "qid")
        codes, _ = number_ids(ids)
        order, offsets = order_by_query(codes, int(codes.max(initial=-1)) + 1)
        if order is None:  # they stand query by query already
            return np.asarray(self._score_lists(features, offsets), dtype=np.float64)
        out = np.empty(features.shape[0], dtype=np.float64)
        out[order] = self._score_lists(features[order], offsets)
        return out

    def _refuse_scores(self, features: Matrix, scores: Floats) -> None:
        """Say which row has a score that is not finite, and by which feature: the largest of the row."""
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        line = features[row : row + 1]
        values = np.nan_to_num((line if isinstance(line, np.ndarray) else line.toarray())[0])
        place = int(np.argmax(np.abs(values))) if len(values) else 0
        by = (
            f", whose largest value is {values[place]:g}, of {self.feature_names_[place]!r}"
            if len(values)
            else ""
        )
        raise BadInput(
            f"{type(self).__name__} gives the score {scores[row]} to row {row}{by}. Clip or rescale the "
            "features, or train with transform='cdf'."
        )

    @property
    def looks_at_list(self) -> bool:
        """Whether a row's score depends on the other rows of its list, not on that row alone.

        It never depends on rows of another list. A ranker with a `predict` of its own is taken to look.
        """
        return type(self).predict is not Ranker.predict or self._looks_at_list()

    def score(self, X: Any, y: ArrayLike | None = None, *, qid: Any = None) -> float:
        """The mean NDCG@10 over queries with something relevant; NaN if there is none."""
        from placings.metrics import ndcg

        data = self._as_data(X, y, qid, None, None, reset=False, what="score")
        values = ndcg(
            np.asarray(self._score_lists(data.X, data.offsets), dtype=np.float64), data.y, data.offsets, k=10
        )
        return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")

    def save(self, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> str:
        """Write a bundle (a folder, whole or not at all) and return its digest; `load` reads it back."""
        from placings.rankers.bundles import save_ranker

        check_is_fitted(self)
        return save_ranker(self, path, metrics or {})

    def export_onnx(
        self, path: str | Path, *, opset: int | None = None, digest: str | None = None
    ) -> Exported:
        """Write the ranker as one ONNX file, transforms included; see `placings.rankers.export_ranker`."""
        from placings.rankers.onnx_files import export_ranker

        return export_ranker(self, path, opset=opset, digest=digest)

    # -- scikit-learn ------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.requires_fit = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "training_")

    # -- inside ------------------------------------------------------------------------------------

    def _as_data(
        self,
        X: Any,
        y: Any,
        qid: Any,
        weight: Any = None,
        position: Any = None,
        *,
        reset: bool,
        what: str = "fit",
    ) -> RankingData:
        """What `fit` and `score` were given as RankingData; `what` names the call in messages."""
        if isinstance(X, RankingData):
            if y is not None or qid is not None:
                raise BadInput("y and qid come from the RankingData; leave them out.")
            data = X if reset else align_features(X, self.feature_names_)
            given = {"weight": weight, "position": position}
            extra = {name: np.asarray(values) for name, values in given.items() if values is not None}
            return data.replace(**extra) if extra else data
        if y is None:
            raise BadInput(
                f"{type(self).__name__}.{what} requires y to be passed, but the target y is None. "
                "Pass labels, or a RankingData that holds them."
            )
        with np.errstate(over="ignore", invalid="ignore"):  # it adds all values up, to see what is not finite
            matrix, labels = validate_data(
                self, X, y, reset=reset, accept_sparse="csr", dtype=np.float32, ensure_all_finite="allow-nan",
                y_numeric=True,
            )  # fmt: skip
        if qid is None:
            say_one_query(matrix.shape[0], f"{type(self).__name__}.{what}", stacklevel=4)
            qid = np.zeros(matrix.shape[0], dtype=np.int64)
        names = getattr(self, "feature_names_in_", None) if reset else self.feature_names_
        return RankingData.from_arrays(
            matrix,
            np.asarray(labels, dtype=np.float64),
            qid,
            feature_names=name_features(matrix.shape[1]) if names is None else tuple(map(str, names)),
            weight=weight,
            position=position,
        )

    def _as_features(self, X: Any) -> Matrix:
        if isinstance(X, RankingData):
            return align_features(X, self.feature_names_).X
        with np.errstate(over="ignore", invalid="ignore"):
            checked = validate_data(
                self, X, reset=False, accept_sparse="csr", dtype=np.float32, ensure_all_finite="allow-nan"
            )
        return as_matrix(checked)


def as_seed(random_state: Any) -> int | None:
    """A seed for a library, from what scikit-learn calls a random_state; None leaves the library's own.

    >>> as_seed(7), as_seed(None)
    (7, None)
    """
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool | np.bool_):
        if 0 <= random_state <= LARGEST_SEED:
            return int(random_state)
    elif isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise BadInput(
        f"random_state must be None or a whole number from 0 to {LARGEST_SEED}. Got {random_state!r}."
    )


def name_registered(kind: str, function: Any) -> Any:
    """The name of a loss or a metric that was given as a function; the function itself if it has none."""
    if kind == "metric":
        from placings.metrics import HELD_METRICS, metric

        chosen = metric(function)
        return function if chosen.options or chosen.name in HELD_METRICS else str(chosen)
    from placings.losses import HELD_LOSSES, hold_loss

    name = hold_loss(function)
    return function if name in HELD_LOSSES else name


def take_sample(X: Matrix) -> Matrix:
    """A few rows, spread evenly: a bundle keeps them with their scores and checks them on load."""
    rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLE_ROWS).astype(np.int64))
    return X[rows].copy()


def refuse_weights(weight: AnyArray | None) -> None:
    """Weights must be one per row, and some above 0."""
    if weight is None:
        return
    if weight.ndim != 1:
        raise BadInput(f"sample_weight must be one-dimensional, one value a row. Got shape {weight.shape}.")
    if not weight.any():
        raise BadInput("every sample weight is zero, so there is nothing to learn from. Leave weights out.")
