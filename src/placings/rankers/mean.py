"""The mean of several rankers: where one is unsure another may not be, and none must be chosen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Ints
from placings.data import Matrix, RankingData
from placings.rankers.catalogue import make_ranker
from placings.rankers.estimator import Ranker, as_seed
from placings.rankers.facts import RankerFacts

DEFAULT: Mapping[str, Mapping[str, Any]] = {"lightgbm": {}, "neural": {}}
SEPARATOR = "-"  # between a member's name and its file's


class MeanRanker(Ranker):
    """Scores that are the mean of several rankers', each divided by how far its own lie apart in a list.

    `members` are names of rankers with their settings; `random_state` is that of members which name none.
    All learn from the same data, with its weights and propensity; the deviation of their scores within a
    list is measured on `valid` if it is given. After `fit`: `members_`, the fitted rankers by name,
    `scales_`, and `seconds_` that each took.

    >>> MeanRanker(members={"lightgbm": {"rounds": 50}, "ridge": {}})
    MeanRanker(members={'lightgbm': {'rounds': 50}, 'ridge': {}})
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={"default": {}},  # its members are tuned by themselves
        familiar={
            "estimators": ("scikit-learn", ("members",)),
        },
        quick={
            "members": {
                "lightgbm": {"rounds": 20, "min_data_in_leaf": 2, "random_state": 0},
                "xgboost": {"rounds": 5},
            }
        },
    )

    members_: dict[str, Ranker]
    scales_: Floats  # [members], in their order
    seconds_: dict[str, float]

    def __init__(
        self, *, members: Mapping[str, Mapping[str, Any]] = DEFAULT, random_state: int | None = None
    ) -> None:
        self.members = members
        self.random_state = random_state

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        self._check_members()
        self.members_, self.seconds_ = self._make_members(), {}
        for name, ranker in self.members_.items():
            began = time.perf_counter()
            ranker.fit(train, valid=valid)
            self.seconds_[name] = time.perf_counter() - began
        self._measure_scales(train if valid is None else valid)

    def _weigh(self, train: RankingData) -> tuple[RankingData, dict[str, Any]]:
        """The data as they are, for members weigh clicks themselves; and what that does."""
        facts = super()._weigh(train)[1]
        return train, {name: {**each, "weighs": "members"} for name, each in facts.items()}

    def _make_members(self) -> dict[str, Ranker]:
        members = {name: make_ranker(name, **settings) for name, settings in self.members.items()}
        for name, ranker in members.items():
            if "random_state" in ranker.get_params() and "random_state" not in self.members[name]:
                ranker.set_params(random_state=self.random_state)
            as_seed(ranker.get_params(deep=False).get("random_state"))
        return members

    def _check_settings(self) -> None:
        self._check_members()
        for ranker in self._make_members().values():
            ranker._check_settings()

    def _check_members(self) -> None:
        named = isinstance(self.members, Mapping) and len(self.members) > 0
        if not named or not all(isinstance(settings, Mapping) for settings in self.members.values()):
            raise BadInput(
                'members must name rankers with their settings, such as {"lightgbm": {}, "neural": {}}. '
                f"Got {self.members!r}."
            )
        if "mean" in self.members:
            raise BadInput("a mean cannot be a member of a mean. Name its members instead.")

    def _measure_scales(self, data: RankingData) -> None:
        found = [measure_spread(ranker.predict(data), data.offsets) for ranker in self.members_.values()]
        self.scales_ = np.array([spread if spread > 0.0 else 1.0 for spread in found])

    def _score(self, X: Matrix) -> AnyArray:
        return self._score_lists(X, None)

    def _score_lists(self, X: Matrix, offsets: Ints | None) -> AnyArray:
        total: Floats = np.zeros(X.shape[0])
        for ranker, scale in zip(self.members_.values(), self.scales_, strict=True):
            total += np.asarray(ranker._score_lists(X, offsets), dtype=np.float64) / scale
        return total / len(self.members_)

    def _looks_at_list(self) -> bool:
        return any(ranker.looks_at_list for ranker in self.members_.values())

    def _give_weights(self) -> dict[str, bytes]:
        files = {
            file: content
            for name, ranker in self.members_.items()
            for file, content in give_member(name, ranker).items()
        }
        return {**files, "scales.txt": " ".join(map(repr, self.scales_.tolist())).encode()}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        self._check_members()
        self.scales_ = np.array([float(word) for word in files["scales.txt"].decode().split()])
        self.members_ = {}
        for name, ranker in self._make_members().items():
            self.members_[name] = take_member(self, ranker, name, files)
        if self.scales_.shape != (len(self.members_),) or not _are_scales(self.scales_):
            raise BadInput(f"scales.txt must hold {len(self.members_)} numbers above 0.")

    def _missing_policy(self) -> str:
        return "; ".join(f"{name}: {ranker._missing_policy()}" for name, ranker in self.members_.items())


def give_member(name: str, ranker: Ranker) -> dict[str, bytes]:
    """The files of a ranker within another one's bundle, each with the member's name in front."""
    return {f"{name}{SEPARATOR}{file}": content for file, content in ranker._give_weights().items()}


def take_member(owner: Ranker, ranker: Ranker, name: str, files: Mapping[str, bytes]) -> Ranker:
    """The reverse of `give_member`: an unfitted ranker with its own files and its owner's features."""
    for attribute in (
        "n_features_in_", "feature_names_", "coverage_", "coverage_rules_", "training_", "_sample",
    ):  # fmt: skip
        setattr(ranker, attribute, getattr(owner, attribute))
    start = f"{name}{SEPARATOR}"
    ranker._take_weights(
        {file[len(start) :]: content for file, content in files.items() if file.startswith(start)}
    )
    return ranker


def _are_scales(scales: Floats) -> bool:
    return bool((np.isfinite(scales) & (scales > 0.0)).all())


def measure_spread(scores: Floats, offsets: Ints) -> float:
    """The deviation of scores from the mean of their list, over all lists; 0 of equal scores.

    >>> measure_spread(np.array([1.0, 3.0, 10.0, 12.0]), np.array([0, 2, 4]))
    1.0
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    means = np.bincount(owner, scores, minlength=len(sizes)) / np.maximum(sizes, 1)
    return float(np.sqrt(np.mean((scores - means[owner]) ** 2))) if len(scores) else 0.0
