"""Registers: names for the columns of the residual stream, in each group of layers.

A column is reused when its value is no longer needed, so it may have several names, one after the other.

    columns             embedding and hash                   address and tables   after the tables
    rows                rows                                 rows                 windows 0 to 2
    squares of rows     the token's digits                   squares of rows      the answer's digits
    total                                                    total                total
    fields, side sums                                        fields, side sums    fields, side sums
    one-hot columns     channel, fingerprint, first token    one-hot channel      window 3, failures

The total is a sum of table words, from which the answer is read. Windows 0 to 3 are the total, clipped to each of four ranges.
Side sums, fields and failures detect unknown contexts. A side sum is a sum of further table entries, and a field is the range of
its bits that belongs to the context. The fingerprint, a part of the hash, chooses the field. Fields that are not 0 are failures.
"""

from __future__ import annotations

ROWS = ("row 0", "row 1", "row 2")
CHANNEL = "channel"
FINGERPRINT = "fingerprint"
LIMBS = (*ROWS, CHANNEL, FINGERPRINT)
"""The registers that hold the hash of a context. The hash consists of several numbers (limbs), one for each register."""

ROW_SQUARES = ("row 0 squared", "row 1 squared", "row 2 squared")
TOTAL = "total"
"""The sum of the table words that the context reads, minus 2^12 times its fingerprint (a part of its hash), plus 2^22."""

FIXED = (*ROWS, *ROW_SQUARES, TOTAL)
"""Registers with a column of their own in every network."""

FIELD_AT_LEAST = ("field at least 1", "field at least 2", "field at least 3")
SIDE_SUMS = ("side sum 0", "side sum 1", "side sum 2")
"""`FIELD_AT_LEAST` and `SIDE_SUMS` are registers for side words, which detect unknown contexts. Networks without side words do not
have these registers."""


def hot(channel: int) -> str:
    """Return the register that is 1 if the context reads this channel (column) of the tables, else 0."""
    return f"channel is {channel}"


FIRST_TOKEN = "first token"
"""The register that holds 1 at the first token of a text and 0 elsewhere, until the address (table rows) is computed."""

NUMBER, NUMBER_SQUARE, HIGH_DIGIT = DIGITS = ("number", "number squared", "high digit")
"""Registers for the number of a token, from which the logits are computed. They first describe the current token: NUMBER holds
the low digit of its number, HIGH_DIGIT the high digit, and NUMBER_SQUARE the sum of the squares of both digits. After the last
layer, NUMBER and HIGH_DIGIT hold twice the digits of the answer's number, and NUMBER_SQUARE holds -1."""

CLIPS = ("window 0", "window 1", "window 2", "window 3")
"""Registers for the sum in `TOTAL`, clipped to each of the four ranges (windows) in which the total of a known context may lie."""
FAILURES = "failures"
"""The number of side words (words that detect unknown contexts) that did not match."""

REUSED = {
    **{name: hot(number) for number, name in enumerate((CHANNEL, FINGERPRINT, FIRST_TOKEN))},
    **dict(zip(DIGITS, ROW_SQUARES, strict=True)),
    **dict(zip(CLIPS, (*ROWS, hot(0)), strict=True)),
    FAILURES: hot(1),
}
"""Maps each register without a column of its own to the register whose column it shares."""
