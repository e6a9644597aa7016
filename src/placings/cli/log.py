"""`placings log`: from what an engine showed and what people did to data that rankers learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.log_explorer import explore_log
from placings.cli.log_import import import_log
from placings.cli.log_join import join_files
from placings.cli.log_propensity import estimate_looks
from placings.cli.log_simulation import simulate_places, simulate_shop
from placings.cli.log_splitting import split_log
from placings.cli.options import AsJson

app = typer.Typer(
    cls=PlainFlags,
    help="Click logs: join, import, split, look at, compute features of, simulate.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

app.command("join")(join_files)
app.command("import")(import_log)
app.command("split")(split_log)
app.command("explore")(explore_log)
app.command("propensity")(estimate_looks)
app.command("simulate-places")(simulate_places)
app.command("simulate-shop")(simulate_shop)


@app.command("features")
def compute_features(
    rows: Annotated[Path, typer.Argument(help="The rows that `placings log join` wrote.", metavar="ROWS")],
    out: Annotated[
        Path,
        typer.Option(help="Ranking data to write: .parquet, or svmlight text (.txt, .txt.gz) for thesis."),
    ],
    preset: Annotated[
        str | None,
        typer.Option(
            help="places, shop, thesis, or a features file that an earlier run wrote (.json). Else places "
            "for items with name, lat and lon, shop for others.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Also write the fitted features here (.json), for later logs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the features of joined rows: ranking data that fit, compare and evaluate read.

    Says which columns of the rows no feature reads. The thesis' n-grams are a million sparse columns and
    more, which only svmlight text can hold.

    \b
    Examples:
      placings log features rows.parquet --out data.parquet
      placings log features rows.parquet --preset shop --out data.parquet --save features.json
      placings log features rows.parquet --preset thesis --out data.txt.gz
      placings log features next_week.parquet --preset features.json --out next.parquet
    """
    from placings.cli.checks import check_output
    from placings.cli.printing import print_json, print_text
    from placings.data import check_width, name_written, write
    from placings.logs import ClickLog
    from placings.places import choose_preset, find_features, list_unused, write_features

    form = name_written(out)
    check_output(out)
    if save is not None:
        check_output(save, "--save", (".json",))
    log = ClickLog.read(rows, count_positions=False)
    frame = log.rows
    chosen = preset or choose_preset(frame)
    features = find_features(chosen, frame)
    if form == "parquet" and any(each.sparse for each in features.fitted):
        check_width(sum(each.width() for each in features.fitted))
    data = log.to_ranking(features)
    write(data, out, **({"ids": "encode"} if form == "svmlight" else {}))
    if save is not None:
        write_features(features, save)
    unused = list_unused(features, frame)
    if as_json:
        counts = {"searches": data.n_queries, "rows": data.n_rows, "features": data.n_features}
        named = {"preset": str(chosen), "save": None if save is None else str(save), "unused": list(unused)}
        print_json({"out": str(out), **counts, **named}, indent=1)
        return
    told = (
        f"{out}: {data.n_queries:,} searches, {data.n_rows:,} rows, {data.n_features:,} features ({chosen})"
    )
    if unused:
        told += f"\ncolumns not used: {', '.join(unused)}"
        if chosen in ("places", "thesis"):
            told += "\n--preset shop uses every number and every text of at most 50 values"
    print_text(told)
