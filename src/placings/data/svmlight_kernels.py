"""The compiled loops under `svmlight.py`: bytes in, numbers out, nothing raised.

A block is whole lines, ending in a newline, so no loop here can run past its end. What is not a plain
decimal number (NULL, nan, inf, a typo, or one of the rare numbers whose last float32 bit needs more
than double arithmetic) is left to Python as a *hard* token; a broken line stops the block with a code.
"""

from __future__ import annotations

import numpy as np

from placings.core import AnyArray, compiled

# why a block stopped
FINE, BAD_PAIR, BIG_ID, TWO_QIDS, NO_QID_VALUE = range(5)

# what `info` holds after a block
ROWS, VALUES, LINES, HARD, ERROR, ERROR_AT, MIN_ID, MAX_ID, UNORDERED, INFO_SIZE = range(10)

# a row's qid: none, a whole number, or text
QID_NONE, QID_WHOLE, QID_TEXT = range(3)

MAX_FEATURE_ID = 2**31 - 2
TENTH_OF_LOWEST = -(2**63 // 10)
POWERS = np.array([float(f"1e{exponent}") for exponent in range(-330, 309)])

# how a scanned number may be used
EXACT, NEAR, NOT_A_NUMBER = range(3)


@compiled
def scan_number(text: AnyArray, at: int, powers: AnyArray) -> tuple[float, int, int]:
    """The decimal number at `at`: its value, where it ends, and how far to trust it.

    Up to 2^53 and 10^±22 one rounding makes the double exact (Clinger's fast path). Beyond, the value
    is within 2^-50 of the truth, which settles nearly every float32.
    """
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += 1
    mantissa = np.int64(0)
    exponent = np.int64(0)
    seen = 0
    dropped = False
    while True:
        digit = np.int64(text[at]) - 48
        if digit < 0 or digit > 9:
            break
        if mantissa < 100_000_000_000_000_000:
            mantissa = mantissa * 10 + digit
        else:
            exponent += 1
            dropped = dropped or digit != 0
        seen += 1
        at += 1
    if text[at] == 46:
        at += 1
        while True:
            digit = np.int64(text[at]) - 48
            if digit < 0 or digit > 9:
                break
            if mantissa < 100_000_000_000_000_000:
                mantissa = mantissa * 10 + digit
                exponent -= 1
            else:
                dropped = dropped or digit != 0
            seen += 1
            at += 1
    if seen == 0:
        return 0.0, at, NOT_A_NUMBER
    if text[at] == 101 or text[at] == 69:
        at += 1
        down = text[at] == 45
        if down or text[at] == 43:
            at += 1
        written = np.int64(0)
        seen = 0
        while True:
            digit = np.int64(text[at]) - 48
            if digit < 0 or digit > 9:
                break
            if written < 100_000:
                written = written * 10 + digit
            seen += 1
            at += 1
        if seen == 0:
            return 0.0, at, NOT_A_NUMBER
        exponent += -written if down else written
    if mantissa == 0:
        return (-0.0 if negative else 0.0), at, EXACT
    if not dropped and mantissa <= 9_007_199_254_740_992 and -22 <= exponent <= 22:
        value = float(mantissa)
        value = value * powers[330 + exponent] if exponent >= 0 else value / powers[330 - exponent]
        return (-value if negative else value), at, EXACT
    if exponent < -330 or exponent > 300:
        return 0.0, at, NOT_A_NUMBER
    value = float(mantissa) * powers[330 + exponent]
    if value < 1e-36 or value > 1e38:
        return 0.0, at, NOT_A_NUMBER
    return (-value if negative else value), at, NEAR


@compiled
def is_gap(byte: int) -> bool:
    """A space, a tab or a carriage return."""
    return byte == 32 or byte == 9 or byte == 13


@compiled
def end_of_token(text: AnyArray, at: int) -> int:
    """Where the token at `at` ends: a gap, a line's end or a comment."""
    while not is_gap(text[at]) and text[at] != 10 and text[at] != 35:
        at += 1
    return at


@compiled
def is_missing(text: AnyArray, start: int, stop: int, words: AnyArray, word_ends: AnyArray) -> bool:
    """Whether the token is one of the words that stand for a missing value."""
    begin = 0
    for end in word_ends:
        if end - begin == stop - start:
            same = True
            for place in range(stop - start):
                if text[start + place] != words[begin + place]:
                    same = False
                    break
            if same:
                return True
        begin = end
    return False


@compiled
def find_item(text: AnyArray, at: int) -> tuple[int, int, int]:
    """The item id in the comment at `at`: its start and end (equal: none), and the line's end.

    `#docid = GX008-86 inc = 1` holds GX008-86; a comment of one word is that word.
    """
    at += 1
    while is_gap(text[at]) or text[at] == 35:
        at += 1
    start = at
    while not is_gap(text[at]) and text[at] != 10 and text[at] != 61:
        at += 1
    stop = at
    while is_gap(text[at]):
        at += 1
    named = (
        text[at] == 61
        and stop - start == 5
        and text[start] == 100
        and text[start + 1] == 111
        and text[start + 2] == 99
        and text[start + 3] == 105
        and text[start + 4] == 100
    )
    if named:
        at += 1
        while is_gap(text[at]):
            at += 1
        start = at
        while not is_gap(text[at]) and text[at] != 10:
            at += 1
        stop = at
    elif text[at] != 10:
        stop = start
    while text[at] != 10:
        at += 1
    return start, stop, at


@compiled
def scan_qid(text: AnyArray, start: int, stop: int) -> tuple[np.int64, int]:
    """A qid as a whole number if it is written as one would print it, else as text."""
    at = start
    negative = text[at] == 45
    if negative:
        at += 1
    if at == stop or stop - at > 19 or (text[at] == 48 and (stop - at > 1 or negative)):
        return np.int64(0), QID_TEXT
    number = np.int64(0)  # counted downwards: int64 reaches one further below zero than above
    while at < stop:
        digit = np.int64(text[at]) - 48
        if digit < 0 or digit > 9:
            return np.int64(0), QID_TEXT
        if number < TENTH_OF_LOWEST or (number == TENTH_OF_LOWEST and digit > (8 if negative else 7)):
            return np.int64(0), QID_TEXT
        number = number * 10 - digit
        at += 1
    return (number if negative else -number), QID_WHOLE


@compiled
def parse_block(
    text: AnyArray,
    powers: AnyArray,
    words: AnyArray,
    word_ends: AnyArray,
    most: int,
    values: AnyArray,
    columns: AnyArray,
    row_ends: AnyArray,
    labels: AnyArray,
    qids: AnyArray,
    spans: AnyArray,
    hard: AnyArray,
    info: AnyArray,
) -> None:
    """Parse whole lines into the arrays given; see the names above for what `info` says.

    `most` is the highest feature id that is let through, `MAX_FEATURE_ID` or less.
    `spans[row]` is line, qid kind, qid start, qid end, item start, item end. `hard[i]` is the place in
    `values` (−1: the row's label), token start, token end, row.
    """
    at = 0
    stop = len(text)
    row = 0
    count = 0
    line = 0
    tough = 0
    lowest = np.int64(MAX_FEATURE_ID + 1)
    highest = np.int64(-1)
    unordered = 0
    error = FINE
    while at < stop:
        while is_gap(text[at]):
            at += 1
        if text[at] == 10 or text[at] == 35:
            while text[at] != 10:
                at += 1
            at += 1
            line += 1
            continue
        spans[row, 0] = line
        spans[row, 1] = QID_NONE
        spans[row, 4] = 0
        spans[row, 5] = 0
        start = at
        value, at, trust = scan_number(text, at, powers)
        labels[row] = value
        if trust != EXACT or not (is_gap(text[at]) or text[at] == 10 or text[at] == 35):
            at = end_of_token(text, start)
            hard[tough, 0] = -1
            hard[tough, 1] = start
            hard[tough, 2] = at
            hard[tough, 3] = row
            tough += 1
        previous = np.int64(-1)
        while True:
            while is_gap(text[at]):
                at += 1
            byte = text[at]
            if byte == 10:
                break
            if byte == 35:
                spans[row, 4], spans[row, 5], at = find_item(text, at)
                break
            if byte == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == 58:
                start = at + 4
                token_end = end_of_token(text, start)
                if token_end == start:
                    error = NO_QID_VALUE
                elif spans[row, 1] != QID_NONE:
                    error = TWO_QIDS
                if error != FINE:
                    break
                qids[row], spans[row, 1] = scan_qid(text, start, token_end)
                spans[row, 2] = start
                spans[row, 3] = token_end
                at = token_end
                continue
            start = at
            number = np.int64(0)
            while True:
                digit = np.int64(text[at]) - 48
                if digit < 0 or digit > 9:
                    break
                if number <= MAX_FEATURE_ID:
                    number = number * 10 + digit
                at += 1
            if at == start or text[at] != 58:
                error = BAD_PAIR
                at = start
                break
            if number > most:
                error = BIG_ID
                at = start
                break
            at += 1
            start = at
            value, at, trust = scan_number(text, at, powers)
            easy = trust == EXACT
            if trust == NEAR:
                below = np.float32(value * (1.0 - 8.881784197001252e-16))
                easy = below == np.float32(value * (1.0 + 8.881784197001252e-16))
            if not easy or not (is_gap(text[at]) or text[at] == 10 or text[at] == 35):
                at = end_of_token(text, start)
                if is_missing(text, start, at, words, word_ends):
                    value = np.nan
                else:
                    hard[tough, 0] = count
                    hard[tough, 1] = start
                    hard[tough, 2] = at
                    hard[tough, 3] = row
                    tough += 1
            values[count] = value
            columns[count] = number
            count += 1
            if number <= previous:
                unordered += 1
            previous = number
            if number < lowest:
                lowest = number
            if number > highest:
                highest = number
        if error != FINE:
            break
        row_ends[row] = count
        row += 1
        line += 1
        at += 1
    info[ROWS] = row
    info[VALUES] = count
    info[LINES] = line
    info[HARD] = tough
    info[ERROR] = error
    info[ERROR_AT] = at
    info[MIN_ID] = lowest
    info[MAX_ID] = highest
    info[UNORDERED] = unordered


@compiled
def fill_rows(values: AnyArray, columns: AnyArray, row_ends: AnyArray, first: int, out: AnyArray) -> None:
    """Scatter values into dense rows `[rows, width]`; `first` is the feature id of column 0."""
    begin = 0
    for row in range(len(row_ends)):
        for place in range(begin, row_ends[row]):
            out[row, columns[place] - first] = values[place]
        begin = row_ends[row]
