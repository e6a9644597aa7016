"""Training: packed batches and the readable loop."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
