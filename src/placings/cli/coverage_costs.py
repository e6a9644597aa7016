"""`placings coverage degrade` and `risk`: what lost coverage would cost, and what it costs today."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.checks import check_figure, check_inputs, check_metrics, check_page
from placings.cli.coverage_options import (
    Counting,
    Rule,
    find_watermark,
    name_table,
    parse_rule,
    takes_counting,
)
from placings.cli.options import AsJson, Format, Html, Label, Missing, Qid, RiskMetric, TableFormat
from placings.cli.printing import check_format, print_json, print_note, print_result
from placings.core import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco import Alerts, Coverage, Risk


class Where(StrEnum):
    """Which data lose the feature."""

    test = "test"
    train_and_test = "train+test"
    both = "both"


class DarkUnit(StrEnum):
    """What goes dark."""

    event = "event"
    row = "row"


class Of(StrEnum):
    """Of which the share is taken."""

    covered = "covered"
    all = "all"


class Jointly(StrEnum):
    """How features go dark with each other."""

    independent = "independent"
    together = "together"


Model = Annotated[Path, typer.Argument(help="A saved ranker's folder.")]
Value = Annotated[str, typer.Option(help="What stands in place of a lost value: 0, nan, a number.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same masks.")]


def degrade_model(
    model: Model,
    test: Annotated[Path, typer.Argument(help="Labelled test data: a file, or a collection's folder.")],
    train: Annotated[
        Path | None, typer.Option(help="Training data, to retrain on (--where train+test).", metavar="DATA")
    ] = None,
    features: Annotated[
        str, typer.Option(help="Names with commas, top:3, random:top[none]:[/none]10, or several of these.")
    ] = "top:3",
    drops: Annotated[str, typer.Option(help="Shares that lose the feature, with commas.")] = "0.05,0.25,0.5",
    where: Annotated[Where, typer.Option(help="Mask the test data, or retrain as well.")] = Where.test,
    unit: Annotated[
        DarkUnit, typer.Option(help="What goes dark: whole searches or single rows.")
    ] = DarkUnit.event,
    of: Annotated[Of, typer.Option(help="Of those that have the feature, or of all.")] = Of.covered,
    value: Value = "0",
    rule: Rule = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draw the masks so often; 20, or 3 where every draw retrains.")
    ] = None,
    metrics: Annotated[str, typer.Option(help="What to judge by, with commas.")] = "ndcg@4,ndcg@8",
    qid: Qid = None,
    label: Label = None,
    missing: Missing = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw loss against drop into this .svg file.", metavar="SVG")
    ] = None,
    format: TableFormat = Format.text,
    as_json: AsJson = False,
) -> None:
    """What would it cost if a feature lost some of its coverage? The coverage paper's tables, for any model.

    \b
    Examples:
      placings coverage degrade runs/first/model test.txt
      placings coverage degrade runs/first/model test.txt --features top:1,random:top[none]:[/none]10
      placings coverage degrade runs/first/model test.txt --train train.txt --where both --figure drop.svg
    """

    from placings.cli.loading import read_data, split_names
    from placings.feco import degrade
    from placings.rankers import load_ranker

    places = ["test", "train+test"] if where is Where.both else [where.value]
    if "train+test" in places and train is None:
        raise typer.BadParameter(f"--where {where.value} retrains, so it needs --train with training data.")
    shares, filler = parse_shares(drops), parse_number(value, "--value")
    names = check_metrics(split_names(metrics))
    check_format(format.value)
    check_figure(figure)
    reading: dict[str, Any] = {"qid": qid, "label": label, "missing": missing}
    ranker = load_ranker(model)
    check_inputs(train, test)
    found = degrade(
        ranker, None if train is None else read_data(train, models=[ranker], **reading),
        read_data(test, models=[ranker], **reading),
        [parse_place(name) for name in split_names(features)], drops=shares, where=places,
        value=filler, of=of.value, unit=unit.value,
        rule="non_zero" if rule is None else parse_rule(rule),
        draws=None if draws is None else dict.fromkeys(places, draws), metrics=names,
        random_state=seed, progress=True,
    )  # fmt: skip
    if figure is not None:
        from placings.core import write_text
        from placings.report import draw_degradation

        write_text(figure, draw_degradation(found) + "\n")
    if as_json:
        from placings.core import write_json

        print_json(write_json(found.to_dict()))
        return
    print_result(found, format.value, "What lost coverage costs")


@takes_counting("ignore", "sample")
def estimate_cost(
    *,
    model: Model,
    labelled: Annotated[
        Path, typer.Argument(help="Labelled data that stand for today's searches.", metavar="LABELLED")
    ],
    today: Annotated[
        list[str], typer.Option(help="Today's log, or a store's folder; may be repeated.", metavar="EVENTS")
    ],
    usual: Annotated[
        list[str] | None, typer.Option(help="The log of healthy days; may be repeated.", metavar="EVENTS")
    ] = None,
    counting: Counting,
    metric: RiskMetric = "ndcg@10",
    value: Value = "0",
    jointly: Annotated[
        Jointly, typer.Option(help="Whether features go dark separately or in the same searches.")
    ] = Jointly.independent,
    draws: Annotated[int, typer.Option(min=1, help="Draw the masks so often.")] = 20,
    qid: Qid = None,
    label: Label = None,
    missing: Missing = None,
    seed: Seed = 0,
    html: Html = None,
    format: TableFormat = Format.text,
    as_json: AsJson = False,
) -> None:
    """What does today's coverage cost? The metric at risk, by feature and in all, with intervals.

    With --time the last finished window is today, and the windows before it are usual; else all of --today
    is today, and usual is --usual or the labelled data's own coverage. Features are those of the model.

    \b
    Examples:
      placings coverage risk runs/first/model judged.txt --today logs/2024-02-15.parquet --event search_id
      placings coverage risk model/ judged.parquet --today 'logs/*.parquet' --event search_id --time ts
      placings coverage risk runs/first/model judged.txt --today coverage/ --json
    """
    from placings.cli.coverage_history import read_coverage
    from placings.feco import FILE, coverage, open_history
    from placings.rankers import load_ranker

    given = counting.gather()
    filler = parse_number(value, "--value")
    check_metrics([metric], "--metric")
    check_format(format.value)
    check_page(html)
    names = list(load_ranker(model).feature_names_)
    check_inputs(labelled)
    if len(today) == 1 and (Path(today[0]) / FILE).is_file():
        found = read_coverage(open_history(today[0]), since=counting.since, until=counting.until)
    else:
        found = coverage(name_table(today), names, absent="dark", **given)
        for note in found.notes if found.absent else ():
            print_note(note)
    healthy = None
    if usual:
        kept = {key: each for key, each in given.items() if key not in ("time", "window", "since", "until")}
        healthy = coverage(name_table(usual), names, absent="dark", **kept).to_pandas()
    risk = estimate_today(
        model, labelled, found, watermark=find_watermark(counting.watermark), usual=healthy, metric=metric,
        value=filler, jointly=jointly.value, draws=draws, seed=seed,
        reading={"qid": qid, "label": label, "missing": missing},
    )  # fmt: skip
    if html is not None:
        from placings.report import write_coverage_page

        write_coverage_page(html, found, title="Coverage at risk", risk=risk)
    if as_json:
        print_json(risk.to_json())
        return
    print_result(risk, format.value, "Coverage at risk")


def estimate_today(
    model: Path | None,
    labelled: Path,
    found: Coverage,
    *,
    watermark: Any = None,
    usual: pd.DataFrame | None = None,
    alerts: Alerts | None = None,
    metric: str = "ndcg@10",
    value: float = 0.0,
    jointly: str = "independent",
    draws: int = 20,
    seed: int = 0,
    reading: dict[str, Any] | None = None,
) -> Risk:
    """Coverage at risk of the last finished window against the windows before it, on labelled data."""

    from placings.cli.loading import read_data
    from placings.feco import estimate_risk
    from placings.rankers import load_ranker

    ranker = load_ranker(Path(str(model)))
    data = read_data(labelled, models=[ranker], **(reading or {}))
    rules = set(found.rules.values())
    if len(rules) > 1:
        raise BadInput(f"coverage at risk needs one rule for all features. Got {len(rules)} of them.")
    unit = "row" if found.unit.startswith("row") else "event"
    if unit == "event" and ("all rows" in found.unit or "first" in found.unit):
        raise BadInput("coverage at risk knows events of which any row has the feature, or rows. Got others.")
    by = [name for name in found.by if name in data.segments]
    today, before = split_today(found, watermark, alerts)
    return estimate_risk(
        ranker, data, _pool(today, by), by=by, usual=_pool(usual if usual is not None else before, by),
        features=[name for name in found.features if name in data.feature_names], metric=metric, unit=unit,
        rule=rules.pop(), value=value, jointly=jointly, draws=draws, name=labelled.name, random_state=seed,
        progress=True,
    )  # fmt: skip


def split_today(
    found: Coverage, watermark: Any, alerts: Alerts | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The last finished window, and the windows before it (before what is still wrong, where alerts know).

    Without windows everything is today, and nothing is known of before.
    """
    from placings.feco import find_finished

    frame = found.to_pandas()
    if "window" not in frame:
        return frame, None
    frame = frame[find_finished(frame, watermark, found, None)]
    if not len(frame):
        raise BadInput(f"no window ended by the watermark {watermark}. Wait, or give a later one.")
    last = frame["window"].max()
    onset = last
    for incident in alerts.incidents if alerts is not None else ():
        if incident.ongoing:
            onset = min(onset, type(last)(incident.onset))
    before = frame[frame["window"] < onset]
    return frame[frame["window"] == last], before if len(before) else None


def _pool(frame: pd.DataFrame | None, by: list[str]) -> pd.DataFrame | None:
    """One row a feature and segment: windows, and segments that the labelled data lack, together."""
    from placings.core import wilson_interval

    if frame is None:
        return None
    sums = (
        frame.groupby(["feature", *by], sort=False, dropna=False)[["events", "covered"]].sum().reset_index()
    )
    low, high = wilson_interval(sums["covered"], sums["events"])
    share = sums["covered"] / sums["events"].where(sums["events"] > 0)
    pooled: pd.DataFrame = sums.assign(coverage=share, low=low, high=high)
    return pooled


def parse_shares(text: str) -> tuple[float, ...]:
    """`0.05,0.25` as numbers.

    >>> parse_shares("0.05, 0.5")
    (0.05, 0.5)
    """
    return tuple(parse_number(part, "--drops") for part in text.split(",") if part.strip())


def parse_number(text: str, option: str) -> float:
    """A number; `nan` is one."""
    try:
        return math.nan if text.strip().lower() == "nan" else float(text)
    except ValueError:
        raise typer.BadParameter(f"{option} takes numbers. Got {text!r}.") from None


def parse_place(name: str) -> str | int:
    """A feature's name, or with `#` its place from 0."""
    return int(name[1:]) if name.startswith("#") and name[1:].isdigit() else name
