"""`placings`: the commands together, and what happens when one fails."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

from placings.cli.caching import app as cache_app
from placings.cli.counterfactual import judge_candidate
from placings.cli.demonstration import demo
from placings.cli.evaluation import compare_files, evaluate_files
from placings.cli.explaining import explain_model
from placings.cli.export import export_model
from placings.cli.feature_coverage import app as coverage_app
from placings.cli.fitting import fit_files
from placings.cli.flags import PlainFlags, find_flags
from placings.cli.importing import import_model
from placings.cli.inspection import inspect
from placings.cli.log import app as log_app
from placings.cli.options import Quiet, add_quiet
from placings.cli.places import app as places_app
from placings.cli.prediction import predict_files
from placings.cli.printing import STOPPED, find_columns, print_error, print_note, print_text
from placings.cli.reproduce import app as reproduce_app
from placings.cli.rerank import app as rerank_app
from placings.cli.serve import app as serve_app
from placings.cli.tuning import tune_files
from placings.core import PlacingsError, escape_text, fit_width, join_lines, say_flags, set_quiet

LONGEST = 300  # letters of what a library says
TRACEBACK = "PLACINGS_TRACEBACK"  # set to 1, it shows where an error came from
# of the click that this typer uses; newer ones bring their own
ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Commands(PlainFlags):
    """All commands; says what one kept that was stopped."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, its tables as wide as the terminal; Ctrl-C ends it with one line."""
        try:
            with fit_width(find_columns()):
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            print_text("\n" + join_lines(f"stopped: {stop}" if str(stop) else "stopped"), err=True)
            raise typer.Exit(STOPPED) from None


app = typer.Typer(
    cls=Commands,
    name="placings",
    help="Learning to rank from click log to live re-ranker.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]placings demo[/bold], or [bold]placings inspect FILE[/bold] on your own data.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from placings import __version__

        print_text(f"placings {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True)
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Learning to rank from click log to live re-ranker."""


app.command("inspect")(inspect)
app.command("fit")(fit_files)
app.command("predict")(predict_files)
app.command("evaluate")(evaluate_files)
app.command("explain")(explain_model)
app.command("compare")(compare_files)
app.command("tune")(tune_files)
app.command("would-have")(judge_candidate)
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
add_quiet(app)


@cache
def find_command() -> Any:
    """All commands as click has them, made once in a process: a program may call `run` many times."""
    return typer.main.get_command(app)


def run() -> None:
    """Exit codes: 0 fine, 1 failed (with one line on stderr that says why), 2 bad usage, 3 a gate said no."""
    import threading
    import warnings

    def say(message: Warning | str, *_: object, **__: object) -> None:
        print_note(message if isinstance(message, str) else _say_options(message, sys.argv[1:]))

    _open_closed()
    set_quiet(False)
    warnings.showwarning = say
    threading.excepthook = lambda told: _say_thread(told.exc_value)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: tidily
    code: Any = 0
    try:
        try:
            code = find_command()(prog_name="placings", standalone_mode=False)
        finally:
            _flush()  # here, where a full disk can be told
    except Exception as error:  # the one net: whatever fails ends in one line
        code = say_failure(error, sys.argv[1:])
    except KeyboardInterrupt:
        print_text("stopped", err=True)
        code = STOPPED
    finally:
        set_quiet(False)  # the process may be a program that calls this one
    sys.exit(code if isinstance(code, int) else 0)


def say_failure(error: Exception, words: Sequence[str]) -> int:
    """Print why a command failed and return its exit code; the traceback only where it was asked for."""
    if os.environ.get(TRACEBACK, "") not in ("", "0"):
        import traceback

        print_text("".join(traceback.format_exception(error)), err=True)
    code = 1
    if isinstance(error, ClickError):
        code = _say_usage(error)
    elif isinstance(error, typer.Abort):
        print_text("stopped", err=True)
    elif not isinstance(error, BrokenPipeError):
        print_error(
            _say_options(error, words) if isinstance(error, PlacingsError) else describe_failure(error)
        )
    try:
        _flush()
    except (OSError, ValueError):  # what stdout could not take is thrown away, not tried again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def describe_failure(error: BaseException) -> str:
    """What went wrong outside of placings, in one line, and what may help.

    >>> describe_failure(OSError(28, "No space left on device", "/mnt/scores.csv"))
    '/mnt/scores.csv: no space left on device. Free some, or write elsewhere.'
    >>> describe_failure(KeyError("x")).startswith("KeyError: 'x'. This is a bug in placings: run again with")
    True
    """
    if isinstance(error, MemoryError):
        detail = join_lines(error).rstrip(".")
        return f"there is not enough memory{f' ({detail})' if detail else ''}. Ask for less, or give it more."
    if isinstance(error, RecursionError):
        return "something in the input is nested too deeply. Make it flatter."
    if isinstance(error, UnicodeError):
        shown = getattr(error, "object", b"")
        shown = repr(shown if len(shown) <= LONGEST else shown[:LONGEST])
        return f"{shown} is not UTF-8 text. Save the file as UTF-8, or rename what has this name."
    if isinstance(error, OSError):
        return _describe_refusal(error)
    told = join_lines(error)
    told = f"{type(error).__name__}: {told}" if told else type(error).__name__
    told = told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"
    asked = f"run again with {TRACEBACK}=1 and report what it prints"
    return f"{told.rstrip('.')}. This is a bug in placings: {asked}."


def _describe_refusal(error: OSError) -> str:
    """What the system refused."""
    import errno

    reason = error.strerror or join_lines(error) or type(error).__name__
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    where = f"{error.filename}: " if error.filename else "the output could not be written: " if full else ""
    hints = {
        errno.ENOSPC: "Free some, or write elsewhere.",
        errno.EDQUOT: "Free some, or write elsewhere.",
        errno.EACCES: "Check its permissions, or name another place.",
        errno.EPERM: "Check its permissions, or name another place.",
        errno.EROFS: "Name another place.",
        errno.ENOTDIR: "Name another place.",
        errno.ENAMETOOLONG: "Name another place.",
        errno.ELOOP: "Name another place.",
    }
    hint = hints.get(error.errno or 0, "")
    return f"{where}{reason[:1].lower()}{reason[1:].rstrip('.')}. {hint}".rstrip()


def _say_options(message: BaseException, words: Sequence[str]) -> str:
    return say_flags(message, find_flags(find_command(), words))


def explain_option(error: Any) -> str:
    """What to type in place of an option that is a setting of a ranker: `--set rounds=…`; "" for others."""
    wrong, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    has_set = context is not None and any("--set" in each.opts for each in context.command.params)
    if not wrong or not has_set:
        return ""
    from placings.rankers import find_setting

    name = find_setting(wrong.lstrip("-").replace("-", "_"))
    return "" if name is None else f". Settings of a ranker are given with --set: --set {name}=…"


def _say_usage(error: Any) -> int:
    """A wrong option as typer shows it, without what would steer the terminal."""
    error.message = escape_text(str(getattr(error, "message", error)) + explain_option(error))
    try:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)
    except ImportError:
        print_error(error.message)
    return int(error.exit_code)


def _say_thread(error: BaseException | None) -> None:
    if error is not None and not isinstance(error, SystemExit):
        print_note(f"a part of the work failed: {describe_failure(error)}")


def _open_closed() -> None:
    """Where the caller closed stdin, stdout or stderr, put the null device, lest a file take its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
