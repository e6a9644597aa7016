"""`placings`: the commands together, and what happens when one fails."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer

from placings.cli.caching import app as cache_app
from placings.cli.demonstration import demo
from placings.cli.evaluation import compare_files, evaluate_files
from placings.cli.export import export_model
from placings.cli.feature_coverage import app as coverage_app
from placings.cli.fitting import fit_files
from placings.cli.flags import PlainFlags, find_flags
from placings.cli.importing import import_model
from placings.cli.inspection import inspect
from placings.cli.log import app as log_app
from placings.cli.places import app as places_app
from placings.cli.prediction import predict_files
from placings.cli.printing import STOPPED
from placings.cli.reproduce import app as reproduce_app
from placings.cli.rerank import app as rerank_app
from placings.cli.serve import app as serve_app
from placings.cli.tuning import tune_files
from placings.core import PlacingsError, say_flags


class Commands(PlainFlags):
    """All commands; says what one kept that was stopped."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it with one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            print(f"\nstopped: {stop}" if str(stop) else "\nstopped", file=sys.stderr)
            raise typer.Exit(STOPPED) from None


app = typer.Typer(
    cls=Commands,
    name="placings",
    help="Learning to rank from click log to live re-ranker.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]placings demo[/bold], or [bold]placings inspect FILE[/bold] on your own data.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from placings import __version__

        typer.echo(f"placings {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Learning to rank from click log to live re-ranker."""


app.command("inspect")(inspect)
app.command("fit")(fit_files)
app.command("predict")(predict_files)
app.command("evaluate")(evaluate_files)
app.command("compare")(compare_files)
app.command("tune")(tune_files)
app.command("import-model")(import_model)
app.command("export")(export_model)
app.add_typer(log_app, name="log")
app.add_typer(rerank_app, name="rerank")
app.add_typer(serve_app, name="serve")
app.add_typer(coverage_app, name="coverage")
app.add_typer(places_app, name="places")
app.add_typer(reproduce_app, name="reproduce")
app.add_typer(cache_app, name="cache")
app.command("demo")(demo)


def run() -> None:
    """Exit codes: 0 fine, 1 failed (with one line on stderr that says why), 2 bad usage, 3 a gate said no."""
    import warnings

    def tell(message: BaseException | str) -> str:
        if isinstance(message, str):
            return message
        return say_flags(message, find_flags(typer.main.get_command(app), sys.argv[1:]))

    def say(message: Warning | str, *_: object, **__: object) -> None:
        print(f"note: {tell(message)}", file=sys.stderr)

    warnings.showwarning = say
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: tidily
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can be told
    except PlacingsError as error:
        _end(f"error: {tell(error)}")
    except BrokenPipeError:
        _end("")
    except OSError as error:
        _end(f"error: {describe_failure(error)}")
    except KeyboardInterrupt:
        _end("stopped", STOPPED)


def describe_failure(error: OSError) -> str:
    """What the system refused, in one line, and what may help.

    >>> describe_failure(OSError(28, "No space left on device", "/mnt/scores.csv"))
    '/mnt/scores.csv: no space left on device. Free some, or write elsewhere.'
    """
    import errno

    reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    where = f"{error.filename}: " if error.filename else "the output could not be written: " if full else ""
    hints = {
        errno.ENOSPC: "Free some, or write elsewhere.",
        errno.EDQUOT: "Free some, or write elsewhere.",
        errno.EACCES: "Check its permissions, or name another place.",
        errno.EPERM: "Check its permissions, or name another place.",
        errno.EROFS: "Name another place.",
        errno.ENOTDIR: "Name another place.",
    }
    hint = hints.get(error.errno or 0, "")
    return f"{where}{reason[:1].lower()}{reason[1:].rstrip('.')}. {hint}".rstrip()


def _end(message: str, code: int = 1) -> None:
    """Leave with one line on stderr; what stdout could not take is thrown away, not tried again."""
    if message:
        print(message, file=sys.stderr)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
