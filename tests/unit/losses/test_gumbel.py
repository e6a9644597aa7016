"""Losses under Gumbel noise."""

from __future__ import annotations

import pytest
import torch

from placings.core.errors import BadInput, UnknownName
from placings.losses import (
    approx_ndcg_loss,
    draw_noise,
    logistic_loss,
    sigmoid_loss,
    softmax_loss,
    stochastic,
)

SCORES = torch.tensor([[0.3, -1.2, 2.1], [1.0, 0.5, 0.0]], dtype=torch.float64)
LABELS = torch.tensor([[2, 0, 1], [0, 1, 0]])
MASK = torch.tensor([[True, True, True], [True, True, False]])
NOISE = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("loss", [approx_ndcg_loss, softmax_loss, logistic_loss, sigmoid_loss])
def test_it_is_the_mean_over_the_draws(loss):
    value = stochastic(loss, 4, 0.5, style="rax")(SCORES, LABELS, MASK, noise=NOISE)
    each = torch.stack([loss(SCORES + 0.5 * noise, LABELS, MASK) for noise in NOISE])
    assert torch.allclose(value, each.mean(0))


def test_the_style_of_tf_ranking_is_a_log_softmax_of_what_is_divided():
    value = stochastic(sigmoid_loss, 4, 0.5)(SCORES, LABELS, MASK, noise=NOISE)
    noised = ((SCORES + NOISE) / 0.5).masked_fill(~MASK, -torch.inf).log_softmax(-1)
    each = torch.stack([sigmoid_loss(one.masked_fill(~MASK, 0.0), LABELS, MASK) for one in noised])
    assert torch.allclose(value, each.mean(0))


def test_the_styles_agree_at_temperature_one_but_for_pointwise_losses():
    values = {
        loss: [
            stochastic(loss, 4, style=style)(SCORES, LABELS, MASK, noise=NOISE)
            for style in ("tf-ranking", "rax")
        ]
        for loss in (approx_ndcg_loss, logistic_loss, sigmoid_loss)
    }
    assert torch.allclose(*values[approx_ndcg_loss])
    assert torch.allclose(*values[logistic_loss])
    assert not torch.allclose(*values[sigmoid_loss])


def test_no_draws_are_the_loss_itself():
    assert stochastic(softmax_loss, 0) is softmax_loss


def test_a_generator_repeats_itself():
    loss = stochastic(approx_ndcg_loss)
    first, again = (loss(SCORES, LABELS, MASK, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, loss(SCORES, LABELS, MASK, generator=torch.Generator().manual_seed(8)))


def test_noise_is_gumbel():
    """Its mean is Euler's constant, its variance π²/6."""
    noise = draw_noise((200_000,), generator=torch.Generator().manual_seed(0), like=SCORES)
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(torch.pi**2 / 6, abs=0.03)
    assert noise.isfinite().all()


def test_gumbel_noise_draws_winners_by_their_softmax():
    noise = draw_noise((20_000, 1, 3), generator=torch.Generator().manual_seed(0), like=SCORES)
    winners = (SCORES[:1] + noise).argmax(-1).flatten().bincount(minlength=3) / 20_000
    assert torch.allclose(winners.to(SCORES.dtype), SCORES[0].softmax(-1), atol=0.01)


def test_options_reach_the_loss():
    value = stochastic(approx_ndcg_loss, 4)(
        SCORES, LABELS, MASK, noise=NOISE, k=1, weights=torch.tensor([1.0, 0.0])
    )
    assert value[1] == 0.0
    assert value[0] != stochastic(approx_ndcg_loss, 4)(SCORES, LABELS, MASK, noise=NOISE)[0]


def test_settings_are_checked():
    with pytest.raises(BadInput, match="draws must be a whole number"):
        stochastic(softmax_loss, -1)
    with pytest.raises(UnknownName, match="no style of noise 'tfr'"):
        stochastic(softmax_loss, style="tfr")
    with pytest.raises(BadInput, match=r"noise must be \[draws, query, item\], \[2, 2, 3\]. Got \[4, 2, 3\]"):
        stochastic(softmax_loss, 2)(SCORES, LABELS, MASK, noise=NOISE)
    with pytest.raises(BadInput, match="one value for each draw and query"):
        stochastic(lambda scores, labels, mask: scores.sum(), 4)(SCORES, LABELS, MASK, noise=NOISE)


def test_what_stands_in_the_padding_of_the_noise_changes_nothing():
    loss, given = stochastic(approx_ndcg_loss, 4), SCORES.clone().requires_grad_()
    loss(given, LABELS, MASK, noise=NOISE).sum().backward()
    wild = SCORES.masked_fill(~MASK, torch.nan).requires_grad_()
    loss(wild, LABELS, MASK, noise=NOISE.masked_fill(~MASK, torch.inf)).sum().backward()
    assert torch.equal(given.grad, wild.grad)


@pytest.mark.parametrize("style", ["tf-ranking", "rax"])
def test_a_broken_score_breaks_its_query_alone(style):
    broken = SCORES.clone()
    broken[0, 1] = torch.nan
    value = stochastic(approx_ndcg_loss, 4, style=style)(broken, LABELS, MASK, noise=NOISE)
    assert value.isnan().tolist() == [True, False]
