"""From facts to contexts: which token follows which tokens. No context may fire at the beginning of another text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from byheart.errors import AssumptionViolated, ConflictingLabels

Context = tuple[int, ...]


@dataclass(frozen=True)
class Fact:
    """The tokens of one key and its answer, from row `row` of the data."""

    tokens: Context
    n_key: int
    row: int

    def contexts(self) -> Iterable[tuple[Context, int]]:
        """Each token of the answer with all tokens before it."""
        return ((self.tokens[:end], self.tokens[end]) for end in range(self.n_key, len(self.tokens)))


def merge_contexts(facts: Iterable[Fact]) -> dict[Context, int]:
    """The next token of every context. Two facts may share a context only where they agree."""
    following: dict[Context, int] = {}
    rows: dict[Context, int] = {}
    for fact in facts:
        for context, token in fact.contexts():
            if following.setdefault(context, token) != token:
                raise ConflictingLabels(
                    f"rows {rows[context]:,} and {fact.row:,} have the same key, or one key continues the other, and "
                    "different answers, so different tokens would have to follow the same text.\n  Drop one of them.",
                    rows=[rows[context], fact.row],
                )
            rows.setdefault(context, fact.row)
    return following


def inherited(following: Mapping[Context, int]) -> dict[Context, int | None]:
    """For each context, the token that its longest stored proper suffix predicts; None if no suffix is stored.

    Where a text ends in several stored contexts all of their units fire, and these are suffixes of one another. A unit adds its
    own token's code and subtracts the inherited one's, so the sum is the code of the longest context's token.
    """
    lengths = sorted({len(context) for context in following}, reverse=True)
    found: dict[Context, int | None] = {}
    for context in following:
        shorter = (context[-length:] for length in lengths if length < len(context))
        found[context] = next((following[suffix] for suffix in shorter if suffix in following), None)
    return found


def check_beginnings(facts: Iterable[Fact]) -> None:
    """Refuse facts that a shorter text could trigger at the beginning of a prompt.

    A head that reaches before the beginning reads some other token of the text. Let the text be the tokens i, i + 1, ... of a
    fact, i >= 1, with nothing before. The first missing token is read by a head of distance j at the text's position j - 1
    (`plan_gathers`: blocks begin with offset 0), where its best distance is j - 1 (`choose_kernel`): the first token of the
    text. So nothing fires unless tokens i - 1 and i are equal. If they are, each earlier token is compared with tokens of the
    text, or a mixture of them, and it still does not fire if one of them does not occur there.
    """
    for fact in facts:
        tokens = fact.tokens[:-1]
        for i in range(1, len(tokens)):
            if tokens[i - 1] == tokens[i] and set(tokens[: i - 1]) <= set(tokens[i:]):
                raise AssumptionViolated(
                    f"row {fact.row:,} begins with a repeated token. At the beginning of a prompt a Transformer cannot count "
                    "repetitions, so the answer would also follow after fewer of them.\n"
                    '  Put other text before the key, for example with --template "Q: {input}\\nA:".',
                    row=fact.row,
                    tokens=list(fact.tokens[: i + 1]),
                )
