"""Ranking data: how rows and queries are held, read, split, checked and made."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
