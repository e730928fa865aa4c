"""Convert facts to contexts, which say which token follows which tokens.

No context may match at the beginning of another text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from byheart.errors import AssumptionViolated, ConflictingLabels

Context = tuple[int, ...]


@dataclass(frozen=True)
class Fact:
    """The tokens of a key and its answer, from row `row` of the data."""

    tokens: Context
    n_key: int
    row: int

    def contexts(self) -> Iterable[tuple[Context, int]]:
        """Yield each token of the answer, with all tokens before it."""
        return ((self.tokens[:end], self.tokens[end]) for end in range(self.n_key, len(self.tokens)))


def merge_contexts(facts: Iterable[Fact]) -> dict[Context, int]:
    """Return the next token of every context. Two facts may share a context only if they have the same next token."""
    following: dict[Context, int] = {}
    rows: dict[Context, int] = {}
    for fact in facts:
        for context, token in fact.contexts():
            if following.setdefault(context, token) != token:
                raise ConflictingLabels(
                    f"rows {rows[context]:,} and {fact.row:,} have different answers, but the same key, "
                    "or one key continues the other. Different tokens would have to follow the same "
                    "text.\n"
                    "  Drop one of them.",
                    rows=[rows[context], fact.row],
                )
            rows.setdefault(context, fact.row)
    return following


def inherited(following: Mapping[Context, int]) -> dict[Context, int | None]:
    """Return, for each context, the token that its longest stored proper suffix predicts, or None if no suffix is stored.

    If a text ends in several stored contexts, these are suffixes of one another, and the units of all of them are
    active. A unit adds the code of its own token and subtracts the code of the inherited token, so the sum is the
    code of the token of the longest context.
    """
    lengths = sorted({len(context) for context in following}, reverse=True)
    found: dict[Context, int | None] = {}
    for context in following:
        shorter = (context[-length:] for length in lengths if length < len(context))
        found[context] = next((following[suffix] for suffix in shorter if suffix in following), None)
    return found


def check_beginnings(facts: Iterable[Fact]) -> None:
    """Refuse facts that a shorter text could trigger at the beginning of a prompt.

    A head whose distance reaches before the beginning of a text reads another token of the text instead. Let the text
    be the tokens i, i + 1, ... of a fact, with i >= 1 and nothing before. The first missing token is read by a head
    of distance j at position j - 1 of the text, because the blocks of `plan_gathers` begin with offset 0. By
    `choose_kernel`, the best distance of this head there is j - 1, so it reads the first token of the text. The
    context can therefore match only if tokens i - 1 and i are equal. If they are, each earlier token is compared with
    a token of the text or a mixture of its tokens. The context still does not match if one of the earlier tokens does
    not occur in the text.
    """
    for fact in facts:
        tokens = fact.tokens[:-1]
        for i in range(1, len(tokens)):
            if tokens[i - 1] == tokens[i] and set(tokens[: i - 1]) <= set(tokens[i:]):
                raise AssumptionViolated(
                    f"row {fact.row:,} begins with a repeated token. At the beginning of a prompt, a "
                    "Transformer cannot count repetitions, so the answer would also follow after fewer "
                    "of them.\n"
                    '  Put other text before the key, for example with --template "Q: {input}\\nA:".',
                    row=fact.row,
                    tokens=list(fact.tokens[: i + 1]),
                )
