"""From an engine's counts to the coverage frame: sorted, gaps filled, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import AnyArray, Floats
from placings.feco.intervals import cluster_interval, wilson_interval
from placings.feco.windows import Cut

if TYPE_CHECKING:
    import pandas as pd

LARGEST_GRID = 2_000_000  # rows of a frame whose gaps are still filled
NO_SEGMENT = "(none)"


@dataclass(frozen=True)
class Tally:
    """The coverage frame, and the notes and warnings on how it came to be."""

    frame: pd.DataFrame
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    totals: Floats  # [features] covered, over everything
    lowest: dict[int, float]
    first_position: float


def build_frame(
    answer: pd.DataFrame,
    features: Sequence[str],
    by: Sequence[str],
    cut: Cut | None,
    *,
    clustered: bool,
    ends: tuple[int | None, int | None] = (None, None),
    level: float = 0.95,
) -> Tally:
    """The coverage frame of what `count_covered` answered.

    Columns: `feature`, the segments, `window` (start, UTC, without a zone; only with a cut), `coverage`,
    `low`, `high`, `events`, `covered`. Every segment has a row for every window from the first to the last
    (or `ends`, seconds, the second not included); without events its coverage is NaN.
    """
    import pandas as pd

    notes: list[str] = []
    warned: list[str] = []
    lowest = {
        int(name.removeprefix("lowest")): float(pd.to_numeric(answer[name]).min())
        for name in answer.columns
        if name.startswith("lowest")
    }
    first = float(pd.to_numeric(answer["first_position"]).min()) if "first_position" in answer else np.nan
    answer, dropped = _drop_lost(answer, cut)
    warned += dropped
    warned += _tell_doubles(answer)
    if not len(answer) and not by and cut is None:
        answer = pd.DataFrame({name: [0] for name in answer.columns})
    keys = [f"by{place}" for place in range(len(by))]
    answer = answer.assign(**{key: _name_missing(answer[key]) for key in keys})
    if cut is not None:
        answer = answer.assign(window=answer["window"].astype("int64"))
        answer, said = _fill(answer, keys, cut, ends, len(features))
        notes += said
        keys = [*keys, "window"]
    if keys:
        answer = answer.sort_values(keys, kind="stable")
    events = _numbers(answer["events"])
    columns: dict[str, Any] = {"feature": np.repeat(np.array(features, dtype=object), len(answer))}
    for place, name in enumerate(by):
        columns[name] = np.tile(answer[f"by{place}"].to_numpy(), len(features))
    if cut is not None:
        columns["window"] = np.tile(cut.starts(answer["window"].to_numpy(dtype=np.int64)), len(features))
    shares = [_share(answer, place, events, clustered, level) for place in range(len(features))]
    for number, name in enumerate(("coverage", "low", "high")):
        columns[name] = np.concatenate([share[number] for share in shares])
    columns["events"] = np.tile(events.astype(np.int64), len(features))
    covered = np.concatenate([share[3] for share in shares])
    columns["covered"] = covered if clustered else covered.astype(np.int64)
    totals = np.array([_numbers(answer[f"covered{place}"]).sum() for place in range(len(features))])
    if not events.sum():
        warned.append("There is no event to count: every coverage is unknown (NaN).")
    return Tally(pd.DataFrame(columns), tuple(notes), tuple(warned), totals, lowest, first)


def _share(
    answer: pd.DataFrame, place: int, events: Floats, clustered: bool, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Coverage, its interval, and how many events are covered `[groups]`."""
    covered = _numbers(answer[f"covered{place}"])
    with np.errstate(invalid="ignore", divide="ignore"):
        if not clustered:
            return (covered / events, *wilson_interval(covered, events, level=level), covered)
        rows = _numbers(answer["rows"])
        squares, products = _numbers(answer[f"squares{place}"]), _numbers(answer[f"products{place}"])
        sizes = _numbers(answer["rows_squares"])
        low, high = cluster_interval(covered, rows, squares, products, sizes, events, level=level)
        share = covered / rows
        return share, low, high, np.nan_to_num(share * events)


def _numbers(column: Any) -> Floats:
    """Counts as float64, absent ones 0; engines give whole numbers, decimals or NaN."""
    import pandas as pd

    return np.nan_to_num(np.asarray(pd.to_numeric(column), dtype=np.float64))


def _drop_lost(answer: pd.DataFrame, cut: Cut | None) -> tuple[pd.DataFrame, list[str]]:
    warned = []
    if "lost" in answer:
        lost = answer["lost"].astype(bool)
        if lost.any():
            warned.append(
                f"{int(_numbers(answer['rows'][lost]).sum()):,} rows have no event id and are left out."
            )
        answer = answer[~lost]
    if cut is not None:
        late = answer["window"].isna()
        if late.any():
            warned.append(
                f"{int(_numbers(answer['rows'][late]).sum()):,} rows have no time and are left out."
            )
        answer = answer[~late]
    return answer, warned


def _tell_doubles(answer: pd.DataFrame) -> list[str]:
    warned = []
    strays = int(_numbers(answer["strays"]).sum()) if "strays" in answer else 0
    if strays:
        warned.append(
            f"{strays:,} events have rows in several windows (an id used again, or a list logged twice); "
            "each counts once, in the window of its first row."
        )
    repeats = int(_numbers(answer["repeats"]).sum()) if "repeats" in answer else 0
    if repeats:
        warned.append(
            f"{repeats:,} rows share event and position with another (logged twice?); an event counts once "
            "all the same, but shares of rows count them twice."
        )
    return warned


def _name_missing(column: Any) -> Any:
    """A segment without a value as "(none)", so that no later grouping loses it."""
    if not column.isna().any():
        return column
    return column.astype(object).where(column.notna(), NO_SEGMENT).map(str)


def _fill(
    answer: pd.DataFrame, keys: Sequence[str], cut: Cut, ends: tuple[int | None, int | None], width: int
) -> tuple[pd.DataFrame, list[str]]:
    """Rows without events for windows that a segment lacks, and which windows nobody has."""
    import pandas as pd

    present = answer["window"].to_numpy(dtype=np.int64)
    since, until = ends
    firsts = [*([cut.key_of(since)] if since is not None else []), *present[:0], *_ends(present)[:1]]
    lasts = [*([cut.key_of(until - 1)] if until is not None else []), *_ends(present)[1:]]
    if not firsts or not lasts:
        return answer, []
    windows = cut.keys_between(min(firsts), max(lasts))
    notes = []
    absent = sorted(set(windows) - set(present.tolist()))
    if absent:
        shown = ", ".join(str(start)[:16] for start in cut.starts(np.array(absent[:5])))
        more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
        notes.append(f"Windows without an event (start in UTC): {shown}{more}.")
    segments = answer[list(keys)].drop_duplicates() if keys else pd.DataFrame(index=[0])
    if len(segments) * len(windows) * width > LARGEST_GRID:
        return answer, [
            *notes,
            "Segments have rows only for windows with events: there are too many to fill.",
        ]
    grid = segments.merge(pd.DataFrame({"window": windows}), how="cross")
    return grid.merge(answer, on=[*keys, "window"], how="left"), notes


def _ends(values: AnyArray) -> list[int]:
    return [int(values.min()), int(values.max())] if len(values) else []
