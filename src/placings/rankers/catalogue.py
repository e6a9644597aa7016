"""Which rankers there are: the classes a bundle may name, and the short names of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from placings.core import UnknownName
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


# what a setting is called elsewhere: by whom, and here (the first that the ranker has)
FAMILIAR: dict[str, tuple[str, tuple[str, ...]]] = {
    "n_estimators": ("LightGBM", ("rounds",)),
    "num_boost_round": ("LightGBM", ("rounds",)),
    "num_iterations": ("LightGBM", ("rounds",)),
    "num_trees": ("LightGBM", ("rounds",)),
    "num_round": ("XGBoost", ("rounds",)),
    "iterations": ("CatBoost", ("rounds", "steps")),
    "num_leaves": ("LightGBM", ("leaves",)),
    "max_leaves": ("XGBoost", ("leaves",)),
    "max_leaf_nodes": ("scikit-learn", ("leaves",)),
    "max_depth": ("XGBoost", ("depth",)),
    "depth": ("CatBoost", ("max_depth",)),
    "eta": ("XGBoost", ("learning_rate", "lr")),
    "shrinkage_rate": ("LightGBM", ("learning_rate",)),
    "learning_rate": ("Keras", ("lr",)),
    "learning_rate_init": ("scikit-learn", ("lr",)),
    "lr": ("PyTorch", ("learning_rate",)),
    "early_stopping_rounds": ("XGBoost", ("early_stopping", "patience")),
    "early_stopping_round": ("LightGBM", ("early_stopping", "patience")),
    "early_stopping": ("LightGBM", ("patience",)),
    "n_iter_no_change": ("scikit-learn", ("early_stopping", "patience")),
    "od_wait": ("CatBoost", ("early_stopping",)),
    "patience": ("Keras", ("early_stopping",)),
    "seed": ("XGBoost", ("random_state",)),
    "random_seed": ("CatBoost", ("random_state",)),
    "num_threads": ("LightGBM", ("n_jobs",)),
    "nthread": ("XGBoost", ("n_jobs",)),
    "thread_count": ("CatBoost", ("n_jobs",)),
    "min_child_samples": ("LightGBM", ("min_data_in_leaf",)),
    "min_samples_leaf": ("scikit-learn", ("min_data_in_leaf",)),
    "lambda_l1": ("LightGBM", ("reg_alpha",)),
    "lambda_l2": ("LightGBM", ("reg_lambda", "l2_leaf_reg")),
    "reg_lambda": ("XGBoost", ("l2_leaf_reg",)),
    "alpha": ("XGBoost", ("reg_alpha",)),
    "lambda": ("XGBoost", ("reg_lambda",)),
    "subsample": ("XGBoost", ("bagging_fraction",)),
    "bagging_fraction": ("LightGBM", ("subsample",)),
    "subsample_freq": ("LightGBM", ("bagging_freq",)),
    "colsample_bytree": ("XGBoost", ("colsample", "feature_fraction", "rsm")),
    "feature_fraction": ("LightGBM", ("colsample", "rsm")),
    "eval_metric": ("XGBoost", ("metric",)),
    "loss_function": ("CatBoost", ("loss", "objective")),
    "objective": ("LightGBM", ("loss",)),
    "batch_size": ("PyTorch", ("batch",)),
    "hidden_layer_sizes": ("scikit-learn", ("hidden",)),
    "epochs": ("Keras", ("steps",)),
    "max_iter": ("scikit-learn", ("steps", "rounds")),
    "estimators": ("scikit-learn", ("members",)),
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
            meant = explain_setting(setting, known)
            raise UnknownName(f"setting of {name}", setting, known, meaning=meant)
    return kind(**{**choice.settings, **settings})


def explain_setting(name: str, known: Iterable[str]) -> str | None:
    """What a setting of another library is called here, if these settings have it.

    >>> explain_setting("n_estimators", ["rounds", "leaves"])
    "LightGBM's n_estimators is called 'rounds' here."
    """
    library, ours = FAMILIAR.get(name.lower(), ("", ()))
    there = set(known)
    found = next((each for each in ours if each in there), None)
    return None if found is None else f"{library}'s {name} is called {found!r} here."
