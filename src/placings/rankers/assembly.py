"""The network that settings stand for, over a fitted transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placings.core import BadInput, Ints
from placings.data import RankingData
from placings.rankers.networks import (
    AdditiveCurves,
    Attention,
    AttentionBlock,
    Bag,
    FeedForward,
    Groupwise,
    Network,
    RowNoise,
    Stack,
    make_entrance,
)
from placings.rankers.presets import NetworkSettings
from placings.training import RowDropout, RowNorm
from placings.transforms import Piecewise, Transform, find_places

ATTENTION_LAYER = 100  # dropout's layer numbers: the item's layers, then the blocks of attention


def build_network(
    settings: NetworkSettings,
    transform: Transform,
    context: Sequence[str] = (),
    *,
    pieces: Piecewise | None = None,
    curved: bool = False,
    bag: bool = False,
) -> Network:
    """An untrained network, its weights drawn from torch's stream.

    `pieces` of the same features, if given, are inputs beside those of the transform, or, if `curved`, what
    curves beside the layers are made of. `context` names the features that belong to the query; `bag` says
    that rows come sparse and wide. Then the first layer is a bag of vectors, `embedding` wide (1 if there are
    no hidden layers: a linear ranker).
    """
    columns = len(transform.get_feature_names_out())
    more = 0 if pieces is None else len(pieces.owner_)
    item, shared = split_columns(transform, context, pieces)
    entrance: Any = Bag(columns, _widen(settings)) if bag else make_entrance(transform.module(), pieces)
    inputs = _widen(settings) if bag else columns + (0 if curved else more)
    if bag and len(shared):
        raise BadInput(
            "context features are not for sparse rows this wide: a bag does not keep columns apart."
        )
    noise = RowNoise(settings.input_noise, inputs)
    if settings.network == "groupwise":
        item = np.arange(inputs) if bag else item
        size = settings.group_size
        layers = _stack(settings, size * len(item) + len(shared), settings.hidden, size)
        return Groupwise(entrance, noise, layers, size, item, shared)
    if settings.network == "attention":
        return _build_attention(settings, entrance, noise, inputs)
    layers = _stack(
        settings, inputs, settings.hidden, 1, members=settings.members,
        skip=settings.skip and not bag, ensemble=settings.ensemble,
    )  # fmt: skip
    return FeedForward(entrance, noise, layers, AdditiveCurves(more) if curved else None)


def _build_attention(settings: NetworkSettings, entrance: Any, noise: RowNoise, inputs: int) -> Attention:
    norm = None
    if settings.batch_norm and settings.norm_input:
        norm = RowNorm(inputs, eps=settings.eps, momentum=1.0 - settings.momentum)
    item = _stack(settings, inputs, settings.hidden, None, norm_input=False)
    head = _stack(settings, item.width, (), 1, norm_input=not settings.norm_after)
    blocks = [
        AttentionBlock(settings.width, settings.heads, settings.dropout, ATTENTION_LAYER + number)
        for number in range(settings.blocks)
    ]
    dropout = RowDropout(settings.dropout, settings.width, ATTENTION_LAYER + settings.blocks)
    return Attention(entrance, noise, norm, item, blocks, dropout, head, inputs=inputs, width=settings.width)


def _stack(
    settings: NetworkSettings,
    inputs: int,
    hidden: Sequence[int],
    outputs: int | None,
    *,
    norm_input: bool | None = None,
    members: int = 1,
    **more: Any,
) -> Stack:
    return Stack(
        inputs, hidden, outputs, activation=settings.activation, dropout=settings.dropout,
        batch_norm=settings.batch_norm, momentum=settings.momentum, eps=settings.eps,
        norm_input=settings.norm_input if norm_input is None else norm_input,
        norm_after=settings.norm_after, output_activation=settings.output_activation, members=members,
        **more,
    )  # fmt: skip


def _widen(settings: NetworkSettings) -> int:
    """How wide a bag's vectors are."""
    return 1 if settings.network == "feedforward" and not settings.hidden else settings.embedding


def split_columns(
    transform: Transform, context: Sequence[str], pieces: Piecewise | None = None
) -> tuple[Ints, Ints]:
    """The columns of items, and those of the query; indicators and pieces go with their feature."""
    owners = transform.find_owners()
    if pieces is not None:
        owners = np.concatenate([owners, pieces.owner_])
    shared = np.zeros(len(owners), dtype=bool)
    if len(context):
        shared = np.isin(owners, find_context(context, transform.feature_names_))
    if shared.all():
        raise BadInput("every feature is named in context, so nothing tells one item from another.")
    return np.flatnonzero(~shared), np.flatnonzero(shared)


def find_context(context: Sequence[str], names: Sequence[str]) -> Ints:
    """Where the context features stand."""
    if isinstance(context, str):
        raise BadInput(f"context must list the names of features. Got {context!r}.")
    return find_places(context, names)


def check_context(data: RankingData, context: Sequence[str]) -> None:
    """Refuse a context feature that differs between the rows of a query; missing in all is one value."""
    if not isinstance(data.X, np.ndarray) or not data.n_rows:
        return
    for place in find_context(context, data.feature_names):
        values = data.X[:, place]
        first = np.repeat(values[data.offsets[:-1][data.sizes > 0]], data.sizes[data.sizes > 0])
        differ = (values != first) & ~(np.isnan(values) & np.isnan(first))
        if differ.any():
            query = data.qid.tolist()[int(np.flatnonzero(differ)[0])]
            raise BadInput(
                f"a context feature has one value in a query; {data.feature_names[place]!r} differs between "
                f"the rows of query {query!r}. Leave it out of context."
            )
