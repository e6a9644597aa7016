"""`placings explain`: what a saved model goes by, and why one item stands above another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.options import AsJson, ColumnOptions, Digest, FoldNumber, Split, takes
from placings.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from placings.data import RankingData
    from placings.rankers import Ranker

KINDS = ("gain", "split", "contributions", "permutation")


def list_kinds(incomplete: str) -> list[str]:
    """For completion."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@takes(ColumnOptions, "columns")
def explain_model(
    model: Annotated[Path, typer.Argument(help="A bundle as `placings fit` saved it, or its run's folder.")],
    data: Annotated[
        list[Path] | None,
        typer.Argument(help="Rows to look at: a file, several, or a glob; for --query too."),
    ] = None,
    *,
    query: Annotated[
        str | None, typer.Option(help="Why an item of this query stands above another.", metavar="ID")
    ] = None,
    above: Annotated[
        str | None,
        typer.Option(help="The one item: its id, or its row from 1; else the first.", metavar="ITEM"),
    ] = None,
    below: Annotated[
        str | None, typer.Option(help="The other, alike; else the next one below it.", metavar="ITEM")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Without --query: gain or split (trees), contributions or permutation (with data).",
            autocompletion=list_kinds,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Show so many features.", metavar="N")] = 20,
    digest: Digest = None,
    fold: FoldNumber = None,
    split: Split = None,
    columns: ColumnOptions,
    as_json: AsJson = False,
) -> None:
    """Say which features a saved model goes by; with --query, why one item stands above another.

    The terms of a query's explanation add up to the difference of the two scores: SHAP values of trees,
    weight times value of a linear ranker.

    \b
    Examples:
      placings explain runs/first
      placings explain runs/first test.txt --kind permutation
      placings explain runs/first test.txt --query 2001
      placings explain runs/first test.txt --query 2001 --above 3 --below 1 --json
    """
    from placings.cli.checks import check_inputs
    from placings.core import check_name
    from placings.rankers import load_ranker

    if query is None and (above is not None or below is not None):
        raise typer.BadParameter("--above and --below are items of a query. Add --query.")
    if query is not None and not data:
        raise typer.BadParameter("--query is looked up in data. Name a file of rows after the model.")
    if query is not None and kind is not None:
        raise typer.BadParameter("--kind is about all queries. Leave out --query, or it.")
    if kind is not None:
        check_name("kind of importance", kind, KINDS)
    ranker = load_ranker(model, digest=digest)
    rows = None
    if data:
        from placings.cli.loading import gather_files, read_data

        files = gather_files(data)
        check_inputs(files)
        rows = read_data(files, models=[ranker], fold=fold, split=split, **vars(columns))
    if query is not None and rows is not None:
        found: Any = _explain_query(ranker, rows, query, above, below)
    else:
        found = _rank_features(ranker, rows, kind)
    if as_json:
        print_json(found.to_json())
        return
    print_text(found.table(top=top))


def _rank_features(ranker: Ranker, rows: RankingData | None, kind: str | None) -> Any:
    """What the model goes by, in the way that it and the data allow unless one is named."""
    from placings.core import BadInput
    from placings.evaluation import rank_importance

    if kind is None:
        trees, split = hasattr(ranker, "feature_importances"), hasattr(ranker, "contributions")
        kind = "gain" if trees and rows is None else "contributions" if split else "permutation"
        if rows is None and not trees:
            what = f"what a {type(ranker).__name__} goes by"
            raise BadInput(f"{what} is measured on data. Name a file of rows after the model.")
    if rows is None and kind in ("contributions", "permutation"):
        raise BadInput(f"--kind {kind} is measured on data. Name a file of rows after the model.")
    return rank_importance(ranker, kind, None if kind in ("gain", "split") else rows)


def _explain_query(
    ranker: Ranker, rows: RankingData, query: str, above: str | None, below: str | None
) -> Any:
    """Why the one item stands above the other: those named, else the first, and the next one below."""
    import numpy as np

    from placings.core import BadInput
    from placings.data import align_features
    from placings.evaluation import explain

    wanted = find_named(query, rows.qids.tolist(), "query", "--query")
    part = rows.query(wanted)
    if part.n_rows < 2:
        raise BadInput(f"query {query} has one row, which stands above none. Name another --query.")
    if part.items is None:  # counted as `placings predict` counts them
        part = part.replace(items=np.array([f"row {number}" for number in range(1, part.n_rows + 1)]))
        above, below = (f"row {each}" if each and each.isdecimal() else each for each in (above, below))
    scores = np.asarray(ranker.predict(align_features(part, ranker.feature_names_)), dtype=np.float64)
    ordered = np.asarray(part.items)[np.argsort(-scores, kind="stable")].tolist()
    first = ordered[0] if above is None else find_named(above, ordered, "item", "--above")
    if below is not None:
        second = find_named(below, ordered, "item", "--below")
    elif first == ordered[-1]:
        raise BadInput(f"{above} stands last in query {query}. Name the other item with --below.")
    else:
        second = ordered[ordered.index(first) + 1]
    return explain(ranker, part, wanted, first, second)


def find_named(text: str, known: list[Any], what: str, option: str) -> Any:
    """The id that was typed, as the data have it: there it may be a number.

    >>> find_named("7", [3, 7], "item", "--above")
    7
    """
    from placings.core import UnknownName

    for each in known:
        if str(each) == text:
            return each
    raise UnknownName(f"{what} for {option}", text, tuple(map(str, known)))
