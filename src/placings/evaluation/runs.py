"""A run's folder: what was asked, on which data, with which versions, what came out and how long it took."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from placings.core import AnyArray, BadFile, BadInput, MissingExtra, plain_value, read_json, write_text
from placings.data import RankingData

FORMAT = 1
FILE = "run.json"
BLOCK = 1 << 20
BLOCKS = 256  # of an array larger than this many blocks, so many are hashed, spread evenly


class OtherRun(BadInput):
    """A folder that holds the run of another command, configuration or data."""

    def __init__(self, path: Path, facts: Mapping[str, Any], differs: Sequence[str]) -> None:
        self.problem = (
            f"{path} holds another run ({facts.get('command')!r} of {facts.get('started')}; what differs: "
            f"{', '.join(differs)})."
        )
        super().__init__(f"{self.problem} Choose another folder, or pass overwrite=True to replace it.")


def fingerprint(data: RankingData) -> str:
    """A short hash that differs when the data do: 32 hexadecimal digits of BLAKE2b.

    It covers the shape, the feature names, X, labels, offsets, weights, positions and, where there are any,
    propensities; not the ids of queries and items, which change no ranking. Arrays above 256 MiB are
    sampled: 256 blocks of 1 MiB spread evenly, first and last included, so a change that misses every block
    goes unnoticed there. Equal numbers give equal hashes whatever file they came from; dense and sparse data
    differ.

    >>> one = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1])
    >>> fingerprint(one) == fingerprint(one.replace(y=np.array([1.0, 0.0])))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    facts = [FORMAT, data.n_rows, data.n_queries, data.n_features, data.is_sparse, data.feature_names]
    digest.update(json.dumps(facts).encode())
    X = data.X
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices.astype(np.int64), X.indptr]
    known = [] if data.propensity is None else [data.propensity]  # hashes of data without any stay the same
    for part in [*parts, data.y, data.offsets, data.weight, data.position, *known]:
        _add_array(digest, part)
    return digest.hexdigest()


def _add_array(digest: Any, values: AnyArray | None) -> None:
    if values is None:
        digest.update(b"none")
        return
    digest.update(f"{values.dtype.str}{values.shape}".encode())
    rows = max(1, len(values))
    step = max(1, BLOCK * rows // max(1, values.nbytes))  # rows of a block
    starts = range(0, len(values), step)
    if len(starts) > BLOCKS:
        starts_at = np.linspace(0, len(values) - step, BLOCKS).astype(np.int64).tolist()
    else:
        starts_at = list(starts)
    for start in starts_at:
        digest.update(np.ascontiguousarray(values[start : start + step]).data)


def describe_data(data: RankingData) -> dict[str, Any]:
    """Rows, queries, features and the fingerprint."""
    return {
        "rows": data.n_rows,
        "queries": data.n_queries,
        "features": data.n_features,
        "fingerprint": fingerprint(data),
    }


@dataclass
class RunFolder:
    """A folder with `run.json`, rewritten as the run goes on; as a context manager it says how it ended."""

    path: Path
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float | None]:
        """What was measured so far."""
        return dict(self.facts.get("metrics", {}))

    def log(self, metrics: Mapping[str, float]) -> None:
        """Keep numbers; what is not finite is kept as null."""
        plain = {name: float(v) if np.isfinite(v) else None for name, v in metrics.items()}
        self.facts["metrics"] = {**self.facts.get("metrics", {}), **plain}
        self._write()

    def write_text(self, name: str, text: str) -> Path:
        """A file of the run, whole or not at all."""
        if not name or Path(name).name != name or name == FILE:
            raise BadInput(f"a run's file must be a plain name other than {FILE}. Got {name!r}.")
        write_text(self.path / name, text)
        return self.path / name

    def finish(self, state: str = "finished") -> None:
        """Write down how the run ended and how long it took."""
        self.facts["state"] = state
        self.facts["seconds"] = round(time.time() - float(self.facts["began"]), 3)
        self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.facts["error"] = f"{type(error).__name__}: {error}"
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        try:
            self.finish("finished" if kind is None else "stopped" if stopped else "failed")
        except OSError:  # a full disk: what went wrong first is what counts
            if error is None:
                raise

    def _write(self) -> None:
        text = json.dumps(self.facts, indent=1, ensure_ascii=False, allow_nan=False)
        write_text(self.path / FILE, text + "\n")


def start_run(
    folder: str | Path,
    command: str,
    config: Mapping[str, Any],
    data: Mapping[str, RankingData] | RankingData,
    *,
    overwrite: bool = False,
) -> RunFolder:
    """Open a run's folder and write what is known before it starts.

    The same command with the same configuration on the same data may be run again into its folder. A
    folder that holds another run is refused (`OtherRun`) unless `overwrite`.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise BadInput(f"a run's folder must be a folder. Got {path}, which is a file.")
    parts = {"data": data} if isinstance(data, RankingData) else dict(data)
    identity = {
        "command": command,
        "config": plain_value(config),
        "data": {name: describe_data(part) for name, part in parts.items()},
    }
    if (path / FILE).exists() and not overwrite:
        before = read_run(path).facts
        other = [name for name, value in identity.items() if before.get(name) != value]
        if other:
            raise OtherRun(path, before, other)
    path.mkdir(parents=True, exist_ok=True)
    now = time.time()
    facts = {
        "format": FORMAT,
        "id": uuid.uuid4().hex,
        **identity,
        "versions": list_versions(),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "began": now,
        "state": "running",
        "metrics": {},
    }
    run = RunFolder(path, facts)
    run._write()
    return run


def read_run(folder: str | Path) -> RunFolder:
    """A run's folder as it was left."""
    file = Path(folder) / FILE
    if not file.exists():
        raise BadFile(file, "no such file, so the folder holds no run.")
    facts = read_json(file)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise BadFile(file, f"must be a run of format {FORMAT}. Written by another version of placings?")
    return RunFolder(Path(folder), facts)


def list_versions() -> dict[str, str]:
    """Python, placings and the libraries that change numbers, as far as they are installed."""
    from importlib.metadata import PackageNotFoundError, version

    from placings.rankers import find_versions

    found = find_versions()
    for library in ("scipy", "numba", "optuna"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


# -- MLflow -----------------------------------------------------------------------------------------


def log_to_mlflow(
    run: RunFolder, *, tracking: str | None = None, experiment: str = "placings", name: str | None = None
) -> str:
    """Log a run's configuration, data, metrics and files to MLflow and return MLflow's id of it.

    `tracking` is MLflow's tracking URI. Without it the one that MLflow was told counts
    (`MLFLOW_TRACKING_URI` or `mlflow.set_tracking_uri`), and without that an SQLite file `mlflow.db` beside
    the run's folder, with the artifacts in `mlflow-artifacts`: nothing leaves the machine unless a URI
    says so, and MLflow's own usage reports are off. `@` in a metric's name becomes `_at_`, which is what
    MLflow allows; a number that is not known is left out. A run that was logged there is not logged again.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    try:
        import mlflow
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise MissingExtra("logging to MLflow", "mlflow-skinny", "mlflow") from error
    home = run.path.resolve().parent
    chosen = tracking or (mlflow.get_tracking_uri() if _knows_place(mlflow) else "")
    artifacts = None if chosen else (home / "mlflow-artifacts").as_uri()
    uri = chosen or f"sqlite:///{home / 'mlflow.db'}"
    logged = run.facts.setdefault("mlflow", {})
    if uri not in logged:
        with warnings.catch_warnings():  # MLflow's own, about how it uses SQLAlchemy
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                client = MlflowClient(tracking_uri=uri)
            except ImportError as error:  # mlflow-skinny comes without what a database needs
                raise MissingExtra(f"MLflow's database {uri}", "sqlalchemy and alembic", "tune") from error
            known = client.get_experiment_by_name(experiment)
            place = known.experiment_id if known else client.create_experiment(experiment, artifacts)
            logged[uri] = _send_run(client, run, place, name or run.path.name)
        run._write()
    return str(logged[uri])


def _send_run(client: Any, run: RunFolder, place: str, name: str) -> str:
    made = client.create_run(place, start_time=int(1000 * run.facts["began"]), run_name=name).info.run_id
    params = {"command": run.facts["command"], **_flatten(run.facts["config"])}
    params |= {f"data.{key}": value for key, value in _flatten(run.facts["data"]).items()}
    for key, value in params.items():
        client.log_param(made, rename_for_mlflow(key), str(value)[:500])
    for key, number in run.metrics.items():
        if number is not None:
            client.log_metric(made, rename_for_mlflow(key), number)
    for library, version in run.facts["versions"].items():
        client.set_tag(made, f"version.{library}", version)
    client.log_artifacts(made, str(run.path))
    client.set_terminated(made, "FINISHED" if run.facts["state"] in ("running", "finished") else "FAILED")
    return str(made)


def _knows_place(mlflow: Any) -> bool:
    """Whether the user told MLflow where to log; its own default is a file in the working folder."""
    return bool(mlflow.is_tracking_uri_set())


def rename_for_mlflow(name: str) -> str:
    """A name that MLflow takes.

    >>> rename_for_mlflow("ndcg@10")
    'ndcg_at_10'
    """
    kept = name.replace("@", "_at_")
    return "".join(letter if letter.isalnum() or letter in "_-. :/" else "_" for letter in kept)


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, part in value.items():
        flat |= _flatten(part, f"{prefix}.{key}" if prefix else str(key))
    return flat
