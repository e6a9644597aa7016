"""Any loss under Gumbel noise: the mean over a few noisy copies of the scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from placings.core import BadInput, UnknownName
from placings.losses.lists import as_lists, check_positive

LossFunction = Callable[..., Tensor]
STYLES = ("tf-ranking", "rax")


def stochastic(
    loss: LossFunction, draws: int = 8, temperature: float = 1.0, *, style: str = "tf-ranking"
) -> LossFunction:
    """The mean of `loss` over `draws` copies of the scores, each with Gumbel noise added.

    `style="tf-ranking"`: `log_softmax((s + g) / temperature)`; `style="rax"`: `s + temperature · g`. At
    temperature 1 the two differ by one number for each list, which only a pointwise loss can see.

    Returns a function of scores [query, item], labels and mask, and of the keywords of `loss`, to [query].
    Its noise comes from `generator`, from torch's own when there is none, or is passed in: `noise`
    [draws, query, item], as `draw_noise` makes it. The function is called once with scores [draws, query,
    item], so one of your own must take leading axes, as any does that works along the last. `draws=0`
    returns `loss` as it is. Ties, empty lists and NaN are the loss's own.

    >>> from placings.losses import approx_ndcg_loss
    >>> noise = torch.tensor([[[0.0, 0.0]], [[0.0, 9.0]]])  # no noise, then the second item first
    >>> stochastic(approx_ndcg_loss, draws=2)(torch.tensor([[1.0, 0.0]]), torch.tensor([[1, 0]]), noise=noise)
    tensor([-0.8154])

    Bruch et al., A stochastic treatment of learning to rank scoring functions, WSDM 2020.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0:
        raise BadInput(f"draws must be a whole number, 0 for no noise. Got {draws!r}.")
    check_positive("temperature", temperature)
    if style not in STYLES:
        raise UnknownName("style of noise", style, STYLES)
    if draws == 0:
        return loss

    def noisy_loss(
        scores: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        lists = as_lists(scores, labels, mask, None)
        shape = (draws, *lists.scores.shape)
        if noise is None:
            noise = draw_noise(shape, generator=generator, like=lists.scores)
        elif noise.shape != shape:
            raise BadInput(f"noise must be [draws, query, item], {list(shape)}. Got {list(noise.shape)}.")
        # A broken score must reach the loss, so it is the scores as given that are noised.
        noised = _add_noise(scores.to(lists.scores.dtype), noise.to(lists.scores.dtype), lists.mask)
        losses = loss(noised, labels, mask, **options)
        if losses.shape != shape[:-1]:
            raise BadInput(
                f"a stochastic loss must return one value for each draw and query, {list(shape[:-1])}. "
                f"Got {list(losses.shape)}. Let it work along the last axis only."
            )
        return losses.mean(0)

    def _add_noise(scores: Tensor, noise: Tensor, mask: Tensor) -> Tensor:
        if style == "rax":
            return scores + temperature * noise
        noised = ((scores + noise) / temperature).masked_fill(~mask, torch.finfo(scores.dtype).min)
        return noised.log_softmax(-1).masked_fill(~mask, 0.0)

    return noisy_loss


def draw_noise(
    shape: tuple[int, ...], *, generator: torch.Generator | None = None, like: Tensor | None = None
) -> Tensor:
    """Standard Gumbel noise, `−log(−log u)`, on the device and of the type of `like`.

    >>> draw_noise((8, 2, 3), generator=torch.Generator().manual_seed(0)).shape
    torch.Size([8, 2, 3])
    """
    dtype, device = (None, None) if like is None else (like.dtype, like.device)
    if generator is not None and like is not None and generator.device.type != like.device.type:
        raise BadInput(f"generator must live where the scores do, on {like.device}. Got {generator.device}.")
    waits = torch.empty(shape, dtype=dtype, device=device).exponential_(generator=generator)
    noise: Tensor = waits.clamp_(min=torch.finfo(waits.dtype).tiny).log_().neg_()
    return noise
