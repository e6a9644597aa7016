"""The site: Sphinx, MyST and furo. Nothing in it is fetched from elsewhere, when built or when read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

SOURCE = Path(__file__).parents[1] / "src" / "placings" / "__init__.py"

project = "placings"
author = "the placings authors"
project_copyright = "the placings authors, Apache-2.0"
release = re.search(r'^__version__ = "(.+)"$', SOURCE.read_text(encoding="utf-8"), re.M).group(1)  # type: ignore[union-attr]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
default_role = "code"  # docstrings quote with single backticks

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
autodoc_type_aliases = {
    name: name for name in ("ArrayLike", "AnyArray", "Floats", "Floats32", "Ints", "Bools", "Matrix")
}

html_theme = "furo"
html_title = f"placings {release}"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"


def visit_math(self: Any, node: nodes.math) -> None:
    """Formulas become MathML, which every browser draws by itself: no script, no web font."""
    self.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def shorten_signature(
    app: Sphinx, what: str, name: str, thing: object, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Aliases by their names; and nobody calls RankingData itself, so its long signature is left out."""
    if name.endswith("RankingData"):
        return "", None
    short = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns)]
    return short[0], short[1]


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", shorten_signature)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
