"""`placings fit`: train a ranker on files, judge it, and keep it with all that made it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.loading import FeatureNames

if TYPE_CHECKING:
    from placings.data.ranking import RankingData

OPTIONS = (
    "ranker", "valid", "valid_share", "test", "set", "metrics", "seed", "fold", "missing", "qid", "label",
    "features", "out", "mlflow", "coverage_limits",
)  # fmt: skip


def fit_files(
    data: Annotated[Path, typer.Argument(help="Training data: a file, or a known collection's folder.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder; the model is in its `model`.")] = None,
    ranker: Annotated[str | None, typer.Option(help="lightgbm, xgboost, catboost, ranksvm, ridge, …")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the ranker, such as rounds=200.")
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data, for early stopping.")] = None,
    valid_share: Annotated[
        float | None, typer.Option(min=0.0, max=0.9, help="Or this share of the training queries.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test data, judged once at the end.")] = None,
    metrics: Annotated[str | None, typer.Option(help="What to judge by, with commas.")] = None,
    fold: Annotated[
        int | None, typer.Option(help="Fold of a collection: its own train, valid, test.")
    ] = None,
    missing: Annotated[str | None, typer.Option(help="What stands for a missing value, e.g. NULL.")] = None,
    qid: Annotated[str | None, typer.Option(help="Column of the query ids, in a table.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels, in a table.")] = None,
    features: FeatureNames = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same model.")] = None,
    coverage_limits: Annotated[
        Path | None,
        typer.Option(help="Check the training data's coverage first; exit 3, untrained, if it is too low."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of these options; flags win.")] = None,
    mlflow: Annotated[bool | None, typer.Option("--mlflow", help="Log the run to MLflow too.")] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's events of a neural ranker.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace another run in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Train a ranker and save it as a bundle, with the run's configuration, data and metrics beside it.

    \b
    Examples:
      placings fit train.txt --valid vali.txt --test test.txt --out runs/first
      placings fit MSLR-WEB30K --fold 1 --ranker lightgbm --set rounds=500 --out runs/lgbm
      placings fit rows.parquet --ranker ridge --set C=10 --valid-share 0.2 --out runs/ridge
      placings fit train.txt --ranker neural --valid vali.txt --out runs/neural --tensorboard runs/events
      placings fit train.txt --config run.yaml
      placings fit train.parquet --coverage-limits limits.yaml --out runs/gated
    """
    from placings.cli.loading import parse_settings, read_config, split_names
    from placings.cli.training_files import keep_history, set_checkpoint
    from placings.errors import BadInput
    from placings.evaluation.runs import log_to_mlflow, start_run
    from placings.evaluation.scoring import evaluate
    from placings.rankers.catalogue import make_ranker

    chosen = read_config(config, OPTIONS)
    flags = {
        "ranker": ranker, "valid": valid, "valid_share": valid_share, "test": test, "metrics": metrics,
        "seed": seed, "fold": fold, "missing": missing, "qid": qid, "label": label,
        "features": features, "out": out,
        "mlflow": mlflow, "coverage_limits": coverage_limits,
    }  # fmt: skip
    chosen |= {name: value for name, value in flags.items() if value is not None}
    given = {**_as_settings(chosen.pop("set", None)), **parse_settings(settings or [])}
    name = str(chosen.get("ranker", "lightgbm"))
    names = split_names(chosen.get("metrics", "ndcg@1,ndcg@5,ndcg@10,mrr"))
    random_state = int(chosen.get("seed", 0))
    if chosen.get("out") is None:
        raise BadInput("a run needs a folder. Pass --out, or out: in the configuration.")
    folder = Path(chosen["out"])
    parts = read_parts(data, chosen, random_state)
    if chosen.get("coverage_limits") is not None:
        check_training(parts["train"], Path(chosen["coverage_limits"]), as_json=as_json)
    if "random_state" in make_ranker(name).get_params():
        given.setdefault("random_state", random_state)
    model = make_ranker(name, **given)
    written = {
        **chosen,
        "ranker": name,
        "set": given,
        "metrics": names,
        "seed": random_state,
        "path": str(data),
    }
    with start_run(folder, "fit", written, parts, overwrite=overwrite) as run:
        if "verbose" in model.get_params():
            model.set_params(verbose=True)
        set_checkpoint(model, folder)
        model.fit(parts["train"], valid=parts.get("valid"))
        if "verbose" in model.get_params():
            model.set_params(verbose=False)
        keep_history(model, folder, tensorboard)
        if chosen.get("coverage_limits") is not None:
            from placings.feco.limits import read_limits
            from placings.feco.references import adopt_rules

            adopt_rules(model, parts["train"], read_limits(Path(chosen["coverage_limits"])).rules)
        judged = {part: evaluate(model, parts[part], names) for part in ("valid", "test") if part in parts}
        for part, result in judged.items():
            run.log({f"{part} {metric}": result[metric] for metric in names})
        means = {key: value for key, value in run.metrics.items() if value is not None}
        digest = model.save(folder / "model", metrics=means)
        run.facts["digest"] = digest
    if chosen.get("mlflow"):
        log_to_mlflow(run)
    if as_json:
        import json

        facts = {"model": str(folder / "model"), "digest": digest, "metrics": run.metrics}
        typer.echo(json.dumps(facts, indent=1))
        return
    for part, result in judged.items():
        typer.echo(f"{part}:\n{result.table()}\n")
    typer.echo(f"model: {folder / 'model'}\ndigest: {digest}")


def check_training(train: RankingData, limits: Path, *, as_json: bool) -> None:
    """The gate before training: says why and leaves with exit code 3 if a feature is below its limit."""
    from placings.cli.coverage_checks import SAID_NO, print_verdict
    from placings.feco.gate import check_coverage

    verdict = check_coverage(train, limits)
    print_verdict(verdict, err=True)
    if not verdict.passed:
        typer.echo("nothing was trained: the training data's coverage is below its limits", err=True)
        if as_json:
            import json

            typer.echo(json.dumps({"model": None, "coverage": json.loads(verdict.to_json())}, indent=1))
        raise typer.Exit(SAID_NO)


def read_parts(path: Path, chosen: dict[str, Any], seed: int) -> dict[str, RankingData]:
    """train, and valid and test where there are such: files, a share, or a collection's own parts."""
    from placings.cli.loading import read_data
    from placings.data.letor import find_collection
    from placings.errors import BadInput

    reading: dict[str, Any] = {name: chosen.get(name) for name in ("missing", "qid", "label", "features")}
    collection = find_collection(path) if path.is_dir() else None
    parts: dict[str, RankingData] = {}
    if collection is not None:
        for split in collection.splits:
            parts[split] = read_data(path, fold=chosen.get("fold"), split=split, **reading)
    else:
        parts["train"] = read_data(path, fold=chosen.get("fold"), **reading)
    for part in ("valid", "test"):
        if chosen.get(part) is not None:
            parts[part] = read_data(Path(chosen[part]), **reading)
    share = chosen.get("valid_share")
    if share:
        if "valid" in parts:
            raise BadInput("valid_share takes queries from the training data; leave it out, there is valid.")
        parts["train"], parts["valid"] = parts["train"].split(
            1 - float(share), float(share), random_state=seed
        )
    return parts


def _as_settings(given: Any) -> dict[str, Any]:
    from placings.errors import BadInput

    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BadInput(f"set must hold settings as `name: value` in a configuration. Got {given!r}.")
    return {str(name): value for name, value in given.items()}
