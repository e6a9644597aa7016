"""One step: the gradient of the mean loss over lists, whatever the layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import assert_same_state, copy_state, make_data, make_job, make_network, make_plan

from placings.losses import find_loss
from placings.training.optimizers import find_mixtures, find_penalty
from placings.training.packing import Packed, PackedGroup
from placings.training.randomness import draw_gumbel
from placings.training.steps import Job, find_losses, take_steps
from placings.transforms import Mixture

CPU = torch.device("cpu")


def find_gradient(job: Job, packed: Packed, rows: np.ndarray, **more: Any) -> list[torch.Tensor]:
    """The lists' losses, then the gradient of their sum with respect to each weight."""
    job.model.train()
    index = torch.from_numpy(rows)
    assert job.source.prepared is not None
    losses = find_losses(job, job.source.prepared[index], packed, job.source.labels[index], None, **more)
    job.model.zero_grad()
    losses.sum().backward()
    return [losses.detach(), *(p.grad.clone() for p in job.model.parameters() if p.grad is not None)]


def find_size(found: list[torch.Tensor]) -> float:
    """The largest gradient: one that cancels out, of a bias before a batch norm, rounds as that one does."""
    return max(1.0, *(float(grad.abs().max()) for grad in found[1:]))


def test_one_step_is_the_gradient_of_the_mean_loss_over_lists() -> None:
    data, plan = make_data(), make_plan(optimizer="sgd", steps=1, batch=100, lr=0.1)
    model = make_network(data, "log1p", batch_norm=False)
    reference = make_network(data, "log1p", batch_norm=False)
    trace = take_steps(make_job(model, data, plan), 0, 1, lambda step: None)
    losses = []
    for query in range(len(data)):  # one list at a time, nothing packed, nothing padded
        one = data.query(query)
        if one.n_rows < 2:
            continue
        scores = reference(reference.prepare(torch.tensor(np.asarray(one.X))))
        labels = torch.tensor(one.y, dtype=torch.float32)
        losses.append(find_loss("softmax")(scores[None], labels[None])[0])
    mean = torch.stack(losses).mean()
    mean.backward()  # type: ignore[no-untyped-call]
    assert len(losses) == 23
    # 23 losses of up to 10 float32 terms, added up in another order
    assert trace.loss[0] == pytest.approx(mean.item(), rel=8 * torch.finfo(torch.float32).eps)
    grads = {name: p.grad for name, p in reference.named_parameters()}
    norm = torch.cat([grad.flatten() for grad in grads.values() if grad is not None]).norm()
    assert trace.gradient[0] == pytest.approx(float(norm), rel=1e-5)
    for (name, after), before in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(
            after.detach(), (before - 0.1 * grads[name]).detach(), atol=1e-6, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("loss", "draws"),
    [("softmax", 0), ("approx_ndcg@5", 8), ("lambdarank", 0), ("logistic", 3), ("listmle", 0)],
)
@pytest.mark.parametrize("members", [1, 3])
def test_padding_and_grouping_change_no_loss_and_no_gradient(loss: str, draws: int, members: int) -> None:
    data = make_data(40, longest=30)
    job = make_job(
        make_network(data, "mixture", dropout=0.3, members=members),
        data,
        make_plan(batch=40),
        find_loss(loss, draws=draws),
    )
    batch = job.deck.draw(2)
    packed = batch.pack(CPU)
    assert len(packed.groups) == 4
    whole = (PackedGroup(0, len(batch.sizes), int(batch.sizes[-1])),)
    ends = [0, 3, 11, 20, len(batch.sizes)]
    cut = tuple(PackedGroup(a, b, int(batch.sizes[b - 1])) for a, b in pairwise(ends))
    wide = (PackedGroup(0, 10, 17), PackedGroup(10, len(batch.sizes), 64))
    expected = find_gradient(job, packed, batch.rows)
    for groups in (whole, cut, wide):
        found = find_gradient(job, replace(packed, groups=groups), batch.rows)
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{"dropout": 0.4}, {"members": 4, "dropout": 0.4}, {"network": "attention", "width": 8}]
)
def test_rows_that_fill_a_fixed_shape_change_no_loss_and_no_gradient(settings: dict[str, Any]) -> None:
    data = make_data()
    found = []
    for fillers in (0, 9):
        job = make_job(
            make_network(data, "mixture", **settings), data, make_plan(), find_loss("softmax", draws=2)
        )
        batch = job.deck.draw(0)
        packed, rows = batch.pack(CPU), batch.rows
        if fillers:
            live = torch.arange(len(rows) + fillers) < len(rows)
            owner = torch.cat([packed.owner, torch.zeros(fillers, dtype=torch.int64)])
            packed = replace(packed, owner=owner, live=live)
            rows = np.concatenate([rows, np.zeros(fillers, dtype=np.int64)])
        found.append(find_gradient(job, packed, rows))
        size = find_size(found[-1])
        found[-1] += [tensor for name, tensor in job.model.named_buffers() if "running" in name]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(
            other, one, rtol=1e-4, atol=2e-5 + 4 * torch.finfo(torch.float32).eps * size
        )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "settings",
    [
        {"dropout": 0.4, "hidden": (16, 8)},
        {"dropout": 0.0, "hidden": (8,), "norm_input": False},
        {"dropout": 0.3, "hidden": (8, 8), "batch_norm": False},
        {"dropout": 0.3, "hidden": (8,), "norm_after": True},
        {"network": "attention", "width": 8, "dropout": 0.3},
        {"group_size": 3, "dropout": 0.3},
        {"hidden": ()},
    ],
)
def test_compiled_loops_change_no_loss_and_no_gradient(
    settings: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data()
    found = []
    for fast in (True, False):
        monkeypatch.setattr("placings.training.drawing.CAN_FILL", fast)
        plan = make_plan(precision=precision)
        job = make_job(make_network(data, "mixture", **settings), data, plan, find_loss("softmax", draws=2))
        batch = job.deck.draw(0)
        found.append(find_gradient(job, batch.pack(CPU), batch.rows))
        size = find_size(found[-1])
        found[-1] += [tensor for name, tensor in job.model.named_buffers() if "running" in name]
    share = 2e-5 if precision == "float32" else 0.05
    rounding = torch.finfo(getattr(torch, precision)).eps / 2 * size
    for one, other in zip(*found, strict=True):
        own = max(1.0, float(one.abs().max()))
        torch.testing.assert_close(other, one, rtol=share, atol=share * own + rounding)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_comes_out_as_a_loss_that_is_none_and_warns_of_nothing(value: float) -> None:
    data = make_data()
    job = make_job(
        make_network(data, hidden=(8, 4), dropout=0.3, batch_norm=False), data, make_plan(batch=100)
    )
    assert job.source.prepared is not None
    job.source.prepared[5] = value
    trace = take_steps(job, 0, 3, lambda step: None)
    assert trace.find_trouble() == 0
    assert len(trace.loss) == 1


def test_noise_and_dropout_of_a_step_are_those_of_its_key() -> None:
    data = make_data()
    job = make_job(
        make_network(data, dropout=0.5), data, make_plan(batch=100), find_loss("approx_ndcg", draws=4)
    )
    batch = job.deck.draw(3)
    packed = batch.pack(CPU)
    first, again = (find_gradient(job, packed, batch.rows) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(other, one, rtol=0.0, atol=0.0)
    later = job.deck.draw(4)
    other = find_gradient(job, later.pack(CPU), later.rows)
    by_query = dict(zip(batch.queries.tolist(), first[0].tolist(), strict=True))
    moved = [by_query[q] != value for q, value in zip(later.queries.tolist(), other[0].tolist(), strict=True)]
    assert np.mean(moved) > 0.8  # lists with nothing relevant cost nothing either way


def test_members_have_a_loss_each_under_the_same_noise() -> None:
    data, loss = make_data(), find_loss("approx_ndcg@5", draws=6)
    job = make_job(make_network(data, members=3, skip=False), data, make_plan(batch=100), loss)
    batch = job.deck.draw(0)
    packed = batch.pack(CPU)
    group = PackedGroup(0, len(batch.sizes), int(batch.sizes[-1]))
    index = torch.from_numpy(batch.rows)
    assert job.source.prepared is not None
    with torch.no_grad():
        job.model.train()
        found = find_losses(job, job.source.prepared[index], packed, job.source.labels[index], None)
        scores = job.model(job.source.prepared[index], packed)  # [rows, members]
        noise = draw_gumbel(packed.keys, 6, group.width)
        labels, mask = packed.lay_out(job.source.labels[index], group), packed.mask(group)
        each = [loss(packed.lay_out(scores[:, m], group), labels, mask, noise=noise) for m in range(3)]
    torch.testing.assert_close(found, torch.stack(each).mean(0), rtol=1e-5, atol=1e-6)
    assert (each[0] - each[1]).abs().max() > 1e-3


def test_one_weight_for_all_rows_of_a_query_multiplies_its_loss() -> None:
    data = make_data()
    means = np.random.default_rng(1).uniform(0.1, 3.0, len(data))
    data = data.replace(weight=np.repeat(means, data.sizes))
    plain = make_job(make_network(data), data.replace(weight=None), make_plan(batch=100))
    batch = plain.deck.draw(0)
    losses = find_gradient(plain, batch.pack(CPU), batch.rows)[0].numpy()
    weighted = make_job(make_network(data), data, make_plan(batch=100))
    trace = take_steps(weighted, 0, 1, lambda step: None)
    assert trace.loss[0] == pytest.approx(np.mean(means[batch.queries] * losses), rel=1e-5)


@pytest.mark.parametrize("name", ["softmax", "logistic", "approx_ndcg", "lambdarank", "mean_squared_error"])
@pytest.mark.parametrize("list_size", [None, 5])
def test_weights_that_differ_within_a_query_weigh_its_items(name: str, list_size: int | None) -> None:
    data, loss = make_data(weighted=True), find_loss(name)
    model, twin = make_network(data, batch_norm=False), make_network(data, batch_norm=False)
    job = replace(make_job(model, data, make_plan(batch=100, list_size=list_size)), loss=loss)
    trace = take_steps(job, 0, 1, lambda step: None)
    batch, expected = job.deck.draw(0), []
    assert data.weight is not None
    for place, size in zip(
        batch.starts, batch.sizes, strict=True
    ):  # one list at a time, unpacked and unpadded
        rows = batch.rows[place : place + size]
        with torch.no_grad():
            scores = twin(twin.prepare(torch.tensor(np.asarray(data.X[rows]))))
        labels, weights = (torch.tensor(v[rows], dtype=torch.float32)[None] for v in (data.y, data.weight))
        expected.append(loss(scores[None], labels, weights=weights).item())
    assert trace.loss[0] == pytest.approx(np.mean(expected), rel=1e-4)


def test_a_query_of_weight_zero_teaches_nothing() -> None:
    data = make_data()
    lies = data.replace(
        y=np.where(data.query_index < 12, data.y, 4.0 - data.y),
        weight=np.where(data.query_index < 12, 1.0, 0.0),
    )
    other = lies.replace(y=np.where(data.query_index < 12, data.y, 0.0))
    found = []
    for each in (lies, other):
        model = make_network(data, batch_norm=False)
        take_steps(make_job(model, each, make_plan()), 0, 6, lambda step: None)
        found.append(copy_state(model))
    assert_same_state(*found, atol=1e-7)


def test_a_mixtures_entropy_is_added_to_the_loss_and_its_gradient() -> None:
    data, plan = make_data(), make_plan(optimizer="sgd", lr=0.5)
    found = {}
    for entropy in (0.0, 0.3):
        model = make_network(data, Mixture(start="random", random_state=0, entropy=entropy))
        (layer,) = find_mixtures(model)
        penalty = find_penalty(model)
        size = float(torch.as_tensor(penalty).detach())
        slope = torch.zeros_like(layer.embedding)
        if entropy:
            shares = layer.weights().double()
            assert size == pytest.approx(-0.3 * float((shares * shares.log()).sum(1).mean()), rel=1e-5)
            (slope,) = torch.autograd.grad(penalty, layer.embedding)
        before = layer.embedding.detach().clone()
        trace = take_steps(make_job(model, data, plan), 0, 1, lambda step: None)
        found[entropy] = (trace.loss[0] - size, layer.embedding.detach() - before + 0.5 * slope)
    # one float32 sum with the penalty and one without it
    assert found[0.0][0] == pytest.approx(found[0.3][0], rel=8 * torch.finfo(torch.float32).eps)
    torch.testing.assert_close(found[0.0][1], found[0.3][1], atol=1e-6, rtol=1e-4)


def test_a_gradient_longer_than_the_clip_is_cut_to_it_and_told_as_it_was() -> None:
    data = make_data()
    found = {}
    for clip in (0.0, 0.01, 100.0):
        model = make_network(data, batch_norm=False)
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        job = make_job(model, data, make_plan(optimizer="sgd", lr=1.0, clip=clip))
        trace = take_steps(job, 0, 1, lambda step: None)
        moved = before - torch.cat([p.detach().flatten() for p in model.parameters()])
        found[clip] = trace.gradient[0], moved
    norm, whole = found[0.0]
    assert norm > 0.01
    assert found[0.01][0] == found[100.0][0] == norm
    torch.testing.assert_close(found[100.0][1], whole, rtol=0.0, atol=0.0)
    torch.testing.assert_close(found[0.01][1], whole * (0.01 / norm), rtol=1e-4, atol=1e-7)


def test_a_mixture_drops_the_bases_that_the_step_says() -> None:
    data = make_data()
    model = make_network(data, Mixture(start="random", random_state=0, dropout=0.5))
    (layer,) = find_mixtures(model)
    noises = []
    for step in (0, 1, 0):
        torch.manual_seed(step)  # torch's own stream plays no part
        take_steps(make_job(model, data, make_plan()), step, step + 1, lambda step: None)
        assert layer.noise is not None
        noises.append(layer.noise.clone())
    assert noises[0].tolist() == noises[2].tolist()
    assert noises[0].tolist() != noises[1].tolist()


def test_bfloat16_rounds_scores_but_keeps_weights_and_losses_float32() -> None:
    data = make_data()
    found = {}
    for precision in ("float32", "bfloat16"):
        model = make_network(data, "mixture", hidden=(32,), skip=False)  # a line starts at 0, exact in both
        job = make_job(model, data, make_plan(precision=precision, batch=100))
        batch = job.deck.draw(0)
        found[precision] = find_gradient(job, batch.pack(CPU), batch.rows)
        assert all(p.dtype == torch.float32 for p in model.parameters())
        assert all(tensor.dtype == torch.float32 for tensor in found[precision])
    losses, rounded = found["float32"][0], found["bfloat16"][0]
    assert 0.0 < float(((losses - rounded).abs() / losses.abs().clamp(min=1.0)).max()) < 0.02
