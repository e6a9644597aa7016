"""`placings log join`: searches and actions to rows with labels, and what became of every event."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from placings.cli.log_reading import Map, Strict, Unit, parse_map
from placings.cli.printing import print_json, print_note, print_text
from placings.core import BadInput
from placings.logs import RULES, JoinReport


class GroupBy(StrEnum):
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


REMEDIES = {
    "no_id": "Write search_id and item_id into every action.",
    "no_time": "Write a time into every action.",
    "orphaned": "Are both files of the same days, and are search ids written alike in both?",
    "early": "Are the times of both files in UTC? --slack allows for clocks that differ.",
    "late": "Are the times of both files in UTC? --window says how long after its search an action counts.",
    "not_in_list": "Are item ids written alike in the lists and in the actions?",
    "cut": "Their file holds nothing else: fetch it again.",
}
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
    group: Annotated[GroupBy, typer.Option(help="One group a search, or a distinct query.")] = GroupBy.search,
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
        str | None,
        typer.Option(
            "--snapshots",
            "--items",
            help="Features of items over time (item_id, time, …), joined as of then; a catalogue without "
            "time holds for every search.",
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(help="Of a simulated log: the item meant (search_id, target_id, kind)."),
    ] = None,
    window: Annotated[
        str, typer.Option(help="An action counts up to this long after its search.", rich_help_panel=LENGTHS)
    ] = "1h",
    slack: Annotated[
        str, typer.Option(help="And up to this long before it, as clocks differ.", rich_help_panel=LENGTHS)
    ] = "5s",
    gap: Annotated[
        str, typer.Option(help="So long apart two searches are still one chain.", rich_help_panel=CHAINS)
    ] = "30s",
    edits: Annotated[
        bool, typer.Option(help="A corrected letter or two do not end a chain.", rich_help_panel=CHAINS)
    ] = True,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend", "--engine", help="duckdb (the default), spark, local[4], spark://host:7077."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Bound of embedded DuckDB, such as 6GB; more goes to disk.")
    ] = None,
    names: Map = None,
    time_unit: Unit = None,
    strict: Strict = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report for machines.")] = False,
) -> None:
    """Join searches and actions: one row for each item shown, with a label; and a count of every event.

    Late, early, duplicate, orphaned and otherwise broken events are told by number, with the rule for what
    was kept. Nothing is dropped silently. Results are objects or plain ids; times are ISO text, timestamps,
    or seconds or milliseconds since 1970. One table with a column `clicked` needs no join: see log import.

    \b
    Examples:
      placings log join searches.parquet actions.parquet --out rows.parquet
      placings log join searches.jsonl.gz actions.jsonl.gz --out rows.parquet --grade click=1 --grade order=4
      placings log join 'logs/s-*.parquet' 'logs/a-*.parquet' --out rows.parquet --group query --memory 6GB
      placings log join s.jsonl a.jsonl --out rows.parquet --map search_id=sid --map results=products
    """
    from placings.cli.checks import check_output
    from placings.logs import join_logs

    grades = _parse_grades(grade)
    for path, option in ((out, "--out"), (apart, "--apart")):
        if path is not None and not (backend or "").startswith(("spark", "local")):  # Spark writes folders
            check_output(path, option, (".parquet",))
    with join_logs(
        searches, actions, grades=grades, backend=backend, group=group.value,
        unsuccessful=unsuccessful.value, snapshots=snapshots, truth=truth, window=window, slack=slack,
        gap=gap, edits=edits, frequency=frequency.value, memory=memory, columns=parse_map(names),
        time_unit=None if time_unit is None else time_unit.value, strict=strict,
    ) as joined:  # fmt: skip
        report = joined.report
        if report is None:
            raise AssertionError("a join has a report")
        if report.notes["rows"]:
            joined.write(out, unsuccessful=apart)
    if as_json:
        print_json(report.to_json())
    else:
        print_text(report.table())
    if not report.notes["rows"]:
        raise BadInput(f"no rows: {out} is not written. {_explain_loss(report)}")
    if not as_json:
        print_text(f"{out}: {report.notes['rows']:,} rows in {report.notes['groups']:,} groups")
    if not report.outcomes["successful"]:
        print_note(f"every label is 0. {_explain_loss(report)}")


def _explain_loss(report: JoinReport) -> str:
    """Why no search has a click, as far as the counts tell, and what to do."""
    read, searches, actions = report.read, report.searches, report.actions
    if not read["searches"]:
        return "The log of searches is empty."
    if not searches["used"]:
        worst = max(("no_id", "no_time", "cut"), key=lambda name: searches[name])
        return f"No search could be used, most of them {RULES['searches'][worst]}."
    if not read["items"]:
        return "The searches show no items: every list in 'results' is empty."
    if not read["actions"]:
        return "The log of actions is empty. --unsuccessful negatives keeps the searches, with label 0."
    lost = [name for name in actions if name not in ("used", "out_of_order", "duplicate")]
    worst = max(lost, key=lambda name: actions[name])
    if not actions[worst]:
        return "The actions that could be used are worth 0: give them a grade above 0 with --grade."
    if worst == "unknown_action":
        name = next(iter(report.unknown))
        cause = f"have no grade: {report.say_unknown()}. Give them one: --grade {name}=1."
    else:
        cause = f"were {RULES['actions'][worst]}. {REMEDIES[worst]}"
    return f"{actions[worst]:,} of {read['actions']:,} actions {cause}"


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
