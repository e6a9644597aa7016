"""`placings serve report`: what the arms of a service show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.printing import print_text


def report_experiment(
    data: Annotated[
        Path, typer.Option(help="The folder that `placings serve` was given.", metavar="DIR")
    ] = Path("serve-data"),
    experiment: Annotated[
        str | None, typer.Option(help="Which experiment; the last one unless said.")
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="The arm that others are compared with; the engine's unless said.")
    ] = None,
    hours: Annotated[
        float,
        typer.Option(min=0.0, help="A person counts by their first so many hours; 0: by everything so far."),
    ] = 24.0,
    most_lists: Annotated[int, typer.Option(min=1, help="More lists in an hour are a bot's.")] = 1_000,
    quickest_ms: Annotated[
        float, typer.Option(min=0.0, help="A click sooner after its list is a bot's.")
    ] = 50.0,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the picture too.", metavar="FILE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what an experiment shows: CTR, click MRR, failed sessions by arm, and interleaved preferences.

    The first lines say what was shown, or that nothing was. All intervals may be looked at any time. People
    are the unit, bots are kept out, and arms that do not have their shares of people are said first.

    \b
    Examples:
      placings serve report --data serve-data
      placings serve report --data serve-data --hours 72 --html experiment.html
      placings serve report --data serve-data --experiment spring --control old --json
    """
    from placings.serve import CountingRules, judge_experiment

    if html is not None:
        from placings.cli.checks import check_page

        check_page(html, "--html")
    rules = CountingRules(hours, most_lists, quickest_ms)
    found = judge_experiment(data, experiment=experiment, control=control, rules=rules)
    written = None if html is None else found.write_page(html)
    print_text(found.to_json() if json else found.report())
    if written is not None and not json:
        print_text(f"\nopen {written}")
