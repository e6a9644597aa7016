"""`"approx_ndcg@5"` → a loss."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Generator, Tensor, zeros

from placings.core import BadInput, UnknownName, say_unregistered
from placings.losses import lambdas, listwise, pairwise, pointwise
from placings.losses.gumbel import stochastic
from placings.losses.own import HELD_LOSSES, OWN_LOSSES, find_own_loss, hold_loss

LOSSES: dict[str, Callable[..., Tensor]] = {
    "mean_squared_error": pointwise.mean_squared_error_loss,
    "sigmoid": pointwise.sigmoid_loss,
    "logistic": pairwise.logistic_loss,
    "hinge": pairwise.hinge_loss,
    "soft_zero_one": pairwise.soft_zero_one_loss,
    "fidelity": pairwise.fidelity_loss,
    "softmax": listwise.softmax_loss,
    "listnet": listwise.listnet_loss,
    "listmle": listwise.listmle_loss,
    "approx_ndcg": listwise.approx_ndcg_loss,
    "approx_mrr": listwise.approx_mrr_loss,
    "neural_ndcg": listwise.neural_ndcg_loss,
    "lambdarank": lambdas.lambdarank_loss,
    "ndcg_loss1": lambdas.ndcg_loss1,
    "ndcg_loss2": lambdas.ndcg_loss2,
    "ndcg_loss2pp": lambdas.ndcg_loss2pp,
}

ALIASES = {
    "mse": "mean_squared_error",
    "sigmoid_cross_entropy": "sigmoid",
    "ranknet": "logistic",
    "pirank": "neural_ndcg",
    "ndcg_loss2++": "ndcg_loss2pp",
}

OF_THE_CALL = {
    "weights",
    "generator",
    "k",
}  # keywords that are no options: they come with the data or the name


@dataclass(frozen=True)
class Loss:
    """A loss as a value: call it, print it, compare it; `find_loss` makes one.

    >>> str(Loss("approx_ndcg", 5)), Loss("approx_ndcg", 5, draws=8) == Loss("approx_ndcg", 5)
    ('approx_ndcg@5', False)
    """

    name: str
    k: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    draws: int = 0
    noise_temperature: float = 1.0
    noise_style: str = "tf-ranking"

    def __post_init__(self) -> None:
        if self.name not in LOSSES and find_own_loss(self.name) is None:
            raise UnknownName("loss", str(self.name), [*LOSSES, *OWN_LOSSES])
        keywords = list_keywords(self.name)
        for option, _ in self.options:
            if option not in keywords - OF_THE_CALL:
                raise UnknownName(f"option of {self.name}", option, keywords - OF_THE_CALL)
        if self.k is not None and "k" not in keywords:
            cut = ", ".join(sorted(name for name in LOSSES if "k" in list_keywords(name)))
            raise BadInput(f"{self.name} takes no cutoff. Got '{self}'. These do: {cut}.")
        self(zeros(0, 1), zeros(0, 1))  # no query, but every setting is checked

    @property
    def own(self) -> bool:
        """Whether it is a function of the user's."""
        return self.name not in LOSSES

    @cached_property
    def _function(self) -> Callable[..., Tensor]:
        function = find_own_loss(self.name) or LOSSES[self.name]
        return stochastic(function, self.draws, self.noise_temperature, style=self.noise_style)

    def __call__(
        self,
        scores: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        *,
        weights: Tensor | None = None,
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """The loss of each query, [query]; `generator` and `noise` feed the draws, or ListMLE's ties."""
        options = dict(self.options)
        if self.k is not None:
            options["k"] = self.k
        if self.draws:
            options |= {"generator": generator, "noise": noise}
        elif "generator" in list_keywords(self.name):
            options["generator"] = generator
        return self._function(scores, labels, mask, weights=weights, **options)

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def find_loss(
    name: str | Loss | Callable[..., Any],
    *,
    draws: int = 0,
    noise_temperature: float = 1.0,
    noise_style: str = "tf-ranking",
    **options: Any,
) -> Loss:
    """The loss that a name such as `"approx_ndcg@5"`, `"softmax"` or `"lambdarank@10"` stands for.

    `draws` above 0 make it `stochastic`, with the temperature and style of its noise; `options` are the
    keywords of its function. Case does not matter, nor does an ending `_loss`. A function of your own,
    `function(scores, labels, mask)` with one value for each query, is taken too, once it was tried.

    >>> loss = find_loss("approx_ndcg@5", draws=8, temperature=0.2)
    >>> str(loss), loss.options, loss.draws
    ('approx_ndcg@5', (('temperature', 0.2),), 8)
    """
    if isinstance(name, Loss):
        if draws or options:
            raise BadInput(f"a Loss already has its settings. Got {name} and more. Pass its name instead.")
        return name
    if callable(name):
        name = hold_loss(name)
    if not isinstance(name, str):
        raise BadInput(
            f"a loss must be a name such as 'approx_ndcg@5', a Loss, or a function of your own. Got {name!r}."
        )
    word, at, depth = name.strip().lower().partition("@")
    known = {**ALIASES, **{each: each for each in (*LOSSES, *HELD_LOSSES, *OWN_LOSSES)}}
    key = known.get(word) or known.get(word.removesuffix("_loss"))
    if key is None:
        raise UnknownName("loss", word, known, meaning=say_unregistered("loss", word, known))
    if at and (not re.fullmatch("[0-9]{1,18}", depth) or int(depth) == 0):
        raise BadInput(
            f"a loss's cutoff must be a whole number of 1 or more, as in '{word}@10'. Got {name!r}."
        )
    if "k" in options:
        raise BadInput(f"the cutoff must be part of the name, as in '{word}@10'. Got k={options['k']!r}.")
    settings = tuple(sorted(options.items()))
    return Loss(key, int(depth) if at else None, settings, draws, noise_temperature, noise_style)


def list_keywords(name: str) -> set[str]:
    """The keywords of a loss of the registry."""
    if name not in LOSSES:
        return {"weights"}
    parameters = inspect.signature(LOSSES[name]).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
