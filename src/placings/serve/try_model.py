"""`python -m placings.serve.try_model PATH DIGEST [LOG]`: load a re-ranker, ask its sample, say its digest.

With a log it is also judged: a candidate that is not shown non-inferior to what the log showed ends with 3.
"""

from __future__ import annotations

import sys

from placings.core import PlacingsError, escape_line

REFUSED = 3


def try_loading(path: str, digest: str, log: str = "") -> int:
    """0 and the digest if the model can be served, and may be by the log."""
    from placings.rerank import load_reranker

    try:
        reranker = load_reranker(path, digest=digest or None)
        if log:
            from placings.logs import ClickLog
            from placings.rerank import would_have

            with ClickLog.read(log) as rows:
                found = would_have(reranker, rows)
            if not found.passed:
                print(escape_line(found.sentence), file=sys.stderr)
                return REFUSED
        print(reranker.digest_)
    except (PlacingsError, OSError) as error:
        print(escape_line(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(try_loading(*sys.argv[1:]))
