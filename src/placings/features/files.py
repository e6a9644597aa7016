"""Fitted features as a JSON file."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from placings.data.streams import check_file, write_atomically
from placings.errors import BadFile, BadInput
from placings.features.spec import FeatureSet


def write_features(features: FeatureSet, path: str | PathLike[str]) -> Path:
    """Write a feature set's state as JSON, whole or not at all; gives back where."""
    file = Path(path)
    with write_atomically(file) as part:
        part.write_text(
            json.dumps(features.to_state(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    return file


def read_features(path: str | PathLike[str]) -> FeatureSet:
    """The feature set that `write_features` wrote; a file that holds anything else is refused."""
    file = Path(path)
    check_file(file)
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        return FeatureSet.from_state(state)
    except BadInput as error:
        raise BadFile(file, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadFile(file, f"is no JSON: {error}. Write it with write_features.") from error
