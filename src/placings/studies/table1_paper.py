"""Table 1 of the paper: the published numbers, in percent, with their marks.

Zhuang, Wang, Bendersky and Najork: Feature Transformation for Neural Ranking Models, SIGIR 2020,
doi 10.1145/3397271.3401333, Table 1. WEB30K is its Fold1; ISTELLA is the full set without two features.
† and ‡: significantly better (α = 0.05) than Raw and than Log1p; the paper does not say by which test.
"""

from __future__ import annotations

from typing import TypeAlias

from placings.evaluation.rendering import Cell, Grid

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
