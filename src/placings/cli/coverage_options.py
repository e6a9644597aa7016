"""What the coverage commands share: options, how they become arguments, and how results are printed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.errors import BadInput

if TYPE_CHECKING:
    from placings.feco.results import Coverage
    from placings.feco.sampling import Plan


class NoData(StrEnum):
    """What a feature without data means to the gate."""

    fail = "fail"
    warn = "warn"
    ignore = "ignore"


COUNTED = "How it is counted"
TIME = "Time"

Events = Annotated[
    list[str], typer.Argument(metavar="EVENTS…", help="The log: parquet or CSV files, globs, or a folder.")
]
Features = Annotated[
    str | None,
    typer.Option(
        help="Features, with commas, or top:20 (with --reference). All numeric columns if not said."
    ),
]
Event = Annotated[
    str | None,
    typer.Option(help="Column of the search id. Without it each row is an event.", rich_help_panel=COUNTED),
]
Within = Annotated[
    str | None,
    typer.Option(
        help="An event is covered if any (the default) or all of its rows are; rows, 5, top:5, all top:5.",
        rich_help_panel=COUNTED,
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(help="Segment column, such as region; may be repeated.", rich_help_panel=COUNTED),
]
Rule = Annotated[
    str | None,
    typer.Option(
        help="non_zero (the default), positive, non_null, mean, median, a number, a YAML file, a model.",
        rich_help_panel=COUNTED,
    ),
]
Position = Annotated[
    str | None, typer.Option(help="Column of the position, from 1.", rich_help_panel=COUNTED)
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="A numeric column that is no feature; may be repeated.", rich_help_panel=COUNTED),
]
Sample = Annotated[
    str | None,
    typer.Option(
        help="Count a sample of events: 8x10x200000 (windows x minutes x events), random:100000, "
        "stratified:100000 or stratified:100000:region.",
        rich_help_panel=COUNTED,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(help="duckdb (the default), spark, local[4], spark://host:7077.", rich_help_panel=COUNTED),
]
Time = Annotated[str | None, typer.Option(help="Column of the time.", rich_help_panel=TIME)]
Window = Annotated[
    str | None, typer.Option(help="Length of a window: 10m, 1h, 1d (the default), 1w.", rich_help_panel=TIME)
]
Zone = Annotated[
    str | None, typer.Option(help="Where days begin, such as Europe/Berlin; UTC.", rich_help_panel=TIME)
]
Since = Annotated[str | None, typer.Option(help="From this date or time on.", rich_help_panel=TIME)]
Until = Annotated[str | None, typer.Option(help="Before this date or time.", rich_help_panel=TIME)]
Watermark = Annotated[
    str | None,
    typer.Option(
        help="Up to when the log is complete; now, if not said. Windows that end later are not judged.",
        rich_help_panel=TIME,
    ),
]
Reference = Annotated[Path | None, typer.Option(help="A saved ranker's folder.", metavar="MODEL")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Full precision for machines; NaN is null.")]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page here.", metavar="PAGE")]


def gather_counting(
    *,
    event: str | None = None,
    within: str | None = None,
    by: Sequence[str] | None = None,
    rule: str | None = None,
    position: str | None = None,
    ignore: Sequence[str] | None = None,
    sample: str | None = None,
    seed: int = 0,
    engine: str | None = None,
    time: str | None = None,
    window: str | None = None,
    zone: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    """The arguments of `coverage` that were given at the terminal; what was not given is left out."""
    if time is None:
        for name, value in (("--window", window), ("--since", since), ("--until", until), ("--zone", zone)):
            if value is not None:
                raise typer.BadParameter(f"{name} needs --time with the column that says when.")
    given = {
        "event": event, "within": None if within is None else parse_within_text(within),
        "by": split_all(by), "rule": None if rule is None else parse_rule(rule), "position": position,
        "ignore": split_all(ignore), "sample": None if sample is None else parse_sample(sample, seed),
        "engine": engine, "time": time, "window": window, "zone": zone, "since": since, "until": until,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def split_all(names: Sequence[str] | None) -> list[str] | None:
    """Names that were repeated or written with commas, as one list; None if there are none."""
    found = [part.strip() for name in names or () for part in name.split(",") if part.strip()]
    return found or None


def parse_features(features: str | None) -> str | list[str] | None:
    """`top:20` stays as it is; names with commas become a list.

    >>> parse_features("price, clicks"), parse_features("top:20"), parse_features(None)
    (['price', 'clicks'], 'top:20', None)
    """
    if features is None or features.strip().startswith("top:"):
        return features
    return split_all([features])


def parse_within_text(within: str) -> str | int:
    """`5` is a number of rows."""
    return int(within) if within.strip().isdigit() else within


def parse_rule(rule: str) -> str | float:
    """A number is a threshold, everything else a name or a path.

    >>> parse_rule("0.5"), parse_rule("positive")
    (0.5, 'positive')
    """
    try:
        return float(rule)
    except ValueError:
        return rule


def parse_sample(text: str, seed: int = 0) -> Plan:
    """A sampling plan as written at the terminal.

    >>> parse_sample("8x10x5000").describe(), parse_sample("random:1000").describe()
    ('8 × 10 min × 5,000', 'random 1,000')
    """
    from placings.feco.sampling import Plan

    parts = text.lower().split("x")
    if len(parts) == 3 and all(part.strip().isdigit() for part in parts):
        windows, minutes, events = map(int, parts)
        return Plan(windows, minutes, events, seed=seed)
    how, _, rest = text.partition(":")
    number, _, strata = rest.partition(":")
    if how in ("random", "stratified") and number.strip().isdigit():
        names = tuple(name for name in strata.split(",") if name)
        return Plan(1, 10, int(number), how=how, seed=seed, strata=names)
    raise BadInput(
        "--sample must be WINDOWSxMINUTESxEVENTS such as 8x10x200000, random:100000, or "
        f"stratified:100000:region. Got {text!r}."
    )


def find_watermark(watermark: str | None) -> Any:
    """What was given, or now."""
    return datetime.now(UTC) if watermark is None else watermark


def bound_watermark(found: Coverage, watermark: str | None) -> Any:
    """What was given; else now, or the end of the last window if that is earlier: an old log is not one that
    stopped."""
    import pandas as pd

    from placings.feco.baselines import parse_time
    from placings.feco.windows import parse_window

    if watermark is not None or found.window is None or found.frame.empty:
        return find_watermark(watermark)
    end = found.frame["window"].max() + pd.Timedelta(seconds=parse_window(found.window))
    return min(end, parse_time(find_watermark(None), "watermark"))


def name_table(events: Sequence[str]) -> Any:
    """One path as it is, several as a list."""
    return events[0] if len(events) == 1 else list(events)


def read_importances(reference: Path | None) -> dict[str, float] | None:
    """Importances of a saved ranker's features: gain for trees, contributions on its sample for others."""
    if reference is None:
        return None
    from placings.data.ranking import RankingData
    from placings.evaluation.importance import rank_importance
    from placings.rankers.bundles import load

    ranker = load(reference)
    if hasattr(ranker, "feature_importances"):
        found = rank_importance(ranker, "gain")
    else:
        sample = ranker._sample
        rows = RankingData.from_arrays(sample, [0.0] * sample.shape[0], feature_names=ranker.feature_names_)
        found = rank_importance(ranker, "contributions", rows)
    return {name: found[name] for name in found.names}


def print_text(text: str) -> None:
    """Print, with plain letters where the terminal knows no others."""
    import sys

    from placings.cli.evaluation import PLAIN

    bars = str.maketrans("█▉▊▋▌▍▎▏▁▂▃▄▅▆▇·–", "#######|_.:-=+*.-")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(PLAIN).translate(bars).encode(encoding, "replace").decode(encoding)
    typer.echo(text)
