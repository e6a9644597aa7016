"""`placings inspect`: what is in a file, and which features need care."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.options import AsJson, ColumnOptions, FoldNumber, takes
from placings.cli.printing import print_json
from placings.core import escape_line, find_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.table import Table

    from placings.data import FeatureFacts, RankingData

PIPE_WIDTH = 140
MANY = 1000  # beyond so many features only the first FEW are shown, unless asked
WIDE = 100_000  # features, from which on those without any value are left out
FEW = 100
SKEWED = 3.0
MOSTLY_ZERO = 0.9
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.:-=+*#"
NARROWEST = 20  # characters for a feature name, which wraps at words
SPARED = ("mean", "median", "shape", "negative", "missing")  # columns a narrow terminal does without, in turn


class FeatureOrder(StrEnum):
    """How the features are ordered."""

    order = "order"
    name = "name"
    skew = "skew"
    zeros = "zeros"
    missing = "missing"


@takes(ColumnOptions, "columns")
def inspect(
    path: Annotated[
        list[Path], typer.Argument(help="A data file, several or a glob, or a known collection's folder.")
    ],
    *,
    fold: FoldNumber = None,
    split: Annotated[str | None, typer.Option(help="Split of a collection, e.g. train.")] = None,
    columns: ColumnOptions,
    sort: Annotated[
        FeatureOrder, typer.Option(help="Order of the features; by size, the largest first.")
    ] = FeatureOrder.order,
    features: Annotated[
        str | None,
        typer.Option(help="Show only the first N; or the columns that are features.", metavar="N|NAMES"),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help=f"Show all, also beyond {MANY}.")] = False,
    as_json: AsJson = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the file itself, keep nothing.")] = False,
) -> None:
    """Show rows, queries, list sizes, labels, and for each feature its range, skew, zeros and missing.

    Features that are skewed, constant, mostly zero or missing are marked.

    \b
    Examples:
      placings inspect MSLR-WEB30K/Fold1/train.txt
      placings inspect MSLR-WEB30K --fold 1 --split train --sort skew
      placings inspect rows.parquet --qid query --label grade --json
    """
    from rich.console import Console

    from placings.cli.loading import gather_files, name_data, read_data

    first = int(features) if features is not None and features.strip().isdecimal() else None
    if first == 0:
        raise typer.BadParameter("--features takes a number of 1 or more, or names of columns. Got 0.")
    asked: dict[str, Any] = {"fold": fold, "split": split, **vars(columns)}
    asked["features"] = features if first is None else None
    files = gather_files(path)
    data = read_data(files, cache=not no_cache, **asked)
    if as_json:
        print_json(inspection_json(data, sort=sort.value, limit=first))
        return
    console = Console(highlight=False)
    if show_all:
        first = None
    elif first is None and data.n_features > MANY:
        first = FEW
    render_inspection(data, console, sort=sort.value, limit=first, title=name_data(files))


# -- for machines -----------------------------------------------------------------------------------


def inspection_json(data: RankingData, *, sort: str = "order", limit: int | None = None) -> str:
    """All facts as JSON text; a number that is not known is null."""
    import json
    from dataclasses import asdict

    from placings.data import describe_features

    facts = arrange_features(describe_features(take_used(data)), sort)[:limit]
    rows = [{**asdict(fact), "flags": flag_feature(fact)} for fact in facts]
    return json.dumps(
        _nulled({**count_lists(data), "features": rows}), indent=1, ensure_ascii=False, allow_nan=False
    )


def take_used(data: RankingData) -> RankingData:
    """The data; of very wide sparse ones only the features that have a value in some row."""
    import numpy as np

    if not data.is_sparse or data.n_features <= WIDE:
        return data
    return data.select(np.unique(data.X.indices).tolist())  # type: ignore[union-attr]


def count_lists(data: RankingData) -> dict[str, Any]:
    """Rows, queries, list sizes and labels as plain numbers."""
    import numpy as np

    from placings.data import count_empty

    sizes = data.sizes
    grades, counts = np.unique(data.y, return_counts=True)
    known = bool(len(sizes))
    return {
        "rows": data.n_rows,
        "queries": data.n_queries,
        "n_features": data.n_features,
        "sparse": data.is_sparse,
        "list_sizes": {
            "min": int(sizes.min()) if known else None,
            "median": float(np.median(sizes)) if known else None,
            "mean": float(sizes.mean()) if known else None,
            "max": int(sizes.max()) if known else None,
        },
        "labels": [
            {"label": grade, "rows": number, "share": number / data.n_rows}
            for grade, number in zip(grades.tolist(), counts.tolist(), strict=True)
        ],
        "queries_with_nothing_relevant": count_empty(data),
        "queries_with_one_row": int((sizes == 1).sum()),
    }


def _nulled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nulled(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_nulled(part) for part in value]
    return None if isinstance(value, float) and value != value else value


# -- for people -------------------------------------------------------------------------------------


def render_inspection(
    data: RankingData, console: Console, *, sort: str = "order", limit: int | None = None, title: str = "data"
) -> None:
    """Print the header, the table of features, and what to do about them."""
    from rich.markup import escape
    from rich.segment import Segments

    from placings.data import describe_features

    used = take_used(data)
    everything = describe_features(used)
    console.print(f"[bold]{escape(escape_line(title))}[/bold]", soft_wrap=True, emoji=False)
    bars = _bars(console)
    for name, text in header_lines(data, bars[-1]):
        console.print(f"  {name:<18}{text}", soft_wrap=True)
    shown = arrange_features(everything, sort)[:limit]
    table, left_out = _fit_table(shown, console, bars)
    width = _find_room(console) or max(PIPE_WIDTH, _natural_width(table, console))
    drawn = console.render(table, console.options.update(width=width))
    console.print(Segments(drawn), crop=False, end="")  # a pipe has no width to crop to
    if len(shown) < len(everything):
        console.print(f"{len(shown)} of {len(everything):,} features are shown; --all shows the others.")
    if left_out:
        console.print(f"No room for: {', '.join(left_out)}. Widen the terminal, or ask for --json.")
    for line in closing_lines(everything):
        console.print(line, soft_wrap=True)
    if used.n_features < data.n_features:
        idle = data.n_features - used.n_features
        console.print(f"{idle:,} more features are 0 in every row and are not listed.", soft_wrap=True)


def header_lines(data: RankingData, bar: str = "█") -> list[tuple[str, str]]:
    """Name and text of what stands above the table."""
    facts = count_lists(data)
    sizes, queries = facts["list_sizes"], facts["queries"]
    kind = "sparse" if facts["sparse"] else "dense"
    lines = [
        ("rows", f"{facts['rows']:,}"),
        ("queries", f"{queries:,}"),
        ("features", f"{facts['n_features']:,} ({kind})"),
    ]
    if queries:
        spread = (
            f"{sizes['min']:,} to {sizes['max']:,}, mean {sizes['mean']:,.1f}, median {sizes['median']:,g}"
        )
        lines.append(("rows a query", spread))
    labels = facts["labels"]
    if len(labels) > 12:
        low, high = labels[0]["label"], labels[-1]["label"]
        lines.append(("labels", f"{low:g} to {high:g}, {len(labels):,} distinct, mean {data.y.mean():.4g}"))
    else:
        for place, entry in enumerate(labels):
            share, name = entry["share"], "" if place else "labels"
            text = f"{entry['label']:<5g}{share:>7.2%}  {bar * max(1, round(40 * share))}"
            lines.append((name, text))
    for name, key in [
        ("nothing relevant", "queries_with_nothing_relevant"),
        ("one row only", "queries_with_one_row"),
    ]:
        share = f" ({facts[key] / queries:.1%})" if queries else ""
        lines.append((name, f"{facts[key]:,} of {queries:,} queries{share}"))
    return lines


def closing_lines(facts: Sequence[FeatureFacts]) -> list[str]:
    """How many features are skewed, constant or missing, and what helps."""
    flags = [flag_feature(fact) for fact in facts]
    skewed = sum("skewed" in marks for marks in flags)
    constant = sum("constant" in marks for marks in flags)
    gaps = sum(fact.missing > 0 for fact in facts)
    lines = [
        f"Of {len(facts):,} features {skewed:,} are skewed (skew beyond {SKEWED:g} either way), "
        f"{constant:,} constant, {gaps:,} with missing values."
    ]
    if skewed:
        lines.append(
            "Skewed features drown the others in a linear or neural ranker: give it log1p(x) where the tail "
            "is heavy, or cdf(x), the share of values below, where the shape is odd. Trees do not need it."
        )
    if constant:
        lines.append("Constant features cannot change an order; they can be left out.")
    if gaps:
        lines.append("Missing values stay NaN; choose per feature what stands in for them.")
    return lines


def flag_feature(fact: FeatureFacts) -> list[str]:
    """The words that mark a feature."""
    if fact.all_missing:
        return ["all missing"]
    if fact.constant:
        return ["constant"]
    marks = ["skewed"] if abs(fact.skew) >= SKEWED else []
    return [*marks, "mostly zero"] if fact.zeros >= MOSTLY_ZERO else marks


def arrange_features(facts: Sequence[FeatureFacts], sort: str) -> list[FeatureFacts]:
    """In file order, by name, or by a fact, the largest first; what is not known comes last."""
    keys: dict[str, Callable[[FeatureFacts], Any]] = {
        "name": lambda fact: fact.name,
        "skew": lambda fact: -abs(fact.skew) if fact.skew == fact.skew else float("inf"),
        "zeros": lambda fact: -fact.zeros,
        "missing": lambda fact: -fact.missing,
    }
    return sorted(facts, key=keys[sort]) if sort in keys else list(facts)


def shorten(number: float) -> str:
    """A number in at most eight characters: 2.26e8, 0.0192, 1,234, or a dash when not known."""
    if number != number:
        return "-"
    size = abs(number)
    if number == int(number) and size < 1e5:
        return f"{int(number):,}"
    if 1e-3 <= size < 1e5:
        return f"{number:,.0f}" if size >= 999.5 else f"{number:.3g}"
    mantissa, _, exponent = f"{number:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def draw_shape(counts: Sequence[int], bars: str = BARS) -> str:
    """Histogram counts as one character a bin: the lowest bar is an empty bin, any other has values.

    >>> draw_shape([90, 1, 0, 0, 0, 0, 0, 45])
    '█▂▁▁▁▁▁▅'
    """
    most = max(counts, default=0)
    if not most:
        return ""
    return "".join(bars[1 + round(6 * count / most)] if count else bars[0] for count in counts)


def _bars(console: Console) -> str:
    return BARS if console.encoding.lower().startswith("utf") else PLAIN_BARS


def _fit_table(facts: Sequence[FeatureFacts], console: Console, bars: str) -> tuple[Table, list[str]]:
    """The table without the columns that a narrow terminal has no room for, and their names."""
    longest = max((len(escape_line(fact.name)) for fact in facts), default=0)
    idle = {"negative": not any(fact.negatives > 0 for fact in facts)}
    idle["missing"] = not any(fact.missing > 0 for fact in facts)
    spared = sorted(SPARED, key=lambda name: not idle.get(name))  # first those that say 0% throughout
    for number in range(len(spared) + 1):
        left_out = spared[:number]
        table = _build_table(facts, bars, left_out)
        spare = (_find_room(console) or PIPE_WIDTH) - (_natural_width(table, console) - longest)
        if _find_room(console) is None or spare >= min(longest, NARROWEST):
            break
    return table, left_out


def _find_room(console: Console) -> int | None:
    """How wide the table may be; None in a pipe or a file, which have no width."""
    return find_width() or (console.width if console.is_terminal else None)


def _natural_width(table: Table, console: Console) -> int:
    return table.__rich_measure__(console, console.options.update(width=100_000)).maximum


def _build_table(facts: Sequence[FeatureFacts], bars: str, left_out: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns: dict[str, Callable[[FeatureFacts], str]] = {
        "min": lambda fact: shorten(fact.minimum),
        "median": lambda fact: shorten(fact.median),
        "mean": lambda fact: shorten(fact.mean),
        "max": lambda fact: shorten(fact.maximum),
        "skew": lambda fact: shorten(round(fact.skew, 2)),
        "zeros": lambda fact: _percent(fact.zeros),
        "negative": lambda fact: _percent(fact.negatives),
        "missing": lambda fact: _percent(fact.missing),
        "shape": lambda fact: draw_shape(fact.shape, bars),
    }
    kept = {name: show for name, show in columns.items() if name not in left_out}
    table = Table(box=box.SIMPLE_HEAD if bars == BARS else None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("feature", overflow="fold")  # the one column that gives way, by wrapping
    for name, show in kept.items():
        width = max(len(name), *(len(show(fact)) for fact in facts)) if facts else len(name)
        table.add_column(name, justify="left" if name == "shape" else "right", no_wrap=True, min_width=width)
    flags_width = max((len(_mark(fact)) for fact in facts), default=0)
    table.add_column("", no_wrap=True, min_width=flags_width)
    for fact in facts:
        marks = flag_feature(fact)
        style = "bold yellow" if "skewed" in marks else "dim" if marks else ""
        cells = [Text(show(fact), style=style if name == "skew" else "") for name, show in kept.items()]
        table.add_row(Text(escape_line(fact.name), style=style), *cells, Text(_mark(fact), style=style))
    return table


def _mark(fact: FeatureFacts) -> str:
    flags = ", ".join(flag_feature(fact))
    return f"! {flags}" if flags else ""


def _percent(share: float) -> str:
    if share != share:
        return "-"
    if 0.0 < share < 0.0005:
        return "<0.1%"
    return f"{share:.0%}" if share in (0.0, 1.0) else f"{share:.1%}"
