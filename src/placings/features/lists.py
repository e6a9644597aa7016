"""Which rows stand in one list, and numbers that compare a row with the others of its list."""

from __future__ import annotations

import numpy as np

from placings.arrays import Bools, Floats, Ints


class Lists:
    """Rows grouped into lists by a code a row `[rows]`; rows of one list need not stand together.

    Every method gives one number a row. NaN takes part in nothing; where all of a list is NaN, so is the
    answer.

    >>> import numpy as np
    >>> lists = Lists(np.array([0, 0, 0, 1]))
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

    def within(self, part: Ints) -> Lists:
        """The lists cut further: rows of one list and one part."""
        if not len(part):
            return Lists(part)
        return Lists(self.codes * (int(part.max()) + 1) + part)

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
