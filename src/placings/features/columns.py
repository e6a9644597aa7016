"""`Rows`: a table of any make, read column by column as numbers, texts and times, each only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Floats,
    Ints,
    PlacingsError,
    as_utc,
    find_limit,
    fold_text,
)
from placings.data import as_ids
from placings.logs import SEARCH_ID


class RowLists:
    """Rows grouped into lists by a code a row `[rows]`; rows of one list need not stand together.

    Every method gives one number a row. NaN takes part in nothing; where all of a list is NaN, so is the
    answer.

    >>> import numpy as np
    >>> lists = RowLists(np.array([0, 0, 0, 1]))
    >>> lists.largest(np.array([1.0, 5.0, np.nan, 2.0]))
    array([5., 5., 5., 2.])
    >>> lists.rank(np.array([1.0, 5.0, np.nan, 2.0]))
    array([ 2.,  1., nan,  1.])
    """

    def __init__(self, codes: Ints) -> None:
        _, self.codes = np.unique(codes, return_inverse=True)
        self.order = np.argsort(self.codes, kind="stable")
        self.sizes = np.bincount(self.codes)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def within(self, part: Ints) -> RowLists:
        """The lists cut further: rows of one list and one part."""
        if not len(part):
            return RowLists(part)
        return RowLists(self.codes * (int(part.max()) + 1) + part)

    def largest(self, values: Floats) -> Floats:
        """The largest value of the row's list."""
        if not len(values):
            return values
        found: Floats = np.fmax.reduceat(values[self.order], self.starts)[self.codes]
        return found

    def smallest(self, values: Floats) -> Floats:
        """The smallest value of the row's list."""
        return -self.largest(-values)

    def total(self, values: Floats) -> Floats:
        """The sum over the row's list, added in the order of the rows; NaN counts as 0."""
        if not len(values):
            return values
        known = np.where(np.isnan(values), 0.0, values)
        summed = np.bincount(self.codes, weights=known).astype(np.float64)
        return summed[self.codes]

    def count(self, mask: Bools) -> Floats:
        """How many rows of the row's list are meant by the mask."""
        return self.total(mask.astype(np.float64))

    def rank(self, values: Floats) -> Floats:
        """1 for the largest value of the list; equal values share the better rank; NaN has none."""
        if not len(values):
            return values
        order = np.lexsort((-values, self.codes))
        code, value = self.codes[order], values[order]
        fresh = np.ones(len(order), dtype=np.bool_)
        fresh[1:] = (code[1:] != code[:-1]) | (value[1:] != value[:-1])
        place = np.arange(len(order)) - self.starts[code]
        first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
        ranks = np.empty(len(order))
        ranks[order] = place[first] + 1.0
        ranks[np.isnan(values)] = np.nan
        return ranks


Table: TypeAlias = Any  # a pandas or polars frame, a pyarrow Table, or a dict of equally long columns
Times: TypeAlias = "np.ndarray[Any, np.dtype[np.datetime64]]"
T = TypeVar("T")

LIST = SEARCH_ID  # the column that says which rows were shown together


@dataclass(frozen=True, eq=False)
class Texts:
    """A text column by its distinct values: row i holds `values[codes[i]]`; missing is ""."""

    codes: Ints
    values: list[str]

    def spread(self, numbers: Sequence[float] | AnyArray) -> Floats:
        """A number for each distinct text as a number for each row; NaN where the text is missing."""
        known = np.asarray(numbers, dtype=np.float64)
        empty = np.array([not text for text in self.values], dtype=np.bool_)
        spread: Floats = np.where(empty, np.nan, known)[self.codes] if len(known) else np.empty(0)
        return spread


@dataclass(frozen=True, eq=False)
class Combinations:
    """The distinct combinations of some text columns: row i holds number `inverse[i]` of each column."""

    columns: tuple[list[str], ...]
    inverse: Ints

    def spread(self, numbers: Sequence[float]) -> Floats:
        """A number for each combination as a number for each row."""
        spread: Floats = np.asarray(numbers, dtype=np.float64)[self.inverse]
        return spread


class Rows:
    """A table as features read it. Nothing of the table is changed; what was read is kept until it goes.

    A column that is not there is one without a value: numbers are NaN, texts "", times NaT. Rows without a
    `search_id` column are one list. Numbers that are not finite count as missing. Of a text the first 512
    characters count (the limit `text`), in a table as in a live request.

    >>> rows = Rows({"query": ["Köln", "Köln"], "lat": [50.9, None]})
    >>> rows.count, rows.floats("lat"), rows.texts("query", fold=True).values
    (2, array([50.9,  nan]), ['koln'])
    """

    def __init__(self, table: Table) -> None:
        self._columns = _find_columns(table)
        self.count = _count_rows(self._columns)
        self._kept: dict[Any, Any] = {}

    @property
    def names(self) -> list[str]:
        """The columns there are."""
        return list(self._columns)

    def remember(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives, made once for this table."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept

    @property
    def lists(self) -> RowLists:
        """Which rows were shown together."""

        def group() -> RowLists:
            if LIST not in self._columns:
                return RowLists(np.zeros(self.count, dtype=np.int64))
            return RowLists(number_values(_listed(self._columns[LIST]))[0])

        return self.remember("lists", group)

    def values(self, column: str) -> list[Any]:
        """The column's values as Python has them; None where the column is missing."""
        return _listed(self._columns[column]) if column in self._columns else [None] * self.count

    def ids(self, column: str) -> AnyArray:
        """Ids as they are: whole numbers, or an object array of texts."""
        return as_ids(np.array(self.values(column) or [], dtype=object), column)

    def floats(self, column: str) -> Floats:
        """The column as float64 `[rows]`, NaN where missing or not finite."""
        return self.remember(("floats", column), lambda: self._read_floats(column))

    def count_missing(self) -> dict[str, int]:
        """For each column that a live list was asked for, the items without it; a table has its columns."""
        return {}

    def numbers(self, columns: Sequence[str]) -> Floats:
        """Several columns as float64 `[rows, columns]`, each as `floats` gives it."""
        return np.stack([self.floats(column) for column in columns], axis=1)

    def texts(self, column: str, fold: bool = False) -> Texts:
        """The column as texts, cut at the limit `text`, folded on request."""
        return self.remember(("texts", column, fold), lambda: self._read_texts(column, fold))

    def whole_texts(self, column: str) -> Texts:
        """The column as texts of any length: names of groups, which two long texts must not share."""
        return self.remember(("whole texts", column), lambda: self._read_values(column, None))

    def times(self, column: str) -> Times:
        """The column as UTC times without a zone, to the microsecond; NaT where missing."""
        return self.remember(("times", column), lambda: self._read_times(column))

    def combine(self, *columns: str) -> Combinations:
        """The distinct combinations of text columns, as written."""
        return self.remember(("combine", columns), lambda: self._combine(columns))

    def is_blank(self, column: str) -> bool:
        """Whether the column is missing or holds no value at all."""
        if column not in self._columns:
            return True
        return not any(_is_known(value) for value in self.values(column))

    def _read_floats(self, column: str) -> Floats:
        if column not in self._columns:
            return np.full(self.count, np.nan)
        given = self._columns[column]
        kind = getattr(getattr(given, "dtype", None), "kind", "O")
        if isinstance(given, np.ndarray | list) or kind in "biuf":
            array = _as_array(given, column)
            numbers = array.astype(np.float64) if array.dtype.kind in "biuf" else _as_numbers(given, column)
        else:
            numbers = _as_numbers(given, column)
        with np.errstate(over="ignore"):
            return np.where(np.isfinite(numbers.astype(np.float32)), numbers, np.nan)

    def _read_texts(self, column: str, fold: bool) -> Texts:
        if fold:
            plain = self.texts(column)
            codes, values = number_values([fold_text(text) for text in plain.values])
            return Texts(codes[plain.codes], values)
        return self._read_values(column, find_limit("text"))

    def _read_values(self, column: str, most: int | None) -> Texts:
        if column not in self._columns:
            return Texts(np.zeros(self.count, dtype=np.int64), [""] if self.count else [])
        try:
            codes, values = number_values(_listed(self._columns[column]))
        except TypeError as error:
            raise BadInput(
                f"column {column!r} must be text. Got lists or objects. Write one text a row."
            ) from error
        if all(type(value) is str and (most is None or len(value) <= most) for value in values):
            return Texts(codes, values)  # most columns: nothing to make into text, or to cut
        again, texts = number_values([_as_text(value)[:most] for value in values])
        return Texts(again[codes] if len(codes) else codes, texts)

    def _read_times(self, column: str) -> Times:
        if column not in self._columns:
            return np.full(self.count, np.datetime64("NaT", "us"))
        given = self._columns[column]
        if getattr(getattr(given, "dt", None), "tz", None) is not None:
            given = given.dt.tz_convert("UTC").dt.tz_localize(None)
        array = np.asarray(given) if hasattr(given, "dtype") and not _is_arrow(given) else None
        if array is not None and array.dtype.kind == "M":
            return array.astype("datetime64[us]")
        listed = _listed(given)
        nested = next((value for value in listed if isinstance(value, list | tuple | dict)), None)
        if nested is not None:
            raise _bad_time(nested, column)
        codes, values = number_values(listed)
        times = np.array([_as_time(value, column) for value in values], dtype="datetime64[us]")
        return times[codes]

    def _combine(self, columns: tuple[str, ...]) -> Combinations:
        texts = [self.texts(column) for column in columns]
        key = np.zeros(self.count, dtype=np.int64)
        for each in texts:  # numbered anew each time, so that no product of sizes can overflow
            _, key = np.unique(key * max(len(each.values), 1) + each.codes, return_inverse=True)
        _, first = np.unique(key, return_index=True)
        found = tuple([each.values[code] for code in each.codes[first].tolist()] for each in texts)
        return Combinations(found, key)


def number_values(values: Iterable[Any]) -> tuple[Ints, list[Any]]:
    """Number values by first appearance: codes `[rows]` and the distinct values.

    >>> number_values(["b", "a", "b"])
    (array([0, 1, 0]), ['b', 'a'])
    """
    listed = list(values)
    distinct = list(dict.fromkeys(listed))
    place = dict(zip(distinct, range(len(distinct)), strict=True))
    return np.array(list(map(place.__getitem__, listed)), dtype=np.int64), distinct


# -- the table --------------------------------------------------------------------------------------------


def _find_columns(table: Table) -> dict[str, Any]:
    if isinstance(table, Rows):
        return table._columns
    if isinstance(table, Mapping):
        return {str(name): column for name, column in table.items()}
    if hasattr(table, "column_names"):  # pyarrow
        return {name: table.column(name) for name in table.column_names}
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        return {str(name): table[name] for name in table.columns}
    raise BadInput(
        "rows must be a pandas or polars table, a pyarrow Table, or a dict of columns. "
        f"Got {type(table).__name__}."
    )


def _count_rows(columns: Mapping[str, Any]) -> int:
    lengths = {}
    for name, column in columns.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise BadInput(f"column {name!r} must be a list or an array, one value a row. Got {column!r}.")
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        low, high = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise BadInput(
            "columns must have one value for each row. "
            f"Got {lengths[low]} in {low!r} and {lengths[high]} in {high!r}."
        )
    return next(iter(lengths.values()), 0)


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "to_pylist")


def _listed(column: Any) -> list[Any]:
    if _is_arrow(column):
        listed: list[Any] = column.to_pylist()
        return listed
    return column.tolist() if hasattr(column, "tolist") else list(column)


# -- one value --------------------------------------------------------------------------------------------


def _is_known(value: Any) -> bool:
    """Neither None, nor NaN, NaT or pandas' NA (none of them equals itself), nor an empty text or list."""
    if value is None or isinstance(value, str):
        return bool(value)
    if isinstance(value, list | tuple | dict | np.ndarray):
        return len(value) > 0
    try:
        return bool(value == value)
    except TypeError:  # pandas' NA has no truth
        return False


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not _is_known(value):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))  # a column of whole numbers with gaps comes as 3.0
    return str(value)


def _as_array(values: Any, column: str) -> AnyArray:
    """The values as an array of one axis; lists and objects are told by the first that is one."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = None
    if array is not None and array.ndim == 1:
        return array
    row, value = next((row, each) for row, each in enumerate(values) if isinstance(each, list | tuple | dict))
    raise BadInput(f"column {column!r} must be numbers. Got {value!r} at row {row}. Write one number a row.")


def _as_numbers(column: Any, name: str) -> Floats:
    numbers = np.full(len(column), np.nan)
    for row, value in enumerate(_listed(column)):
        nested = isinstance(value, list | tuple | dict | np.ndarray)
        if isinstance(value, str) or nested or (_is_known(value) and not hasattr(value, "__float__")):
            raise BadInput(
                f"column {name!r} must be numbers. Got {value!r} at row {row}. "
                "Turn it into a number, or into None where it is missing."
            )
        if _is_known(value):
            try:
                numbers[row] = float(value)
            except OverflowError:  # a whole number beyond float64 counts as one that is not finite
                numbers[row] = np.inf
    return numbers


def _as_time(value: Any, name: str) -> np.datetime64:
    if not _is_known(value):
        return np.datetime64("NaT", "us")
    if isinstance(value, np.datetime64):
        return np.array([value], dtype="datetime64[us]")[0]  # type: ignore[no-any-return]
    try:
        return np.datetime64(as_utc(value), "us")
    except (TypeError, ValueError, OverflowError) as error:
        raise _bad_time(value, name) from error


def _bad_time(value: Any, name: str) -> PlacingsError:
    return BadInput(
        f"column {name!r} must be times. Got {value!r}. Write ISO text such as 2026-05-01T08:30:00Z, or "
        "pass a datetime."
    )
