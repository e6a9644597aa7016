"""Simulated data: rankings, a shop, people who look for places; each with its truth."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
