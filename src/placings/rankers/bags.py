"""Wide sparse rows: each column has a vector, a row is the sum of its columns' vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.data.checks import Matrix
from placings.errors import BadInput, setting
from placings.training.sources import SparseRows
from placings.transforms import Transform

START = 0.05  # vectors start uniform within ± this, as Keras's embeddings do


class Bag(nn.Module):
    """`Σ_c x_c · E_c` over the columns of a row that are not 0: `[rows, width]`, cheap if few are.

    It stands where a transform's module stands. The values come transformed already (`pass_sparse`), without
    batch norm, which would fill the zeros. Only the vectors of columns that a batch holds get a gradient.
    """

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(columns, width, mode="sum", sparse=True)
        nn.init.uniform_(self.vectors.weight, -START, START)

    def prepare(self, x: SparseRows, offsets: Tensor | None = None) -> SparseRows:
        """Sparse rows as they are: there is nothing to do once."""
        return x

    def finish(self, prepared: SparseRows) -> Tensor:
        """The rows' sums `[rows, width]`; a row without columns is 0."""
        out: Tensor = self.vectors(prepared.columns, prepared.starts, prepared.values)
        return out

    def forget_unseen(self, X: Matrix) -> None:
        """Set the vectors of columns that these rows do not hold to 0: an unknown word then says nothing."""
        assert not isinstance(X, np.ndarray)
        unseen = np.ones(X.shape[1], dtype=bool)
        unseen[X.indices] = False
        with torch.no_grad():
            self.vectors.weight[torch.from_numpy(unseen).to(self.vectors.weight.device)] = 0.0


def pass_sparse(transform: Transform, X: Matrix) -> Any:
    """Rows through a fitted transform as CSR; one that makes something of 0 is refused.

    Missing values are filled by the transform's policy first, which for CSR is 0 unless a number is set.
    """
    from scipy.sparse import csr_array

    if transform._per_query or not transform._keeps_zero():
        raise BadInput(
            f"{transform} does not keep zeros at zero, so sparse rows of {X.shape[1]:,} columns cannot "
            "pass it; they are too wide to be made dense. Use "
            f"{setting('transform', 'log1p')} or 'raw', or fewer columns."
        )
    rows = csr_array(X) if isinstance(X, np.ndarray) else X
    return transform.transform(rows)
