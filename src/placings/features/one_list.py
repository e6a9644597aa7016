"""One live list as features read it: the numbers of a table to the bit, without a table's work.

A table must find out which rows belong together and how its columns are made. Of a live list both are known:
all rows are one list, and a column that no item has is the same value for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np

from placings.core import AnyArray, Bools, Floats, Ints
from placings.features.columns import LIST, Combinations, RowLists, Rows, Texts, Times, number_values

FEW = 256  # rows that are compared each with each
LARGEST = float(np.finfo(np.float32).max)  # what is larger counts as missing
WIDE = 8  # plain numbers, so many or more, are read as one block
PLAIN = frozenset((float, int, bool, type(None)))  # kinds of numbers that numpy reads as we do


class OneList(RowLists):
    """`RowLists` whose rows are all of one list, at least one."""

    def __init__(self, count: int) -> None:
        self.codes = np.zeros(count, dtype=np.int64)
        self.sizes = np.array([count])
        self.starts = np.zeros(1, dtype=np.int64)

    def within(self, part: Ints) -> RowLists:
        return PartsOfList(part) if len(part) <= FEW else RowLists(part)

    def largest(self, values: Floats) -> Floats:
        return np.full(len(values), np.fmax.reduceat(values, self.starts)[0])

    def total(self, values: Floats) -> Floats:
        known = np.where(np.isnan(values), 0.0, values)
        return np.full(len(values), np.bincount(self.codes, weights=known)[0])

    def count(self, mask: Bools) -> Floats:
        return np.full(len(mask), float(np.count_nonzero(mask)))

    def rank(self, values: Floats) -> Floats:
        falling = -values
        ranks: Floats = 1.0 + np.searchsorted(np.sort(falling), falling).astype(np.float64)
        ranks[np.isnan(values)] = np.nan
        return ranks


class PartsOfList(RowLists):
    """`RowLists` of a few rows: each is compared with each, which needs no order."""

    def __init__(self, codes: Ints) -> None:
        self.codes = codes

    def largest(self, values: Floats) -> Floats:
        return RowLists(self.codes).largest(values)

    def rank(self, values: Floats) -> Floats:
        beside = self.codes[:, None] == self.codes
        larger = values > values[:, None]
        ranks: Floats = 1.0 + np.count_nonzero(beside & larger, axis=1).astype(np.float64)
        ranks[np.isnan(values)] = np.nan
        return ranks


class ListRows(Rows):
    """The columns of one live list, at least one item; a field of the item goes before one of the context."""

    def __init__(
        self,
        context: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]],
        columns: Sequence[str],
        block: Sequence[str] = (),
    ) -> None:
        self.count = len(items)
        self._kept = {}
        self._columns = {}
        self._context, self._items, self._asked = context, items, columns
        self._shared: dict[str, Any] = {}
        self._block: Floats | None = self._read_block(block) if len(block) >= WIDE else None
        self._places = {} if self._block is None else {column: at for at, column in enumerate(block)}
        self._whole: set[str] = set()  # columns that every item has
        plain = set(map(type, items)) == {dict}  # of another mapping a look may change it
        for column in columns:
            if column in self._places:
                continue
            if plain and column in items[0]:
                try:
                    self._columns[column] = [item[column] for item in items]
                    self._whole.add(column)
                    continue
                except KeyError:
                    pass
            if any(column in item for item in items):
                other = context.get(column)
                self._columns[column] = [item.get(column, other) for item in items]
            elif column == "position":
                self._columns[column] = list(range(1, self.count + 1))
            else:
                self._shared[column] = context.get(column)

    def _read_block(self, block: Sequence[str]) -> Floats | None:
        """Columns that every item has, all numbers, read at once `[rows, columns]`; else None."""
        try:
            found: AnyArray = np.array(list(map(itemgetter(*block), self._items)))
        except (KeyError, ValueError):  # a field that an item lacks; a list among the numbers
            return None
        if found.dtype.kind not in "biuf" or found.ndim != 2:
            return None
        return _leave_finite(found.astype(np.float64, copy=False))

    def count_missing(self) -> dict[str, int]:
        """For each column, the items for which neither item nor context has it; none are left out."""
        counts = {}
        for column in self._asked:
            # which list a row stands in, search_id, need not be told: a request is one list
            if column in self._places or column in self._context or column == LIST or column in self._whole:
                continue
            if lacking := self.count - sum([column in item for item in self._items]):
                counts[column] = lacking
        return counts

    @property
    def names(self) -> list[str]:
        return list(self._asked)

    @property
    def lists(self) -> RowLists:
        return self.remember("lists", lambda: OneList(self.count))

    def values(self, column: str) -> list[Any]:
        if column in self._places:
            return [item[column] for item in self._items]
        if column in self._shared:
            return [self._shared[column]] * self.count
        return super().values(column)

    def is_blank(self, column: str) -> bool:
        return Rows({column: self.values(column)}).is_blank(column)

    def numbers(self, columns: Sequence[str]) -> Floats:
        if self._block is None or columns[0] not in self._places:
            return super().numbers(columns)
        start = self._places[columns[0]]
        found: Floats = self._block[:, start : start + len(columns)]
        return found

    def shared(self, column: str) -> Any:
        """The value that all rows have because the context says it; None if they have their own."""
        return self._shared.get(column)

    def shared_time(self, column: str) -> Any:
        """The time that all rows have, as `times` gives it; None if they have their own."""
        return self.times(column)[0] if column in self._shared else None

    def _share(self, column: str) -> Rows:
        """A column that is one value for all, as a table of one row."""
        return Rows({column: [self._shared[column]]})

    def _read_floats(self, column: str) -> Floats:
        if self._block is not None and column in self._places:
            return self._block[:, self._places[column]].copy()
        if column in self._shared:
            value = self._shared[column]
            one = value if type(value) is float else self._share(column).floats(column)[0]
            return np.full(self.count, one if abs(one) <= LARGEST else np.nan)
        given = self._columns.get(column)
        if given is not None and PLAIN.issuperset(map(type, given)):
            try:
                return _leave_finite(np.array(given, dtype=np.float64))
            except OverflowError:  # a whole number beyond float64
                pass
        return super()._read_floats(column)

    def _read_values(self, column: str, most: int | None) -> Texts:
        if column in self._places:
            self._columns[column] = self.values(column)
        if column not in self._shared:
            return super()._read_values(column, most)
        told = self._shared[column]
        if told is None or type(told) is str:
            return Texts(np.zeros(self.count, dtype=np.int64), [(told or "")[:most]])
        share = self._share(column)
        one = share.whole_texts(column) if most is None else share.texts(column)
        return Texts(np.zeros(self.count, dtype=np.int64), one.values)

    def _read_times(self, column: str) -> Times:
        if column in self._places:
            self._columns[column] = self.values(column)
        if column not in self._shared:
            return super()._read_times(column)
        told = self._shared[column]
        if type(told) is datetime and told.tzinfo is None:  # as `rerank` has made it
            return np.full(self.count, np.datetime64(told, "us"))
        return np.full(self.count, self._share(column).times(column)[0])

    def _combine(self, columns: tuple[str, ...]) -> Combinations:
        texts = [self.texts(column) for column in columns]
        several = [each for each in texts if len(each.values) > 1]
        if not several:
            return Combinations(
                tuple([each.values[0]] for each in texts), np.zeros(self.count, dtype=np.int64)
            )
        if len(several) == 1:
            count = len(several[0].values)
            found = [each.values if len(each.values) > 1 else each.values * count for each in texts]
            return Combinations(tuple(found), several[0].codes)
        inverse, pairs = number_values(zip(*(each.codes.tolist() for each in several), strict=True))
        left = iter(range(len(several)))
        found = []
        for each in texts:
            if len(each.values) > 1:
                found.append([each.values[code] for code in map(itemgetter(next(left)), pairs)])
            else:
                found.append(each.values * len(pairs))
        return Combinations(tuple(found), inverse)


def _leave_finite(numbers: Floats) -> Floats:
    with np.errstate(over="ignore"):
        small: AnyArray = numbers.astype(np.float32)
    return np.where(np.isfinite(small), numbers, np.nan)
