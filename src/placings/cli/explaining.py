"""`placings explain`: why one item stands above another, feature by feature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.options import AsJson, Digest, FeatureNames, FoldNumber, Label, Missing, Qid, Split
from placings.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from placings.data import RankingData


def explain_order(
    model: Annotated[Path, typer.Argument(help="A bundle, as `placings fit` saved it: trees or linear.")],
    data: Annotated[Path, typer.Argument(help="The rows that are ranked.")],
    query: Annotated[
        str | None, typer.Option(help="The query's id; the first in the data if not said.", metavar="QID")
    ] = None,
    above: Annotated[
        str | None,
        typer.Option(help="The item that stands above; the model's first if not said.", metavar="ITEM"),
    ] = None,
    below: Annotated[
        str | None,
        typer.Option(help="The item below it; the next in the model's order if not said.", metavar="ITEM"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Show at most this many features.", metavar="N")] = 10,
    digest: Digest = None,
    fold: FoldNumber = None,
    split: Split = None,
    missing: Missing = None,
    qid: Qid = None,
    label: Label = None,
    features: FeatureNames = None,
    as_json: AsJson = False,
) -> None:
    """Say why an item stands above another: what each feature adds to the difference of their scores.

    Trees are taken apart by SHAP values, linear rankers by weight and value; the parts add up to the
    difference. Items without ids are named by their places in the query, from 0.

    \b
    Examples:
      placings explain runs/first/model test.txt
      placings explain runs/first/model test.txt --query 8 --above 177 --below 181
      placings explain runs/first/model test.parquet --query s-81 --top 5 --json
    """
    from placings.cli.checks import check_inputs
    from placings.cli.loading import read_data
    from placings.core import UnknownName
    from placings.evaluation import explain
    from placings.rankers import load_ranker

    ranker = load_ranker(model, digest=digest)
    check_inputs(data)
    reading: dict[str, Any] = {"fold": fold, "split": split, "missing": missing, "qid": qid, "label": label}
    rows = read_data(data, models=[ranker], features=features, **reading)
    named = {str(each): each for each in rows.qids.tolist()}
    if query is not None and query not in named:
        raise UnknownName(f"query in {data}", query, named)
    asked = rows.qids.tolist()[0] if query is None else named[query]
    one, other = _choose_items(ranker, rows.query(asked), above, below)
    found = explain(ranker, rows, asked, one, other)
    if as_json:
        print_json(found.to_json())
        return
    print_text(found.table(top=top))


def _choose_items(ranker: Any, query: RankingData, above: str | None, below: str | None) -> tuple[Any, Any]:
    """The two items, as the data have their ids; those that are not named by the model's order."""
    import numpy as np

    from placings.core import BadInput, UnknownName

    ids = list(range(query.n_rows)) if query.items is None else query.items.tolist()
    if len(ids) < 2:
        raise BadInput(f"explain compares two items. Got a query with {len(ids)}. Name another with --query.")
    named = {str(each): each for each in ids}
    for given in (above, below):
        if given is not None and given not in named:
            raise UnknownName("item in this query", given, named)
    order = [ids[row] for row in np.argsort(-ranker.predict(query), kind="stable").tolist()]
    if above is None and below is not None:
        place = order.index(named[below])
        one = order[place - 1] if place else order[1]
        return one, named[below]
    one = order[0] if above is None else named[above]
    if below is not None:
        return one, named[below]
    place = order.index(one)
    return one, order[place + 1] if place + 1 < len(order) else order[place - 1]
