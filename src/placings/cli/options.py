"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a table is printed."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    html = "html"


# -- reading data ------------------------------------------------------------------------------------
TrainingData = Annotated[Path, typer.Argument(help="Training data: a file, or a known collection's folder.")]
FoldNumber = Annotated[int | None, typer.Option(help="Fold of a collection that has folds.")]
Split = Annotated[str | None, typer.Option(help="Split of a collection, e.g. test.")]
Missing = Annotated[str | None, typer.Option(help="What stands for a missing value, e.g. NULL.")]
Qid = Annotated[str | None, typer.Option(help="Column of the query ids, in a table.")]
Label = Annotated[str | None, typer.Option(help="Column of the labels, in a table.")]
FeatureNames = Annotated[
    str | None,
    typer.Option(
        "--features", help="The columns that are features, with commas, in a table.", metavar="NAMES"
    ),
]
Digest = Annotated[str | None, typer.Option(help="Refuse any other bundle than this one.")]
Reference = Annotated[Path | None, typer.Option(help="A saved ranker's folder.", metavar="MODEL")]

# -- training ----------------------------------------------------------------------------------------
RankerName = Annotated[str | None, typer.Option(help="lightgbm, xgboost, catboost, ranksvm, ridge, …")]
ValidShare = Annotated[
    float | None, typer.Option(min=0.0, max=0.9, help="Or this share of the training queries.")
]
MLflow = Annotated[bool | None, typer.Option("--mlflow", help="Log the run to MLflow too.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]

# -- judging -----------------------------------------------------------------------------------------
RiskMetric = Annotated[str, typer.Option(help="The metric at risk.")]
TableFormat = Annotated[Format, typer.Option(help="How the tables are printed.")]

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
    bool, typer.Option("--verbose", help="Say each cell on stderr, also where it is no terminal.")
]
