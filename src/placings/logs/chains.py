"""Prefix chains: as people type, each keystroke is a search; those that grow from each other are one wish."""

from __future__ import annotations

from typing import Any

SPACES = "[\\s\u00a0]+"
NOT_ASCII = r"[^\x00-\x7f]"


def lower_text(text: Any) -> Any:
    """A text in lower case, its spaces trimmed and single; null becomes empty. An Ibis expression.

    Accents stay: "schon" and "schön" are two words. Lower case is that of Unicode without the rules that
    depend on place or language (ς is σ, İ is i), on which engines differ.
    """
    import ibis

    lower = ibis.coalesce(text, "").lower().replace("ς", "σ").replace("i̇", "i")
    return lower.re_replace(SPACES, " ").strip()


def relate_texts(first: Any, second: Any, *, edits: bool = True) -> Any:
    """Whether one of two folded texts grew from the other. An Ibis expression; false of an empty text.

    The shorter, of n letters, is a prefix of the longer; or, with `edits`, it is so after a few single-letter
    edits (none below 4 letters, 1 below 8, else 2), or the whole texts are that near.
    """
    import ibis

    swap = first.length() > second.length()
    short, long = swap.ifelse(second, first), swap.ifelse(first, second)
    size = short.length()
    start = long.substr(0, size)
    related = start == short
    if edits:
        few = ibis.cases((size < 4, 0), (size < 8, 1), else_=2)
        plain = _as_letters(short)
        near = plain.levenshtein(_as_letters(start)) <= few
        related = related | ((few > 0) & (near | (plain.levenshtein(_as_letters(long)) <= few)))
    return ibis.coalesce((size > 0) & related, False)


def mark_chains(searches: Any, *, gap: int = 30, edits: bool = True) -> Any:
    """The searches with `chain_id`, `chain_step` from 1, and `chain_last`. An Ibis table.

    Within a session, in the order of time, a search continues the chain of the one before it when at most
    `gap` seconds lie between them and their texts are related. The chain's id is its first search's.
    A search without a session is a chain of its own.
    """
    import ibis

    alone = searches.session_id.isnull()
    keyed = searches.mutate(
        placings_alone=alone,
        placings_session=alone.ifelse(searches.search_id, searches.session_id),
        placings_text=lower_text(searches["query"]),
    )
    who = ["placings_alone", "placings_session"]
    order = ["time", "search_id"]
    along = ibis.window(group_by=who, order_by=order)
    keyed = keyed.mutate(
        placings_before=keyed.placings_text.lag().over(along), placings_when=keyed.time.lag().over(along)
    )
    near = keyed.time <= keyed.placings_when + ibis.interval(seconds=gap)
    related = relate_texts(keyed.placings_before, keyed.placings_text, edits=edits)
    goes_on = ibis.coalesce(near & related & keyed.placings_before.notnull(), False)
    keyed = keyed.mutate(placings_begins=goes_on.ifelse(0, 1))
    begun = ibis.cumulative_window(group_by=who, order_by=order)
    keyed = keyed.mutate(placings_chain=keyed.placings_begins.sum().over(begun))
    who = [*who, "placings_chain"]
    inside = ibis.cumulative_window(group_by=who, order_by=order)
    keyed = keyed.mutate(
        chain_id=keyed.search_id.first().over(inside),
        chain_step=number_from_one(ibis.window(group_by=who, order_by=order)),
        placings_steps=keyed.search_id.count().over(ibis.window(group_by=who)),
    )
    keyed = keyed.mutate(chain_last=keyed.chain_step == keyed.placings_steps)
    return keyed.drop(*(name for name in keyed.columns if name.startswith("placings_")))


def judge_searches(chained: Any, labels: Any, touched: Any) -> Any:
    """The searches with `successful` and `outcome`.

    Successful: an action with a grade above 0 was used. Else abandoned: a later search of its chain was
    successful; unmatched: it has actions, of which none could be used; failed: it has none. `labels` holds
    the graded (search, item) pairs, `touched` the ids of searches that any action speaks of.
    """
    import ibis

    won = labels.filter(labels.label > 0).select("search_id").distinct().mutate(won=ibis.literal(True))
    any_action = touched.select("search_id").distinct().mutate(acted=ibis.literal(True))
    found = chained.left_join(won, "search_id").drop("search_id_right")
    found = found.left_join(any_action, "search_id").drop("search_id_right")
    found = found.mutate(successful=found.won.notnull())
    step = found.successful.ifelse(found.chain_step, 0)
    found = found.mutate(placings_won=step.max().over(ibis.window(group_by="chain_id")))
    outcome = ibis.cases(
        (found.successful, "successful"),
        (found.placings_won > found.chain_step, "abandoned"),
        (found.acted.notnull(), "unmatched"),
        else_="failed",
    )
    return found.mutate(outcome=outcome).drop("won", "acted", "placings_won")


def number_from_one(window: Any) -> Any:
    """Row numbers from 1, int64 on every engine: Spark's are int32, which Ibis does not know."""
    import ibis

    return (ibis.row_number().over(window) + 1).cast("int32").cast("int64")


def _as_letters(text: Any) -> Any:
    """One byte a letter: DuckDB's edit distance counts bytes, Spark's letters."""
    return text.re_replace(NOT_ASCII, "?")
