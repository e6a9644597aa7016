"""`placings import-model`: a LightGBM or XGBoost model file becomes a bundle with equal scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_text


def import_model(
    model: Annotated[Path, typer.Argument(help="LightGBM text, or XGBoost .json or .ubj.")],
    out: Annotated[Path, typer.Argument(help="The bundle to write, a folder.")],
    library: Annotated[
        str | None, typer.Option(help="lightgbm or xgboost; guessed from the file by default.")
    ] = None,
    names: Annotated[Path | None, typer.Option(help="Names of the features, one a line.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn a model that was trained elsewhere into a bundle: the same scores, now with a contract.

    \b
    Examples:
      placings import-model lightgbm.txt model/
      placings import-model ranker.ubj model/ --names feature_names.txt
    """
    from placings.cli.checks import check_folder, check_inputs
    from placings.core import BadInput, check_file, check_name, refuse_other
    from placings.data import read_feature_names

    libraries = {"lightgbm": "LightGBMRanker", "xgboost": "XGBoostRanker"}
    if library is not None:
        check_name("library", library, libraries)
    check_folder(out, "OUT")
    refuse_other(out)
    check_inputs(names)
    check_file(model)
    if library is None:
        with open(model, "rb") as file:
            library = "lightgbm" if file.read(5).strip().startswith(b"tree") else "xgboost"
    from placings.rankers import LightGBMRanker, XGBoostRanker, try_in_child

    try_in_child(model, libraries[library])
    ranker = (LightGBMRanker if library == "lightgbm" else XGBoostRanker).from_model(model)
    if names is not None:
        found = read_feature_names(names)
        if len(found) != ranker.n_features_in_:
            raise BadInput(
                f"{names} must name the model's {ranker.n_features_in_} features. Got {len(found)}."
            )
        ranker.feature_names_ = found
    digest = ranker.save(out)
    if as_json:
        facts = {"model": str(out), "digest": digest, "ranker": libraries[library]}
        print_json({**facts, "features": ranker.n_features_in_}, indent=1)
        return
    print_text(f"model: {out} ({libraries[library]}, {ranker.n_features_in_} features)\ndigest: {digest}")
