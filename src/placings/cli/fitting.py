"""`placings fit`: train a ranker on files, judge it, and keep it with all that made it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.completion import complete_metrics
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
    WithEngine,
    takes,
)
from placings.cli.printing import print_json, print_note, print_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from placings.data import RankingData
    from placings.evaluation import RunFolder
    from placings.rankers import Ranker

OPTIONS = (
    "ranker", "budget", "steps", "valid", "valid_share", "test", "set", "metrics", "seed", "fold", *COLUMNS,
    "propensity", "out", "mlflow", "coverage_limits", "positive_weight", "split_by", "engine",
)  # fmt: skip


@takes(ColumnOptions, "columns")
def fit_files(
    data: TrainingData,
    *,
    out: Annotated[Path | None, typer.Option(help="The run's folder; the model is in its `model`.")] = None,
    ranker: RankerName = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the ranker, such as rounds=200.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="How long auto (or a network) may train: 90s, 10m, 1h30m.", metavar="TIME"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Take so many steps of auto (or of a network), however long they take."),
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation data, for early stopping.")] = None,
    valid_share: ValidShare = None,
    split_by: SplitBy = None,
    test: Annotated[Path | None, typer.Option(help="Test data, judged once at the end.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="What to judge by, with commas.", autocompletion=complete_metrics)
    ] = None,
    engine: WithEngine = None,
    fold: Annotated[
        int | None, typer.Option(help="Fold of a collection: its own train, valid, test.")
    ] = None,
    columns: ColumnOptions,
    propensity: Propensity = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same model.")] = None,
    positive_weight: Annotated[
        float | None, typer.Option(min=0.0, help="Rows with a label above 0 weigh so much more.", metavar="W")
    ] = None,
    coverage_limits: Annotated[
        Path | None,
        typer.Option(help="Check the training data's coverage first; exit 3, untrained, if it is too low."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of these options, or tune's best.yaml; flags win.")
    ] = None,
    mlflow: MLflow = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's events of a neural ranker.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a ranker and save it as a bundle, with the run's configuration, data and metrics beside it.

    Ctrl-C in a neural training keeps where it stands: the same command goes on from there. Ctrl-C in the
    search of auto takes the best so far, and the same command goes on searching. Where the validation or
    test data know the order that the engine gave, it is judged beside the ranker.

    \b
    Examples:
      placings fit train.txt --valid vali.txt --test test.txt --out runs/first
      placings fit MSLR-WEB30K --fold 1 --ranker lightgbm --set rounds=500 --out runs/lgbm
      placings fit rows.parquet --ranker ridge --set C=10 --valid-share 0.2 --out runs/ridge
      placings fit train.txt --ranker neural --valid vali.txt --out runs/neural --tensorboard runs/events
      placings fit train.txt --ranker auto --budget 10m --test test.txt --out runs/auto
      placings fit train.txt --config run.yaml
      placings fit train.txt --config runs/tuned/best.yaml --out runs/best
      placings fit train.parquet --coverage-limits limits.yaml --out runs/gated
      placings fit 'part-*.parquet' --label grade --ignore margin,stock --valid-share 0.2 --out runs/parts
    """
    from placings.cli.checks import check_ranker
    from placings.cli.loading import gather_files, merge_settings, name_data, read_config, split_names
    from placings.cli.training_files import (
        forget_checkpoint,
        keep_history,
        save_model,
        say_stopped,
        set_checkpoint,
    )
    from placings.evaluation import log_to_mlflow

    chosen = read_config(config, OPTIONS, fit_files)
    given = merge_settings(chosen, settings or [], ranker)
    flags = {
        "ranker": ranker, "budget": budget, "steps": steps, "valid": valid, "valid_share": valid_share,
        "test": test, "metrics": metrics,
        "seed": seed, "fold": fold, **vars(columns), "propensity": propensity, "out": out, "mlflow": mlflow,
        "coverage_limits": coverage_limits, "positive_weight": positive_weight, "split_by": split_by,
        "engine": engine,
    }  # fmt: skip
    chosen = {name: value for name, value in chosen.items() if name != "set"}
    chosen |= {name: value for name, value in flags.items() if value is not None}
    name = str(chosen.get("ranker", "lightgbm"))
    given |= {each: chosen[each] for each in ("budget", "steps") if chosen.get(each) is not None}
    names = split_names(chosen.get("metrics", "ndcg@1,ndcg@5,ndcg@10,mrr"))
    random_state = int(chosen.get("seed", 0))
    if "random_state" in check_ranker(name, given).get_params():
        given.setdefault("random_state", random_state)
    model = check_ranker(name, given)
    folder = check_fit(files := gather_files(data), chosen, names, model, tensorboard)
    parts = read_parts(files, chosen, random_state)
    check_alike(parts)
    check_judged(parts, names, model)
    if chosen.get("coverage_limits") is not None:
        check_training(parts["train"], Path(chosen["coverage_limits"]), as_json=as_json)
    written = {
        **chosen,
        "ranker": name,
        "set": given,
        "metrics": names,
        "seed": random_state,
        "path": name_data(files),
    }
    with open_run(folder, "fit", written, parts, overwrite=overwrite) as run:
        if "verbose" in model.get_params():
            model.set_params(verbose=True)
        set_checkpoint(model, folder)
        try:
            model.fit(weigh_train(parts["train"], chosen), valid=parts.get("valid"))
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(say_stopped(stop, model)) from stop
        if "verbose" in model.get_params():
            model.set_params(verbose=False)
        forget_checkpoint(model, folder)
        if chosen.get("coverage_limits") is not None:
            from placings.feco import adopt_rules, take_limits

            adopt_rules(model, parts["train"], take_limits(Path(chosen["coverage_limits"])).rules)
        place = folder / "model"
        save_model(model, place, {})  # before anything else can go wrong
        keep_history(model, folder, tensorboard)
        judged = judge_parts(model, parts, names, name, chosen, run)
        means = {key: value for key, value in run.metrics.items() if value is not None}
        digest = save_model(model, place, means)
        run.facts["digest"] = digest
    if chosen.get("mlflow"):
        log_to_mlflow(run)
    print_fit(model, folder, digest, run.metrics, judged, as_json=as_json)


def print_fit(
    model: Ranker,
    folder: Path,
    digest: str,
    metrics: Mapping[str, Any],
    judged: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """What a run found, and where its model is; of a search also who was tried."""
    report = getattr(model, "report", None)
    if as_json:
        facts = {"model": str(folder / "model"), "digest": digest, "metrics": metrics}
        print_json(facts if report is None else {**facts, "search": model.told_}, indent=1)
        return
    for part, told in judged.items():
        print_text(f"{part}:\n{told}\n")
    if report is not None:
        print_text(f"{report()}\n")
    print_text(f"model: {folder / 'model'}\ndigest: {digest}")


def judge_parts(
    model: Ranker,
    parts: Mapping[str, RankingData],
    metrics: list[str],
    name: str,
    chosen: Mapping[str, Any],
    run: RunFolder,
) -> dict[str, str]:
    """The table of each part that is judged; the engine's order stands in it where the part knows it."""
    from placings.evaluation import ENGINE, add_engine, compare, evaluate, find_engine
    from placings.rankers import find_facts

    told = {}
    wanted = bool(chosen.get("engine", True))
    for part in ("valid", "test"):
        if part not in parts:
            continue
        if part == "valid" and find_facts(model).learns_valid:
            print_note(f"{name} learned from the validation data too, so they do not judge it; --test would.")
            continue
        rows = parts[part]
        result = evaluate(model, rows, metrics)
        run.log({f"{part} {metric}": result[metric] for metric in metrics})
        told[part] = result.table()
        if add_engine([name], [rows], wanted):
            beside = compare({ENGINE: find_engine(rows), name: model}, rows, metrics, baseline=ENGINE)
            run.log({f"{part} engine {metric}": beside[ENGINE][metric] for metric in metrics})
            told[part] = f"{beside.table(intervals=True)}\n\n{beside.difference_table()}"
        elif chosen.get("engine"):
            print_note(f"{part} has no column position or engine_score: the engine is not in its table.")
    return told


def check_fit(
    data: Path | Sequence[Path],
    chosen: dict[str, Any],
    metrics: list[str],
    model: Ranker,
    tensorboard: Path | None,
) -> Path:
    """Refuse what would fail later: paths, permissions, names and missing libraries. The run's folder."""
    from placings.cli.checks import (
        check_folder,
        check_inputs,
        check_library,
        check_metrics,
        check_mlflow,
    )
    from placings.core import BadInput, refuse_other

    if chosen.get("out") is None:
        raise BadInput("a run needs a folder. Pass --out, or out: in the configuration.")
    folder = check_folder(chosen["out"])
    refuse_other(folder / "model")
    check_metrics(metrics)
    if chosen.get("mlflow"):
        check_mlflow()
    if tensorboard is not None:
        if "checkpoint" not in model.get_params():
            raise BadInput("--tensorboard is about the steps of a neural ranker. Leave it out.")
        check_folder(tensorboard, "--tensorboard")
        check_library("tensorboard", "a TensorBoard log", "tensorboard", "tensorboard")
    if chosen.get("coverage_limits") is not None:
        from placings.feco import take_limits

        take_limits(Path(chosen["coverage_limits"]))
    check_parts(data, chosen)
    check_inputs(data, chosen.get("valid"), chosen.get("test"))
    return folder


def check_parts(data: Path | Sequence[Path], chosen: dict[str, Any]) -> None:
    """Refuse options about the parts of the data that contradict each other."""
    from placings.cli.loading import is_folder
    from placings.core import BadInput
    from placings.data import find_collection

    weight = chosen.get("positive_weight")
    if weight is not None and not (isinstance(weight, int | float) and weight > 0.0):
        raise BadInput(f"--positive-weight must be above 0. Got {weight!r}.")
    collection = find_collection(data) if is_folder(data) else None  # type: ignore[arg-type]
    held = chosen.get("valid") is not None or (collection is not None and "valid" in collection.splits)
    if chosen.get("valid_share") and held:
        raise BadInput("--valid-share takes queries from the training data; leave it out, there is valid.")


def check_alike(parts: dict[str, RankingData]) -> None:
    """Refuse validation or test data without the features of the training data."""
    from placings.data import align_features

    for name, part in parts.items():
        if name != "train":
            align_features(part, parts["train"].feature_names)


def check_judged(parts: dict[str, RankingData], metrics: list[str], model: Ranker) -> None:
    """Refuse data without the propensities that a metric, or early stopping, divides clicks by."""
    from placings.evaluation import check_propensity

    check_propensity(metrics, parts.get("valid"), parts.get("test"))
    watched = model.get_params(deep=False).get("metric")
    if watched is not None:
        check_propensity([str(watched)], parts.get("valid"))


def weigh_train(train: RankingData, chosen: dict[str, Any]) -> RankingData:
    """The training data, rows with a label above 0 weighted as asked."""
    from placings.evaluation import weigh_positives

    weight = chosen.get("positive_weight")
    return train if weight is None else weigh_positives(train, float(weight))


@contextmanager
def open_run(
    folder: Path, command: str, config: Mapping[str, Any], data: Any, *, overwrite: bool
) -> Iterator[RunFolder]:
    """A run at the terminal; if it fails and kept nothing, the folders that it made are gone again."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        with _start_run(folder, command, config, data, overwrite=overwrite) as run:
            yield run
    except Exception as error:
        if not getattr(error, "__notes__", ()):  # they say what was kept elsewhere
            _remove_empty(made)
        raise


def _remove_empty(made: Sequence[Path]) -> None:
    """Remove a new run's folder, and those made for it, if there is nothing in them but `run.json`."""
    from placings.evaluation import FILE

    if not made or [each.name for each in made[0].glob("*")] != [FILE]:
        return
    try:
        (made[0] / FILE).unlink()
        for folder in made:
            folder.rmdir()
    except OSError:
        pass  # what went wrong first is what counts


def _start_run(
    folder: Path, command: str, config: Mapping[str, Any], data: Any, *, overwrite: bool
) -> RunFolder:
    """`start_run` at the terminal: what is in the way is replaced by a flag, with what it left behind."""
    from placings.cli.training_files import CHECKPOINT
    from placings.core import BadFile, BadInput
    from placings.evaluation import OtherRun, start_run

    try:
        return start_run(folder, command, config, data)
    except (OtherRun, BadFile) as other:
        if not overwrite and isinstance(other, OtherRun):
            raise BadInput(f"{other.problem} Choose another --out, or pass --overwrite.") from None
        if not overwrite:
            raise
    (folder / CHECKPOINT).unlink(missing_ok=True)  # the other run's
    return start_run(folder, command, config, data, overwrite=True)


def check_training(train: RankingData, limits: Path, *, as_json: bool) -> None:
    """The gate before training: says why and leaves with exit code 3 if a feature is below its limit."""
    from placings.cli.coverage_checks import SAID_NO, print_verdict
    from placings.feco import check_coverage

    verdict = check_coverage(train, limits)
    print_verdict(verdict, err=True)
    if not verdict.passed:
        print_text("nothing was trained: the training data's coverage is below its limits", err=True)
        if as_json:
            import json

            print_json({"model": None, "coverage": json.loads(verdict.to_json())}, indent=1)
        raise typer.Exit(SAID_NO)


def read_parts(path: Path | Sequence[Path], chosen: dict[str, Any], seed: int) -> dict[str, RankingData]:
    """train, and valid and test where there are such: files, a share, or a collection's own parts."""
    from placings.cli.loading import is_folder, read_data
    from placings.data import find_clusters, find_collection

    reading: dict[str, Any] = {name: chosen.get(name) for name in (*COLUMNS, "propensity")}
    collection = find_collection(path) if is_folder(path) else None  # type: ignore[arg-type]
    parts: dict[str, RankingData] = {}
    if collection is not None:
        for split in collection.splits:
            parts[split] = read_data(path, fold=chosen.get("fold"), split=split, **reading)
    else:
        parts["train"] = read_data(path, fold=chosen.get("fold"), **reading)
    for part in ("valid", "test"):
        if chosen.get(part) is not None:
            held = {name: value for name, value in reading.items() if name != "groups"}
            parts[part] = read_data(Path(chosen[part]), **held)
    share = chosen.get("valid_share")
    if share:
        clusters = find_clusters(parts["train"], str(chosen.get("split_by", "auto")))
        together = None if clusters is None else clusters.codes
        parts["train"], parts["valid"] = parts["train"].split(
            1 - float(share), float(share), random_state=seed, group=together
        )
        if clusters is not None:
            print_note(
                f"{float(share):.0%} of {clusters} are held out for validation, each whole; "
                "--split-by query would hold out queries."
            )
    return parts
