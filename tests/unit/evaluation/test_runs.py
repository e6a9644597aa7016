"""Runs: fingerprints, folders that are never overwritten in silence, and MLflow."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadFile, BadInput
from placings.core.tables import plain_value
from placings.data.ranking import RankingData
from placings.evaluation import runs
from placings.evaluation.runs import (
    fingerprint,
    log_to_mlflow,
    read_run,
    rename_for_mlflow,
    start_run,
)


@pytest.fixture
def data() -> RankingData:
    return RankingData.from_arrays([[1.0, 2.0], [3.0, np.nan], [0.0, 5.0]], [0, 1, 2], ["a", "a", "b"])


def test_a_fingerprint_is_the_same_for_the_same_numbers(data: RankingData) -> None:
    again = RankingData.from_arrays(np.array(data.X), np.array(data.y), ["x", "x", "y"])
    assert fingerprint(data) == fingerprint(again)  # ids of queries change no ranking
    assert len(fingerprint(data)) == 32


def test_a_fingerprint_differs_when_anything_that_counts_does(data: RankingData) -> None:
    X = np.array(data.X)
    X[2, 1] = np.nextafter(np.float32(5.0), np.float32(6.0))
    others = [
        data.replace(X=X),
        data.replace(y=np.array([0.0, 2.0, 1.0])),
        data.replace(offsets=np.array([0, 1, 3])),
        data.replace(feature_names=("a", "b")),
        data.replace(weight=np.ones(3)),
        data.replace(position=np.array([1, 2, 1])),
        data.replace(X=csr_array(np.nan_to_num(np.array(data.X)))),
        data[:1],
    ]
    assert len({fingerprint(each) for each in [data, *others]}) == len(others) + 1


def test_a_large_array_is_sampled_from_first_to_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "BLOCK", 64)
    monkeypatch.setattr(runs, "BLOCKS", 4)
    X = np.zeros((1000, 4), dtype=np.float32)
    before = fingerprint(RankingData.from_arrays(X, np.zeros(1000), np.zeros(1000)))
    for row in (0, 999):
        changed = X.copy()
        changed[row, 3] = 1.0
        assert fingerprint(RankingData.from_arrays(changed, np.zeros(1000), np.zeros(1000))) != before
    changed = X.copy()
    changed[7, 0] = 1.0  # between two blocks: the documented blind spot
    assert fingerprint(RankingData.from_arrays(changed, np.zeros(1000), np.zeros(1000))) == before


def test_data_without_rows_have_a_fingerprint() -> None:
    assert fingerprint(RankingData.from_arrays(np.zeros((0, 2)), [], []))


def test_a_run_keeps_what_made_it(tmp_path: Path, data: RankingData) -> None:
    with start_run(tmp_path / "run", "fit", {"C": 1.0, "path": Path("x")}, {"train": data}) as run:
        assert read_run(run.path).facts["state"] == "running"
        run.log({"ndcg@10": 0.5, "mrr": float("nan")})
        run.write_text("note.txt", "hello")
    facts = read_run(tmp_path / "run").facts
    assert facts["config"] == {"C": 1.0, "path": "x"}
    assert facts["data"]["train"] == {
        "rows": 3, "queries": 2, "features": 2, "fingerprint": fingerprint(data),
    }  # fmt: skip
    assert facts["metrics"] == {"ndcg@10": 0.5, "mrr": None}
    assert facts["state"] == "finished"
    assert facts["seconds"] >= 0
    assert {"python", "placings", "numpy"} <= set(facts["versions"])
    assert sorted(os.listdir(tmp_path / "run")) == ["note.txt", "run.json"]  # noqa: PTH208


@pytest.mark.parametrize(("error", "state"), [(ValueError("no"), "failed"), (KeyboardInterrupt(), "stopped")])
def test_a_run_says_how_it_ended(tmp_path: Path, data: RankingData, error: BaseException, state: str) -> None:
    with pytest.raises(type(error)), start_run(tmp_path, "fit", {}, data):
        raise error
    assert read_run(tmp_path).facts["state"] == state
    assert type(error).__name__ in read_run(tmp_path).facts["error"]


def test_the_same_run_may_go_again_and_another_is_refused(tmp_path: Path, data: RankingData) -> None:
    start_run(tmp_path, "fit", {"C": 1.0}, data).finish()
    start_run(tmp_path, "fit", {"C": 1.0}, data).finish()
    for command, config, part, what in [
        ("tune", {"C": 1.0}, data, "command"),
        ("fit", {"C": 2.0}, data, "config"),
        ("fit", {"C": 1.0}, data[:1], "data"),
    ]:
        with pytest.raises(BadInput, match=f"holds another run .*what differs: {what}"):
            start_run(tmp_path, command, config, part)
    assert read_run(tmp_path).facts["config"] == {"C": 1.0}
    start_run(tmp_path, "fit", {"C": 2.0}, data, overwrite=True)
    assert read_run(tmp_path).facts["config"] == {"C": 2.0}


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, data: RankingData) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(BadInput, match="which is a file"):
        start_run(tmp_path / "run", "fit", {}, data)


@pytest.mark.parametrize("name", ["../x", "run.json", "a/b", ""])
def test_a_runs_file_stays_in_its_folder(tmp_path: Path, data: RankingData, name: str) -> None:
    with pytest.raises(BadInput, match="plain name"):
        start_run(tmp_path, "fit", {}, data).write_text(name, "")


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ("[]", "format 1"), ('{"format": 9}', "format 1")]
)
def test_a_damaged_run_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadFile, match=message):
        read_run(tmp_path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds no run"):
        read_run(tmp_path)


def test_plain_values_are_what_json_holds() -> None:
    given = {"a": np.float32(0.5), "b": (1, np.array([2.0, np.nan])), 3: Path("x"), "c": None, "d": True}
    assert plain_value(given) == {"a": 0.5, "b": [1, [2.0, None]], "3": "x", "c": None, "d": True}
    json.dumps(plain_value(given), allow_nan=False)


def test_names_become_what_mlflow_takes() -> None:
    assert rename_for_mlflow("test ndcg@10") == "test ndcg_at_10"
    assert rename_for_mlflow("a+b") == "a_b"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own use of SQLAlchemy is deprecated
def test_a_run_is_logged_once_into_a_local_mlflow(
    tmp_path: Path, data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for library in ("mlflow", "sqlalchemy"):
        pytest.importorskip(
            library, reason=f"{library} is not installed: pip install 'placings[mlflow,tune]'"
        )
    from mlflow.tracking import MlflowClient

    with start_run(tmp_path / "runs" / "first", "fit", {"set": {"C": 1.0}}, {"train": data}) as run:
        run.log({"test ndcg@10": 0.5, "mrr": float("nan")})
        run.write_text("note.txt", "hello")
    made = log_to_mlflow(run)
    assert log_to_mlflow(read_run(run.path)) == made
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("placings").experiment_id])
    assert [each.info.run_id for each in found] == [made]
    assert found[0].data.metrics == {"test ndcg_at_10": 0.5}
    assert found[0].data.params["set.C"] == "1.0"
    assert found[0].data.params["data.train.fingerprint"] == fingerprint(data)
    assert found[0].info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(made)} == {"note.txt", "run.json"}
    assert sorted(os.listdir(tmp_path)) == ["runs"]  # noqa: PTH208
