"""The places study as text for a terminal and as Markdown: the verdict first, the worst slice first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placings.core import (
    BadInput,
    Cell,
    Grid,
    format_difference,
    format_interval,
    format_mean,
    format_p,
    render_grid,
)
from placings.report import (
    list_verdict,
    say_best_line,
    say_beyond,
    say_equal,
    say_history,
    say_same,
    say_sessions,
    say_steps,
)

MARK = "SIMULATED"
FORMS = ("text", "markdown")
NAN = float("nan")


def render_study(result: Mapping[str, Any], format: str = "text") -> str:
    """Every table of a study's result, in "text" or "markdown"; over simulated data each title says so.

    A key that is missing or empty leaves its table out.
    """
    if format not in FORMS:
        raise BadInput(f"format must be 'text' or 'markdown'. Got {format!r}.")
    mark = f"{MARK} · " if result.get("simulated") else ""
    blocks = [_head("Learning to rank places", mark, format, level=1), *tell_verdict(result)]
    for title, make in SECTIONS.items():
        grid = make(result)
        if grid is not None and grid.rows:
            blocks.append(f"{_head(title, mark, format)}\n\n{render_grid(grid, format)}")
    return "\n\n".join(blocks)


def tell_verdict(result: Mapping[str, Any]) -> list[str]:
    """What was counted, then the verdict in the words of the page."""
    counts = result.get("counts", {})
    lines = [] if not counts else [
        f"{counts['searches']:,} searches in {counts['sessions']:,} sessions; trained on "
        f"{counts['train']:,}, judged on {counts['test_clicked']:,} with a click and "
        f"{counts['test']:,} in all; {counts['one_item_searches']:,} lists of one item left out."
    ]  # fmt: skip
    return [*lines, *(list_verdict(result) if result.get("models") else [])]


def _list_models(
    rows: Sequence[Mapping[str, Any]], title: str = "model", more: Sequence[str] = ()
) -> Grid | None:
    if not rows:
        return None
    true = any(row.get("mrr_true") is not None for row in rows)
    header = [title, "MRR on clicks", "95 %", "to the engine", "95 %", "p"]
    header += ["MRR on the target", "95 %", "to the engine", "95 %"] if true else []
    header.append("seconds")
    best = max(_number(row, "mrr") for row in rows)
    best_true = max((_number(row, "mrr_true") for row in rows), default=NAN) if true else NAN
    table = []
    for row in rows:
        cells = [Cell(str(row["name"])), *_measure(row, "", best), Cell(format_p(_number(row, "p")))]
        if true:
            cells += _measure(row, "_true", best_true)
        table.append((*cells, Cell(f"{_number(row, 'seconds'):.1f}")))
    notes = ["MRR on clicks: test searches with a click. p: sign flips, Holm over the models."]
    if true:
        notes.append("MRR on the target: all test searches; a target that the list lacks counts 0.")
    notes += [note for note in (*more, say_same(rows)) if note]
    return Grid(tuple(header), tuple(table), tuple(notes))


def _measure(row: Mapping[str, Any], end: str, best: float) -> list[Cell]:
    value = _number(row, f"mrr{end}")
    low, high = _number(row, f"difference_low{end}"), _number(row, f"difference_high{end}")
    engine = row["name"] == "engine"
    return [
        Cell(format_mean(value), best=value == best),
        Cell(format_interval(_number(row, f"low{end}"), _number(row, f"high{end}"))),
        Cell("-" if engine else format_difference(_number(row, f"difference{end}"))),
        Cell("-" if engine else format_interval(low, high, signed=True)),
    ]


def _list_lines(result: Mapping[str, Any]) -> Grid | None:
    told = result.get("lines") or {}
    rows = told.get("models", [])
    grid = _list_models(rows, more=(say_equal(result), say_beyond(result)))
    if grid is None:
        return None
    table = []
    for row, (name, *cells) in zip(rows, grid.rows, strict=True):
        penalty = "" if row.get("C") is None else f"{row['C']:g}"
        valid = "" if row.get("valid") is None else format_mean(_number(row, "valid"))
        table.append((name, Cell(penalty), Cell(valid), *cells))
    header = (grid.header[0], "C", "on validation", *grid.header[1:])
    return Grid(header, tuple(table), grid.notes)


def _list_tuned(result: Mapping[str, Any]) -> Grid | None:
    rows = [
        (
            Cell(row["model"]), Cell(format_mean(_number(row, "default"))),
            Cell(format_mean(_number(row, "tuned"))),
            Cell(format_difference(_number(row, "difference"))),
            Cell(_show_interval(row, "difference_low", "difference_high")),
            Cell(_name_values(row.get("parameters") or {})),
        )
        for row in result.get("tuned", [])
    ]  # fmt: skip
    header = ("library", "default", "tuned", "difference", "95 %", "chosen on validation")
    return Grid(header, tuple(rows), ("MRR on clicks of the test part.",))


def _list_bands(result: Mapping[str, Any]) -> Grid | None:
    rows = []
    true = any("engine_true" in row for row in result.get("bands", []))
    for row in result.get("bands", []):
        cells = [Cell(row["band"]), Cell(f"{row['searches']:,}"), Cell(format_mean(_number(row, "engine"))),
                 Cell(format_mean(_number(row, "ngrams"))), Cell(format_mean(_number(row, "model"))),
                 Cell(format_difference(_number(row, "difference"))),
                 Cell(format_interval(_number(row, "low"), _number(row, "high"), signed=True))]  # fmt: skip
        if true:
            cells += [Cell(format_mean(_number(row, f"{key}_true"))) for key in ("engine", "ngrams", "model")]
        rows.append(tuple(cells))
    header = ["characters", "searches", "engine", "n-grams", "default", "default to engine", "95 %"]
    header += ["engine, target", "n-grams, target", "default, target"] if true else []
    note = "MRR on clicks (and on the true target); 'n-grams' is LightGBM on the thesis' features."
    return Grid(tuple(header), tuple(rows), (note,))


def _list_slices(key: str) -> Callable[[Mapping[str, Any]], Grid | None]:
    def make(result: Mapping[str, Any]) -> Grid | None:
        rows = result.get(key) or []
        clicks = any("difference_clicks" in row for row in rows)
        table = []
        for row in rows:
            cells = [Cell(f"{row['slice']}: {row['value']}"), Cell(f"{row['searches']:,}"),
                     Cell(format_mean(_number(row, "engine"))), Cell(format_mean(_number(row, "model"))),
                     Cell(format_difference(_number(row, "difference"))),
                     Cell(format_interval(_number(row, "low"), _number(row, "high"), signed=True)),
                     Cell("loses" if row.get("loses") else "")]  # fmt: skip
            if clicks:
                interval = format_interval(
                    _number(row, "low_clicks"), _number(row, "high_clicks"), signed=True
                )
                cells += [Cell(format_difference(_number(row, "difference_clicks"))), Cell(interval),
                          Cell("loses on clicks" if row.get("loses_clicks") else "")]  # fmt: skip
            table.append(tuple(cells))
        header = ["slice", "searches", "engine", "re-ranked", "difference", "95 %", ""]
        header += ["on clicks", "95 %", ""] if clicks else []
        what = "the true target" if rows and rows[0].get("measure") == "true" else "clicks"
        least = result.get("settings", {}).get("least", 200)
        note = (
            f"MRR on {what}; slices of {least} searches or more, the worst first. A slice loses if the whole "
            "interval lies below 0, or the mean below −0.01."
        )
        if clicks:
            note += " Clicks favour the engine: people click what it put on top."
        return Grid(tuple(header), tuple(table), (note,))

    return make


def _list_depth(result: Mapping[str, Any]) -> Grid | None:
    rows = tuple(
        (
            Cell(str(row["k"])), Cell(format_mean(_number(row, "engine"))),
            Cell(format_mean(_number(row, "model"))), Cell(format_difference(_number(row, "difference"))),
            Cell(format_mean(_number(row, "oracle"))),
        )
        for row in result.get("depth", [])
    )  # fmt: skip
    header = ("first k re-ranked", "engine", "default", "difference", "ceiling")
    return Grid(
        header, rows, ("What is not among the first k counts 0. The ceiling is the best order of them.",)
    )


def _list_why(result: Mapping[str, Any]) -> Grid | None:
    why = result.get("why") or {}
    models = why.get("models") or []
    if not models:
        return None
    bands = [row["band"] for row in why["bands"]]
    table = []
    for row in models:
        numbers = [row["all"], *(row["bands"][band] for band in bands), row["clicked_before"],
                   row["never_clicked_before"]]  # fmt: skip
        table.append((Cell(row["model"]), *(Cell(format_mean(_number(each, "model"))) for each in numbers)))
    share = ", ".join(
        f"{row['band']} {row['train_searches']:,} searches, {100 * (row['clicked_before'] or 0):.0f} %"
        for row in why["bands"]
    )
    notes = (
        "MRR on clicks of LightGBM on the same lists. 'Known': the clicked item was clicked in training.",
        f"Training searches of each band, and the share of its test clicks on known items: {share}.",
    )
    return Grid(("trained on", "all", *bands, "known items", "new items"), tuple(table), notes)


def _list_unsuccessful(result: Mapping[str, Any]) -> Grid | None:
    found = result.get("unsuccessful") or {}
    rows = []
    true = any("model_true" in row for row in found.get("table", []))
    for row in found.get("table", []):
        cells = [Cell(row["training"]), Cell(f"{row['searches']:,}")]
        for measure in ("clicks", "true") if true else ("clicks",):
            low, high = _number(row, f"low_{measure}"), _number(row, f"high_{measure}")
            cells += [Cell(format_mean(_number(row, f"model_{measure}"))),
                      Cell(format_difference(_number(row, f"difference_{measure}"))),
                      Cell(format_interval(low, high, signed=True))]  # fmt: skip
        rows.append(tuple(cells))
    header = ["trained on", "lists", "MRR on clicks", "to the engine", "95 %"]
    header += ["MRR on the target", "to the engine", "95 %"] if true else []
    note = f"{found.get('searches', 0):,} training searches have no click; in {found.get('carried', 0):,} of "
    note += "them the list held what the session clicked later."
    return Grid(tuple(header), tuple(rows), (note,))


def _list_hidden(result: Mapping[str, Any]) -> Grid | None:
    with_place = {row["name"]: row for row in result.get("models", [])}
    rows = tuple(
        (
            Cell(name), Cell(format_mean(_number(with_place.get(name, {}), "mrr"))),
            Cell(format_mean(_number(facts, "mrr"))),
        )
        for name, facts in (result.get("no_location") or {}).items()
    )  # fmt: skip
    note = "MRR on clicks. The position is gone from the test data only; the engine's order is as logged."
    return Grid(("model", "as logged", "without position"), rows, (note,))


def _list_importances(key: str) -> Callable[[Mapping[str, Any]], Grid | None]:
    def make(result: Mapping[str, Any]) -> Grid | None:
        pairs = (result.get("importances") or {}).get(key) or []
        rows = tuple((Cell(str(name)), Cell(f"{weight:.4f}")) for name, weight in pairs)
        return Grid(("feature", "share of the gain"), rows)

    return make


def _list_types(result: Mapping[str, Any]) -> Grid | None:
    rows = tuple(
        (
            Cell(kind), Cell(f"{each['shown']:,}"), Cell(f"{each['clicked']:,}"),
            Cell(f"{100 * each['clicked'] / max(1, each['shown']):.1f} %"),
        )
        for kind, each in (result.get("types") or {}).items()
    )  # fmt: skip
    return Grid(("type", "shown", "clicked", "share"), rows)


def _list_clicked_types(result: Mapping[str, Any]) -> Grid | None:
    rows = tuple(
        (
            Cell(row["type"]), Cell(f"{row['searches']:,}"), Cell(format_mean(_number(row, "engine"))),
            Cell(format_mean(_number(row, "model"))), Cell(format_difference(_number(row, "difference"))),
            Cell(format_interval(_number(row, "low"), _number(row, "high"), signed=True)),
        )
        for row in result.get("types_clicked") or []
    )  # fmt: skip
    note = "Known only after the click: to report, not to judge by. MRR on clicks."
    return Grid(("clicked type", "searches", "engine", "default", "difference", "95 %"), rows, (note,))


def _name_values(values: Mapping[str, Any]) -> str:
    flat = {**{key: value for key, value in values.items() if key != "params"}, **values.get("params", {})}
    shown = [f"{key} × {value:g}" if key == "rounds" else f"{key} {value}" for key, value in flat.items()]
    return ", ".join(shown) or "the defaults"


def _show_interval(row: Mapping[str, Any], low: str = "low", high: str = "high") -> str:
    return format_interval(_number(row, low), _number(row, high), signed=True)


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    return NAN if value is None else float(value)


def _head(title: str, mark: str, format: str, *, level: int = 2) -> str:
    text = f"{mark}{title}"
    return f"{'#' * level} {text}" if format == "markdown" else text


SECTIONS: dict[str, Callable[[Mapping[str, Any]], Grid | None]] = {
    "Models": lambda result: _list_models(
        result.get("models", []),
        more=(say_sessions(result), say_history(result), say_steps(result), say_best_line(result)),
    ),
    "Lines, trees and network on the default's features": _list_lines,
    "Slices known before the click, the worst first": _list_slices("slices"),
    "Query length": _list_bands,
    "Why n-grams fail on long queries": _list_why,
    "Default against tuned": _list_tuned,
    "Networks": lambda result: _list_models(result.get("variants", []), "network", (say_steps(result),)),
    "No location in the test data": _list_hidden,
    "Depth (how many are re-ranked)": _list_depth,
    "Searches without a click": _list_unsuccessful,
    "Importances": _list_importances("all"),
    "Importances without text": _list_importances("plain"),
    "Types shown and clicked": _list_types,
    "By clicked type": _list_clicked_types,
    "Slices of LightGBM on n-grams, the worst first": _list_slices("ngram_slices"),
}
