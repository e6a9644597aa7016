"""The curve of how often each rank is looked at: its numbers, its words, its file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    Guess,
    Ints,
    Shown,
    format_interval,
    format_mean,
    render_grid,
)
from placings.logs.click_diagnostics import Misfit
from placings.logs.click_log import ClickLog
from placings.logs.schema import POSITION, PROPENSITY
from placings.logs.showings import SHOWN_POSITION
from placings.logs.trust_fits import AffineTrust

if TYPE_CHECKING:
    from placings.data import Table

MOST_RANKS = 1_000_000  # of a saved curve: it is read from files


@dataclass(frozen=True, eq=False, repr=False)
class PropensityCurve(Shown):
    """How often each rank is looked at, relative to rank 1, with intervals.

    `ranks` are whole numbers from 1, `values` the ratios p_k/p_1, `low` and `high` their interval at `level`;
    all are `[ranks]`. `rests_on` says what carries the numbers: "randomisation", "a position model" or
    "features only". `trust` holds α and β where method "trust" was asked for (`values` are then α_k), else
    None. `misfit` says whether the clicks contradict the model. `refused` are ranks of the log that no
    comparison ties to rank 1. `str(curve)` begins with the line that says all this in words.

    Values may be above 1 where clicks are few; `at` and `add_to` cut them off at 1.
    """

    ranks: Ints
    values: Floats
    low: Floats
    high: Floats
    method: str
    rests_on: str
    says: str  # the first line
    searches: int
    clicks: int  # that were compared
    by: tuple[str, ...] = ("query",)
    level: float = 0.95
    refused: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    trust: AffineTrust | None = None
    misfit: Misfit | None = None

    def at(self, positions: ArrayLike) -> Floats:
        """The propensity at each position, in (0, 1], in the shape of `positions`.

        Ranks between two estimated ones lie on the line between their logarithms. What is beyond the last
        one, or has no position, gets the last value; `count_beyond` says how many these are.

        >>> curve = PropensityCurve.from_state({"ranks": [1, 2], "values": [1.0, 0.5], "low": [1.0, 0.4],
        ...     "high": [1.0, 0.6], "method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9,
        ...     "clicks": 5})
        >>> curve.at([1, 2, 7]).tolist(), curve.count_beyond([1, 2, 7])
        ([1.0, 0.5, 0.5], 1)
        """
        given = np.asarray(positions, dtype=np.float64)
        filled = np.where(np.isnan(given), np.inf, given)
        if (filled < 1.0).any():
            raise BadInput(f"positions must be 1 or more. Got {float(filled.min())!r}.")
        last = int(self.ranks[-1])
        every = np.exp(np.interp(np.arange(1, last + 1), self.ranks, np.log(self.values)))
        every[self.ranks - 1] = self.values  # to the bit
        found: Floats = np.clip(every, 1e-9, 1.0)[np.minimum(filled, last).astype(np.int64) - 1]
        return found

    def count_beyond(self, positions: ArrayLike) -> int:
        """How many positions are beyond the last estimated rank, or missing."""
        given = np.asarray(positions, dtype=np.float64)
        return int((~(given <= self.ranks[-1])).sum())

    def add_to(self, log: ClickLog | Table) -> ClickLog:
        """The log with a column `propensity`: how often the rank is looked at where people *saw* the item.

        That is `shown_position` where the log has it, else `position`. Rows beyond the last estimated rank
        have its value, which a warning says with their number. The log that was given does not change.
        """
        given = log if isinstance(log, ClickLog) else ClickLog(log)
        rows = given.rows
        place = SHOWN_POSITION if SHOWN_POSITION in rows else POSITION
        if place not in rows:
            raise BadInput(f"the log must say where each item was shown, in a column {POSITION}. Got none.")
        positions = rows[place].to_numpy(dtype=np.float64, na_value=np.nan)
        beyond = self.count_beyond(positions)
        if beyond:
            warnings.warn(
                f"{beyond:,} of {len(positions):,} rows are beyond rank {self.ranks[-1]}, the last one "
                "estimated, or have no position: their propensity is that of this rank.",
                Guess,
                stacklevel=2,
            )
        return ClickLog(rows.assign(**{PROPENSITY: self.at(positions)}))

    def table(self, format: str = "text") -> str:
        """One line for each rank."""
        header = ["rank", "p_k / p_1", f"{self.level:.0%} interval"]
        columns: list[list[str]] = [
            [str(rank) for rank in self.ranks],
            [format_mean(value) for value in self.values],
            [format_interval(low, high) for low, high in zip(self.low, self.high, strict=True)],
        ]
        if self.trust is not None:
            header[1] = "alpha_k"
            header += ["beta_k", "interval of beta"]
            ends = zip(self.trust.beta_low, self.trust.beta_high, strict=True)
            columns += [
                [format_mean(value) for value in self.trust.beta],
                [format_interval(low, high) for low, high in ends],
            ]
        rows = tuple(tuple(Cell(text) for text in line) for line in zip(*columns, strict=True))
        return render_grid(Grid(tuple(header), rows, notes=tuple(self._list_notes())), format)

    def _list_notes(self) -> list[str]:
        told = [*self.notes]
        if self.refused:
            told.append(
                f"Refused: {say_ranks(self.refused)}. No comparison with a click ties these ranks to rank 1."
            )
        if self.misfit is not None:
            told.append(self.misfit.sentence)
        return told

    def __str__(self) -> str:
        return f"{self.says}\n{self.table()}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON holds it: what `from_state` reads."""
        return self.to_state()

    def to_state(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        plain = ("method", "rests_on", "says", "searches", "clicks", "level")
        state: dict[str, Any] = {name: getattr(self, name) for name in plain}
        state |= {name: getattr(self, name).tolist() for name in ("ranks", "values", "low", "high")}
        state |= {name: list(getattr(self, name)) for name in ("by", "refused", "notes")}
        state["trust"] = None if self.trust is None else _give_trust(self.trust)
        state["misfit"] = None if self.misfit is None else self.misfit.to_dict()
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> PropensityCurve:
        """The curve that `to_state` gave; what cannot be one is refused."""
        try:
            arrays: dict[str, Any] = {name: _read_floats(state[name]) for name in ("values", "low", "high")}
            ranks = np.asarray(state["ranks"], dtype=np.int64)
            rest: dict[str, Any] = {
                name: kind(state[name]) for name, kind in (("method", str), ("rests_on", str), ("says", str))
            }
            rest |= {name: int(state[name]) for name in ("searches", "clicks")}
            rest |= {name: tuple(map(str, state.get(name, ()))) for name in ("by", "notes")}
            rest["refused"] = tuple(int(rank) for rank in state.get("refused", ()))
            rest["level"] = float(state.get("level", 0.95))
            trust, misfit = state.get("trust"), state.get("misfit")
            rest["trust"] = None if trust is None else _take_trust(trust)
            rest["misfit"] = None if misfit is None else Misfit.from_dict(misfit)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"this is no saved curve of propensities: {error!r}.") from None
        values = arrays["values"]
        fits = ranks.ndim == 1 and len(ranks) > 0 and all(len(each) == len(ranks) for each in arrays.values())
        fits = fits and ranks[0] == 1 and bool((np.diff(ranks) > 0).all()) and ranks[-1] <= MOST_RANKS
        if not (fits and (values > 0.0).all()):
            raise BadInput("a saved curve must have ranks that rise from 1 and a value above 0 for each.")
        return cls(ranks=ranks, **arrays, **rest)


def _read_floats(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)


def _give_trust(trust: AffineTrust) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in vars(trust).items()
    }


def _take_trust(told: Mapping[str, Any]) -> AffineTrust:
    names = ("alpha", "beta", "alpha_low", "alpha_high", "beta_low", "beta_high")
    numbers: dict[str, Any] = {name: _read_floats(told[name]) for name in names}
    refused = tuple(int(rank) for rank in told["refused"])
    return AffineTrust(ranks=np.asarray(told["ranks"], dtype=np.int64), refused=refused, **numbers)


def say_ranks(ranks: Sequence[int] | Ints) -> str:
    """Ranks for people.

    >>> say_ranks([1, 2, 3, 5, 8, 9])
    'ranks 1–3, 5, 8–9'
    """
    spans: list[list[int]] = []
    for rank in map(int, ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    told = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)
    return f"rank{'s' if len(spans) != 1 or spans[0][0] != spans[0][1] else ''} {told}" if told else "no rank"
