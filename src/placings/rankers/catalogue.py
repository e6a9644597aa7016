"""Which rankers there are: the classes a bundle may name, and the short names of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from placings.core import BadInput, UnknownName

if TYPE_CHECKING:
    from placings.rankers.estimator import Ranker


@dataclass(frozen=True)
class NamedRanker:
    """A ranker as the terminal names it: a class ("module:Class") and the settings that the name means."""

    home: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The module that the class is in: of this room, or of another one that is named in full."""
        home = self.home.partition(":")[0]
        return home if home.startswith("placings.") else f"placings.rankers.{home}"

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
    "auto": NamedRanker("placings.evaluation.auto:AutoRanker"),
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

    `NAME:TRANSFORM` names the transform of a linear ranker or of a network too.

    >>> make_ranker("ridge", C=10.0)
    LinearRanker(C=10.0, loss='ridge')
    >>> make_ranker("ridge:gauss")
    LinearRanker(loss='ridge', transform='gauss')
    """
    name, colon, transform = name.partition(":")
    if name not in RANKERS:
        raise UnknownName("ranker", name, RANKERS)
    if colon:
        if not transform:
            raise BadInput(
                f"behind the colon stands a transform. Got '{name}:'. Write {name}, or {name}:gauss."
            )
        if settings.get("transform", transform) != transform:
            raise BadInput(
                f"{name}:{transform} names a transform, and the setting transform another one: "
                f"{settings['transform']!r}. Leave one of them out."
            )
        settings = {**settings, "transform": transform}
    choice = RANKERS[name]
    kind = find_class(choice.class_name)
    known = kind._get_param_names()
    for setting in settings:
        if setting not in known:
            meant = explain_setting(setting, known, kind)
            raise UnknownSetting(f"setting of {name}", setting, known, meaning=meant)
    return kind(**{**choice.settings, **settings})


def explain_setting(name: str, known: Iterable[str], kind: type[Ranker] | None = None) -> str | None:
    """What a setting of another library is called here, or what to do in its place, as far as it is known.

    >>> explain_setting("n_estimators", ["rounds", "leaves"])
    "LightGBM's n_estimators is called 'rounds' here."
    """
    facts = None if kind is None else kind.facts
    if facts is not None and name.lower() in facts.notes:
        return facts.notes[name.lower()]
    if facts is not None and name.lower() in facts.passed:
        said = f"{facts.libraries[0]}'s {name} is handed on by params: params={{{name!r}: …}}"
        return f"{said}, at the terminal --set 'params={{{name}: …}}'."
    library, ours = find_familiar().get(name.lower(), ("", ()))
    there = set(known)
    found = next((each for each in ours if each in there), None)
    if found is not None:
        return f"{library}'s {name} is called {found!r} here."
    return EVERYWHERE.get(name.lower())


# Names that rankers elsewhere have and none here has, unless a class says more.
EVERYWHERE = {
    "n_jobs": "threads are set for the whole process: PLACINGS_THREADS=4 in the environment.",
    "num_threads": "threads are set for the whole process: PLACINGS_THREADS=4 in the environment.",
    "thread_count": "threads are set for the whole process: PLACINGS_THREADS=4 in the environment.",
    "verbosity": "verbose=True shows progress; nothing else is printed.",
    "silent": "nothing is printed unless verbose=True.",
    "sample_weight": "weights go to fit: fit(X, y, qid=…, sample_weight=…), or into the RankingData.",
    "class_weight": "rows weigh what fit(…, sample_weight=…) says; placings fit --positive-weight 10 weighs "
    "relevant rows.",
    "group": "queries go to fit: fit(X, y, qid=…).",
    "group_id": "queries go to fit: fit(X, y, qid=…).",
    "qid": "queries go to fit: fit(X, y, qid=…).",
    "eval_set": "validation data go to fit: fit(train, valid=…).",
    "eval_at": "the cutoff is part of the metric's name: metric='ndcg@5'.",
    "ndcg_eval_at": "the cutoff is part of the metric's name: metric='ndcg@5'.",
    "validation_fraction": "validation data go to fit: train, valid = data.split(0.8, 0.2); "
    "fit(train, valid=valid).",
    "warm_start": "every fit starts anew; a network goes on from its checkpoint=….",
    "fit_intercept": "a constant changes no order within a query, so there is nothing to fit.",
    "importance_type": "ask afterwards: ranker.feature_importances('gain') or ('split').",
}


def refuse_setting(kind: type[Ranker], name: str) -> None:
    """Refuse a setting that a ranker does not have, with what it is called here."""
    known = kind._get_param_names()
    raise UnknownSetting(
        f"setting of {kind.__name__}", name, known, meaning=explain_setting(name, known, kind)
    )


class UnknownSetting(UnknownName, TypeError):
    """A setting that a ranker does not have; a TypeError too, as Python has it for unknown keywords."""


def find_familiar() -> dict[str, tuple[str, tuple[str, ...]]]:
    """What settings are called elsewhere, as the classes state it: name → by whom, and here."""
    return {name: meant for each in CLASSES for name, meant in find_class(each).facts.familiar.items()}


def find_setting(name: str) -> str | None:
    """A setting of this name that some ranker has, or what it is called here; None if none has it.

    >>> find_setting("n_estimators"), find_setting("C"), find_setting("colour")
    ('rounds', 'C', None)
    """
    known = {each for kind in CLASSES for each in find_class(kind)._get_param_names()}
    if name in known:
        return name
    return next((each for each in find_familiar().get(name.lower(), ("", ()))[1] if each in known), None)
