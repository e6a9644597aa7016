"""Where parsed rows wait until the matrix can be put together, at a peak near its own size.

The first dense slab has room for all the rows that the first block lets expect: if it was enough, it
*is* the matrix (room that was never written takes no memory). Further slabs are larger than anything
the allocator keeps for itself (32 MiB with glibc), so that letting one go really frees it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from placings.arrays import AnyArray, Floats32, Ints
from placings.data.checks import Matrix
from placings.data.svmlight_blocks import Block

SLAB = 48 << 20
SPARSE_BELOW = 0.25  # share of values written, under which CSR is the smaller and faster form
SPARSE_FROM = 65  # features; fewer stay dense whatever their density


@dataclass
class DenseSlab:
    """Rows `[room, width]`, of which `rows` are taken; column 0 is feature id `first`."""

    array: Floats32
    first: int
    rows: int = 0

    def fits(self, block: Block, first: int, width: int) -> bool:
        return (
            self.first == first and self.array.shape[1] >= width and len(self.array) - self.rows >= block.rows
        )

    def add(self, block: Block) -> None:
        from placings.data.svmlight_kernels import fill_rows

        into = self.array[self.rows : self.rows + block.rows]
        fill_rows(block.values, block.ids, block.row_ends, self.first, into)
        self.rows += block.rows


@dataclass(frozen=True)
class SparseSlab:
    """The features of one block as they were written: CSR with raw feature ids."""

    values: Floats32
    ids: AnyArray
    row_ends: Ints

    @property
    def rows(self) -> int:
        return len(self.row_ends)


@dataclass
class RowStore:
    """Gathers blocks and gives one matrix, dense or CSR; `expected` is a guess at the rows to come."""

    expected: int = 0
    slabs: list[DenseSlab | SparseSlab] = field(default_factory=list)
    rows: int = 0
    written: int = 0
    highest: int = -1
    first: int = 1

    def add(self, block: Block) -> None:
        first = 0 if block.lowest == 0 else 1
        width = max(0, block.highest + 1 - first)
        self.rows += block.rows
        self.written += len(block.values)
        self.highest = max(self.highest, block.highest)
        self.first = min(self.first, first)
        if 2 * len(block.values) < block.rows * width:
            self.slabs.append(SparseSlab(block.values.copy(), block.ids.copy(), block.row_ends))
            return
        last = self.slabs[-1] if self.slabs else None
        if not isinstance(last, DenseSlab) or not last.fits(block, first, width):
            room = max(block.rows, SLAB // max(1, 4 * width), 0 if self.slabs else self.expected)
            last = DenseSlab(np.zeros((room, width), np.float32), first)
            self.slabs.append(last)
        last.add(block)

    @property
    def width(self) -> int:
        """Features up to the highest id seen."""
        return max(0, self.highest + 1 - self.first)

    def assemble(self, width: int, sparse: bool | None) -> Matrix:
        """All rows in one matrix; every slab is let go as soon as it is copied."""
        if sparse is None:
            sparse = width >= SPARSE_FROM and self.written < SPARSE_BELOW * self.rows * width
        slabs, self.slabs = self.slabs[::-1], []
        only = slabs[0] if len(slabs) == 1 else None
        if not sparse and isinstance(only, DenseSlab) and only.array.shape[1] == width:
            return only.array[: only.rows]
        return self._assemble_sparse(slabs, width) if sparse else self._assemble_dense(slabs, width)

    def _assemble_dense(self, slabs: list[DenseSlab | SparseSlab], width: int) -> Floats32:
        from placings.data.svmlight_kernels import fill_rows

        X = np.zeros((self.rows, width), np.float32)
        row = 0
        while slabs:
            slab = slabs.pop()
            into = X[row : row + slab.rows]
            if isinstance(slab, DenseSlab):
                shift = slab.first - self.first
                into[:, shift : shift + slab.array.shape[1]] = slab.array[: slab.rows]
            else:
                fill_rows(slab.values, slab.ids, slab.row_ends, self.first, into)
            row += slab.rows
        return X

    def _assemble_sparse(self, slabs: list[DenseSlab | SparseSlab], width: int) -> Matrix:
        from scipy.sparse import csr_array

        values, columns, ends = [], [], [np.zeros(1, np.int64)]
        total = 0
        while slabs:
            slab = slabs.pop()
            if isinstance(slab, DenseSlab):
                part = csr_array(slab.array[: slab.rows])
                slab = SparseSlab(part.data, part.indices + slab.first, part.indptr[1:].astype(np.int64))
            values.append(slab.values)
            columns.append(slab.ids.astype(np.int32) - self.first)
            ends.append(slab.row_ends + total)
            total += len(slab.values)
        parts = (np.concatenate(values), np.concatenate(columns), np.concatenate(ends))
        return csr_array(parts, shape=(self.rows, width))
