"""Serving: a re-ranker in front of an engine over HTTP, and the events that come back."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
