"""Feature coverage (FeCo): how often a feature has a value, where it stopped, and what that costs."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
