"""`python -m placings.serve.try_model PATH DIGEST`: load a re-ranker, ask its sample, say its digest."""

from __future__ import annotations

import sys

from placings.core import PlacingsError, escape_line


def try_loading(path: str, digest: str) -> int:
    """0 and the digest if the model can be served."""
    from placings.rerank import load_reranker

    try:
        print(load_reranker(path, digest=digest or None).digest_)
    except (PlacingsError, OSError) as error:
        print(escape_line(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(try_loading(sys.argv[1], sys.argv[2]))
