"""`placings log import`: events of UBI or Metarank, one flat table, judgements or qrels become ours."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.log_reading import Map, Strict, Unit, parse_map
from placings.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from placings.logs import ImportedLog, ImportedRows


class Form(StrEnum):
    """What the files hold."""

    ubi = "ubi"
    metarank = "metarank"
    flat = "flat"
    judgements = "judgements"
    qrels = "qrels"


class Written(StrEnum):
    """How a log is written."""

    parquet = "parquet"
    jsonl = "jsonl"
    jsonl_gz = "jsonl.gz"


def import_log(
    files: Annotated[list[Path], typer.Argument(help="The files to import.", metavar="FILE...")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="A folder for a log (ubi, metarank), a parquet file for rows (all others)."
        ),
    ],
    form: Annotated[
        Form | None,
        typer.Option(
            "--form", "--format", help="What the files hold; guessed from the first one if not said."
        ),
    ] = None,
    write: Annotated[Written, typer.Option(help="How the log is written (ubi, metarank).")] = Written.parquet,
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column's part (judgements): query=Suchwort.", metavar="PART=NAME"),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            help="Rename an action (ubi, metarank): watch=click. Adds to the usual ones.", metavar="NAME=NEW"
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A query attribute's column (ubi): lat=focus_lat.", metavar="NAME=COLUMN"),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="The TREC run that was judged (qrels).")] = None,
    queries: Annotated[Path | None, typer.Option(help="Texts, a 'qid<TAB>text' a line (qrels).")] = None,
    names: Map = None,
    time_unit: Unit = None,
    strict: Strict = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Turn another maker's log or judgements into ours, and say what could not be used and why.

    A log (ubi, metarank) is then joined; Metarank's item events become items.parquet, for --items of log
    join. A flat table has one row for each item shown and a column `clicked`.

    \b
    Examples:
      placings log import ubi_queries.ndjson ubi_events.ndjson --out log/
      placings log import --format metarank events.jsonl --out log/
      placings log import shown.csv --form flat --map search_id=sid --map clicked=bought --out rows.parquet
      placings log import judgements.csv --out rows.parquet
      placings log import qrels.txt --run bm25.run --queries topics.tsv --out rows.parquet
    """
    from placings.cli.checks import check_folder, check_output
    from placings.core import BadInput
    from placings.logs import ImportedLog

    form = form or _tell_form(files[0], bool(names))
    options = {
        "column": column, "action": action, "attribute": attribute, "run": run, "queries": queries,
        "map": names, "time-unit": time_unit, "strict": strict,
    }  # fmt: skip
    unused = [name for name, value in options.items() if value and name not in TAKEN[form]]
    if unused:
        raise BadInput(f"--{unused[0]} has no meaning for {form.value}. Leave it out, or give --form.")
    if form in LOGS:
        check_folder(out)
    else:
        check_output(out)
        if len(files) > 1:
            raise BadInput(f"{form.value} are imported one file at a time. Got {len(files)} files.")
    imported = _read_files(form, files, options)
    if isinstance(imported, ImportedLog):
        written = [str(path) for path in imported.write(out, write.value)]
    else:
        imported.write(out)
        written = [str(out)]
    if json:
        print_json({"written": written, **imported.report.to_dict()})
    else:
        print_text("\n".join([str(imported.report), *(f"written: {path}" for path in written)]))


TAKEN = {
    Form.ubi: {"action", "attribute"},
    Form.metarank: {"action", "strict"},
    Form.flat: {"map", "time-unit", "strict"},
    Form.judgements: {"column"},
    Form.qrels: {"run", "queries"},
}
LOGS = (Form.ubi, Form.metarank)


def _read_files(form: Form, files: list[Path], options: dict[str, Any]) -> ImportedLog | ImportedRows:
    """The files, imported as what they are."""
    from placings.logs import (
        ACTIONS,
        import_flat,
        import_judgements,
        import_metarank,
        import_qrels,
        import_ubi,
    )

    renamed = parse_map(options["action"], "--action")
    if form is Form.ubi:
        attributes = parse_map(options["attribute"], "--attribute")
        return import_ubi(*files, actions={**ACTIONS, **renamed}, attributes=attributes)
    if form is Form.metarank:
        return import_metarank(*files, actions=renamed, strict=options["strict"])
    if form is Form.flat:
        unit = options["time-unit"]
        return import_flat(
            files[0],
            columns=parse_map(options["map"]),
            time_unit=None if unit is None else unit.value,
            strict=options["strict"],
        )
    if form is Form.judgements:
        return import_judgements(files[0], columns=parse_map(options["column"], "--column"))
    return import_qrels(files[0], run=options["run"], queries=options["queries"])


def _tell_form(path: Path, mapped: bool) -> Form:
    """What a file holds, by its name and its first line."""
    from placings.core import check_file, iterate_blocks, plain_name
    from placings.logs import is_json_lines

    check_file(path)
    name = plain_name(path).lower()
    if name.endswith((".parquet", ".pq")) or mapped:
        return Form.flat
    if not is_json_lines(path.name) and not name.endswith((".csv", ".tsv", ".tab")):
        return Form.qrels
    first = next(iter(iterate_blocks(path, 1 << 16)), b"").split(b"\n", 1)[0]
    if is_json_lines(path.name):
        if re.search(rb'"event"\s*:\s*"(item|user|ranking|interaction)"', first):
            return Form.metarank
        return Form.flat if b'"clicked"' in first else Form.ubi
    return Form.flat if re.search(rb'(^|[,;\t|"])clicked($|[,;\t|"\r])', first) else Form.judgements
