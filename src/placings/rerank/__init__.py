"""Re-ranking: features, a ranker, a guard and past clicks as one, in front of an engine."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
