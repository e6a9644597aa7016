"""What a reproduction of Table 1 found: tables beside the paper's, learning rates, claims, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from placings.core import Cell, Grid, MissingExtra, fit_width, render_grid, write_json, write_text
from placings.evaluation import Comparison
from placings.report import Claim, MixtureShares, average_shares, check_claims
from placings.studies.table1_entrants import NETWORKS

METRICS = ("ndcg@1", "ndcg@5", "ndcg@10")
SOURCE = "Paper: Zhuang et al., SIGIR 2020, Table 1 (percent; the paper does not name its test)."
Row: TypeAlias = tuple[tuple[float, str], ...]  # value and marks of each metric

PAPER: dict[str, dict[str, Row]] = {
    "WEB30K": {
        "Raw": ((45.43, ""), (45.25, ""), (47.26, "")),
        "Gauss": ((48.18, "†"), (46.81, "†"), (48.68, "†")),
        "CDF": ((49.17, "†"), (47.75, "†"), (49.45, "†")),
        "Log1p": ((49.12, "†"), (48.01, "†"), (49.88, "†")),
        "Mixture": ((50.55, "†‡"), (48.54, "†‡"), (50.16, "†‡")),
    },
    "ISTELLA": {
        "Raw": ((65.81, ""), (62.32, ""), (67.09, "")),
        "Gauss": ((66.31, ""), (62.41, ""), (67.22, "")),
        "CDF": ((65.94, ""), (62.62, "†"), (67.55, "†")),
        "Log1p": ((66.60, "†"), (63.29, "†"), (68.12, "†")),
        "Mixture": ((66.91, "†"), (63.57, "†‡"), (68.42, "†‡")),
    },
}
BY_COLLECTION = {"MSLR-WEB30K": "WEB30K", "Istella": "ISTELLA"}


def make_paper_cell(collection: str | None, method: str, metric: str) -> Cell | None:
    """What the paper says of a method, or None where it says nothing.

    >>> make_paper_cell("WEB30K", "Mixture", "ndcg@1")
    Cell(text='50.55', marks='†‡', best=True)
    """
    rows = PAPER.get(collection or "", {})
    if method not in rows or metric not in METRICS:
        return None
    place = METRICS.index(metric)
    value, marks = rows[method][place]
    return Cell(f"{value:.2f}", marks, value == max(row[place][0] for row in rows.values()))


def make_paper_grid(collection: str) -> Grid:
    """What the paper says of one of its data sets."""
    rows = []
    for method in PAPER[collection]:
        cells = [make_paper_cell(collection, method, metric) for metric in METRICS]
        rows.append((Cell(method), *(cell for cell in cells if cell is not None)))
    return Grid(("method", *METRICS), tuple(rows), (SOURCE,))


RULES = {
    "zero": "a query with nothing relevant counts 0, as in TF-Ranking, which the paper used",
    "drop": "a query with nothing relevant is left out",
}
FIGURE, EFFECTS = "figure2.svg", "figure2_effects.svg"
Section = tuple[str, str]  # heading, text


@dataclass(frozen=True, eq=False, repr=False)
class Table1:
    """Our Table 1: `blocks[network][rule]` is a Comparison, `rates` the learning rates and how they were
    chosen, `cells` the facts of every cell, `claims` what the mixture says to the paper's reading of its
    Figure 2."""

    name: str
    paper: str | None  # the paper's data set that ours is, if it is one
    blocks: Mapping[str, Mapping[str, Comparison]]
    rates: Mapping[str, Mapping[str, Any]]
    cells: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]
    notes: Sequence[str]

    # -- what the mixture learned ------------------------------------------------------------------

    def mixture(self, kind: str = "mixture") -> MixtureShares | None:
        """The mixture's shares, the mean over folds and seeds; `kind="effects"`: weighed by their size."""
        found = self._list_shares(kind)
        return average_shares(found) if found else None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The paper's three claims about Figure 2, asked of the mean over folds and seeds."""
        shares = self.mixture()
        return () if shares is None else check_claims(shares)

    def _list_shares(self, kind: str) -> list[MixtureShares]:
        """Of the first network's cells with the same features and transforms."""
        block = next(iter(self.blocks))
        found = [
            MixtureShares(tuple(each["features"]), tuple(each["basis"]), np.array(each["shares"]))
            for cell in self.cells
            if cell["network"] == block and (each := cell.get(kind)) is not None
        ]
        return [each for each in found if (each.features, each.basis) == (found[0].features, found[0].basis)]

    # -- tables ------------------------------------------------------------------------------------

    def table(self, format: str = "text", *, network: str | None = None, rule: str = "zero") -> str:
        """Ours beside the paper's in percent, with intervals; "text", "markdown", "latex" or "html"."""
        return render_grid(self._make_grid(network or next(iter(self.blocks)), rule), format)

    def report(self, format: str = "text") -> str:
        """All there is to say: a table for each network and rule, learning rates, claims, notes."""
        if format == "json":
            return self.to_json()
        marks = {"markdown": ("### ", ""), "latex": (r"\section*{", "}"), "html": ("<h3>", "</h3>")}
        before, after = marks.get(format, ("", ""))
        parts = [
            f"{before}{_escape(heading, format)}{after}\n\n{text}"
            for heading, text in self._list_sections(format)
        ]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return self.report("html")

    def _list_sections(self, format: str) -> list[Section]:
        sections = []
        for network, rules in self.blocks.items():
            for rule in rules:
                heading = f"Table 1 on {self.name}, {NETWORKS[network]}: {RULES[rule]}"
                sections.append((heading, render_grid(self._make_grid(network, rule), format)))
        if self.paper is None:
            for name in PAPER:
                heading = f"The paper's Table 1, on other data: {name}"
                sections.append((heading, render_grid(make_paper_grid(name), format)))
        sections.append(("Learning rates, and C of lines", render_grid(self._make_rates(), format)))
        if self.claims:
            sections.append(("What the paper says of Figure 2", self._say_claims(format)))
        notes = [*self.notes, self._say_seconds()]
        sections.append(("Notes", _list_items(notes, format)))
        return sections

    def _make_grid(self, network: str, rule: str) -> Grid:
        found = self.blocks[network][rule]
        published = self.paper if network == "feedforward" else None
        marks: dict[tuple[str, str], str] = {}
        for each in found.differences:
            marks[each.method, each.metric] = marks.get((each.method, each.metric), "") + each.mark
        best = {name: max(means[name] for means in found.means.values()) for name in found.metrics}
        rows = []
        for method, means in found.means.items():
            cells = [Cell(method)]
            for name, mean in means.items():
                if published:
                    cells.append(make_paper_cell(published, method, name) or Cell("-"))
                cells.append(Cell(_percent(mean), marks.get((method, name), ""), mean == best[name]))
                low, high = found.intervals[method][name]
                cells.append(Cell("-" if np.isnan(low) else f"[{_percent(low)}, {_percent(high)}]"))
            rows.append(tuple(cells))
        columns = [
            [*([f"{name} paper"] if published else []), f"{name} ours" if published else name, "interval"]
            for name in found.metrics
        ]
        header = ("method", *(name for column in columns for name in column))
        notes = ("In percent.", found.rule, *found.notes, *([SOURCE] if published else []))
        return Grid(header, tuple(rows), notes)

    def _make_rates(self) -> Grid:
        rows = []
        for key, each in self.rates.items():
            tried = ", ".join(
                f"{rate}: {'diverged' if np.isnan(value) else f'{value:.4f}'}"
                for rate, value in each["tried"].items()
            )
            rows.append((Cell(key), Cell(tried or "as given"), Cell(f"{each['chosen']:g}")))
        return Grid(
            ("network: method", "NDCG@5 on validation data by learning rate or C", "chosen"),
            tuple(rows),
            left=2,
        )

    def _say_claims(self, format: str) -> str:
        several = [check_claims(each) for each in self._list_shares("mixture")]
        lines = []
        for place, claim in enumerate(self.claims):
            line = str(claim)
            if claim.holds is not None and len(several) > 1:
                count = sum(bool(each[place].holds) for each in several)
                line += f" By itself it holds in {count} of {len(several)} fits."
            lines.append(line)
        lines.append(
            "Shares are the mean over folds and seeds. They weigh transforms of different sizes; "
            f"{EFFECTS} shows how much of each feature's variation each transform makes up."
        )
        return _list_items(lines, format)

    def _say_seconds(self) -> str:
        total = sum(float(cell["seconds"]) for cell in self.cells)
        return f"{len(self.cells)} cells took {total:,.0f} s of training and scoring."

    # -- files -------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores, as plain values."""
        shares, effects = self.mixture(), self.mixture("effects")
        return {
            "name": self.name,
            "paper": self.paper,
            "settings": dict(self.settings),
            "blocks": {
                network: {rule: found.to_dict() for rule, found in rules.items()}
                for network, rules in self.blocks.items()
            },
            "rates": dict(self.rates),
            "mixture": None if shares is None else shares.to_dict(),
            "effects": None if effects is None else effects.to_dict(),
            "claims": [claim.to_dict() for claim in self.claims],
            "cells": [dict(cell) for cell in self.cells],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def save(self, folder: str | Path) -> list[Path]:
        """Write `table1.json`, `.md`, `.tex`, `.txt` and, where matplotlib is there, Figure 2; say which."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        drawn = self._draw(folder)
        pictures = "".join(f"\n\n![{path.stem}]({path.name})" for path in drawn)
        with fit_width(None):  # a file is as wide as its tables
            texts = {
                "table1.json": self.to_json(),
                "table1.md": self.report("markdown") + pictures,
                "table1.tex": self.report("latex"),
                "table1.txt": self.report(),
            }
        for name, text in texts.items():
            write_text(folder / name, text + "\n")
        return [*(folder / name for name in texts), *drawn]

    def _draw(self, folder: Path) -> list[Path]:
        from placings.report import draw_mixture

        titles = {"mixture": (FIGURE, "share"), "effects": (EFFECTS, "share of the variation")}
        drawn = []
        for kind, (name, title) in titles.items():
            shares = self.mixture(kind)
            if shares is not None:
                try:
                    drawn.append(draw_mixture(shares, folder / name, title=title))
                except MissingExtra:  # the tables stand without it
                    return []
        return drawn


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100.0 * value:.2f}"


def _list_items(lines: Sequence[str], format: str) -> str:
    from html import escape

    if format == "latex":
        items = "\n".join(rf"\item {_escape(line, format)}" for line in lines)
        return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"
    if format == "html":
        return "<ul>\n" + "\n".join(f"<li>{escape(line)}</li>" for line in lines) + "\n</ul>"
    return "\n".join(f"- {_escape(line, format)}" for line in lines)


def _escape(text: str, format: str) -> str:
    import re
    from html import escape

    from placings.core import escape_latex

    if format == "latex":
        return escape_latex(text)
    if format == "markdown":
        return re.sub(r"([\\`*_|~])", r"\\\1", escape(text, quote=False))
    return escape(text) if format == "html" else text
