"""`placings tune`: the best parameters of a ranker, searched on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.completion import complete_metric
from placings.cli.options import (
    COLUMNS,
    AsJson,
    ColumnOptions,
    MLflow,
    Overwrite,
    Propensity,
    RankerName,
    SplitBy,
    TrainingData,
    ValidShare,
    takes,
)
from placings.cli.printing import print_json, print_note, print_text
from placings.core import escape_cell, escape_line

if TYPE_CHECKING:
    from placings.data import RankingData
    from placings.evaluation import Tuning
    from placings.rankers import Ranker

OPTIONS = (
    "ranker", "set", "trials", "method", "space", "valid", "valid_share", "fold", "folds", "metric", "empty",
    "storage", "study", "workers", "timeout", "prune", *COLUMNS, "propensity", "seed",
    "out", "mlflow", "positive_weight", "split_by",
)  # fmt: skip
BUDGET = ("trials", "workers", "timeout", "storage", "out", "mlflow")  # may differ when a run goes on


@takes(ColumnOptions, "columns")
def tune_files(
    data: TrainingData,
    *,
    ranker: RankerName = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting to start from, such as rounds=200.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials in all, 50 by default.")] = None,
    method: Annotated[str | None, typer.Option(help="tpe (the default), random or grid.")] = None,
    space: Annotated[str | None, typer.Option(help="A preset: default or thesis.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data to judge on.")] = None,
    valid_share: ValidShare = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Or this many query folds of the training data; 3 by default.")
    ] = None,
    split_by: SplitBy = None,
    metric: Annotated[
        str | None, typer.Option(help="What to judge by, ndcg@10 by default.", autocompletion=complete_metric)
    ] = None,
    empty: Annotated[
        str | None, typer.Option(help="Queries with nothing relevant: drop, zero or one.")
    ] = None,
    storage: Annotated[
        Path | None, typer.Option(help="SQLite file of the trials; study.db in --out by default.")
    ] = None,
    study: Annotated[str | None, typer.Option(help="The study's name in the storage.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that run trials, 1 by default.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Start no trial after this many seconds.")] = None,
    prune: Annotated[
        bool | None, typer.Option("--prune/--no-prune", help="Stop trials that are below the median.")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Fold of a collection: its own train and valid.")] = None,
    columns: ColumnOptions,
    propensity: Propensity = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same trials.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the best parameters, trials and curve.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of these options, or a best.yaml; flags win.")
    ] = None,
    mlflow: MLflow = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Search for the parameters with the best mean over held-out queries.

    With --out or --storage the trials are kept: the same command goes on where it was stopped, --trials
    being the total, and a finished one does nothing. Writes best.yaml, best.json, trials.csv and curve.svg.

    \b
    Examples:
      placings tune train.txt --ranker lightgbm --valid vali.txt --out runs/tuned
      placings tune train.txt --ranker ranksvm --folds 5 --trials 30 --method random
      placings tune rows.parquet --ranker xgboost --space thesis --method grid --workers 2 --storage tune.db
      placings tune train.txt --config run.yaml --trials 100
    """
    from placings.cli.loading import gather_files, merge_settings, read_config

    chosen = read_config(config, OPTIONS, tune_files)
    chosen["set"] = merge_settings(chosen, settings or [], ranker)
    flags = {
        "ranker": ranker, "trials": trials, "method": method, "space": space, "valid": valid,
        "valid_share": valid_share, "folds": folds, "metric": metric, "empty": empty, "storage": storage,
        "study": study, "workers": workers, "timeout": timeout, "prune": prune, "fold": fold,
        **vars(columns), "propensity": propensity,
        "seed": seed, "out": out, "mlflow": mlflow, "split_by": split_by,
    }  # fmt: skip
    chosen |= {name: value for name, value in flags.items() if value is not None}
    found = run_search(gather_files(data), chosen, overwrite=overwrite)
    if as_json:
        print_json(found.to_json())
        return
    print_tuning(found, chosen.get("out"))


def run_search(path: Path | list[Path], chosen: dict[str, Any], *, overwrite: bool = False) -> Tuning:
    """Read the data, search, and write what was found into the run's folder if there is one."""
    from placings.cli.fitting import check_alike, open_run, read_parts
    from placings.cli.loading import name_data
    from placings.cli.printing import say_when_stopped
    from placings.evaluation import log_to_mlflow, tune

    seed = int(chosen.get("seed", 0))
    start = check_search(path, chosen)
    parts = read_parts(path, chosen, seed)
    check_alike(parts)
    parts["train"] = _weigh_train(parts["train"], start, chosen)
    names = ("trials", "method", "space", "folds", "metric", "empty", "study", "workers", "timeout", "prune")
    options: dict[str, Any] = {name: chosen[name] for name in names if name in chosen}
    options["group"] = str(chosen.get("split_by", "auto"))
    held = None if chosen.get("folds") and not chosen.get("valid") else parts.get("valid")
    folder = Path(chosen["out"]) if chosen.get("out") else None
    storage = chosen.get("storage") or (folder / "study.db" if folder else None)

    kept_in = "nothing is kept; with --out or --storage the trials would be."
    if storage is not None:
        kept_in = f"the trials so far are in {storage}; the same command goes on."

    def search() -> Tuning:
        with say_when_stopped(kept_in):
            return tune(
                start, parts["train"], held, storage=storage, progress=True, random_state=seed, **options
            )

    if folder is None:
        return search()
    kept = {"train": parts["train"], **({"valid": held} if held is not None else {})}
    asked = {name: value for name, value in chosen.items() if name not in BUDGET}
    asked |= {"ranker": chosen.get("ranker", "lightgbm"), "seed": seed, "path": name_data(path)}
    with open_run(folder, "tune", asked, kept, overwrite=overwrite) as run:
        found = search()
        found.save(folder)
        run.write_text("trials.csv", format_trials(found))
        curve = draw_curve(found)
        if curve is not None:
            run.write_text("curve.svg", curve)
        run.facts["best"] = {"params": found.best_params, "trial": found.best.number, "study": found.study}
        run.log({f"best {found.metric}": found.best_value, "trials": float(len(found.trials))})
    if chosen.get("mlflow"):
        log_to_mlflow(run)
    return found


def check_search(path: Path | list[Path], chosen: dict[str, Any]) -> Ranker:
    """The ranker to start from; what the search would fail at later is refused now."""
    from placings.cli.checks import (
        check_folder,
        check_inputs,
        check_library,
        check_metrics,
        check_mlflow,
        check_output,
        check_ranker,
    )
    from placings.cli.fitting import check_parts
    from placings.core import check_name
    from placings.evaluation import METHODS, find_space
    from placings.metrics import EMPTY

    start = check_ranker(str(chosen.get("ranker", "lightgbm")), chosen["set"])
    find_space(start, chosen.get("space"))
    check_metrics([str(chosen.get("metric", "ndcg@10"))], "--metric")
    for name, kind, known in (("method", "method", METHODS), ("empty", "empty rule", EMPTY)):
        if chosen.get(name) is not None:
            check_name(kind, chosen[name], known)
    check_library("optuna", "tuning", "optuna", "tune")
    if chosen.get("out"):
        check_folder(chosen["out"])
    if chosen.get("storage") and "://" not in str(chosen["storage"]):
        check_folder(Path(chosen["storage"]).expanduser().parent, "--storage")
        if Path(chosen["storage"]).is_dir():
            check_output(chosen["storage"], "--storage")
    if chosen.get("mlflow"):
        check_mlflow()
    check_parts(path, chosen)
    check_inputs(path, chosen.get("valid"))
    return start


def _weigh_train(train: RankingData, start: Ranker, chosen: dict[str, Any]) -> RankingData:
    """The training data under a `positive_weight`, unless the search looks for it itself."""
    from placings.cli.fitting import weigh_train
    from placings.cli.loading import POSITIVE_WEIGHT
    from placings.evaluation import find_space

    if chosen.get(POSITIVE_WEIGHT) is None:
        return train
    if POSITIVE_WEIGHT in find_space(start, chosen.get("space")):
        print_note(f"{POSITIVE_WEIGHT} is searched, so that of the file is not used.")
        return train
    return weigh_train(train, chosen)


def draw_curve(found: Tuning) -> str | None:
    """The curve as SVG text; None, said on stderr, without the library that draws."""
    from placings.core import MissingExtra

    try:
        from placings.report import draw_tuning

        return draw_tuning(found)
    except MissingExtra as error:
        print_note(f"no curve.svg: {error}")
        return None


def format_trials(found: Tuning) -> str:
    """All trials as CSV text, one a line, one column a parameter."""
    import csv
    import io

    out = io.StringIO()
    names = list(found.space)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["number", "state", "value", "seconds", "error", *map(escape_cell, names)])
    for row in found.trials:
        value = "" if row.value is None else repr(row.value)
        writer.writerow(
            [
                row.number,
                row.state,
                value,
                row.seconds,
                escape_cell(row.error or ""),
                *(row.params.get(name) for name in names),
            ]
        )
    return out.getvalue()


def print_tuning(found: Tuning, folder: Path | None) -> None:
    """The best trials and the best parameters, as the terminal shows them."""
    print_text(found.summary())
    print_text(found.table())
    errors = {row.error for row in found.trials if row.error}
    for error in sorted(errors)[:3]:
        print_text(f"failed: {escape_line(error)}")
    print_text(f"\nbest {found.metric} {found.best_value:.4f} in trial {found.best.number}:")
    for name, value in found.best_params.items():
        print_text(f"  {escape_line(name)}: {escape_line(value)}")
    if folder is not None:
        files = ("best.yaml", "best.json", "trials.csv", "curve.svg", "run.json")
        there = ", ".join(name for name in files if (Path(folder) / name).exists())
        print_text(f"written to {folder}: {there}")
