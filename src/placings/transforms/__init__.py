"""Transforms: what may be done to a feature before a ranker sees it; fitted in numpy, run in torch."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
