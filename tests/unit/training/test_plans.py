"""What a run leaves behind: a history as JSON, CSV and TensorBoard, all with the same values."""

from __future__ import annotations

import csv
import json
import sys
import warnings
from pathlib import Path

import pytest
from small_runs import make_data, make_network, make_plan

from placings.core.errors import BadInput, MissingExtra, UnknownName
from placings.losses import find_loss
from placings.metrics import metric
from placings.training.loop import train
from placings.training.plans import History


@pytest.fixture(scope="module")
def history() -> History:
    data = make_data()
    plan = make_plan(steps=10, check_every=4, schedule="cosine", warmup=2)
    return train(make_network(data), find_loss("softmax"), data, plan, valid=data, metric=metric("ndcg@5"))


def test_a_history_has_a_value_for_each_step_and_each_check(history: History) -> None:
    assert len(history.loss) == len(history.gradient) == len(history.lr) == 10
    assert [step for step, _ in history.checks] == [4, 8, 10]  # the last step is always checked
    assert history.best_step == max(history.checks, key=lambda check: check[1])[0]
    assert history.metric == "ndcg@5"
    assert history.lr == pytest.approx(
        [0.1 * make_plan(steps=10, schedule="cosine", warmup=2).pace(step) for step in range(10)]
    )


def test_json_holds_everything_and_comes_back(history: History, tmp_path: Path) -> None:
    history.write(tmp_path / "history.json")
    values = json.loads((tmp_path / "history.json").read_text())
    told = {"loss", "gradient", "lr", "checks", "best_step", "metric", "ended", "planned", "seconds"}
    assert set(values) == told
    assert History.from_dict(values) == history


def test_csv_has_a_line_a_step_and_the_metric_where_it_was_checked(history: History, tmp_path: Path) -> None:
    history.write(tmp_path / "history.csv")
    with open(tmp_path / "history.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["step", "loss", "gradient_norm", "lr", "ndcg@5"]
    assert [int(line["step"]) for line in lines] == list(range(1, 11))
    assert [float(line["loss"]) for line in lines] == history.loss
    assert [float(line["gradient_norm"]) for line in lines] == history.gradient
    assert [float(line["lr"]) for line in lines] == history.lr
    assert [(int(line["step"]), float(line["ndcg@5"])) for line in lines if line["ndcg@5"]] == history.checks


def test_tensorboard_reads_the_same_values(history: History, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensorboard's own imports
        accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    history.write_tensorboard(tmp_path / "events")
    events = accumulator.EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    for name, values in (("loss", history.loss), ("gradient_norm", history.gradient), ("lr", history.lr)):
        found = events.Scalars(f"train/{name}")
        assert [each.step for each in found] == list(range(1, 11))
        assert [each.value for each in found] == pytest.approx(values, rel=1e-6)
    checks = [(each.step, each.value) for each in events.Scalars("valid/ndcg@5")]
    assert [step for step, _ in checks] == [step for step, _ in history.checks]
    assert [value for _, value in checks] == pytest.approx([value for _, value in history.checks], rel=1e-6)


def test_without_tensorboard_the_error_names_the_extra(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'placings\[tensorboard\]'"):
        history.write_tensorboard(tmp_path)


def test_a_history_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"written as .json or .csv. Got '.*history.txt'"):
        History().write(tmp_path / "history.txt")
    assert not list(tmp_path.iterdir())


def test_a_plan_knows_its_precisions_and_schedules() -> None:
    with pytest.raises(UnknownName, match="no precision 'bfloat'; did you mean 'bfloat16'"):
        make_plan(precision="bfloat")
    with pytest.raises(UnknownName, match="no schedule 'cosin'; did you mean 'cosine'"):
        make_plan(schedule="cosin")
