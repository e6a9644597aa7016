"""What several commands share: reading data with the usual options, settings, and a configuration file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.cli.values import check_config
from placings.core import BadFile, BadInput, PlacingsWarning, UnknownName, parse_yaml, read_json, read_yaml
from placings.rankers import POSITIVE_WEIGHT as POSITIVE_WEIGHT
from placings.rankers import RANKERS

if TYPE_CHECKING:
    from placings.data import RankingData
    from placings.rankers import Ranker


def gather_files(paths: Sequence[Path] | Path) -> Path | list[Path]:
    """The one file or folder that was named, or several: globs are looked up, each file stands once."""
    from placings.data import list_files

    found = list_files(paths)
    return found[0] if len(found) == 1 else found


def is_folder(data: Path | Sequence[Path]) -> bool:
    """Whether one folder was named, such as a collection's."""
    return isinstance(data, Path) and data.is_dir()


def name_data(data: Path | Sequence[Path]) -> str:
    """What was read, for a title or a run's record."""
    return str(data) if isinstance(data, Path) else " ".join(map(str, data))


def take_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the terminal as `placings.read` takes them; those that were not given are left out."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("features", "ignore"):
        if name in given:
            given[name] = split_names(given[name])
    if "names" in given:
        from placings.data import read_feature_names

        given["feature_names"] = read_feature_names(Path(given.pop("names")))
    return given


def read_data(
    path: Path | Sequence[Path], *, cache: bool = True, models: Iterable[Ranker] = (), **options: Any
) -> RankingData:
    """`placings.read` with a progress bar on a terminal; options that were not given are left out.

    `models` are those that will see the data: a column that is a feature of one of them is read as a feature,
    whatever it is called.
    """
    from placings.data import find_format, read, say_leak

    given = take_options(options)
    first = path if isinstance(path, Path) else path[0]
    known = sorted({name for model in models for name in model.feature_names_ if say_leak(name)})
    is_table = bool(known) and (first.is_dir() or find_format(first) in ("parquet", "csv"))
    if is_table and "features" not in given:
        given["keep"] = known
    return read(path, cache=cache, progress=sys.stderr.isatty(), **given)


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is read as YAML, so numbers, lists and true are what they look like.

    >>> parse_settings(["rounds=200", "learning_rate=0.05", "loss=hinge"])
    {'rounds': 200, 'learning_rate': 0.05, 'loss': 'hinge'}
    """
    settings = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise BadInput(f"a setting must be name=value, such as rounds=200. Got {pair!r}.")
        try:
            value = parse_yaml(text)
        except ValueError as error:
            raise BadInput(f"the value of {name} cannot be read: {error}") from None
        settings[name.strip()] = _as_number(value)
    return settings


def _as_number(value: Any) -> Any:
    """YAML takes 1e-3 for text; people mean the number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def split_names(names: Any) -> list[str]:
    """`"ndcg@5, mrr"`, or a list from a configuration, as a list of names."""
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    return [str(name) for name in names]


def read_config(path: Path | None, known: Iterable[str], command: Callable[..., Any]) -> dict[str, Any]:
    """The options of a YAML file, checked as the command's flags are; one that it does not have is named.

    `best.yaml`, which `placings tune` writes, is such a file, also as version 1 wrote it.
    """
    if path is None:
        return {}
    options, names = read_options(path), list(known)
    if is_tuned(options) and "ranker" not in names:
        raise BadFile(
            path,
            "holds the settings of a ranker that is still to be trained: placings fit DATA --config "
            f"{path} --out FOLDER.",
        )
    for name in options:
        if name not in names:
            raise UnknownName(f"option in {path.name}", name, names)
    return check_config(path, options, command)


def read_tuned(path: Path) -> dict[str, Any]:
    """The ranker of a `best.yaml`: its `ranker` and `set`, perhaps `seed` and `positive_weight`."""
    options = read_options(path)
    if not is_tuned(options):
        raise BadFile(path, "names no ranker with its settings, as the best.yaml of `placings tune` does.")
    return options


def is_tuned(options: Mapping[str, Any]) -> bool:
    """Whether a configuration is one ranker with its settings and nothing else."""
    return "ranker" in options and set(options) <= {"ranker", "set", "seed", POSITIVE_WEIGHT}


def read_settings(given: Any) -> dict[str, Any]:
    """What stands under `set` in a configuration."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadInput(f"set must hold settings as `name: value` in a configuration. Got {given!r}.")
    return {str(name): value for name, value in given.items()}


def merge_settings(
    config: Mapping[str, Any], pairs: Iterable[str], ranker: str | None = None
) -> dict[str, Any]:
    """A configuration's `set` under what --set says; a ranker named by a flag brings its own loss."""
    settings = read_settings(config.get("set"))
    short = (ranker or "").partition(":")[0]
    own = RANKERS[short].settings if short in RANKERS else {}
    return {**{name: value for name, value in settings.items() if name not in own}, **parse_settings(pairs)}


def read_options(path: Path) -> dict[str, Any]:
    """What a YAML file holds, whichever command it is for; a `best.yaml` of version 1 as today's."""
    config = read_yaml(path)
    if not isinstance(config, Mapping):
        raise BadFile(path, "must hold options as `name: value`, one a line.")
    options = {str(name).replace("-", "_"): value for name, value in config.items()}
    return _convert_old(path, options) if set(options) == {"ranker", "params"} else options


# -- best.yaml of version 1 ----------------------------------------------------------------------------------


def _convert_old(path: Path, old: Mapping[str, Any]) -> dict[str, Any]:
    """`ranker: LinearRanker` and `params:` as version 1 wrote them, as options of today.

    The file held only what was tuned. What it was tuned from is taken from the `run.json` beside it, if
    there is one.
    """
    from placings.rankers import CLASSES, find_choice

    kind = str(old["ranker"])
    if kind not in CLASSES:
        raise UnknownName(f"ranker class in {path.name}", kind, CLASSES)
    tuned = read_settings(old["params"])
    options: dict[str, Any] = {}
    if POSITIVE_WEIGHT in tuned:
        options[POSITIVE_WEIGHT] = tuned.pop(POSITIVE_WEIGHT)
    through = {
        name.removeprefix("params."): tuned.pop(name) for name in list(tuned) if name.startswith("params.")
    }
    run = _read_json(path.parent / "run.json")
    asked = run.get("config", {}) if run.get("command") == "tune" else {}
    settings = {**read_settings(asked.get("set")), **tuned}
    if through:
        settings["params"] = {**(settings.get("params") or {}), **through}
    named = RANKERS.get(str(asked.get("ranker")))
    if named is not None and named.class_name == kind:
        settings = {**named.settings, **settings}  # ridge stands for a loss
    if kind == "LinearRanker" and "loss" not in settings:
        settings["loss"] = _guess_loss(path, tuned)
    return {**options, "ranker": find_choice(kind, settings), "set": settings}


def _guess_loss(path: Path, tuned: Mapping[str, Any]) -> str:
    """The loss of a linear ranker of version 1, whose file does not name it."""
    import warnings

    space = _read_json(path.parent / "best.json").get("space")
    known = isinstance(space, Mapping)
    searched = set(space) if isinstance(space, Mapping) else set(tuned)
    loss = "ridge" if "pairs" not in searched else "hinge"
    where = "its best.json" if known else "it"
    sure = (
        f"{where} searched only C, as the search for ridge does, so it is taken for one"
        if loss == "ridge"
        else f"{where} searched pairs too, so it is no ridge; hinge (ranksvm) is assumed"
    )
    warnings.warn(
        f"{path} was written by version 1 and does not name the loss: {sure}. Another one: --set loss=…",
        PlacingsWarning,
        stacklevel=2,
    )
    return loss


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON file's facts; none if there is no such file or it is not JSON."""
    try:
        facts = read_json(path)
    except (OSError, BadFile):
        return {}
    return facts if isinstance(facts, dict) else {}
