"""What several commands share: reading data with the usual options, settings, and a configuration file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.errors import BadFile, BadInput, UnknownName

if TYPE_CHECKING:
    from placings.data.ranking import RankingData
    from placings.rankers.estimator import Ranker

FeatureNames = Annotated[
    str | None,
    typer.Option(
        "--features", help="The columns that are features, with commas, in a table.", metavar="NAMES"
    ),
]


def read_data(
    path: Path, *, cache: bool = True, models: Iterable[Ranker] = (), **options: Any
) -> RankingData:
    """`placings.read` with a progress bar on a terminal; options that were not given are left out.

    `models` are those that will see the data: a column that is a feature of one of them is read as a feature,
    whatever it is called.
    """
    from placings.data.columns import say_leak
    from placings.data.reading import find_format, read

    given = {name: value for name, value in options.items() if value is not None}
    if "features" in given:
        given["features"] = split_names(given["features"])
    known = sorted({name for model in models for name in model.feature_names_ if say_leak(name)})
    is_table = bool(known) and (path.is_dir() or find_format(path) in ("parquet", "csv"))
    if is_table and "features" not in given:
        given["keep"] = known
    return read(path, cache=cache, progress=sys.stderr.isatty(), **given)


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is read as YAML, so numbers, lists and true are what they look like.

    >>> parse_settings(["rounds=200", "learning_rate=0.05", "loss=hinge"])
    {'rounds': 200, 'learning_rate': 0.05, 'loss': 'hinge'}
    """
    import yaml

    settings = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise BadInput(f"a setting must be name=value, such as rounds=200. Got {pair!r}.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise BadInput(f"the value of {name} cannot be read: {error}.") from None
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


def read_config(path: Path | None, known: Iterable[str]) -> dict[str, Any]:
    """The options of a YAML file; one that the command does not have is named."""
    if path is None:
        return {}
    import yaml

    if not path.is_file():
        raise BadFile(path, "no such file.")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise BadFile(path, f"is not YAML: {error}.") from None
    if not isinstance(config, Mapping):
        raise BadFile(path, "must hold options as `name: value`, one a line.")
    names = list(known)
    options = {str(name).replace("-", "_"): value for name, value in config.items()}
    for name in options:
        if name not in names:
            raise UnknownName(f"option in {path.name}", name, names)
    return options
