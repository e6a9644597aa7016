"""The terminal: one file per command, each parses, calls and prints."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
