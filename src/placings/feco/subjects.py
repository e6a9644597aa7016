"""What `degrade` and `estimate_risk` examine: a ranker or estimator, its data, its important features."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from placings.core import BadInput, Floats, UnknownName
from placings.data import RankingData
from placings.evaluation import Importance, give_scores, predict_lists, rank_importance
from placings.feco.effects import sort_importance
from placings.feco.masking import find_reach
from placings.rankers import find_facts

RESPONSES = ("predict", "predict_proba", "decision_function")
TOP = re.compile(r"(random:)?top:([1-9][0-9]*)")


class Weigh(Protocol):
    """Gives the importance of features; None if it is not cheap and not needed."""

    def __call__(self, *, needed: bool) -> Importance | None: ...


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted ranker, or a scikit-learn estimator, with one way to ask it and one to train it again."""

    ranker: Any
    response_method: str = "predict"

    def __post_init__(self) -> None:
        if self.response_method not in RESPONSES:
            raise UnknownName("response_method", str(self.response_method), RESPONSES)
        if not hasattr(self.ranker, self.response_method):
            raise BadInput(
                f"a ranker must have {self.response_method}. Got {type(self.ranker).__name__}, which has not."
            )

    @cached_property
    def is_plain(self) -> bool:
        """A scikit-learn estimator that is none of our rankers: it gets matrices."""
        from sklearn.base import BaseEstimator

        from placings.rankers import Ranker

        return isinstance(self.ranker, BaseEstimator) and not isinstance(self.ranker, Ranker)

    @cached_property
    def reach(self) -> str:
        """What a row's score depends on: "row", "list" or "data"."""
        return find_reach(self.ranker)

    @property
    def is_random(self) -> bool:
        """Whether another seed may give another ranker."""
        return find_facts(self.ranker).random and "random_state" in self._params

    @property
    def _params(self) -> Mapping[str, Any]:
        asked: Mapping[str, Any] = self.ranker.get_params(deep=False)
        return asked

    def predict(self, data: RankingData) -> Floats:
        """One prediction per row; with two classes, the second's."""
        if not self.is_plain:
            if self.response_method != "predict":
                raise BadInput("response_method is for scikit-learn's estimators; a ranker has predict.")
            return give_scores(self.ranker, data)
        rows = self._as_input(data)
        if self.response_method == "predict":
            found = np.asarray(predict_lists(self.ranker, rows, data.qid))
        else:
            found = np.asarray(getattr(self.ranker, self.response_method)(rows))
        if found.ndim == 2 and found.shape[1] == 2:
            found = found[:, 1]
        if len(found) != data.n_rows:
            raise BadInput(f"predictions must be one for each of the {data.n_rows} rows. Got {len(found)}.")
        return found

    def check_clonable(self) -> None:
        """Refuse what cannot be trained again."""
        if not (hasattr(self.ranker, "get_params") and hasattr(self.ranker, "fit")):
            raise BadInput(
                f"where='train+test' retrains a clone, and {type(self.ranker).__name__} has no get_params "
                "and fit. Make it a scikit-learn estimator, or use where='test'."
            )

    def refit(self, train: RankingData, valid: RankingData | None, seed: int) -> Subject:
        """A clone with this seed, trained on these data."""
        from sklearn.base import clone

        fresh = clone(self.ranker)
        if self.is_random:
            fresh.set_params(random_state=seed)
        if self.is_plain:
            fresh.fit(self._as_input(train), train.y)
        elif valid is None:
            fresh.fit(train)
        else:
            fresh.fit(train, valid=valid)
        return Subject(fresh, self.response_method)

    def _as_input(self, data: RankingData) -> Any:
        names = getattr(self.ranker, "feature_names_in_", None)
        if names is None:
            return data.X
        from placings.core import need_library

        pandas = need_library("pandas", f"{type(self.ranker).__name__} trained on a pandas table")
        return pandas.DataFrame(data.X, columns=list(data.feature_names))[list(names)]


def as_ranking(given: Any, what: str) -> RankingData:
    """A RankingData, also from `(X, y)` or `(X, y, event)`; targets may be any finite numbers.

    Without events every row is one. A pandas X gives the features' names.
    """
    if isinstance(given, RankingData):
        return given
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise BadInput(f"{what} must be a RankingData, (X, y) or (X, y, event). Got {type(given).__name__}.")
    X, y, event = (*given, None)[:3]
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(
            f"{what}: y must be numbers; code classes as 0, 1, …. Got {type(y).__name__}."
        ) from None
    if targets.ndim != 1 or not np.isfinite(targets).all():
        raise BadInput(f"{what}: y must be one finite number for each row. Got shape {targets.shape}.")
    rows = len(targets)
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    matrix = X.to_numpy() if hasattr(X, "to_numpy") else X
    order = np.arange(rows)
    grouped = RankingData.from_arrays(
        matrix, np.zeros(rows), order if event is None else event, feature_names=names, items=order
    )
    assert grouped.items is not None
    return dataclasses.replace(grouped, y=targets[grouped.items.astype(np.int64)], items=None)


# -- importance --------------------------------------------------------------------------------------


def weigh_features(
    subject: Subject, importance: str | Importance | Mapping[str, float] | None, data: RankingData
) -> Weigh:
    """A function that gives the importance of a subject's features, measured once, and only when asked.

    By default: a tree's gains and a linear ranker's contributions, which are cheap; for others
    contributions or permutation, if it is needed.
    """
    kept: list[Importance] = []

    def weigh(*, needed: bool) -> Importance | None:
        if not kept:
            found = _weigh(subject, importance, data, needed)
            if found is None:
                return None
            kept.append(found)
        return kept[0]

    return weigh


def _weigh(subject: Subject, importance: Any, data: RankingData, needed: bool) -> Importance | None:
    ranker = subject.ranker
    if isinstance(importance, Importance):
        return importance
    if isinstance(importance, Mapping):
        values = {str(name): float(value) for name, value in importance.items()}
        return sort_importance("given", "As it was given.", values)
    if importance is not None:
        return rank_importance(ranker, importance, data)
    if hasattr(ranker, "feature_importances"):
        return rank_importance(ranker, "gain")
    if subject.is_plain and hasattr(ranker, "feature_importances_"):
        names = list(getattr(ranker, "feature_names_in_", data.feature_names))
        values = dict(zip(map(str, names), map(float, ranker.feature_importances_), strict=True))
        return sort_importance("feature_importances_", "What the estimator says of itself.", values)
    if type(ranker).__name__ == "LinearRanker" or (needed and hasattr(ranker, "contributions")):
        return rank_importance(ranker, "contributions", data)
    if not needed:
        return None
    if subject.is_plain:
        raise BadInput(
            f"{type(ranker).__name__} says nothing of its features' importance. Name the features, or pass "
            "importance= as a mapping from names to numbers."
        )
    return rank_importance(ranker, "permutation", data)


def resolve_features(
    features: str | int | Sequence[str | int], names: Sequence[str], weigh: Weigh, seed: int
) -> list[tuple[str, str]]:
    """The features that are asked for, each once, with how it was chosen ("named", "top 1", …)."""
    asked = [features] if isinstance(features, str | int | np.integer) else list(features)
    chosen: dict[str, str] = {}
    for each in asked:
        match = TOP.fullmatch(each) if isinstance(each, str) and each not in names else None
        if match:
            ranked = weigh(needed=True)
            assert ranked is not None
            top = [name for name in ranked.names if name in set(names)][: int(match[2])]
            if match[1]:
                rng = np.random.default_rng([seed, 0])
                chosen.setdefault(top[int(rng.integers(len(top)))], f"random of top {match[2]}")
            else:
                for place, name in enumerate(top, 1):
                    chosen.setdefault(name, f"top {place}")
        elif isinstance(each, str):
            if each not in names:
                raise UnknownName("feature", each, [*names, "top:5", "random:top:10"])
            chosen.setdefault(each, "named")
        elif isinstance(each, int | np.integer) and not isinstance(each, bool) and 0 <= each < len(names):
            chosen.setdefault(names[int(each)], "named")
        else:
            raise BadInput(
                f"a feature must be a name or a place from 0 to {len(names) - 1}, 'top:5' or "
                f"'random:top:10'. Got {each!r}."
            )
    if not chosen:
        raise BadInput("features must name at least one, such as 'top:1'. Got none.")
    return list(chosen.items())
