"""Losses of the user's own: a function of scores, labels and a mask under a name, tried before it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from placings.core import BadInput, check_own_name, find_own_name, name_function

OWN_LOSSES: dict[str, OwnLoss] = {}  # registered by name
HELD_LOSSES: dict[str, OwnLoss] = {}  # passed as functions: known in this process, and in no file


class OwnLoss:
    """A user's function with the signature that losses of placings have.

    The function is given scores, labels and a mask `[lists, places]` and gives one value a list `[lists]`.
    If it has a keyword `weights` it is given those too; otherwise a list's value is multiplied by its
    weight, which is the mean of its rows' weights.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        try:
            keywords = inspect.signature(function).parameters
        except (TypeError, ValueError):  # some callables tell nothing of themselves
            keywords = {}  # type: ignore[assignment]
        self.weighs = "weights" in keywords

    def __call__(
        self, scores: Tensor, labels: Tensor, mask: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        shape, width = scores.shape, scores.shape[-1]
        mask = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
        # members and draws stand in front of the lists; to the function they are more lists
        flat = [each.expand(shape).reshape(-1, width) for each in (scores, labels, mask)]
        if weights is None:
            return self._call(*flat).reshape(shape[:-1])
        by_row = weights.ndim == labels.ndim
        if self.weighs:
            given = weights.expand(shape) if by_row else weights.expand(shape[:-1])
            return self._call(*flat, weights=given.flatten(0, -2 if by_row else -1)).reshape(shape[:-1])
        if by_row:
            weights = weights.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1).clamp(min=1)
        return self._call(*flat).reshape(shape[:-1]) * weights

    def _call(self, scores: Tensor, labels: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        found = self.function(scores, labels, mask, **weights)
        if not isinstance(found, Tensor) or found.shape != scores.shape[:1]:
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise BadInput(
                f"the loss {self.name!r} must give one value for each query, a tensor [queries]: "
                f"{len(scores)} here. Got {got}. Sum over the last axis, and take no mean over queries."
            )
        return found


def register_loss(name: str, function: Callable[..., Any]) -> None:
    """Let `loss=name` stand for a function of your own; a bundle of a ranker then holds the name, no code.

    `function(scores, labels, mask)` is given tensors `[queries, places]` and returns one value for each
    query `[queries]`; `mask` is False in places that are padding, which must change nothing. With a keyword
    `weights` it weighs rows itself. It is tried on a small batch now. The same name may be registered again.

    >>> register_loss("square_gaps", lambda s, y, mask: ((s - y) ** 2 * mask).sum(-1))
    >>> from placings.losses import find_loss
    >>> str(find_loss("square_gaps"))
    'square_gaps'
    """
    from placings.losses.names import ALIASES, LOSSES

    check_own_name("loss", name, {*LOSSES, *ALIASES})
    own = OwnLoss(name, function)
    try_loss(own)
    OWN_LOSSES[name] = own
    HELD_LOSSES.pop(name, None)


def hold_loss(function: Callable[..., Any]) -> str:
    """The name of a loss that was passed as a function: ours, a registered one's, or its own for now."""
    from placings.losses.names import ALIASES, LOSSES

    known = find_own_name(function, LOSSES) or find_own_name(
        function, {name: own.function for name, own in OWN_LOSSES.items()}
    )
    if known is not None:
        return known
    name = name_function(function)
    check_own_name("loss", name, {*LOSSES, *ALIASES, *OWN_LOSSES})
    if name not in HELD_LOSSES or HELD_LOSSES[name].function is not function:
        own = OwnLoss(name, function)
        try_loss(own)
        HELD_LOSSES[name] = own
    return name


def find_own_loss(name: str) -> OwnLoss | None:
    """The registered or held loss of this name."""
    return OWN_LOSSES.get(name) or HELD_LOSSES.get(name)


def try_loss(own: OwnLoss) -> None:
    """Call a loss on two small lists; refuse one that fails, has no gradient, or looks at padding."""
    labels = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    scores = torch.tensor([[0.3, -0.2, 0.1], [0.5, 0.4, 0.0]], requires_grad=True)
    found = _try_call(own, scores, labels, mask)
    if not found.isfinite().all():
        raise BadInput(f"the loss {own.name!r} must be finite. Got {found.tolist()} for two small lists.")
    gradient = torch.autograd.grad(found.sum(), scores, allow_unused=True)[0] if found.requires_grad else None
    if gradient is None or not gradient.isfinite().all():
        raise BadInput(
            f"the loss {own.name!r} must have a finite gradient in the scores. Got "
            f"{'none' if gradient is None else gradient.tolist()}. Write it in torch, without .detach(), "
            ".item() or numpy."
        )
    padded = torch.tensor([[0.0] * 3, [0.0, 0.0, 7.0]])
    other = _try_call(own, scores.detach() + padded, labels + 0.5 * padded, mask)
    if not torch.allclose(found.detach(), other, rtol=1e-4, atol=1e-6):
        raise BadInput(
            f"the loss {own.name!r} changes with what stands in padding, where mask is False: "
            f"{found[1].item():g} became {other[1].item():g}. Leave it out: (… * mask).sum(-1), or "
            "scores.masked_fill(~mask, -torch.inf) before a softmax."
        )


def _try_call(own: OwnLoss, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    try:
        return own(scores, labels, mask)
    except BadInput:
        raise
    except Exception as error:  # whatever a user's function raises
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadInput(
            f"the loss {own.name!r} failed on two small lists ({said}). It is called as "
            "function(scores, labels, mask) with tensors [queries, places]."
        ) from error
