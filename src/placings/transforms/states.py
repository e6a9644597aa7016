"""A fitted transform as a dict for JSON and plain arrays, and back; nothing is built before it is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, BadInput, say_unregistered
from placings.transforms.records import need_array
from placings.transforms.statistics import read_statistics

if TYPE_CHECKING:
    from placings.transforms.transformer import Transform

FORMAT = 1
STATISTICS = "statistics."


def give_state(transform: Transform, *, statistics: bool) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """What `take_state` needs: facts for JSON, arrays for npy or safetensors."""
    facts = {"format": FORMAT, **describe_transform(transform), "features": list(transform.feature_names_)}
    facts |= transform._give_facts()
    arrays: dict[str, AnyArray] = {
        "fill": transform.fill_,
        "indicator": transform.indicator_,
        **transform._give_arrays(),
    }
    if statistics:
        found = transform._need_statistics().to_arrays()
        arrays |= {STATISTICS + name: values for name, values in found.items()}
    return facts, {name: values.copy() for name, values in arrays.items()}


def take_state(facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Transform:
    """The transform that a state describes; a damaged or foreign state is refused with BadInput."""
    if facts.get("format") != FORMAT:
        raise BadInput(f"a transform's state must have format {FORMAT}. Got {facts.get('format')!r}.")
    transform = build_transform(facts)
    names = facts.get("features")
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise BadInput("a transform's state must list the names of its features.")
    if not names or len(set(names)) != len(names):
        raise BadInput("the features of a transform's state must be there, and differ from each other.")
    count = len(names)
    transform._check_settings()
    transform.n_features_in_ = count
    transform.feature_names_ = tuple(names)
    places = need_array(arrays, "indicator", np.int64, (None,))
    if len(places) and (places.min() < 0 or places.max() >= count):
        raise BadInput(f"the indicators of a transform's state must be places below {count}.")
    transform._take_arrays(arrays)
    transform._take_facts(facts, arrays)
    kept = {
        name.removeprefix(STATISTICS): values
        for name, values in arrays.items()
        if name.startswith(STATISTICS)
    }
    transform._statistics = read_statistics(kept, count) if kept else None
    transform.indicator_ = places
    transform.fill_ = need_array(arrays, "fill", np.float32, (count,))
    return transform


def describe_transform(transform: Transform) -> dict[str, Any]:
    """Which transform, with which settings."""
    from placings.transforms.names import TRANSFORMS
    from placings.transforms.own import find_registered
    from placings.transforms.sklearn_form import SklearnTransform

    if isinstance(transform, SklearnTransform):
        told = transform._describe()
        return {**told, "settings": _write_setting("settings", told["settings"])}
    for name, kind in TRANSFORMS.items():
        if type(transform) is kind:
            return {"transform": name, "settings": plain_settings(transform)}
    known = find_registered(transform)
    if known is not None:
        return {"transform": known, "settings": plain_settings(transform)}
    raise BadInput(
        f"only the transforms of placings have a state. Got {type(transform).__name__}. Register yours: "
        f"pg.register_transform('my_transform', {type(transform).__name__})."
    )


def build_transform(facts: Mapping[str, Any]) -> Transform:
    """The unfitted transform of a description."""
    from placings.transforms.names import TRANSFORMS, build_own
    from placings.transforms.own import OWN_TRANSFORMS

    name, settings = facts.get("transform"), facts.get("settings")
    if isinstance(name, str) and name in OWN_TRANSFORMS and isinstance(settings, Mapping):
        return build_own(name, {key: _read_setting(value) for key, value in settings.items()})
    if not isinstance(name, str) or name not in TRANSFORMS or not isinstance(settings, Mapping):
        hint = say_unregistered("transform", name, ()) if isinstance(name, str) else None
        more = "" if hint is None else f" {hint[:1].upper()}{hint[1:]}"
        raise BadInput(f"a transform's state must name one of {', '.join(TRANSFORMS)}. Got {name!r}.{more}")
    kind = TRANSFORMS[name]
    unknown = sorted(set(settings) - set(kind._get_param_names()))
    if unknown:
        raise BadInput(f"{name} takes no setting {unknown[0]!r}.")
    return kind(**{key: _read_setting(value) for key, value in settings.items()})


def plain_settings(transform: Transform) -> dict[str, Any]:
    """A transform's settings as JSON can hold them."""
    given = transform.get_params(deep=False)
    return {name: _write_setting(name, value) for name, value in given.items()}


def _write_setting(name: str, value: Any) -> Any:
    if hasattr(value, "_compute"):
        return describe_transform(value)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): _write_setting(name, each) for key, each in value.items()}
    if isinstance(value, np.ndarray | Sequence):
        return [_write_setting(name, each) for each in value]
    raise BadInput(f"{name} cannot be stored: {value!r} is not a plain value.")


def _read_setting(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"transform", "settings"}:
            return build_transform(value)
        return {key: _read_setting(each) for key, each in value.items()}
    return [_read_setting(each) for each in value] if isinstance(value, list) else value
