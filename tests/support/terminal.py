"""The program `placings` run inside the tests' process: the same entry point, without a new interpreter."""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from placings.cli.main import run

HIDDEN = (
    DeprecationWarning,
    PendingDeprecationWarning,
    ImportWarning,
    ResourceWarning,
)  # as Python hides them


def call_placings(*words: object, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """What `placings WORDS` prints and exits with.

    Starting it as a process costs seconds for the libraries that it loads. What only a process can show
    (signals, pipes, full disks, what is loaded) needs one.
    """
    command = ["placings", *map(str, words)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            mock.patch.object(sys, "argv", command), mock.patch.dict(os.environ, environment),
            chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(),
        ):  # fmt: skip
            warnings.simplefilter("default")
            for kind in HIDDEN:
                warnings.simplefilter("ignore", kind)
            run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        signal.signal(signal.SIGTERM, before)
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())
