"""Several data sets as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, option
from placings.data.checks import stack_rows
from placings.data.ids import as_ids, number_ids
from placings.data.ranking import PER_ROW, RankingData


def concat(parts: Iterable[RankingData], *, repeated_qid: str = "error") -> RankingData:
    """Several data sets as one, queries in order; features are matched by name.

    A qid that stands in two parts is an error (two sources may number their queries alike), unless
    `repeated_qid="join"` says that its rows belong together.
    """
    parts = list(parts)
    if not parts:
        raise BadInput("concat needs at least one RankingData. Got none.")
    if repeated_qid not in ("error", "join"):
        raise BadInput(f"repeated_qid must be 'error' or 'join'. Got {repeated_qid!r}.")
    first = parts[0]
    aligned = [first, *(_align(part, first, place) for place, part in enumerate(parts[1:], 1))]
    columns: dict[str, Any] = {}
    for name in ("items", *PER_ROW):
        columns[name] = _join_column([getattr(part, name) for part in aligned], name)
    names = list(dict.fromkeys(name for part in aligned for name in part.segments))
    segments: dict[str, Any] = {}
    for name in names:
        segments[name] = _join_column([part.segments.get(name) for part in aligned], f"segment {name!r}")
    ids = as_ids(np.concatenate([part.qids.astype(object) for part in aligned]), "qid")
    if len(number_ids(ids)[1]) != len(ids) and repeated_qid == "error":
        codes = number_ids(ids)[0]
        twice = ids.tolist()[np.flatnonzero(np.bincount(codes)[codes] > 1)[0]]
        raise BadInput(
            f"qid {twice!r} stands in more than one part. Pass {option('repeated_qid', value='join')} if its "
            "rows belong together; otherwise rename the queries of one part first."
        )
    sizes = np.concatenate([part.sizes for part in aligned])
    return RankingData.from_arrays(
        stack_rows([part.X for part in aligned]),
        np.concatenate([part.y for part in aligned]),
        np.repeat(ids, sizes),
        feature_names=first.feature_names,
        segments=segments,
        **columns,
    )


def _align(part: RankingData, first: RankingData, place: int) -> RankingData:
    if part.feature_names == first.feature_names:
        return part
    differ = set(part.feature_names) ^ set(first.feature_names)
    if differ:
        shown = ", ".join(repr(name) for name in sorted(differ)[:5])
        raise BadInput(
            f"parts must have the same features. Part {place} and part 0 differ in {len(differ)}: {shown}. "
            "Choose the common ones with select."
        )
    return part.select(first.feature_names)


def _join_column(columns: Sequence[AnyArray | None], name: str) -> AnyArray | None:
    known = [column for column in columns if column is not None]
    if len(known) not in (0, len(columns)):
        lacking = next(place for place, column in enumerate(columns) if column is None)
        raise BadInput(
            f"{name} is known in some parts only (not in part {lacking}). Give it to all, or take it off "
            "the others with replace."
        )
    return np.concatenate(known) if known else None
