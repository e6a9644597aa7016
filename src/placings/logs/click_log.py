"""The click log: one row for each item shown, with the columns of its search, its own fields and a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placings.core import BadInput, Ints

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("search_id", "item_id", "position", "label")


def order_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by time, search and position, checked; nothing of the given table changes."""
    missing = [name for name in NEEDED if name not in rows]
    if missing:
        raise BadInput(
            f"the rows table lacks {', '.join(missing)}. placings log join makes one that has them."
        )
    keys = [name for name in ("time", "search_id", "position") if name in rows]
    return rows.sort_values(keys, kind="stable").reset_index(drop=True)


def find_offsets(frame: pd.DataFrame) -> Ints:
    """Where each search begins, and the end; the rows of a search stand together."""
    ids = frame["search_id"].to_numpy()
    if not len(ids):
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    return np.concatenate([[0], starts, [len(ids)]]).astype(np.int64)
