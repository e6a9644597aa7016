"""Model files and bundles that someone changed: refused by name before a library or the memory is at risk."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import call_placings

import placings as pg
from placings.core import BadBundle, BadFile, BadInput, OverLimit, count_threads, read_bundle, write_bundle
from placings.rankers import CatBoostRanker, XGBoostRanker, cat_files, make_ranker, try_in_child, xgb_files
from placings.rankers.bundles import read_arrays

HOME = Path(__file__).parents[2] / "fixtures" / "v1" / "models"
LARGE = np.float32(3.4e38)


@pytest.fixture(scope="module")
def data() -> pg.RankingData:
    return pg.make_ranking(30, n_features=4, random_state=0).data


@pytest.fixture(scope="module")
def booster(data: pg.RankingData) -> Any:
    return XGBoostRanker(rounds=3, max_depth=3, n_jobs=1).fit(data).booster_


def write_json(booster: Any, path: Path, change: Any) -> Path:
    model = json.loads(bytes(booster.save_raw("json")))
    change(model["learner"])
    path.write_text(json.dumps(model))
    return path


def find_tree(learner: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = learner["gradient_booster"]["model"]["trees"][0]
    return tree


def set_at(name: str, place: int, value: Any) -> Any:
    def change(learner: dict[str, Any]) -> None:
        find_tree(learner)[name][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_at("parents", 2, 1_900_000_000), "parents"),
        (set_at("parents", 2, 1), "parents"),
        (set_at("parents", 2, [1, 2]), "parents must be one list of numbers"),
        (set_at("left_children", 0, 99), "form no tree"),
        (set_at("right_children", 0, 0), "form no tree"),
        (set_at("split_indices", 0, 4), "feature that does not exist"),
        (set_at("split_conditions", -1, float("inf")), "finite"),
        (lambda learner: find_tree(learner)["parents"].pop(), "parents must have"),
        (lambda learner: find_tree(learner).update(id=1), "ids of trees"),  # two of them: tree 0 stays empty
        (lambda learner: find_tree(learner).update(id=2**64), "ids of trees"),
        (lambda learner: find_tree(learner)["tree_param"].update(num_nodes="7000"), "num_nodes"),
        (lambda learner: learner["learner_model_param"].update(base_score="nan"), "base_score"),
        (lambda learner: learner["feature_names"].pop(), "feature_names must be 4"),
        (lambda learner: learner["gradient_booster"]["model"]["tree_info"].append(0), "tree_info"),
    ],
)
def test_an_xgboost_file_whose_trees_lead_astray_is_refused_before_xgboost_sees_it(
    booster: Any, tmp_path: Path, change: Any, said: str
) -> None:
    path = write_json(booster, tmp_path / "model.json", change)
    with pytest.raises(BadFile, match=said):
        XGBoostRanker.from_model(path)


def test_a_parent_changed_in_a_ubj_file_is_refused_too(booster: Any, tmp_path: Path) -> None:
    content = bytearray(booster.save_raw("ubj"))
    # the name, then the array: [ $ type # L, eight bytes of length, and four bytes of each parent
    at = content.index(b"parents") + len(b"parents") + 5 + 8
    assert content[at : at + 4] == struct.pack(">i", 2**31 - 1)  # the root's
    content[at + 4 : at + 8] = struct.pack(">i", 1_900_000_000)
    path = tmp_path / "model.ubj"
    path.write_bytes(bytes(content))
    with pytest.raises(BadFile, match="parents"):
        XGBoostRanker.from_model(path)


def test_json_and_ubj_are_read_as_the_same_values(booster: Any) -> None:
    one, other = (xgb_files.read_model(bytes(booster.save_raw(kind))) for kind in ("json", "ubj"))
    tree, same = find_tree(one["learner"]), find_tree(other["learner"])
    assert set(tree) == set(same)
    assert tree["parents"] == same["parents"].tolist()
    assert xgb_files.check_model(one) == xgb_files.check_model(other) == 4


def test_a_name_that_stands_twice_is_refused(booster: Any, tmp_path: Path) -> None:
    text = bytes(booster.save_raw("json"))
    path = tmp_path / "model.json"
    path.write_bytes(text.replace(b'"parents"', b'"parents":[0],"parents"', 1))
    with pytest.raises(BadFile, match="'parents' stands twice"):
        XGBoostRanker.from_model(path)


def test_a_file_that_says_a_billion_features_is_over_a_limit(booster: Any, tmp_path: Path) -> None:
    def change(learner: dict[str, Any]) -> None:
        learner["learner_model_param"]["num_feature"] = "1000000000"
        learner["feature_names"], learner["feature_types"] = [], []
        for tree in learner["gradient_booster"]["model"]["trees"]:
            tree["tree_param"]["num_feature"] = "1000000000"

    with pytest.raises(OverLimit, match="PLACINGS_LIMIT_FEATURE"):
        XGBoostRanker.from_model(write_json(booster, tmp_path / "model.json", change))


def test_a_linear_xgboost_model_scores() -> None:
    ranker = XGBoostRanker(n_jobs=1)
    model = {"name": "gblinear", "model": {"boosted_rounds": 1, "weights": [1.0, -2.0, 0.0, 0.5, 0.25]}}
    made = {
        "learner": {
            "attributes": {}, "feature_names": [], "feature_types": [], "gradient_booster": model,
            "learner_model_param": {"base_score": "0", "num_class": "0", "num_feature": "4"},
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": [3, 0, 0],
    }  # fmt: skip
    ranker._load(json.dumps(made).encode())
    scores = ranker._score(np.array([[1, 1, 1, 1], [0, 0, 9, 2]], dtype=np.float32))
    assert scores.tolist() == [1.0 - 2.0 + 0.5 + 0.25, 2 * 0.5 + 0.25]


@pytest.mark.parametrize("name", ["TreeSplits", "TreeSizes", "bins"])
def test_a_catboost_file_whose_trees_lead_astray_is_refused_before_catboost_sees_it(name: str) -> None:
    content = bytearray((HOME / "catboost" / "model.cbm").read_bytes())
    core = cat_files._Table.find(memoryview(bytes(content))[8:], 0)
    trees = core.table(cat_files.CORE["trees"])
    field = {"TreeSplits": "splits", "TreeSizes": "sizes", "bins": "bins"}[name]
    found = bytes(trees.vector(cat_files.TREES[field], 4))
    at = bytes(content).index(found)
    content[at : at + 4] = struct.pack("<i", 1 << 30)
    assert cat_files.check_model((HOME / "catboost" / "model.cbm").read_bytes()) > 0
    with pytest.raises(BadInput, match="this is not a CatBoost model"):
        CatBoostRanker()._load(bytes(content))


# -- a child process ------------------------------------------------------------------------------


@pytest.mark.slow
def test_import_model_of_a_file_with_one_changed_parent_is_exit_1(booster: Any, tmp_path: Path) -> None:
    path = write_json(booster, tmp_path / "model.json", set_at("parents", 2, 1_900_000_000))
    ended = call_placings("import-model", path, tmp_path / "out")
    assert ended.returncode == 1
    assert "parents" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for Python")
@pytest.mark.parametrize(("end", "said"), [("kill -SEGV $$", "SIGSEGV"), ("exit 9", "exit code 9")])
def test_what_ends_the_child_that_loads_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, said: str
) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{end}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(BadFile, match=said):
        try_in_child(tmp_path / "model.json", "XGBoostRanker")


# -- bundles that were sealed anew ----------------------------------------------------------------


def reseal(name: str, path: Path, change: Any) -> Path:
    bundle = read_bundle(HOME / name)
    facts = {key: bundle.manifest[key] for key in bundle.manifest if key not in ("kind", "version", "files")}
    files = dict(bundle.files)
    change(facts, files)
    write_bundle(path, facts, files)
    return path


def say_billion(facts: dict[str, Any], files: dict[str, bytes]) -> None:
    facts["features"] = 10**9
    files["features.json"] = json.dumps({**json.loads(files["features.json"]), "names": None}).encode()


@pytest.mark.parametrize("name", ["ridge", "xgboost", "catboost", "lightgbm", "neural-log1p", "original"])
def test_a_bundle_that_says_a_billion_features_is_refused_before_memory_is_taken(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(BadBundle, match="must describe 1000000000 features"):
        pg.load(reseal(name, tmp_path / "model", say_billion))


@pytest.mark.parametrize("settings", [{"hidden": [10**9]}, {"hidden": [8] * 10**4}, {"members": 10**8}])
def test_a_network_of_other_sizes_than_its_weights_is_not_made(tmp_path: Path, settings: Any) -> None:
    def change(facts: dict[str, Any], files: dict[str, bytes]) -> None:
        told = json.loads(files["transform.json"])
        told["settings"] |= settings
        files["transform.json"] = json.dumps(told).encode()

    with pytest.raises(BadBundle, match=r"network\.safetensors"):
        pg.load(reseal("neural-log1p", tmp_path / "model", change))


def test_a_sample_that_is_packed_or_longer_than_its_bytes_is_refused() -> None:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((1000, 1000), dtype=np.float32))  # 4 MB in some 4 kB
    with pytest.raises(BadInput, match="compressed"):
        read_arrays(out.getvalue(), "sample.npz")
    out = io.BytesIO()
    np.savez(out, X=np.zeros((2, 3), dtype=np.float32))
    import zipfile

    with zipfile.ZipFile(out) as packed:
        array = packed.read("X.npy").replace(b"(2, 3)", b"(9, 9)")
    longer = io.BytesIO()
    with zipfile.ZipFile(longer, "w") as packed:
        packed.writestr("X.npy", array)
    with pytest.raises(BadInput, match="as long as it says"):
        read_arrays(longer.getvalue(), "sample.npz")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no umask")
def test_a_bundle_is_as_private_as_the_mask_says(tmp_path: Path, data: pg.RankingData) -> None:
    ranker = make_ranker("ridge").fit(data)
    before = os.umask(0o077)
    try:
        ranker.save(tmp_path / "model")
    finally:
        os.umask(before)
    found = [tmp_path / "model", *(tmp_path / "model").iterdir()]
    assert [oct(stat.S_IMODE(each.stat().st_mode) & 0o077) for each in found] == ["0o0"] * len(found)


# -- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["raw", "gauss", "minmax", "mixture", "per_feature"])
def test_values_at_the_ends_of_float32_have_finite_scores_and_change_no_other_row(
    data: pg.RankingData, transform: str
) -> None:
    ranker = make_ranker("neural", transform=transform, hidden=[8], steps=20, random_state=0).fit(data)
    rows = np.array(data.X[:6])
    plain = ranker.predict(rows)
    rows[1], rows[4] = LARGE, -LARGE
    found = ranker.predict(rows)
    assert np.isfinite(found).all()
    kept = [0, 2, 3, 5]
    # one network, the same rows: float32's rounding of sums in another order at most
    np.testing.assert_allclose(found[kept], plain[kept], rtol=1e-5, atol=1e-6)


def test_a_score_that_is_no_number_is_refused_with_its_row_and_feature(data: pg.RankingData) -> None:
    ranker = make_ranker("ridge").fit(data)
    ranker.coef_ = np.full(4, 1e308)
    rows = np.array([[0, 0, 0, 0], [1, 2, LARGE, 0]], dtype=np.float32)
    with pytest.raises(
        BadInput, match=f"to row 1, whose largest value is 3.4e\\+38, of '{data.feature_names[2]}'"
    ):
        ranker.predict(rows)


# -- settings -----------------------------------------------------------------------------------------

RANDOM = ("lightgbm", "xgboost", "catboost", "neural", "mean", "ridge")


@pytest.mark.parametrize("seed", [-1, 2**64, "abc", 1.5, True])
@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_that_is_none_is_refused_before_training(data: pg.RankingData, name: str, seed: Any) -> None:
    ranker = make_ranker(name, random_state=seed)
    with pytest.raises(BadInput, match="random_state must be None or a whole number from 0"):
        ranker.fit(data)
    with pytest.raises(BadInput, match="random_state must be None or a whole number from 0"):
        ranker._check_settings()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("settings", [{"n_jobs": 10**9}, {"params": {"thread_count": 10**9}}])
def test_a_billion_threads_are_refused_before_training(
    name: str, settings: Any, data: pg.RankingData
) -> None:
    if name != "catboost" and "params" in settings:
        settings = {"params": {"nthread": 10**9}}
    with pytest.raises(OverLimit, match="1,000,000,000 workers are over the limit of 512"):
        make_ranker(name, rounds=1, **settings).fit(data)


def test_a_billion_threads_in_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_THREADS", "1000000000")
    with pytest.raises(OverLimit, match="PLACINGS_THREADS"):
        count_threads()


@pytest.mark.parametrize("loss", ["YetiRank", "YetiRank:mode=NDCG", "YetiRankPairwise"])
def test_a_list_that_catboost_would_abort_on_is_refused_with_its_length(loss: str) -> None:
    rows = 100_000
    X = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    long = pg.RankingData.from_arrays(X, np.arange(rows) % 2, np.full(rows, 7))
    with pytest.raises(BadInput, match="at most 32,768 rows: .* Query 7 has 100,000"):
        CatBoostRanker(loss=loss, rounds=1).fit(long)
