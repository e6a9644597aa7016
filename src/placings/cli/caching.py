"""`placings cache`: what is kept, where, and how to let it go."""

from __future__ import annotations

from typing import Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_text
from placings.core import escape_line

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

    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)  # paths are shown as they are
    if entries:
        table = Table("file", "rows", "queries", "features", "size", "last used")
        for entry in entries:
            used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d %H:%M")
            counts = [f"{count:,}" for count in (entry.rows, entry.queries, entry.features)]
            table.add_row(escape_line(entry.source), *counts, format_bytes(entry.bytes), used)
        console.print(table)
    console.print(
        f"{format_bytes(total)} of at most {format_bytes(find_limit())} in {escape_line(find_folder())}",
        soft_wrap=True,
    )


@app.command("path", epilog="Example: du -sh $(placings cache path)")
def show_path() -> None:
    """Print the folder (set PLACINGS_CACHE to move it, PLACINGS_CACHE_LIMIT=5G to bound it)."""
    from placings.data import find_folder

    print_text(str(find_folder()))


@app.command("clear", epilog="Example: placings cache clear --to 1G")
def clear(
    to: Annotated[str, typer.Option(help="Keep the last used up to this size, such as 500M or 2G.")] = "0",
) -> None:
    """Delete what is kept; the files it was read from stay as they are."""
    from placings.data import parse_size, prune_entries

    dropped = prune_entries(parse_size(to))
    what = "1 entry" if len(dropped) == 1 else f"{len(dropped)} entries"
    print_text(f"deleted {what}, {format_bytes(sum(entry.bytes for entry in dropped))}")


def format_bytes(count: int) -> str:
    """1536 → 1.5 KiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
