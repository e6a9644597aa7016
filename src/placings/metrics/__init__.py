"""How good a ranking is: one value for each query, every convention a keyword."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
