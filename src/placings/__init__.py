"""placings: learning to rank from click log to live re-ranker.

>>> import placings as pg
>>> data = pg.make_ranking(20, random_state=0).data
>>> train, test = data.split(0.8, 0.2, random_state=0)
>>> scores = test.X[:, 0]
>>> pg.ndcg(scores, test.y, test.offsets, k=10).shape
(4,)
"""

from placings.core.doors import open_door
from placings.core.moved import find_old_modules

__version__ = "0.1.0.dev0"

# What is public stands in `__init__.pyi`. Nothing is imported before it is used: `import placings` is quick.
__getattr__, _, _names = open_door(__name__)
__all__ = ["__version__", *_names]
find_old_modules()


def __dir__() -> list[str]:
    return sorted(__all__)
