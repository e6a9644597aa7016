"""What a registry knows of a metric."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from placings.core import Floats


@dataclass(frozen=True)
class RegisteredMetric:
    """One metric of the registry: its function, its other names, and which way is better."""

    function: Callable[..., Floats]
    aliases: tuple[str, ...] = ()
    lower_is_better: bool = False
    bounds: tuple[float, float] = (0.0, 1.0)  # that no value leaves

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The keywords of the function and what they are when not given."""
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
