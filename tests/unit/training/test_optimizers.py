"""Optimizers against their formulas; who decays, who learns how fast; the running mean of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_runs import make_data, make_job, make_network, make_plan
from torch import nn

from placings.core.errors import UnknownName
from placings.training.layers import Skip
from placings.training.optimizers import Pacer, RunningMean, find_mixtures, make_optimizer
from placings.training.steps import take_steps

GRADIENTS = [torch.tensor([[1.0, -2.0], [0.5, 0.0]]), torch.tensor([[-1.0, 1.0], [0.25, 3.0]])]


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, -4.0]]))
        self.bias = nn.Parameter(torch.tensor([1.0, -1.0]))


def descend(**settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and the bias after two steps; the bias has no gradient but 0."""
    model = Weights()
    optimizer = make_optimizer(model, make_plan(**settings))
    for gradient in GRADIENTS:
        model.matrix.grad, model.bias.grad = gradient.clone(), torch.zeros(2)
        optimizer.step()
    return model.matrix.detach().numpy(), model.bias.detach().numpy()


def test_adagrad_starts_as_keras_starts_it() -> None:
    w, total = np.array([[1.0, 2.0], [3.0, -4.0]]), 0.1
    for gradient in GRADIENTS:
        g = gradient.numpy().astype(float)
        total = total + g**2
        w = w - 0.5 * g / (np.sqrt(total) + 1e-7)
    np.testing.assert_allclose(descend(optimizer="adagrad", lr=0.5)[0], w, rtol=1e-6)


def test_adamw_decays_matrices_and_leaves_biases_alone() -> None:
    w, m, v = np.array([[1.0, 2.0], [3.0, -4.0]]), 0.0, 0.0
    for step, gradient in enumerate(GRADIENTS, start=1):
        g = gradient.numpy().astype(float)
        w = w * (1 - 0.1 * 0.5)  # lr · weight decay, apart from the gradient
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    matrix, bias = descend(optimizer="adamw", lr=0.1, weight_decay=0.5)
    np.testing.assert_allclose(matrix, w, rtol=1e-5)
    np.testing.assert_array_equal(bias, [1.0, -1.0])


@pytest.mark.parametrize(("given", "decays"), [(None, 0.5), (0.0, 0.0), (0.2, 0.2)])
def test_a_skip_may_decay_by_a_rate_of_its_own(given: float | None, decays: float) -> None:
    model = nn.Sequential(Skip(3, 2), nn.Linear(3, 2))
    optimizer = make_optimizer(model, make_plan(optimizer="adamw", weight_decay=0.5, skip_decay=given))
    rates = {
        id(parameter): group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    skip, linear = model
    assert rates == {id(skip.weight): decays, id(linear.weight): 0.5, id(linear.bias): 0.0}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_has_nesterovs_momentum(momentum: float) -> None:
    w, m = np.array([[1.0, 2.0], [3.0, -4.0]]), np.zeros((2, 2))
    for gradient in GRADIENTS:
        g = gradient.numpy().astype(float)
        m = momentum * m + g
        w = w - 0.1 * (g + momentum * m)
    np.testing.assert_allclose(descend(optimizer="sgd", lr=0.1, optimizer_momentum=momentum)[0], w, rtol=1e-6)


def test_an_unknown_optimizer_is_named() -> None:
    with pytest.raises(UnknownName, match="no optimizer 'adagard'; did you mean 'adagrad'"):
        make_optimizer(Weights(), make_plan(optimizer="adagard"))


def test_a_mixture_has_a_rate_of_its_own_and_does_not_decay() -> None:
    model = make_network(make_data(), "mixture")
    optimizer = make_optimizer(
        model, make_plan(optimizer="adamw", lr=1e-3, mixture_lr=0.25, weight_decay=0.1)
    )
    rates = {
        id(p): (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for p in group["params"]
    }
    (layer,) = find_mixtures(model)
    own = {id(p) for p in layer.parameters()}
    for name, parameter in model.named_parameters():
        expected = (1e-3, 0.1 if parameter.ndim >= 2 else 0.0)
        assert rates[id(parameter)] == ((0.25, 0.0) if id(parameter) in own else expected), name
    assert len(rates) == len(list(model.parameters()))
    same = make_optimizer(model, make_plan(lr=0.5))
    assert {group["lr"] for group in same.param_groups} == {0.5}


def test_the_weights_of_members_decay_as_matrices_do() -> None:
    model = make_network(make_data(), members=3, skip=False, ensemble="separate")
    optimizer = make_optimizer(model, make_plan(optimizer="adamw", weight_decay=0.1))
    decays = {id(p): g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    for name, parameter in model.named_parameters():
        matrix = name.endswith("weight") and parameter.ndim == 3
        assert decays[id(parameter)] == (0.1 if matrix else 0.0), name


# -- schedules ---------------------------------------------------------------------------------------


def test_a_pace_warms_up_and_falls_as_a_cosine() -> None:
    plan = make_plan(steps=100, warmup=4, schedule="cosine")
    assert [make_plan(warmup=4).pace(step) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    assert plan.pace(50) == pytest.approx(0.5)
    assert plan.pace(25) == pytest.approx(0.5 * (1 + np.cos(np.pi / 4)))
    assert 0.0 < plan.pace(99) < 1e-3
    assert make_plan().pace(0) == 1.0


def test_the_rates_of_all_groups_follow_the_pace() -> None:
    data = make_data()
    plan = make_plan(steps=10, lr=0.2, mixture_lr=0.04, schedule="cosine", warmup=2)
    job = make_job(make_network(data, "mixture"), data, plan)
    trace = take_steps(job, 0, 6, lambda step: None)
    assert trace.lr == pytest.approx([0.2 * plan.pace(step) for step in range(6)])
    rates = sorted({group["lr"] for group in job.optimizer.param_groups})
    assert rates == pytest.approx([0.04 * plan.pace(5), 0.2 * plan.pace(5)])
    assert Pacer(job.optimizer, make_plan()).steady
    assert not job.pacer.steady


def test_a_step_at_a_tenth_of_the_pace_moves_a_tenth() -> None:
    data = make_data()
    moved = []
    for warmup in (0, 9):  # the first step of ten
        model = make_network(data)
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        job = make_job(model, data, make_plan(optimizer="sgd", warmup=warmup))
        take_steps(job, 0, 1, lambda step: None)
        moved.append(torch.cat([p.detach().flatten() for p in model.parameters()]) - before)
    torch.testing.assert_close(moved[1], moved[0] / 10, atol=1e-6, rtol=1e-3)


# -- the running mean --------------------------------------------------------------------------------


def test_the_running_mean_forgets_its_start_and_then_holds_its_share() -> None:
    model = nn.Linear(1, 1)
    mean = RunningMean(model, 0.5)
    value = model.weight.item()
    expected = value
    for count, new in enumerate([1.0, 5.0, -2.0, 7.0, 4.0, 3.0, 2.0, 8.0, 1.0, 6.0], start=1):
        with torch.no_grad():
            model.weight.fill_(new)
        mean.update()
        share = min(0.5, (1 + count) / (10 + count))  # 2/11, 3/12, …, at last a half
        expected = share * expected + (1 - share) * new
    assert float(mean.mean["weight"]) == pytest.approx(expected, rel=1e-6)


def test_the_mean_stands_in_for_a_while_and_the_weights_come_back() -> None:
    data = make_data()
    model = make_network(data)
    mean = RunningMean(model, 0.9)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    job = make_job(model, data, make_plan())
    for step in range(3):
        take_steps(job, step, step + 1, lambda step: None)
        mean.update()
    after = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def look_and_leave() -> None:
        with mean.swapped_in():
            for name, tensor in model.state_dict().items():
                if tensor.is_floating_point():
                    assert tensor.tolist() == mean.mean[name].tolist()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look_and_leave()
    for name, tensor in model.state_dict().items():
        assert tensor.tolist() == after[name].tolist()
    weight = "layers.layers.1.weight"
    assert after[weight].tolist() != before[weight].tolist() != mean.mean[weight].tolist()
    assert "running_mean" in " ".join(mean.mean)  # batch norm's statistics are averaged too
