"""Model files of XGBoost (JSON, UBJSON), LightGBM (text) and CatBoost (binary): one thing changed.

They are loaded here without the child process that `placings import-model` tries them in first: what would
end that one is counted as a crash.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
from mutations import change_bytes, change_text, change_value, change_word

from placings.core import BadFile, BadInput
from placings.rankers import CatBoostRanker, LightGBMRanker, XGBoostRanker

WIDTH = 4


@cache
def _rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, WIDTH)).astype(np.float32)
    rows[::9, 1] = np.nan
    rows[:, 3] = rng.integers(0, 6, 120)
    return rows


@cache
def _models() -> dict[str, list[bytes]]:
    """Small models of every kind, by the ending of their files."""
    import catboost
    import lightgbm
    import xgboost

    X, y, sizes = _rows(), np.arange(120) % 3, [12] * 10
    found: dict[str, list[bytes]] = {".json": [], ".ubj": [], ".txt": [], ".cbm": []}
    kinds = (
        {},
        {"booster": "dart", "rate_drop": 0.5},
        {"booster": "gblinear"},
        {"tree_method": "exact", "gamma": 0.3},
        {"categories": True},
    )
    for more in kinds:
        types = ["float"] * 3 + ["c" if more.get("categories") else "float"]
        data = xgboost.DMatrix(X, y, group=sizes, feature_types=types, enable_categorical=True)
        own = {name: value for name, value in more.items() if name != "categories"}
        params = {"objective": "rank:ndcg", "verbosity": 0, "nthread": 1, **own}
        booster = xgboost.train(
            {**params, "max_depth": 3} if own != {"booster": "gblinear"} else params, data, 3
        )
        found[".json"].append(bytes(booster.save_raw("json")))
        found[".ubj"].append(bytes(booster.save_raw("ubj")))
    for more in ({}, {"linear_tree": True, "objective": "regression"}, {"categorical_feature": [3]}):
        params = {"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 2, "num_leaves": 6, **more}
        categorical = params.pop("categorical_feature", "auto")
        data = lightgbm.Dataset(
            X, y, group=sizes, categorical_feature=categorical, params={"verbosity": -1, "linear_tree": True}
        )
        found[".txt"].append(lightgbm.train(params, data, 3).model_to_string().encode())
    pool = catboost.Pool(X, y, group_id=np.repeat(np.arange(10), 12))
    for policy in ("SymmetricTree", "Lossguide"):
        params = {"iterations": 3, "depth": 3, "grow_policy": policy, "thread_count": 1}
        booster = catboost.CatBoost({**params, "loss_function": "QueryRMSE", "allow_writing_files": False})
        booster.fit(pool, verbose=False)
        found[".cbm"].append(bytes(booster._serialize_model()))
    return found


def make(source: random.Random, folder: Path) -> Path:
    ending = source.choice((".json", ".json", ".ubj", ".ubj", ".txt", ".cbm"))
    content = source.choice(_models()[ending])
    what = source.random()
    if ending == ".json" and what < 0.7:
        value = json.loads(content)
        for _ in range(source.choice((1, 1, 2))):
            whole = isinstance(value, dict) and "trees" in json.dumps(value.get("learner", ""))[:2000]
            if source.random() < 0.6 and whole:
                value = _change_tree(source, value)
            else:
                value = change_value(source, value)
        content = json.dumps(value).encode()
    elif ending == ".txt" and what < 0.7:
        content = change_text(source, content)
    elif ending in (".ubj", ".cbm") and what < 0.6:
        content = change_word(source, content)
    else:
        content = change_bytes(source, content)
    path = folder / f"model{ending}"
    path.write_bytes(content)
    return path


def _change_tree(source: random.Random, value: dict) -> dict:
    """A change where it hurts: in the arrays of one tree."""
    value = json.loads(json.dumps(value))
    try:
        booster = value["learner"]["gradient_booster"]
        trees = booster.get("gbtree", booster)["model"]["trees"]
        at = source.randrange(len(trees))
        trees[at] = change_value(source, trees[at])
    except (KeyError, TypeError, IndexError, AttributeError):
        return change_value(source, value)
    return value


def check(path: Path) -> None:
    if path.suffix == ".cbm":
        ranker = CatBoostRanker(n_jobs=1)
        try:
            ranker._load(path.read_bytes())
        except BadInput as error:
            raise BadFile(path, str(error)) from error
        ranker._adopt(ranker.booster_.feature_names_)
    else:
        ranker = (LightGBMRanker if path.suffix == ".txt" else XGBoostRanker).from_model(path)
        ranker.n_jobs = 1
    width = ranker.n_features_in_
    rows = np.resize(_rows(), (40, width)).astype(np.float32) if width <= 10_000 else ranker._sample
    scores = ranker.predict(rows)
    assert scores.shape == (len(rows),)
    assert np.isfinite(scores).all()
