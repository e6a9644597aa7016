"""Where a step's rows come from: prepared once and held beside the network, or streamed from a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from placings.core import Floats, Ints
from placings.data import RankingData, find_uneven_rows
from placings.metrics import sum_by_query
from placings.transforms import QueryScale

if TYPE_CHECKING:
    from placings.training.batches import Batch

ROWS_AT_ONCE = 65_536
SHARE_OF_MEMORY = 0.5  # of what is free; beyond it rows are streamed


class Model(Protocol):
    """What the loop asks of a network; see `rankers.networks.Network`."""

    def prepare(self, rows: Any, offsets: Tensor | None = None) -> Any: ...


class TrainingSource:
    """Training data where the network is: `take` gives the prepared rows of a batch.

    Rows are prepared once and kept if they fit into half of the free memory (`resident` decides otherwise);
    if not, each batch's are gathered from `data.X`, which may be a memory-mapped file, and prepared then.
    Where a transform scales by query, whole queries are: a list cut short is scaled as it is when resident.
    """

    def __init__(
        self, model: Any, data: RankingData, device: torch.device, *, resident: bool | None = None
    ) -> None:
        self.model, self.data, self.device = model, data, device
        self.labels = torch.tensor(data.y, dtype=torch.float32, device=device)
        self.weights = weigh_lists(data, device)  # [queries], or [rows] where rows of one query differ
        self.weighs_rows = bool(find_uneven_rows(data).any())
        self.prepared: Tensor | None = None
        self.by_query = sees_queries(model)
        if resident is None:
            resident = fits_memory(model, data, device)
        if resident and isinstance(data.X, np.ndarray):
            self.prepared = prepare_all(model, data, device)

    def take(self, batch: Batch, index: Tensor) -> Any:
        """Prepared rows of a batch, whose row numbers are given on the device too."""
        if self.prepared is not None:
            return self.prepared.index_select(0, index)
        with torch.no_grad():
            if self.by_query:
                return self._take_queries(batch)
            return self.model.prepare(send_rows(self.data.X[batch.rows], self.device))

    def take_weights(self, rows: Tensor, queries: Tensor) -> Tensor | None:
        """The weights of a batch: of its rows where `weighs_rows`, else of its queries; None without any."""
        return None if self.weights is None else self.weights[rows if self.weighs_rows else queries]

    def _take_queries(self, batch: Batch) -> Any:
        """The same by way of the batch's whole queries."""
        starts = self.data.offsets[batch.queries]
        sizes = self.data.offsets[batch.queries + 1] - starts
        borders = np.concatenate([[0], np.cumsum(sizes)])
        shift = starts - borders[:-1]  # from a place among these rows to one in the data
        rows = self.data.X[np.arange(borders[-1]) + np.repeat(shift, sizes)]
        prepared = self.model.prepare(send_rows(rows, self.device), torch.from_numpy(borders).to(self.device))
        places = batch.rows - np.repeat(shift, batch.sizes)
        return prepared[torch.from_numpy(places).to(self.device)]


def sees_queries(model: Any) -> bool:
    """Whether the transform inside scales the rows of a query together."""
    return any(isinstance(layer, QueryScale) for layer in model.modules())


def send_rows(X: Any, device: torch.device, kind: torch.dtype = torch.float32) -> Any:
    """Rows on a device: a tensor, or CSR parts of sparse rows."""
    if isinstance(X, np.ndarray):
        return torch.tensor(X, dtype=kind, device=device)
    rows = SparseRows.of(X, device)
    rows.values = rows.values.to(kind)
    return rows


class SparseRows:
    """CSR rows as tensors: the columns and values of all rows, and where each row starts."""

    def __init__(self, columns: Tensor, values: Tensor, starts: Tensor) -> None:
        self.columns, self.values, self.starts = columns, values, starts

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, X: Any, device: torch.device) -> SparseRows:
        """From a CSR matrix; values as they are, NaN too."""
        return cls(
            torch.from_numpy(X.indices.astype(np.int64)).to(device),
            torch.from_numpy(X.data.astype(np.float32)).to(device),
            torch.from_numpy(X.indptr[:-1].astype(np.int64)).to(device),
        )

    def find_owners(self) -> Tensor:
        """The row of each stored value, int64 `[values]`."""
        places = torch.arange(len(self.columns), device=self.columns.device)
        return torch.searchsorted(self.starts, places, right=True) - 1

    def spread(self, columns: int) -> Tensor:
        """The same rows dense, `[rows, columns]`; what stands twice is added up."""
        out = self.values.new_zeros((len(self), columns))
        return out.index_put_((self.find_owners(), self.columns), self.values, accumulate=True)


def prepare_all(model: Any, data: RankingData, device: torch.device) -> Tensor:
    """All rows prepared, whole queries at a time."""
    out: Tensor | None = None
    with torch.no_grad():
        for start, stop, borders in cut_queries(data.offsets, ROWS_AT_ONCE):
            part = model.prepare(send_rows(data.X[start:stop], device), torch.from_numpy(borders).to(device))
            if out is None:
                out = part.new_empty((data.n_rows, part.shape[1]))
            out[start:stop] = part
    assert out is not None
    return out


def cut_queries(offsets: Ints, rows: int) -> Iterator[tuple[int, int, Ints]]:
    """Blocks of whole queries of about this many rows: first row, last, and the borders inside."""
    first, last = 0, len(offsets) - 1
    while first < last:
        stop = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        stop = max(first + 1, min(stop, last))
        yield int(offsets[first]), int(offsets[stop]), offsets[first : stop + 1] - offsets[first]
        first = stop


def weigh_lists(data: RankingData, device: torch.device) -> Tensor | None:
    """One weight a query `[queries]`, or a row `[rows]` if they differ within a query; None without any."""
    if data.weight is None:
        return None
    weight: Floats = np.asarray(data.weight, dtype=np.float64)
    if not find_uneven_rows(data).any():
        weight = sum_by_query(weight, data.offsets) / np.maximum(data.sizes, 1)
    return torch.tensor(weight, dtype=torch.float32, device=device)


def fits_memory(model: Any, data: RankingData, device: torch.device) -> bool:
    """Whether all rows, prepared, take less than half of what is free."""
    if not isinstance(data.X, np.ndarray) or not data.n_rows:
        return False
    with torch.no_grad():
        one = model.prepare(send_rows(np.asarray(data.X[:1]), device))
    size = data.n_rows * one.shape[1] * one.element_size()
    return bool(size < SHARE_OF_MEMORY * _free_memory(device))


def _free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # no such system call: assume a small machine
        return 8e9
