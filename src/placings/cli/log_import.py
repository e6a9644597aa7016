"""`placings log import`: UBI events, a table of judgements or TREC qrels become logs or rows of ours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placings.cli.printing import print_json, print_text


class Form(StrEnum):
    """What the files hold."""

    ubi = "ubi"
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
        Path, typer.Option("--out", "-o", help="A folder for a log (ubi), a parquet file for judgements.")
    ],
    form: Annotated[
        Form | None, typer.Option(help="What the files hold; guessed from their names by default.")
    ] = None,
    write: Annotated[Written, typer.Option(help="How the log is written (ubi).")] = Written.parquet,
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column's part (judgements): query=Suchwort.", metavar="PART=NAME"),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(help="Rename an action (ubi): watch=click. Adds to the usual ones.", metavar="NAME=NEW"),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A query attribute's column (ubi): lat=focus_lat.", metavar="NAME=COLUMN"),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="The TREC run that was judged (qrels).")] = None,
    queries: Annotated[Path | None, typer.Option(help="Texts, a 'qid<TAB>text' a line (qrels).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Turn another maker's log or judgements into ours, and say what could not be used and why.

    \b
    Examples:
      placings log import ubi_queries.ndjson ubi_events.ndjson --out log/
      placings log import judgements.csv --out rows.parquet
      placings log import qrels.txt --run bm25.run --queries topics.tsv --out rows.parquet
    """
    from placings.cli.checks import check_folder, check_output
    from placings.core import BadInput
    from placings.logs import ACTIONS, ImportedLog, ImportedRows, import_judgements, import_qrels, import_ubi

    form = form or _tell_form(files[0])
    options = {"column": column, "action": action, "attribute": attribute, "run": run, "queries": queries}
    used = {Form.ubi: {"action", "attribute"}, Form.judgements: {"column"}, Form.qrels: {"run", "queries"}}
    unused = [name for name, value in options.items() if value and name not in used[form]]
    if unused:
        raise BadInput(f"--{unused[0]} has no meaning for {form.value}. Leave it out, or give --form.")
    if form is Form.ubi:
        check_folder(out)
    else:
        check_output(out)
    imported: ImportedLog | ImportedRows
    if form is Form.ubi:
        renamed = {**ACTIONS, **_read_pairs(action, "action")}
        imported = import_ubi(*files, actions=renamed, attributes=_read_pairs(attribute, "attribute"))
    elif len(files) > 1:
        raise BadInput(f"{form.value} are imported one file at a time. Got {len(files)} files.")
    elif form is Form.judgements:
        imported = import_judgements(files[0], columns=_read_pairs(column, "column"))
    else:
        imported = import_qrels(files[0], run=run, queries=queries)
    if isinstance(imported, ImportedLog):
        written = [str(path) for path in imported.write(out, write.value)]
    else:
        imported.write(out)
        written = [str(out)]
    if json:
        print_json({"written": written, **imported.report.to_dict()})
    else:
        print_text("\n".join([str(imported.report), *(f"written: {path}" for path in written)]))


def _tell_form(path: Path) -> Form:
    from placings.core import check_file, plain_name
    from placings.logs import is_json_lines

    check_file(path)
    if is_json_lines(path.name):
        return Form.ubi
    return Form.judgements if plain_name(path).lower().endswith((".csv", ".tsv", ".tab")) else Form.qrels


def _read_pairs(pairs: list[str] | None, what: str) -> dict[str, str]:
    from placings.core import BadInput

    read = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise BadInput(f"--{what} must be NAME=VALUE. Got {pair!r}.")
        read[name.strip()] = value.strip()
    return read
