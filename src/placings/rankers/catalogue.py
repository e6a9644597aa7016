"""Which rankers there are: the classes a bundle may name, and the short names of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from placings.errors import UnknownName
from placings.rankers.estimator import Ranker

# class name → module; nothing else is ever imported because a file says so
CLASSES = {
    "LinearRanker": "placings.rankers.linear",
    "LightGBMRanker": "placings.rankers.lgbm",
    "XGBoostRanker": "placings.rankers.xgb",
    "CatBoostRanker": "placings.rankers.cat",
    "NeuralRanker": "placings.rankers.neural",
    "MeanRanker": "placings.rankers.mean",
    "OriginalOrder": "placings.rankers.original",
}


@dataclass(frozen=True)
class Choice:
    """A ranker as the terminal names it: a class, with the settings that the name stands for."""

    class_name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


CHOICES = {
    "lightgbm": Choice("LightGBMRanker"),
    "xgboost": Choice("XGBoostRanker"),
    "catboost": Choice("CatBoostRanker"),
    "ranksvm": Choice("LinearRanker", {"loss": "hinge"}),
    "linear": Choice("LinearRanker", {"loss": "squared_hinge"}),
    "logistic": Choice("LinearRanker", {"loss": "logistic"}),
    "ridge": Choice("LinearRanker", {"loss": "ridge"}),
    "neural": Choice("NeuralRanker"),
    "mean": Choice("MeanRanker"),
    "original": Choice("OriginalOrder"),
}


def find_class(name: str) -> type[Ranker]:
    """The ranker class of this name."""
    if name not in CLASSES:
        raise UnknownName("ranker class", name, CLASSES)
    found: type[Ranker] = getattr(import_module(CLASSES[name]), name)
    return found


def find_choice(class_name: str, settings: Mapping[str, Any]) -> str:
    """The short name of a ranker of this class with these settings.

    >>> find_choice("LinearRanker", {"loss": "ridge", "C": 10.0}), find_choice("LightGBMRanker", {})
    ('ridge', 'lightgbm')
    """
    for name, choice in CHOICES.items():
        if choice.class_name == class_name and dict(choice.settings).items() <= dict(settings).items():
            return name
    raise UnknownName("ranker class", class_name, CLASSES)


def make_ranker(name: str, **settings: Any) -> Ranker:
    """An unfitted ranker by its short name ("lightgbm", "ridge", …) with these settings.

    >>> make_ranker("ridge", C=10.0)
    LinearRanker(C=10.0, loss='ridge')
    """
    if name not in CHOICES:
        raise UnknownName("ranker", name, CHOICES)
    choice = CHOICES[name]
    kind = find_class(choice.class_name)
    known = kind._get_param_names()
    for setting in settings:
        if setting not in known:
            raise UnknownName(f"setting of {name}", setting, known)
    return kind(**{**choice.settings, **settings})
