"""Core: what every room stands on; each mechanism once."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
