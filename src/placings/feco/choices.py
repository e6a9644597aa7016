"""Which columns are features: named, picked by importance, or every number that plays no other part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from placings.core import BadInput, UnknownName, option
from placings.data import SAVED_INDEX, SINGLE_PARTS, OpenedTable
from placings.feco.rules import is_valueless

ABSENT = ("error", "dark")
LOOKED_AT = 1000  # values of a text column among which one is sought that is no number


@dataclass(frozen=True)
class ChosenFeatures:
    """The features in the table's order (or as named), why other columns are none, and what was decided.

    `valueless` are columns of text without a single value, if they turn out so (CSV tells no types). `absent`
    are features that were named and are no column of the table.
    """

    features: tuple[str, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()
    valueless: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    order: tuple[str, ...] = field(default=(), repr=False)  # all columns


def check_column(source: OpenedTable, column: Any, part: str) -> str:
    """The name of a column that the table has, or the nearest ones."""
    if not isinstance(column, str):
        raise BadInput(f"{part} must be the name of a column. Got {column!r}.")
    if column not in source.table.columns:
        raise UnknownName(f"column for {part}, in {source.name}, named", column, source.table.columns)
    return column


def choose_features(
    source: OpenedTable,
    features: Any,
    parts: Mapping[str, str],
    *,
    bundle: Any = None,
    ignore: Iterable[str] = (),
    absent: str = "error",
) -> ChosenFeatures:
    """The columns whose coverage is asked for; `parts` maps columns to what they are named as."""
    if absent not in ABSENT:
        raise UnknownName("meaning of an absent feature (absent=)", str(absent), ABSENT)
    table = source.table
    if features is None:
        return _take_numbers(source, parts, [check_column(source, name, "ignore") for name in ignore])
    names, notes = _list_names(features, bundle)
    gone = [name for name in names if name not in table.columns] if absent == "dark" else []
    if len(gone) == len(names) and not parts:  # nothing says that it is the right table
        raise BadInput(
            f"none of the features is a column of {source.name}: {_list_absent(gone, table.columns)}. "
            f"Its columns are {', '.join(map(repr, table.columns[:12]))}. Is it the right file?"
        )
    valueless = []
    for name in names:
        if name in gone:
            continue
        check_column(source, name, "features")
        if name in parts:
            raise BadInput(f"a column plays one part. {name!r} is named as a feature and as {parts[name]}.")
        if not _is_number(table[name].type()) and _refuse_text(source, name):
            valueless.append(name)
    left = {name: "not asked for" for name in table.columns if name not in names and name not in parts}
    if gone:
        notes = (*notes, f"No column of the table, so covered nowhere: {_list_absent(gone, left)}.")
    return ChosenFeatures(
        tuple(names),
        {**_name_parts(parts), **left},
        notes,
        tuple(valueless),
        tuple(gone),
        tuple(table.columns),
    )


def _list_names(features: Any, bundle: Any) -> tuple[list[str], tuple[str, ...]]:
    """The names that are asked for, and how those of `top:20` were picked."""
    notes: tuple[str, ...] = ()
    if isinstance(features, str) and re.fullmatch(r"top:\s*\d+", features.strip()):
        count = int(features.split(":")[1])
        if count < 1:
            raise BadInput(f"features must be at least the top 1. Got {features!r}.")
        named, note = rank_features(bundle)
        names = list(named[:count])
        notes = (note,)
    elif isinstance(features, str):
        names = [features]
    elif isinstance(features, Sequence) and all(isinstance(name, str) for name in features):
        names = list(dict.fromkeys(features))
    else:
        raise BadInput(
            f"features must be None, a list of columns, or 'top:20' with {option('bundle')}. "
            f"Got {features!r}."
        )
    if not names:
        raise BadInput("features must name at least one column. Got none.")
    return names, notes


def rank_features(bundle: Any) -> tuple[list[str], str]:
    """Features, the most important first, and in words by which importance.

    `bundle` is a saved ranker's folder, a ranker, or an `Importance`. Trees tell the gain of their splits;
    other rankers are asked for the mean size of contributions on the few rows that they keep.
    """
    from placings.evaluation import Importance, rank_importance
    from placings.rankers import Ranker, load_ranker

    if bundle is None:
        raise BadInput(
            f"features='top:…' picks by importance. Pass {option('bundle')} with a saved ranker's folder, "
            "a ranker, or what rank_importance gave."
        )
    ranker = load_ranker(Path(bundle)) if isinstance(bundle, str | PathLike) else bundle
    if isinstance(ranker, Importance):
        return list(ranker.names), f"Features were picked by importance ({ranker.kind})."
    if not isinstance(ranker, Ranker):
        raise BadInput(
            f"bundle must be a saved ranker's folder, a ranker or an Importance. Got {type(bundle).__name__}."
        )
    if hasattr(ranker, "feature_importances"):
        return list(rank_importance(ranker, "gain").names), "Features were picked by gain."
    from placings.data import RankingData

    sample = ranker._sample
    rows = sample.shape[0]
    data = RankingData.from_arrays(sample, [0.0] * rows, [0] * rows, feature_names=ranker.feature_names_)
    found = rank_importance(ranker, "contributions", data)
    return list(found.names), f"Features were picked by their contributions on the {rows} rows of the bundle."


# -- inside -----------------------------------------------------------------------------------------------


def _take_numbers(source: OpenedTable, parts: Mapping[str, str], ignore: Sequence[str]) -> ChosenFeatures:
    recorded = {
        source.recorded[part]: f"the {part}, as the table says"
        for part in SINGLE_PARTS
        if source.recorded.get(part)
    }
    recorded |= dict.fromkeys(source.recorded.get("segments", {}).values(), "a segment, as the table says")
    features: list[str] = []
    valueless: list[str] = []
    left = _name_parts(parts)
    for name, kind in source.table.schema().items():
        if name in parts:
            continue
        if name in ignore:
            left[name] = "ignored, as asked"
        elif name in recorded:
            left[name] = recorded[name]
        elif name in SAVED_INDEX:
            left[name] = "a saved index"
        elif kind.is_boolean():
            left[name] = "true or false; name it to count it"
        elif _is_number(kind):
            features.append(name)
        elif kind.is_string() and source.typeless:
            valueless.append(name)
            features.append(name)
        else:
            left[name] = "text" if kind.is_string() else f"{kind}, no number"
    if not features:
        raise BadInput(
            f"{source.name} has no numeric column that could be a feature. Its columns: "
            f"{', '.join(f'{n!r} ({t})' for n, t in list(source.table.schema().items())[:20])}. "
            "Text that holds numbers must be converted first."
        )
    return ChosenFeatures(tuple(features), left, (), tuple(valueless), (), tuple(source.table.columns))


def _name_parts(parts: Mapping[str, str]) -> dict[str, str]:
    return {name: f"named as {part}" for name, part in parts.items()}


def _list_absent(absent: Sequence[str], columns: Iterable[str], most: int = 12) -> str:
    """Features that are not columns, each with the name that it may have now."""
    told = []
    for name in absent[:most]:
        near = get_close_matches(name, list(columns), 1)
        told.append(f"{name!r} (is it {near[0]!r} now?)" if near else repr(name))
    return ", ".join(told) + (f" and {len(absent) - most} more" if len(absent) > most else "")


def _is_number(kind: Any) -> bool:
    return bool(kind.is_numeric() or kind.is_boolean() or is_valueless(kind))


def _refuse_text(source: OpenedTable, name: str) -> bool:
    """True for a column of text without values; for any other that is not a number, an error shows one."""
    column = source.table[name]
    if column.type().is_string():
        there = source.table.filter(column.notnull()).select(value=column).limit(LOOKED_AT)
        values = source.ask(there)["value"].tolist()
        if not values:
            return True
        odd = next((value for value in values if not _reads_as_number(value)), None)
        shown = f"such as {odd!r}" if odd is not None else f"such as {values[0]!r}, numbers written as text"
        raise BadInput(
            f"feature {name!r} of {source.name} must be numbers. Got text, {shown}. Convert the column "
            "(what is not a number becomes missing): pandas.to_numeric(column, errors='coerce'), or in Ibis "
            "table.mutate(column=table.column.try_cast('float64'))."
        )
    raise BadInput(f"feature {name!r} of {source.name} must be numbers. Got {column.type()}.")


def _reads_as_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
