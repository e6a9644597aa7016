"""Features declared once, computed the same from a log and for one live request."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
