"""Registers of the network: a name for every column of the stream, in each part of the way.

A column is used again once nothing reads what it held, so it may have two names: one before its last reader, one after.

    columns             embedding and hash     address and tables   from the pick on
    rows                rows                   rows                 whether the field is 1 or a later one, 2 ..., 3
    channel             channel                channel              sum of side word 1
    fingerprint         fingerprint            fingerprint          sum of side word 2
    squares of rows     the token's digits     squares of rows      the answer's digits
    square of channel                          square of channel    sum of side word 0
    total                                      total                total
    words               word 0: first token    words                words 0 to 3: windows; word 4: failures
"""

from __future__ import annotations

ROWS = ("row 0", "row 1", "row 2")
CHANNEL = "channel"
FINGERPRINT = "fingerprint"
LIMBS = (*ROWS, CHANNEL, FINGERPRINT)
"""What the hash of a window is made of."""

ROW_SQUARES = ("row 0 squared", "row 1 squared", "row 2 squared")
CHANNEL_SQUARE = "channel squared"
TOTAL = "total"
"""The sum of the words read, less the fingerprint."""

FIXED = (*LIMBS, *ROW_SQUARES, CHANNEL_SQUARE, TOTAL)
"""Registers with a column of their own at every size; words follow."""


def word(number: int) -> str:
    """The register of a channel's word, or of a side word."""
    return f"word {number}"


FIRST_TOKEN = "first token"
"""1 at the first token, until the address is known."""

NUMBER, NUMBER_SQUARE, HIGH_DIGIT = DIGITS = ("number", "number squared", "high digit")
"""A token's number in the logits: of the token read at first, of the answer in the end."""

FIELD_AT_LEAST = ("field at least 1", "field at least 2", "field at least 3")
SIDE_SUMS = ("side sum 0", "side sum 1", "side sum 2")
CLIPS = ("window 0", "window 1", "window 2", "window 3")
"""The total, clipped to each window in which a known context's total may lie."""
FAILURES = "failures"
"""How many side words did not fit."""

REUSED = {
    FIRST_TOKEN: word(0),
    **dict(zip(DIGITS, ROW_SQUARES, strict=True)),
    **dict(zip(FIELD_AT_LEAST, ROWS, strict=True)),
    **dict(zip(SIDE_SUMS, (CHANNEL_SQUARE, CHANNEL, FINGERPRINT), strict=True)),
    **{name: word(number) for number, name in enumerate((*CLIPS, FAILURES))},
}
"""The register whose column a register takes over."""
