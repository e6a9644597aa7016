"""What `docs/metrics.md` shows is what happens."""

from __future__ import annotations

import doctest
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_examples_of_the_page_run():
    blocks = re.findall(r"^( *)```pycon\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 4
    text = "\n".join(textwrap.dedent(block) for _, block in blocks)
    test = doctest.DocTestParser().get_doctest(text, {}, "metrics.md", str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    report: list[str] = []
    assert runner.run(test, out=report.append).failed == 0, "".join(report)
