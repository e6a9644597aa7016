"""`placings cache`: what is kept, where, and how to let it go."""

from __future__ import annotations

from typing import Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_text
from placings.core import Cell, Grid, escape_line, render_grid

app = typer.Typer(
    cls=PlainFlags, help="The binary copies of files read before: list them, find them, clear them."
)


@app.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """List the cache (the same as [bold]placings cache list[/bold])."""
    if context.invoked_subcommand is None:
        list_cache(as_json=False)


@app.command("list", epilog="Example: placings cache list --json")
def list_cache(
    as_json: AsJson = False,
) -> None:
    """Show what is kept, the last used first."""
    from placings.data import find_folder, find_limit, list_entries

    entries = list_entries()
    total = sum(entry.bytes for entry in entries)
    if as_json:
        facts = {"folder": str(find_folder()), "limit": find_limit(), "bytes": total}
        print_json({**facts, "entries": [vars(entry) for entry in entries]}, indent=2)
        return
    from datetime import datetime

    rows = []
    for entry in entries:
        used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d %H:%M")
        counts = [f"{count:,}" for count in (entry.rows, entry.queries, entry.features)]
        rows.append(tuple(map(Cell, (entry.source, *counts, format_bytes(entry.bytes), used))))
    if rows:
        header = ("file", "rows", "queries", "features", "size", "last used")
        print_text(render_grid(Grid(header, tuple(rows))))
    print_text(
        f"{format_bytes(total)} of at most {format_bytes(find_limit())} in {escape_line(find_folder())}"
    )


@app.command("path", epilog="Example: du -sh $(placings cache path)")
def show_path(as_json: AsJson = False) -> None:
    """Print the folder (set PLACINGS_CACHE to move it, PLACINGS_CACHE_LIMIT=5G to bound it)."""
    from placings.data import find_folder, find_limit

    if as_json:
        print_json({"folder": str(find_folder()), "limit": find_limit()}, indent=1)
        return
    print_text(str(find_folder()))


@app.command("clear", epilog="Example: placings cache clear --to 1G")
def clear(
    to: Annotated[str, typer.Option(help="Keep the last used up to this size, such as 500M or 2G.")] = "0",
    as_json: AsJson = False,
) -> None:
    """Delete what is kept; the files it was read from stay as they are."""
    from placings.data import parse_size, prune_entries

    dropped = prune_entries(parse_size(to))
    freed = sum(entry.bytes for entry in dropped)
    if as_json:
        print_json({"deleted": len(dropped), "bytes": freed}, indent=1)
        return
    what = "1 entry" if len(dropped) == 1 else f"{len(dropped)} entries"
    print_text(f"deleted {what}, {format_bytes(freed)}")


def format_bytes(count: int) -> str:
    """1536 → 1.5 KiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
