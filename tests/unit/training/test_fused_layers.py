"""One pass over the rows does what bias, relu, dropout and batch norm do one by one."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from placings.rankers.networks import Stack
from placings.training import drawing
from placings.training.batches import BatchSampler
from placings.training.layers import Moments, RowDropout, RowNorm, can_fuse, relu_and_drop
from placings.training.packing import Packed

pytestmark = pytest.mark.skipif(not drawing.CAN_FILL, reason="loops are not compiled here")
SIZES = np.random.default_rng(0).integers(2, 60, 40)


def pack() -> Packed:
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    return BatchSampler(offsets, 40, 50, 3).draw(2).pack(torch.device("cpu"))


def make_rows(width: int, *, seed: int = 0) -> Tensor:
    return torch.randn(len(pack().owner), width, generator=torch.Generator().manual_seed(seed))


def make_stack(**settings: Any) -> Stack:
    torch.manual_seed(1)
    chosen = {"activation": "relu", "dropout": 0.3, "batch_norm": True, "momentum": 0.4, "eps": 1e-3}
    stack = Stack(5, (12, 8), settings.pop("outputs", 1), **{**chosen, **settings}).train()
    for layer in stack.modules():
        if isinstance(layer, RowNorm):
            nn.init.uniform_(layer.weight, 0.5, 2.0)
            nn.init.normal_(layer.bias)
    if stack.skip is not None:  # which starts at zeros, and so does the last layer beside it
        last: Any = stack.layers[-1]
        for weight in (stack.skip.weight, last.weight):
            nn.init.normal_(weight)
    return stack


def run(stack: Stack, rows: Tensor) -> dict[str, Tensor]:
    """Scores, gradients and running statistics of one step in training."""
    x = rows.clone().requires_grad_()
    out = stack(x, pack())
    weights = torch.linspace(-1.0, 2.0, out.numel()).view_as(out).to(out.dtype)
    (out * weights).sum().backward()
    assert x.grad is not None
    grads = {f"{name}'s gradient": parameter.grad for name, parameter in stack.named_parameters()}
    found = {"out": out.detach(), "rows' gradient": x.grad, **grads, **dict(stack.named_buffers())}
    return {name: tensor.double() for name, tensor in found.items() if tensor is not None}


@pytest.mark.parametrize("outputs", [1, 3, None])
@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(
    "settings", [{}, {"norm_input": False}, {"batch_norm": False}], ids=["norms", "inner norms", "no norms"]
)
@pytest.mark.parametrize("more", [{}, {"members": 3}], ids=["one", "members"])
def test_a_fused_stack_is_the_stack_in_double_precision(
    outputs: int | None, dropout: float, settings: dict[str, Any], more: dict[str, Any]
) -> None:
    compare_with_double(make_stack(outputs=outputs, dropout=dropout, **settings, **more))


@pytest.mark.parametrize("norm_input", [True, False])
@pytest.mark.parametrize("members", [1, 3])
def test_a_fused_stack_has_its_skip(norm_input: bool, members: int) -> None:
    compare_with_double(make_stack(skip=True, norm_input=norm_input, members=members))


def compare_with_double(fused: Stack) -> None:
    plain = copy.deepcopy(fused).double()
    assert fused.fusible
    expected = run(plain, make_rows(5).double())  # not float32: layer by layer
    # a gradient is a sum over rows; where its terms cancel, as before a norm, it rounds as the largest does
    largest = max(float(values.abs().max()) for name, values in expected.items() if "gradient" in name)
    rounding = torch.finfo(torch.float32).eps * len(pack().owner) ** 0.5 * largest
    for name, values in run(fused, make_rows(5)).items():
        size = float(expected[name].abs().max())
        atol = 2e-5 * size + (rounding if "gradient" in name and name != "rows' gradient" else 1e-7)
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=atol, err_msg=name)


def test_rows_that_need_no_gradient_change_no_other() -> None:
    with_rows, without = make_stack(), make_stack()
    run(with_rows, make_rows(5))
    out = without(make_rows(5), pack())
    (out * torch.linspace(-1.0, 2.0, out.numel()).view_as(out)).sum().backward()
    for one, other in zip(with_rows.parameters(), without.parameters(), strict=True):
        assert one.grad is not None
        assert torch.equal(one.grad, other.grad)  # type: ignore[arg-type]


def test_no_bit_depends_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MANY", 1)
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("PLACINGS_THREADS", threads)
        found.append(run(make_stack(), make_rows(5)))
    for other in found[1:]:
        assert all(torch.equal(other[name], values) for name, values in found[0].items())


@pytest.mark.parametrize("dropout", [0.0, 0.25, 0.5])
def test_units_drop_as_row_dropout_drops_them(dropout: float) -> None:
    layer, x, bias = RowDropout(dropout, 7, 4), make_rows(7), torch.linspace(-0.5, 0.5, 7)
    expected = layer(torch.relu(x + bias), pack())
    out, moments = relu_and_drop(x.clone(), bias, layer, pack())
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_array_equal(out == 0.0, expected == 0.0)
    np.testing.assert_allclose(moments.mean, expected.double().mean(0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, expected.double().var(0, correction=0), rtol=1e-5)


def test_bfloat16_is_rounded_as_torch_rounds_it() -> None:
    layer, bias = RowDropout(0.25, 7, 4), torch.linspace(-0.5, 0.5, 7)
    x = make_rows(7).bfloat16()
    factors = layer.draw(pack().row_keys, torch.empty(0))
    expected = (torch.relu(x.float() + bias) * factors).bfloat16()
    out, moments = relu_and_drop(x.clone(), bias, layer, pack())
    assert out.dtype == torch.bfloat16
    assert moments.mean.dtype == torch.float32
    np.testing.assert_array_equal(out.float(), expected.float())
    np.testing.assert_allclose(moments.mean, expected.double().mean(0), rtol=1e-6)


def test_a_bfloat16_stack_is_near_the_float32_one() -> None:
    half, single = make_stack(), make_stack()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = half(make_rows(5), pack())
    expected = single(make_rows(5), pack()).detach()
    assert found.dtype == torch.float32  # the last bias is added in float32
    assert float((found.detach() - expected).abs().mean()) < 0.02 * float(expected.std())


def test_moments_of_a_unit_far_from_zero_keep_their_digits() -> None:
    x = make_rows(3) * 0.01 + 300.0
    _, moments = relu_and_drop(x.clone(), torch.zeros(3), RowDropout(0.0, 3, 0), pack())
    np.testing.assert_allclose(moments.variance, x.double().var(0, correction=0), rtol=1e-4)


def test_a_folded_bfloat16_weight_errs_by_the_spread_of_a_unit_not_by_its_mean() -> None:
    torch.manual_seed(0)
    norm, linear = RowNorm(16, eps=1e-3).train(), nn.Linear(16, 4)
    x = (make_rows(16) + 40.0).bfloat16()
    exact = nn.functional.linear(nn.functional.batch_norm(x.double(), None, None, training=True, eps=1e-3),
                                 linear.weight.double(), linear.bias.double())  # fmt: skip
    moments = Moments(x.float().mean(0), x.float().var(0, correction=0))
    weight, bias = norm.fold(linear.weight.t()[None], moments, len(x), torch.bfloat16)
    assert weight.dtype == torch.bfloat16
    found = x.float() @ weight[0].float() + bias + linear.bias
    assert float((found - exact).detach().abs().max()) < 0.02  # by the mean it would be about 0.1


def test_a_value_that_is_no_number_stays_one() -> None:
    x = make_rows(4)
    x[3] = torch.nan
    out, moments = relu_and_drop(x, torch.zeros(4), RowDropout(0.0, 4, 0), pack())
    assert out[3].isnan().all()
    assert moments.mean.isnan().all()


def test_what_is_too_large_for_a_number_warns_nowhere_and_is_told_by_the_result() -> None:
    x = make_rows(4)
    x[3], x[4] = torch.inf, 3e38
    x.requires_grad_()
    out, moments = relu_and_drop(x * 1.0, torch.zeros(4), RowDropout(0.0, 4, 0), pack())
    slopes = torch.full_like(out, 3e38)
    slopes[::2] = -torch.inf
    (out * slopes).sum().backward()  # warnings are errors here
    assert out[3].isinf().all()
    assert not moments.mean.isfinite().any()


def test_a_shared_gradient_is_left_as_it_is() -> None:
    x, beside = make_rows(4).requires_grad_(), torch.zeros(len(make_rows(4)), 4, requires_grad=True)
    out, _ = relu_and_drop(x * 1.0, torch.zeros(4), RowDropout(0.5, 4, 0), pack(), shared=True)
    seen: list[Tensor] = []
    beside.register_hook(lambda grad: seen.append(grad))  # the same tensor goes both ways
    (out + beside).sum().backward()
    assert bool((seen[0] == 1.0).all())
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad, torch.where(out > 0.0, 2.0, 0.0))


def test_rows_that_fill_a_shape_and_several_processes_go_layer_by_layer() -> None:
    x, packed = make_rows(5), pack()
    assert can_fuse(x, packed)
    assert not can_fuse(x, None)
    assert not can_fuse(x.double(), packed)
    assert not can_fuse(x, replace(packed, live=torch.ones(len(x), dtype=torch.bool)))
    assert not can_fuse(x, replace(packed, reduce=lambda part: part))
    assert not make_stack(activation="tanh").fusible
    assert not make_stack(norm_after=True).fusible
    assert not make_stack(output_activation="relu").fusible
