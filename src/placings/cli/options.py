"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from placings.cli.completion import complete_metric, complete_ranker
from placings.core import set_quiet
from placings.rankers import RANKERS


class Format(StrEnum):
    """How a table is printed."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    html = "html"


# -- reading data ------------------------------------------------------------------------------------
TrainingData = Annotated[
    list[Path],
    typer.Argument(
        help="Training data: a file, several or a glob as one set, or a known collection's folder."
    ),
]
FoldNumber = Annotated[int | None, typer.Option(help="Fold of a collection that has folds.")]
Split = Annotated[str | None, typer.Option(help="Split of a collection, e.g. test.")]
Missing = Annotated[str | None, typer.Option(help="What stands for a missing value, e.g. NULL.")]
Qid = Annotated[str | None, typer.Option(help="Column of the query ids, in a table.")]
Label = Annotated[str | None, typer.Option(help="Column of the labels, in a table.")]
Propensity = Annotated[
    str | None,
    typer.Option(
        help="Column of the propensities, in a table, for metrics such as dcg@10:ips.", metavar="COLUMN"
    ),
]
FeatureNames = Annotated[
    str | None,
    typer.Option(
        "--features", help="The columns that are features, with commas, in a table.", metavar="NAMES"
    ),
]
Item = Annotated[str | None, typer.Option(help="Column of the item ids, in a table.")]
Time = Annotated[str | None, typer.Option(help="Column of the times, in a table.")]
Position = Annotated[str | None, typer.Option(help="Column of the ranks that were shown, in a table.")]
Ignore = Annotated[
    str | None, typer.Option(help="Columns or features to pass over, with commas.", metavar="NAMES")
]
Groups = Annotated[
    Path | None, typer.Option(help="File of the rows of each query, for svmlight text without qid.")
]
Names = Annotated[
    Path | None, typer.Option(help="File of the features' names, one a line, for svmlight text.")
]
Thousands = Annotated[
    str | None, typer.Option(help="What separates thousands in CSV, e.g. , in 1,234.", metavar="SIGN")
]
RepeatedQid = Annotated[
    str | None,
    typer.Option(help="A query that stands in two files: error, or join its rows.", metavar="error|join"),
]
Digest = Annotated[str | None, typer.Option(help="Refuse any other bundle than this one.")]
Reference = Annotated[Path | None, typer.Option(help="A saved ranker's folder.", metavar="MODEL")]

# -- training ----------------------------------------------------------------------------------------
RankerName = Annotated[
    str | None,
    typer.Option(
        "--ranker",
        help=f"{', '.join(RANKERS)}; ridge:gauss is a ridge over a transform.",
        metavar="NAME",
        autocompletion=complete_ranker,
    ),
]
SplitBy = Annotated[
    str | None,
    typer.Option(
        help="What parts keep whole: auto (users or sessions, if the data know them), query, or a segment.",
        metavar="SEGMENT",
    ),
]
ValidShare = Annotated[
    float | None, typer.Option(min=0.0, max=0.9, help="Or this share of the training queries.")
]
MLflow = Annotated[bool | None, typer.Option("--mlflow", help="Log the run to MLflow too.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]

# -- judging -----------------------------------------------------------------------------------------
RiskMetric = Annotated[str, typer.Option(help="The metric at risk.", autocompletion=complete_metric)]
TableFormat = Annotated[Format, typer.Option(help="How the tables are printed.")]

WithEngine = Annotated[
    bool | None,
    typer.Option(
        "--engine/--no-engine",
        help="Put the engine's own order into the table, as engine, and compare with it. It is there by "
        "itself where the data have a column position or engine_score.",
        show_default=False,
    ),
]

# -- searching ---------------------------------------------------------------------------------------
Near = Annotated[
    str | None,
    typer.Option(
        "--near", "--focus", help="Where the user is, in degrees, e.g. 49.01,8.40.", metavar="LAT,LON"
    ),
]
Layers = Annotated[str | None, typer.Option(help="Only these types, with commas, e.g. station,stop.")]
When = Annotated[
    str | None,
    typer.Option("--time", help="When, e.g. 2026-03-01T08:30+01:00; UTC without a zone; else now."),
]

# -- what is written ---------------------------------------------------------------------------------
LogFolder = Annotated[
    Path, typer.Argument(help="Folder for the log; made if it is not there.", metavar="OUT")
]
StudyFolder = Annotated[
    Path, typer.Option(help="Folder of the tables and of the cells that a stopped study goes on from.")
]
Overwrite = Annotated[bool, typer.Option(help="Replace another run in that folder.")]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page here.", metavar="PAGE")]
AsJson = Annotated[bool, typer.Option("--json", help="Full precision for machines; NaN is null.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Report each cell on stderr, even when it is not a terminal."),
]


def _hush(context: typer.Context, wanted: bool) -> bool:
    if wanted or context.parent is None:  # before the command's name it is said anew for each call
        set_quiet(wanted)
    return wanted


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress and no notes; errors stay.", callback=_hush, is_eager=True
    ),
]


@dataclass(frozen=True)
class ColumnOptions:
    """How a file is read: which column is what, and how a value is written."""

    missing: Missing = None
    thousands: Thousands = None
    qid: Qid = None
    label: Label = None
    item: Item = None
    time: Time = None
    position: Position = None
    features: FeatureNames = None
    ignore: Ignore = None
    groups: Groups = None
    names: Names = None
    repeated_qid: RepeatedQid = None


COLUMNS = tuple(each.name for each in fields(ColumnOptions))


def takes(settings: type, name: str, *without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that are the fields of a dataclass, in place of its parameter `name`.

    The command is handed an instance. An option that it names itself is its own, and those in `without` are
    left out.
    """

    def widen(command: Callable[..., None]) -> Callable[..., None]:
        own = get_type_hints(command, include_extras=True)
        shared = [each for each in fields(settings) if each.name not in own and each.name not in without]
        kinds = get_type_hints(settings, include_extras=True)
        parameters = []
        for place, parameter in inspect.signature(command).parameters.items():
            if place == name:
                parameters += [
                    inspect.Parameter(
                        each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default,
                        annotation=kinds[each.name],
                    )
                    for each in shared
                ]  # fmt: skip
            else:
                parameters.append(
                    parameter.replace(annotation=own[place], kind=inspect.Parameter.KEYWORD_ONLY)
                )

        @wraps(command)
        def run(**given: Any) -> None:
            said = settings(**{each.name: given.pop(each.name) for each in shared})
            command(**{name: said}, **given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return widen


def add_quiet(app: typer.Typer) -> None:
    """Give every command of the app and of its groups `--quiet`, the same before and after its name."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _widen(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_quiet(group.typer_instance)


def _widen(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more, which it is not handed: its callback has done all there is to do."""
    kinds = get_type_hints(command, include_extras=True)
    if "quiet" in kinds:
        return command
    added = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    own = inspect.signature(command)

    @wraps(command)
    def run(*args: Any, quiet: bool = False, **given: Any) -> None:
        command(*args, **given)

    told = [each.replace(annotation=kinds[name]) for name, each in own.parameters.items()]
    run.__signature__ = own.replace(parameters=[*told, added])  # type: ignore[attr-defined]
    run.__annotations__ = {**kinds, "quiet": Quiet}
    return run
