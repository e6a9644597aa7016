"""Checkpoints: whole or not at all, this run's or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from small_runs import make_data, make_job, make_network, make_plan

from placings.core.errors import BadFile
from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.metrics import metric
from placings.training.checkpoints import (
    Checkpoint,
    mark_run,
    pack_optimizer,
    read_checkpoint,
    sweep_leftovers,
    unpack_optimizer,
    write_checkpoint,
)
from placings.training.loop import train
from placings.training.plans import History
from placings.training.steps import take_steps
from placings.transforms import Log1p

MARK = {"plan": {"lr": 0.1, "list_size": None}, "loss": "softmax"}


def make_checkpoint(step: int = 3) -> Checkpoint:
    history = History([0.1, 1 / 3, 2e-300], [1.0, 2.0, 3.0], [0.1, 0.1, 0.1], [(2, 0.7)], 2, "ndcg@5")
    tensors = {"model.w": torch.tensor([[1.0, -0.0], [1e-40, 3e38]]), "kept.n": torch.tensor(7)}
    return Checkpoint(step, history, 0.7, tensors, {"values": {"0.step": 3}})


def test_a_checkpoint_comes_back_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.safetensors"  # the folder is made
    write_checkpoint(path, make_checkpoint(), MARK)
    found = read_checkpoint(path, MARK)
    assert found is not None
    assert (found.step, found.best, found.history) == (3, 0.7, make_checkpoint().history)
    assert found.optimizer == {"values": {"0.step": 3}}
    weight = found.part("model")["w"]
    assert weight.numpy().tobytes() == make_checkpoint().tensors["model.w"].numpy().tobytes()
    assert found.part("kept")["n"] == 7
    assert list(found.part("model")) == ["w"]
    assert read_checkpoint(tmp_path / "none.safetensors", MARK) is None


def test_a_write_that_fails_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    write_checkpoint(path, make_checkpoint(3), MARK)

    def fail(file: Path, content: bytes) -> None:
        with open(file, "wb") as half:
            half.write(content[:9])
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fail)
        with pytest.raises(OSError, match="no space left"):
            write_checkpoint(path, make_checkpoint(9), MARK)
    found = read_checkpoint(path, MARK)
    assert found is not None
    assert found.step == 3
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]


def test_what_a_killed_run_left_half_written_is_swept_up(tmp_path: Path) -> None:
    for name in (".run[1].abc.part", ".run[1].xyz.part", ".run1.abc.part", "run[1]", ".run[1].txt"):
        (tmp_path / name).write_text("x")
    sweep_leftovers(tmp_path / "run[1]")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".run1.abc.part", ".run[1].txt", "run[1]"]
    sweep_leftovers(tmp_path / "no folder" / "run")


@pytest.mark.parametrize(
    "content",
    [b"", b"no checkpoint", bytes(64), b"\xff" * 100, b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "],
)
def test_garbage_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadFile, match="run.safetensors: is not a checkpoint of placings.*Delete it"):
        read_checkpoint(path, MARK)


def test_a_checkpoint_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.safetensors", tmp_path / "run.safetensors"
    write_checkpoint(whole, make_checkpoint(), MARK)
    content = whole.read_bytes()
    for length in [*range(0, len(content), 41), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(BadFile, match="is not a checkpoint of placings"):
            read_checkpoint(path, MARK)


@pytest.mark.parametrize("facts", [None, "[1]", "{}", "{not json", '{"format": 999}', '{"format": 1}'])
def test_tensors_that_are_no_checkpoint_are_refused(tmp_path: Path, facts: str | None) -> None:
    path = tmp_path / "run.safetensors"
    save_file({"w": torch.zeros(2)}, str(path), metadata=None if facts is None else {"placings": facts})
    with pytest.raises(BadFile, match="is not a checkpoint of placings.*Delete it to start anew"):
        read_checkpoint(path, MARK)


# -- whose run ---------------------------------------------------------------------------------------


def run(path: Path, **changes: Any) -> History:
    data: RankingData = changes.pop("data", make_data())
    given = {
        "loss": "softmax", "draws": 0, "transform": "log1p", "valid": make_data(6, seed=1),
        "metric": "ndcg@5", "plan": {}, **changes,
    }  # fmt: skip
    network = {name: changes[name] for name in ("activation", "dropout", "seed", "eps") if name in changes}
    return train(
        make_network(make_data(), given["transform"], **network),
        find_loss(given["loss"], draws=given["draws"]),
        data,
        make_plan(**{"steps": 4, **given["plan"]}),
        valid=given["valid"],
        metric=metric(given["metric"]),
        checkpoint=path,
        checkpoint_every=2,
    )


def move(data: RankingData, **columns: Any) -> RankingData:
    return data.replace(**columns)


ANOTHER: dict[str, tuple[dict[str, Any], str]] = {
    "learning rate": ({"plan": {"lr": 0.2}}, r"belongs to another run: lr was 0.1, is 0.2. Delete it"),
    "steps": ({"plan": {"steps": 9, "seed": 4}}, r"steps was 4, is 9; seed was 3, is 4"),
    "loss": ({"loss": "logistic"}, "its loss differ"),
    "draws": ({"draws": 2}, "its loss differ"),
    "labels": ({"data": move(make_data(), y=make_data().y + 1)}, "its data differ"),
    "values": ({"data": move(make_data(), X=np.asarray(make_data().X) * 2)}, "its data differ"),
    "weights": ({"data": make_data(weighted=True)}, "its data differ"),
    "validation": ({"valid": make_data(6, seed=2)}, "its validation differ"),
    "no validation": ({"valid": None}, "its validation differ"),
    "metric": ({"metric": "mrr"}, "its validation differ"),
    "activation": ({"activation": "tanh"}, "its network differ"),
    "dropout": ({"dropout": 0.1}, "its network differ"),
    "batch norm": ({"eps": 0.01}, "its network differ"),
    "start": ({"seed": 1}, "its network differ"),
    "transform": ({"transform": "gauss"}, "its network differ"),
    "missing values": ({"transform": Log1p(missing=9.0)}, "its network differ"),
    "two": ({"loss": "logistic", "seed": 1}, "its loss and its network differ"),
}


@pytest.mark.parametrize("name", ANOTHER)
def test_a_checkpoint_of_another_run_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(path)
    content = path.read_bytes()
    changes, said = ANOTHER[name]
    with pytest.raises(BadFile, match=said):
        run(path, **changes)
    assert path.read_bytes() == content
    assert len(run(path).loss) == 4  # its own run still finds it


def test_the_mark_of_a_run_is_plain_and_the_same_each_time() -> None:
    data = make_data()
    marks = [
        mark_run(make_plan(), "softmax", data, make_network(data), valid=data, metric="mrr") for _ in range(2)
    ]
    assert json.dumps(marks[0]) == json.dumps(marks[1])


# -- optimizers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        {"optimizer": "adagrad"},
        {"optimizer": "adamw", "lr": 0.01},
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "optimizer_momentum": 0.9},
    ],
)
def test_an_optimizers_state_survives(plan: dict[str, Any], tmp_path: Path) -> None:
    data = make_data()
    one, other = (make_job(make_network(data, "mixture"), data, make_plan(**plan)) for _ in range(2))
    take_steps(one, 0, 3, lambda step: None)
    tensors, plain = pack_optimizer(one.optimizer)
    write_checkpoint(tmp_path / "run", Checkpoint(3, History(), 0.0, tensors, plain), MARK)
    found = read_checkpoint(tmp_path / "run", MARK)
    assert found is not None
    unpack_optimizer(other.optimizer, found)
    other.model.load_state_dict(one.model.state_dict())
    mine, theirs = one.optimizer.state_dict(), other.optimizer.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    assert mine["state"].keys() == theirs["state"].keys()
    for number, values in mine["state"].items():
        for name, value in values.items():
            same = theirs["state"][number][name]
            assert torch.equal(value, same) if isinstance(value, torch.Tensor) else value == same
    traces = [take_steps(job, 3, 6, lambda step: None) for job in (one, other)]
    assert traces[0] == traces[1]


def test_a_checkpoint_of_version_0_1_with_its_older_field_names_goes_on() -> None:
    from placings.training.checkpoints import _rename_fields

    old = {"plan": {"lists": 32, "longest": 15, "momentum": 0.9, "lr": 0.1}, "loss": "softmax"}
    assert _rename_fields(old) == {
        "plan": {"batch": 32, "list_size": 15, "optimizer_momentum": 0.9, "lr": 0.1}, "loss": "softmax"
    }  # fmt: skip
