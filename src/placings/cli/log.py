"""`placings log`: from what an engine showed and what people did to data that rankers learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.log_explorer import explore_log
from placings.cli.log_import import import_log
from placings.cli.log_join import join_files
from placings.cli.log_simulation import simulate_places, simulate_shop

app = typer.Typer(
    cls=PlainFlags,
    help="Click logs: join, import, look at, compute features of, simulate.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

app.command("join")(join_files)
app.command("import")(import_log)
app.command("explore")(explore_log)
app.command("simulate-places")(simulate_places)
app.command("simulate-shop")(simulate_shop)


@app.command("features")
def compute_features(
    rows: Annotated[Path, typer.Argument(help="The rows that `placings log join` wrote.", metavar="ROWS")],
    out: Annotated[Path, typer.Option(help="Ranking data to write: parquet, CSV or svmlight text.")],
    preset: Annotated[
        str, typer.Option(help="places, shop, thesis, or a features file that an earlier run wrote (.json).")
    ] = "places",
    save: Annotated[
        Path | None, typer.Option(help="Also write the fitted features here (.json), for later logs.")
    ] = None,
) -> None:
    """Compute the features of joined rows: ranking data that fit, compare and evaluate read.

    \b
    Examples:
      placings log features rows.parquet --out data.parquet
      placings log features rows.parquet --preset shop --out data.parquet --save features.json
      placings log features next_week.parquet --preset features.json --out next.parquet
    """
    from placings.cli.checks import check_output
    from placings.cli.printing import print_text
    from placings.data.reading import write
    from placings.places.preset import find_features, write_features
    from placings.studies.places import read_rows

    check_output(out)
    if save is not None:
        check_output(save, "--save", (".json",))
    frame = read_rows(rows)
    features = find_features(preset, frame)
    data = features.to_ranking(frame)
    write(data, out)
    if save is not None:
        write_features(features, save)
    print_text(
        f"{out}: {data.n_queries:,} searches, {data.n_rows:,} rows, {data.n_features:,} features ({preset})"
    )
