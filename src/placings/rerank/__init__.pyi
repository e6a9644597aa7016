from .guard import Guard as Guard
from .guard import fit_guard as fit_guard
from .reranker import Reranker as Reranker
from .reranker import load_reranker as load_reranker
from .search_kinds import describe_searches as describe_searches
