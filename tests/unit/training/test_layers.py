"""Layers over packed rows: batch norm counts real rows, dropout follows the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from placings.training.batches import BatchSampler
from placings.training.layers import RowDropout, RowNorm
from placings.training.packing import Packed, pack_lists

OFFSETS = np.array([0, 2, 5, 9, 16, 30])


def make_rows(*, shift: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(30, 6, generator=generator) * torch.tensor([1.0, 10, 0.1, 1, 1, 1e-3]) + shift


def pack(*, fillers: int = 0, reduce: Callable[[Tensor], Tensor] | None = None) -> Packed:
    packed = replace(pack_lists(OFFSETS), keys=torch.arange(5, dtype=torch.int32), reduce=reduce)
    if not fillers:
        return packed
    owner = torch.cat([packed.owner, torch.zeros(fillers, dtype=torch.int64)])
    return replace(packed, owner=owner, live=torch.arange(30 + fillers) < 30)


def make_norm() -> RowNorm:
    norm = RowNorm(6, eps=1e-3, momentum=0.6)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2.0, 6))
        norm.bias.copy_(torch.linspace(-1.0, 1.0, 6))
    return norm


def make_native() -> nn.BatchNorm1d:
    native = nn.BatchNorm1d(6, eps=1e-3, momentum=0.6)
    native.load_state_dict(make_norm().state_dict())
    return native


def run(norm: nn.Module, rows: Tensor, *given: Packed) -> dict[str, Tensor]:
    """Two steps of a norm: outputs and gradients of the second, and what it remembers; of real rows only."""
    for _ in range(2):
        x = rows.clone().requires_grad_()
        norm.zero_grad()
        out = norm(x, *given)
        (out[:30].sin() * torch.linspace(0.0, 1.0, 30)[:, None]).sum().backward()
    assert x.grad is not None
    found = {"out": out[:30], "rows": x.grad[:30], "fillers": x.grad[30:], **dict(norm.named_buffers())}
    found |= {f"{name}'s": parameter.grad for name, parameter in norm.named_parameters()}
    return {name: tensor.detach().clone() for name, tensor in found.items()}


@pytest.mark.parametrize("filler", [0.0, 1e6, "first"])
def test_batch_norm_over_real_rows_is_native_batch_norm_of_them_alone(filler: float | str) -> None:
    rows = make_rows()
    more = rows[:1].expand(7, -1) if filler == "first" else torch.full((7, 6), float(filler))
    expected = run(make_native(), rows)
    found = run(make_norm(), torch.cat([rows, more]), pack(fillers=7))
    assert not found.pop("fillers").any()  # what only fills a shape learns nothing
    expected.pop("fillers")
    for name, values in expected.items():
        torch.testing.assert_close(
            found[name], values, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert found["num_batches_tracked"] == 2


def test_batch_norm_far_from_zero_is_as_exact_as_torchs() -> None:
    rows = make_rows(shift=300.0)  # where a deviation of 0.001 has two digits left
    exact, native = run(make_native().double(), rows.double()), run(make_native(), rows)
    found = run(make_norm(), torch.cat([rows, rows[:7]]), pack(fillers=7))
    for name in ("out", "running_mean", "running_var", "weight's", "bias's"):
        size = 1.0 + exact[name].abs()
        ours, theirs = (((each[name] - exact[name]).abs() / size).max() for each in (found, native))
        assert ours <= 3 * theirs + 1e-6, name


def test_the_sums_of_one_process_are_native_batch_norm() -> None:
    expected = run(make_norm(), make_rows())  # without packed rows it is torch's own
    plain = run(make_norm(), make_rows(), pack())
    summed = run(make_norm(), make_rows(), pack(reduce=lambda part: part * 1.0))
    for name, values in expected.items():
        torch.testing.assert_close(plain[name], values, rtol=0.0, atol=0.0)
        torch.testing.assert_close(summed[name], values, rtol=1e-4, atol=2e-5)


def test_running_statistics_follow_the_momentum_of_torch() -> None:
    norm, rows = make_norm(), make_rows()
    norm(rows, pack(fillers=0))
    wide = make_norm()
    wide(torch.cat([rows, rows[:3]]), pack(fillers=3))
    for each in (norm, wide):
        assert each.running_mean is not None
        assert each.running_var is not None
        np.testing.assert_allclose(each.running_mean, 0.6 * rows.mean(0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(each.running_var, 0.4 + 0.6 * rows.var(0), rtol=1e-4)


def test_a_norm_that_learns_no_more_uses_what_it_remembers() -> None:
    norm, rows = make_norm(), make_rows()
    norm(rows, pack())
    norm.eval()
    whole = norm(rows, pack())
    assert norm.running_mean is not None
    before = norm.running_mean.clone()
    np.testing.assert_allclose(norm(rows[:3]).detach(), whole[:3].detach(), atol=1e-6)
    twice = norm(torch.cat([rows, rows]), pack(fillers=30))[:30]
    np.testing.assert_allclose(twice.detach(), whole.detach(), atol=1e-6)
    np.testing.assert_array_equal(norm.running_mean, before)


def test_statistics_of_bfloat16_rows_are_float32() -> None:
    rows = (make_rows() + 100.0).bfloat16()
    for packed in (pack(fillers=2), pack(reduce=lambda part: part)):
        norm = make_norm()
        x = torch.cat([rows, rows[:2]]) if packed.live is not None else rows
        out = norm(x, packed)
        assert out.dtype == torch.bfloat16
        assert norm.running_mean is not None
        np.testing.assert_allclose(norm.running_mean, 0.6 * rows.float().mean(0), rtol=1e-5)


# -- dropout -----------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps_and_its_gradient_is_its_mask() -> None:
    layer, x = RowDropout(0.4, 6, 0), make_rows().requires_grad_()
    out = layer(x, pack())
    kept = out != 0.0
    assert 0.4 < float(kept.float().mean()) < 0.8
    np.testing.assert_allclose(out[kept].detach(), (x[kept] / 0.6).detach(), rtol=1e-6)
    out.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, kept.float() / 0.6, rtol=1e-6)


def test_dropout_is_nothing_when_scoring_or_at_0() -> None:
    x = make_rows()
    assert RowDropout(0.4, 6, 0).eval()(x, pack()) is x
    assert RowDropout(0.0, 6, 0)(x, pack()) is x


def test_dropout_without_lists_is_drawn_from_torchs_stream() -> None:
    layer, x = RowDropout(0.4, 6, 0), torch.ones(500, 6)
    torch.manual_seed(0)
    one, other = layer(x), layer(x)
    assert (one != other).any()
    assert abs(float((one == 0.0).float().mean()) - 0.4) < 0.05


def test_dropout_of_a_row_does_not_depend_on_the_batch_around_it() -> None:
    deck, layer = BatchSampler(OFFSETS, 5, 6, 9), RowDropout(0.5, 16, 3)

    def draw(step: int, part: int, parts: int) -> dict[int, list[float]]:
        batch = deck.draw(step, part=part, parts=parts)
        masks = layer(torch.ones(len(batch.rows), 16), batch.pack(torch.device("cpu")))
        return dict(zip(batch.rows.tolist(), masks.tolist(), strict=True))

    whole = draw(4, 0, 1)
    assert {**draw(4, 0, 3), **draw(4, 1, 3), **draw(4, 2, 3)} == whole
    assert len(set(map(tuple, whole.values()))) == len(whole)  # no two rows alike
    later = draw(5, 0, 1)
    assert all(later[row] != mask for row, mask in whole.items() if row in later)


def test_fillers_change_no_mask() -> None:
    layer = RowDropout(0.5, 6, 0)
    filled = layer(torch.ones(37, 6), pack(fillers=7))[:30]
    np.testing.assert_array_equal(filled, layer(torch.ones(30, 6), pack()))
