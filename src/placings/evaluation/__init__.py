"""Evaluation: how good, how sure, better than what, and where it is worse."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
