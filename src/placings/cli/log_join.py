"""`placings log join`: searches and actions to rows with labels, and what became of every event."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from placings.cli.printing import print_text


class Group(StrEnum):
    """What one group of rows is."""

    search = "search"
    query = "query"


class Unsuccessful(StrEnum):
    """Where searches without a used action go."""

    report = "report"
    negatives = "negatives"


class Frequency(StrEnum):
    """What the label of an item is when searches of one query are united."""

    rate = "rate"
    share = "share"


LENGTHS = "When an action counts"
CHAINS = "Prefix chains"


def join_files(
    searches: Annotated[
        str, typer.Argument(help="The searches: .jsonl, .jsonl.gz, .parquet, a glob or folder of parquet.")
    ],
    actions: Annotated[str, typer.Argument(help="The actions, alike.")],
    out: Annotated[Path, typer.Option(help="The rows to write, .parquet.")],
    grade: Annotated[
        list[str] | None,
        typer.Option(help="What an action is worth; click=1, cart=2, purchase=3.", metavar="ACTION=GRADE"),
    ] = None,
    group: Annotated[Group, typer.Option(help="One group a search, or a distinct query.")] = Group.search,
    frequency: Annotated[
        Frequency,
        typer.Option(help="With --group query: the mean grade of a showing, or the share of all grades."),
    ] = Frequency.rate,
    unsuccessful: Annotated[
        Unsuccessful, typer.Option(help="Searches without an action: left out, or kept with label 0.")
    ] = Unsuccessful.report,
    apart: Annotated[
        Path | None, typer.Option(help="Write the searches without an action here, .parquet.")
    ] = None,
    snapshots: Annotated[
        str | None, typer.Option(help="Features of items over time (item_id, time, …), joined as of then.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(help="Of a simulated log: the item meant (search_id, target_id, kind)."),
    ] = None,
    window: Annotated[
        str, typer.Option(help="So long after its search an action counts.", rich_help_panel=LENGTHS)
    ] = "1h",
    slack: Annotated[
        str, typer.Option(help="So long before it, too: clocks differ.", rich_help_panel=LENGTHS)
    ] = "5s",
    gap: Annotated[
        str, typer.Option(help="So long apart two searches are still one chain.", rich_help_panel=CHAINS)
    ] = "30s",
    edits: Annotated[
        bool, typer.Option(help="A corrected letter or two do not end a chain.", rich_help_panel=CHAINS)
    ] = True,
    engine: Annotated[
        str | None, typer.Option(help="duckdb (the default), spark, local[4], spark://host:7077.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Bound of embedded DuckDB, such as 6GB; more goes to disk.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report for machines.")] = False,
) -> None:
    """Join searches and actions: one row for each item shown, with a label; and a count of every event.

    Late, early, duplicate, orphaned and otherwise broken events are told by number, with the rule for what
    was kept. Nothing is dropped silently.

    \b
    Examples:
      placings log join searches.parquet actions.parquet --out rows.parquet
      placings log join searches.jsonl.gz actions.jsonl.gz --out rows.parquet --grade click=1 --grade order=4
      placings log join 'logs/s-*.parquet' 'logs/a-*.parquet' --out rows.parquet --group query --memory 6GB
    """
    from placings.cli.checks import check_output
    from placings.clicks.sessions import join_logs

    grades = _parse_grades(grade)
    for path, option in ((out, "--out"), (apart, "--apart")):
        if path is not None and not (engine or "").startswith(("spark", "local")):  # Spark writes folders
            check_output(path, option, (".parquet",))
    with join_logs(
        searches, actions, grades=grades, engine=engine, group=group.value,
        unsuccessful=unsuccessful.value, snapshots=snapshots, truth=truth, window=window, slack=slack,
        gap=gap, edits=edits, frequency=frequency.value, memory=memory,
    ) as joined:  # fmt: skip
        joined.write(out, unsuccessful=apart)
    if as_json:
        typer.echo(joined.report.to_json())
        return
    print_text(joined.report.table())
    notes = joined.report.notes
    print_text(f"{out}: {notes['rows']:,} rows in {notes['groups']:,} groups")


def _parse_grades(given: list[str] | None) -> dict[str, float] | None:
    grades: dict[str, Any] = {}
    for text in given or []:
        name, sign, grade = text.partition("=")
        try:
            grades[name.strip()] = float(grade)
        except ValueError:
            sign = ""
        if not sign or not name.strip():
            raise typer.BadParameter(f"write ACTION=GRADE, such as --grade click=1. Got {text!r}.")
    return grades or None
