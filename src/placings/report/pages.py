"""Pages: one self-contained HTML file, no scripts and nothing fetched from anywhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from placings.data.streams import write_atomically
from placings.errors import MissingExtra


def render_page(template: str, **parts: Any) -> str:
    """Fill a template of this package; everything but figures marked safe is escaped."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtra("writing a page", "Jinja2", "report") from error
    folder = files("placings.report") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**parts)


def write_page(path: str | Path, template: str, **parts: Any) -> Path:
    """Render a page and write it whole or not at all."""
    path = Path(path)
    text = render_page(template, **parts)
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
