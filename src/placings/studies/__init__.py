"""Studies: the documents' experiments, each one command."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
