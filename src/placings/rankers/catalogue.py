"""Which rankers there are: the classes a bundle may name, and the short names of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from placings.core import UnknownName

if TYPE_CHECKING:
    from placings.rankers.estimator import Ranker


@dataclass(frozen=True)
class NamedRanker:
    """A ranker as the terminal names it: a class ("module:Class") and the settings that the name means."""

    home: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The module of this room that the class is in."""
        return f"placings.rankers.{self.home.partition(':')[0]}"

    @property
    def class_name(self) -> str:
        """The name of the class, as a bundle writes it."""
        return self.home.partition(":")[2]


# A new ranker is one line here; what else there is to know of it stands in its class, as `facts`.
RANKERS = {
    "lightgbm": NamedRanker("lgbm:LightGBMRanker"),
    "xgboost": NamedRanker("xgb:XGBoostRanker"),
    "catboost": NamedRanker("cat:CatBoostRanker"),
    "ranksvm": NamedRanker("linear:LinearRanker", {"loss": "hinge"}),
    "linear": NamedRanker("linear:LinearRanker", {"loss": "squared_hinge"}),
    "logistic": NamedRanker("linear:LinearRanker", {"loss": "logistic"}),
    "ridge": NamedRanker("linear:LinearRanker", {"loss": "ridge"}),
    "neural": NamedRanker("neural:NeuralRanker"),
    "mean": NamedRanker("mean:MeanRanker"),
    "original": NamedRanker("original:OriginalOrder"),
}
# class name → module; nothing else is ever imported because a file says so
CLASSES = {each.class_name: each.module for each in RANKERS.values()}


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
    for name, choice in RANKERS.items():
        if choice.class_name == class_name and dict(choice.settings).items() <= dict(settings).items():
            return name
    raise UnknownName("ranker class", class_name, CLASSES)


def make_ranker(name: str, **settings: Any) -> Ranker:
    """An unfitted ranker by its short name ("lightgbm", "ridge", …) with these settings.

    >>> make_ranker("ridge", C=10.0)
    LinearRanker(C=10.0, loss='ridge')
    """
    if name not in RANKERS:
        raise UnknownName("ranker", name, RANKERS)
    choice = RANKERS[name]
    kind = find_class(choice.class_name)
    known = kind._get_param_names()
    for setting in settings:
        if setting not in known:
            meant = explain_setting(setting, known)
            raise UnknownName(f"setting of {name}", setting, known, meaning=meant)
    return kind(**{**choice.settings, **settings})


def explain_setting(name: str, known: Iterable[str]) -> str | None:
    """What a setting of another library is called here, if these settings have it.

    >>> explain_setting("n_estimators", ["rounds", "leaves"])
    "LightGBM's n_estimators is called 'rounds' here."
    """
    library, ours = find_familiar().get(name.lower(), ("", ()))
    there = set(known)
    found = next((each for each in ours if each in there), None)
    return None if found is None else f"{library}'s {name} is called {found!r} here."


def find_familiar() -> dict[str, tuple[str, tuple[str, ...]]]:
    """What settings are called elsewhere, as the classes state it: name → by whom, and here."""
    return {name: meant for each in CLASSES for name, meant in find_class(each).facts.familiar.items()}
