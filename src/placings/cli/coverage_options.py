"""What the coverage commands share: options, and how they become arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.options import Seed, takes
from placings.core import BadInput

if TYPE_CHECKING:
    from placings.feco import Coverage, SamplingPlan


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
    typer.Option(help="Features, with commas, or top:20 (with --reference). All numeric columns by default."),
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
    typer.Option(help="A numeric column that is not a feature; may be repeated.", rich_help_panel=COUNTED),
]
Sample = Annotated[
    str | None,
    typer.Option(
        help="Count a sample of events: 8x10x200000 (windows x minutes x events), random:100000, "
        "stratified:100000 or stratified:100000:region.",
        rich_help_panel=COUNTED,
    ),
]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend",
        "--engine",
        help="duckdb (the default), spark, local[4], spark://host:7077.",
        rich_help_panel=COUNTED,
    ),
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
        help="Up to when the log is complete; now, by default. Windows that end later are not judged.",
        rich_help_panel=TIME,
    ),
]


@dataclass(frozen=True)
class Counting:
    """How a log is counted, as it was said at the terminal; the options that coverage commands share."""

    event: Event = None
    within: Within = None
    by: By = None
    rule: Rule = None
    position: Position = None
    ignore: Ignore = None
    sample: Sample = None
    backend: BackendName = None
    time: Time = None
    window: Window = None
    zone: Zone = None
    since: Since = None
    until: Until = None
    watermark: Watermark = None
    seed: Seed = 0

    def gather(self, **changes: Any) -> dict[str, Any]:
        """The arguments of `coverage` that were given; what was not given is left out."""
        said = replace(self, **changes)
        if said.time is None:
            for name in ("window", "since", "until", "zone"):
                if getattr(said, name) is not None:
                    raise typer.BadParameter(f"--{name} needs --time with the column that says when.")
        given = {
            "event": said.event, "within": None if said.within is None else parse_within_text(said.within),
            "by": split_all(said.by), "rule": None if said.rule is None else parse_rule(said.rule),
            "position": said.position, "ignore": split_all(said.ignore),
            "sample": None if said.sample is None else parse_sample(said.sample, said.seed),
            "backend": said.backend, "time": said.time, "window": said.window, "zone": said.zone,
            "since": said.since, "until": said.until,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value is not None}


def takes_counting(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Counting`, but for those named, in place of its `counting`."""
    return takes(Counting, "counting", *without)


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


def parse_sample(text: str, seed: int = 0) -> SamplingPlan:
    """A sampling plan as written at the terminal.

    >>> parse_sample("8x10x5000").describe(), parse_sample("random:1000").describe()
    ('8 × 10 min × 5,000', 'random 1,000')
    """
    from placings.feco import SamplingPlan

    parts = text.lower().split("x")
    if len(parts) == 3 and all(part.strip().isdigit() for part in parts):
        windows, minutes, events = map(int, parts)
        return SamplingPlan(windows, minutes, events, seed=seed)
    how, _, rest = text.partition(":")
    number, _, strata = rest.partition(":")
    if how in ("random", "stratified") and number.strip().isdigit():
        names = tuple(name for name in strata.split(",") if name)
        return SamplingPlan(1, 10, int(number), how=how, seed=seed, strata=names)
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

    from placings.feco import parse_time, parse_window

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
    from placings.data import RankingData
    from placings.evaluation import rank_importance
    from placings.rankers import load_ranker

    ranker = load_ranker(reference)
    if hasattr(ranker, "feature_importances"):
        found = rank_importance(ranker, "gain")
    else:
        sample = ranker._sample
        rows = sample.shape[0]
        data = RankingData.from_arrays(sample, [0.0] * rows, [0] * rows, feature_names=ranker.feature_names_)
        found = rank_importance(ranker, "contributions", data)
    return {name: found[name] for name in found.names}
