"""`placings export`: a saved ranker becomes one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.options import AsJson, Digest
from placings.cli.printing import print_json, print_text


def export_model(
    model: Annotated[Path, typer.Argument(help="A bundle, or a run's folder, as `placings fit` saved it.")],
    out: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
    opset: Annotated[
        int | None, typer.Option(min=1, help="The ONNX operator set; 18 (of networks 17 before PyTorch 2.9).")
    ] = None,
    digest: Digest = None,
    as_json: AsJson = False,
) -> None:
    """Write a ranker as an ONNX file: raw features in, scores out, no Python needed to serve it.

    Networks, linear rankers and the trees of LightGBM, XGBoost and CatBoost, with transforms. ONNX Runtime
    scores a sample before the file takes its place, and must agree with the ranker.

    \b
    Examples:
      placings fit train.txt --ranker neural --out runs/neural
      placings export runs/neural/model ranker.onnx
      placings export runs/first ranker.onnx
    """
    from placings.cli.caching import format_bytes
    from placings.cli.checks import check_output
    from placings.core import find_bundle, read_bundle
    from placings.rankers import export_ranker, load_ranker

    check_output(out, "OUT")
    model = find_bundle(model)
    found = read_bundle(model, digest=digest).digest
    ranker = load_ranker(model, digest=found)
    made = export_ranker(ranker, out, opset=opset, digest=found)
    if as_json:
        print_json({**vars(made), "path": str(made.path), "digest": found}, indent=1)
        return
    print_text(
        f"{made.path}: {format_bytes(made.bytes)}, opset {made.opset}, {ranker.n_features_in_} features\n"
        f"{made.lists}\n"
        f"largest difference on the sample: {made.difference:.1e}\n"
        f"sha256: {made.sha256}"
    )
