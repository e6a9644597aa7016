"""What the boosted trees of three libraries share: importances, contributions, early stopping, a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from placings.core import (
    AnyArray,
    BadInput,
    Floats,
    Floats32,
    UnknownName,
    check_limit,
    count_threads,
    show_progress,
)
from placings.data import Matrix, RankingData
from placings.metrics import AnyMetric, metric
from placings.rankers.estimator import SAMPLE_ROWS, Ranker

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

KINDS = ("gain", "split")
THREADS = {"n_jobs", "nthread", "nthreads", "num_thread", "num_threads", "thread_count"}  # in any library
LARGEST_EXPONENT = 1023  # 2^1024 is no float64

Advance = Callable[[float | None], None]


class TreeRanker(Ranker):
    """Boosted trees. A library's file fits `booster_`; what can be asked of the trees is here.

    After `fit`, beside what every ranker has: `booster_` (the library's own model, cut to the rounds that
    are used), `rounds_` (how many those are), `history_` (the value of `metric` on `valid` after each
    round; empty without `valid`).
    """

    booster_: Any
    rounds_: int
    history_: tuple[float, ...]

    def feature_importances(self, kind: str = "gain") -> dict[str, float]:
        """How much the trees use each feature, the most used first; features never used have 0.

        `kind="gain"`: the summed improvement of the loss over all splits on the feature (LightGBM, XGBoost),
        or how much the score moves when the feature does, in percent (CatBoost's PredictionValuesChange).
        `kind="split"`: how many splits use it. Both are about the training data; see
        `placings.evaluation.importance.permute_importance` for what a feature is worth on other data.
        """
        check_is_fitted(self)
        if kind not in KINDS:
            raise UnknownName("kind of importance", kind, KINDS)
        values = self._weigh_features(kind)
        order = np.argsort(-values, kind="stable")
        return {self.feature_names_[place]: float(values[place]) for place in order}

    @property
    def feature_importances_(self) -> Floats:
        """Gain of each feature, in column order, adding up to 1 (all 0 if no tree has a split)."""
        check_is_fitted(self)
        values = self._weigh_features("gain")
        return values / (values.sum() or 1.0)

    def contributions(self, X: Any) -> Floats:
        """SHAP values `[rows, features + 1]`; the last column is the bias. A row adds up to its score.

        They are exact for trees (each library's own tree SHAP, path dependent). NaN is a value like others.
        """
        check_is_fitted(self)
        return np.asarray(self._contribute(self._as_features(X)), dtype=np.float64)

    def _weigh_features(self, kind: str) -> Floats:
        raise NotImplementedError

    def _contribute(self, X: Matrix) -> AnyArray:
        raise NotImplementedError

    def _missing_policy(self) -> str:
        return "missing values (NaN) go to the side of each split that the trees chose in training"

    def _refuse_width(self, width: int, library: str) -> None:
        """A loaded model must have been made for this ranker's features."""
        if hasattr(self, "feature_names_") and width != len(self.feature_names_):
            raise BadInput(
                f"the {library} model has {width} features, but the ranker {len(self.feature_names_)}. "
                "They do not belong together."
            )
        if not hasattr(self, "feature_names_"):  # a file from elsewhere, which may name none of them
            check_limit("feature", width)

    def _adopt(self, names: Iterable[str]) -> None:
        """Become a fitted ranker around a model from elsewhere; nothing is known of its data."""
        self.feature_names_ = tuple(names)
        width = len(self.feature_names_)
        self.n_features_in_ = width
        self.coverage_, self.coverage_rules_ = np.full(width, np.nan, dtype=np.float32), {}
        self.training_ = {}
        rng = np.random.default_rng(0)
        wild = 10.0 ** rng.uniform(-3, 4, (SAMPLE_ROWS, width)) * rng.choice(
            [-1.0, 1.0], (SAMPLE_ROWS, width)
        )
        self._sample = wild.astype(np.float32)


def read_file(path: str | Path) -> bytes:
    """A model's file whole, if it is not larger than any model."""
    check_limit("model", Path(path).stat().st_size, str(path))
    return Path(path).read_bytes()


# -- parameters -----------------------------------------------------------------------------------


def merge_params(
    own: Mapping[str, Any], given: Mapping[str, Any] | None, aliases: Iterable[Iterable[str]]
) -> dict[str, Any]:
    """`given` wins over `own`, also under another of the library's names for the same thing.

    None in `own` stands for the library's default.

    >>> merge_params({"eta": 0.1, "depth": None}, {"learning_rate": 0.3}, [("eta", "learning_rate")])
    {'learning_rate': 0.3}
    """
    chosen = dict(given or {})
    for name in THREADS & set(chosen):
        if isinstance(chosen[name], int):
            check_limit("jobs", chosen[name], f"params[{name!r}]")
    taken = set(chosen)
    for names in aliases:
        if taken & set(names):
            taken |= set(names)
    return {name: value for name, value in own.items() if name not in taken and value is not None} | chosen


def pop_param(params: dict[str, Any], names: Iterable[str], default: Any) -> Any:
    """Take out a setting under any of its names, or the default."""
    found = [params.pop(name) for name in tuple(names) if name in params]
    return found[0] if found else default


def as_threads(n_jobs: int | None) -> int:
    """As in scikit-learn, but None is all cores that this process may use; −1 is so too."""
    if n_jobs is None or n_jobs == -1:
        return count_threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise BadInput(f"n_jobs must be a whole number of 1 or more, −1 or None for all. Got {n_jobs!r}.")
    check_limit("jobs", int(n_jobs), "n_jobs")
    return int(n_jobs)


def check_rounds(rounds: Any, early_stopping: Any) -> tuple[int, int | None]:
    """Rounds from 1; patience from 1, or None for no early stopping."""
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1:
        raise BadInput(f"rounds must be a whole number of 1 or more. Got {rounds!r}.")
    if early_stopping is None:
        return int(rounds), None
    whole = isinstance(early_stopping, int | np.integer) and not isinstance(early_stopping, bool)
    if not whole or early_stopping < 1:
        raise BadInput(
            f"early_stopping must be a number of rounds, 1 or more, or None. Got {early_stopping!r}."
        )
    return int(rounds), int(early_stopping)


# -- data -----------------------------------------------------------------------------------------


def drop_empty_queries(data: RankingData) -> RankingData:
    """Without the queries that have no row, which no library takes."""
    return data if (data.sizes > 0).all() else data[data.sizes > 0]


def as_old_sparse(X: Matrix) -> Floats32 | csr_matrix[Any]:
    """Dense as it is; CSR as scipy's older matrix class, on the same memory: libraries know no other."""
    if isinstance(X, np.ndarray):
        return X
    from scipy.sparse import csr_matrix

    return csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)


def are_whole(y: Floats) -> bool:
    """Whether all labels are whole numbers."""
    return bool((y % 1 == 0).all())


def code_labels(y: Floats) -> tuple[Floats, list[float]]:
    """Codes 0, 1, … for the distinct labels in rising order, and the gain 2^y − 1 of each code.

    >>> code_labels(np.array([40.0, 2.0, 40.0]))
    (array([1., 0., 1.]), [3.0, 1099511627775.0])
    """
    distinct, codes = np.unique(y, return_inverse=True)
    return codes.astype(np.float64), exponential_gain(distinct, LARGEST_EXPONENT).tolist()


def exponential_gain(y: Floats, largest: int) -> Floats:
    """2^y − 1, refused where it is more than the library's numbers hold."""
    if y.size and y.max() > largest:
        raise BadInput(
            f"the gain 2^y − 1 of label {y.max():g} is too large to compute with; labels go up to {largest}. "
            "Use grades such as 0 to 4, or their logarithm."
        )
    return np.asarray(2.0**y - 1.0, dtype=np.float64)


# -- watching -------------------------------------------------------------------------------------


class BoostingWatch:
    """The mean of a metric on held-out queries: one definition for every library's early stopping."""

    def __init__(self, name: AnyMetric, valid: RankingData) -> None:
        self.metric = metric(name)
        self.name = str(self.metric)
        self.higher_is_better = not self.metric.lower_is_better
        self.valid = valid
        lacks_clicks = self.metric.ips and not (valid.y > 0.0).any()  # all values are 0, whatever is learned
        if np.isnan(self(np.zeros(valid.n_rows))) or lacks_clicks:
            raise BadInput(
                f"valid has no query for which {self.name} is defined ({valid.n_queries} queries, largest "
                f"label {valid.y.max(initial=0.0):g}). Give queries with something relevant, or no valid."
            )

    def __call__(self, scores: AnyArray) -> float:
        valid = self.valid
        values = self.metric(
            np.asarray(scores, dtype=np.float64), valid.y, valid.offsets, propensity=valid.propensity
        )
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")


@contextmanager
def show_rounds(title: str, rounds: int, verbose: bool) -> Iterator[Advance]:
    """A bar on stderr, if it is a terminal and `verbose`; call what it yields once a round."""
    with show_progress(title, rounds, wanted=verbose, keep=True) as bar:
        yield lambda value: bar.advance(note="" if value is None else f"{value:.4f}")
