"""Places: engines that find them, people who look for them, and a re-ranker for both."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
