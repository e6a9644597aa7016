"""The step of fixed shapes, on a CPU and without capture: the same step as the plain one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import assert_same_state, copy_state, make_data, make_job, make_network, make_plan

from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.training import graphs
from placings.training.graphs import GraphRunner
from placings.training.steps import NO_LIST, Job, remember_state, restore_state, take_steps
from placings.transforms import Mixture

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "draws": {"loss": "approx_ndcg@5", "draws": 4},
    "lambdas": {"loss": "lambdarank"},
    "dropout": {"network": {"dropout": 0.5, "hidden": (16, 8)}, "draws": 2},
    "mixture": {
        "transform": Mixture(start="random", normalise=True, random_state=0, dropout=0.3, entropy=0.1)
    },
    "members": {"network": {"members": 4, "dropout": 0.5}, "draws": 3},
    "line": {"network": {"members": 3, "skip": True, "ensemble": "shared"}, "plan": {"skip_decay": 0.0}},
    "clip and cosine": {"plan": {"clip": 0.05, "schedule": "cosine", "warmup": 2}},
    "adamw": {"plan": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1}, "loss": "mse"},
    "momentum": {"plan": {"optimizer": "sgd", "optimizer_momentum": 0.9, "lr": 0.05}},
    "short lists": {"plan": {"list_size": 6, "batch": 5}, "draws": 2, "loss": "approx_ndcg"},
    "mean": {"plan": {"average": 0.9}},
    "weights": {"weighted": True},
    "attention": {"network": {"network": "attention", "width": 8, "dropout": 0.3}},
    "groups": {"network": {"group_size": 3, "dropout": 0.3}},
    "noise": {"network": {"input_noise": 0.3}},
}


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(graphs, "CHUNK", 4)  # so that a few steps need several tables


def make(case: dict[str, Any], data: RankingData) -> Job:
    model = make_network(data, case.get("transform", "gauss"), **case.get("network", {}))
    loss = find_loss(case.get("loss", "softmax"), draws=case.get("draws", 0))
    return make_job(model, data, make_plan(steps=10, **case.get("plan", {})), loss)


def run_uncaptured(runner: GraphRunner) -> GraphRunner:
    """A runner whose graph is the step itself."""
    runner.graph = SimpleNamespace(replay=runner._step)  # type: ignore[assignment]
    return runner


@pytest.mark.parametrize("name", CASES)
def test_the_step_of_fixed_shapes_is_the_plain_step(name: str) -> None:
    case, data = CASES[name], make_data(30, longest=12, weighted=bool(CASES[name].get("weighted")))
    plain, fixed = make(case, data), make(case, data)
    trace = take_steps(plain, 0, 10, lambda step: None)
    seen: list[int] = []
    runner = run_uncaptured(GraphRunner(fixed, compiled=False))
    found = runner.take_steps(0, 7, seen.append)
    rest = runner.take_steps(7, 10, seen.append)
    assert seen == list(range(1, 11))
    for one, other in (("loss", 1e-5), ("gradient", 1e-4), ("lr", 1e-7)):
        np.testing.assert_allclose(
            [*getattr(found, one), *getattr(rest, one)], getattr(trace, one), rtol=other, atol=1e-6
        )
    assert_same_state(copy_state(plain.model), copy_state(fixed.model), atol=5e-6)
    if plain.mean is not None and fixed.mean is not None:
        for key, values in plain.mean.mean.items():
            np.testing.assert_allclose(fixed.mean.mean[key], values, atol=5e-6)


@pytest.mark.slow  # a C++ compiler runs for each; the step of fixed shapes above is what it compiles
@pytest.mark.parametrize("name", ["draws", "members", "mixture", "attention"])
def test_a_compiled_step_is_the_plain_step(name: str) -> None:
    case, data = CASES[name], make_data(30, longest=12)
    plain, fixed = make(case, data), make(case, data)
    trace = take_steps(plain, 0, 4, lambda step: None)
    runner = run_uncaptured(GraphRunner(fixed, compiled=False))
    runner.find_losses = torch.compile(
        runner._find_losses, backend="aot_eager", dynamic=False, fullgraph=True
    )
    found = runner.take_steps(0, 4, lambda step: None)
    np.testing.assert_allclose(found.loss, trace.loss, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.gradient, trace.gradient, rtol=1e-4)
    assert_same_state(copy_state(plain.model), copy_state(fixed.model), atol=5e-6)


@pytest.mark.parametrize("name", ["plain", "adamw", "momentum"])
def test_steps_that_only_warm_up_are_undone(name: str) -> None:
    """What a capture does: a few steps, then back; the run after it is the run without it."""
    data = make_data(30, longest=12)
    plain, fixed = make(CASES[name], data), make(CASES[name], data)
    runner = run_uncaptured(GraphRunner(fixed, compiled=False))
    fixed.model.train()
    for start in (0, 3):  # a fresh run, and one that goes on
        start_state = copy_state(fixed.model)
        before = remember_state(fixed)
        runner._send(runner.pool.submit(runner._draw, start, start + 1))
        for _ in range(3):
            runner.place.zero_()
            runner._step()
        assert any((copy_state(fixed.model)[k] != v).any() for k, v in start_state.items())
        restore_state(fixed, before)
        assert_same_state(copy_state(fixed.model), start_state)
        take_steps(plain, start, start + 3, lambda step: None)
        runner.take_steps(start, start + 3, lambda step: None)
    assert_same_state(copy_state(plain.model), copy_state(fixed.model), atol=5e-6)


def test_a_step_that_is_no_number_ends_the_run_and_names_its_list() -> None:
    data = make_data(30, longest=12)
    job = make({"plan": {"batch": 4}, "network": {"batch_norm": False}}, data)
    assert job.source.prepared is not None
    job.source.prepared[int(data.offsets[9]) : int(data.offsets[10])] = torch.nan
    first = next(step for step in range(10) if 9 in job.deck.draw(step).queries)
    seen: list[int] = []
    trace = run_uncaptured(GraphRunner(job, compiled=False)).take_steps(0, 10, seen.append)
    assert trace.find_trouble() == first
    assert job.deck.draw(first).queries[trace.bad[first]] == 9
    assert trace.bad[:first] == [NO_LIST] * first
    assert len(seen) == first // 4 * 4  # the steps of whole chunks before it


def test_the_loss_of_a_fixed_shape_has_as_many_rows_as_a_list_can_have() -> None:
    data = make_data(30, longest=12)
    runner = GraphRunner(make(CASES["draws"], data), compiled=False)
    assert [dict(loss.options)["rows"] for loss in runner.losses] == [group.width for group in runner.groups]
    assert runner.rows % graphs.ROUND_ROWS == 0
    plain = GraphRunner(make(CASES["plain"], data), compiled=False)
    assert plain.losses == [find_loss("softmax")] * len(plain.groups)
