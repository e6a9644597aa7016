"""Logs: what was shown and what was done with it, joined into a click log."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
