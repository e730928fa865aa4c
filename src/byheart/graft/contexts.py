"""Convert facts to contexts. A context is a sequence of tokens, stored with the token that must follow it.

`check_beginnings` refuses facts whose contexts could match by mistake at the beginning of a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from byheart.errors import AssumptionViolated, ConflictingLabels, amount

Context = tuple[int, ...]
SHOWN = 10
"""The largest number of rows that an error names."""


@dataclass(frozen=True)
class Fact:
    """The tokens of a key (the first `n_key`) and of its answer, from row `row` of the data."""

    tokens: Context
    n_key: int
    row: int

    def contexts(self) -> Iterable[tuple[Context, int]]:
        """Yield a pair for each token of the answer: its context (all tokens before it), and the token."""
        return ((self.tokens[:end], self.tokens[end]) for end in range(self.n_key, len(self.tokens)))


def merge_contexts(facts: Iterable[Fact]) -> dict[Context, int]:
    """Return the next token of every context. Two facts may share a context only if they have the same next token."""
    following: dict[Context, int] = {}
    rows: dict[Context, int] = {}
    for fact in facts:
        for context, token in fact.contexts():
            if following.setdefault(context, token) != token:
                raise ConflictingLabels(
                    f"rows {rows[context] + 1:,} and {fact.row + 1:,} need different tokens after the same "
                    "text: their keys are equal, or one key is the beginning of the other.\n"
                    "  Drop one of them.",
                    rows=[rows[context], fact.row],
                )
            rows.setdefault(context, fact.row)
    return following


def inherited(following: Mapping[Context, int]) -> dict[Context, int | None]:
    """For each context, find the longest stored context that is a proper suffix of it. Return the token that follows this suffix
    (the inherited token), or None if there is no such suffix.

    If a text ends in several stored contexts, these are suffixes of one another, and the hidden units of all of them are active. A
    unit adds the code of the token that follows its context and subtracts the code of the inherited token, so the sum is the code
    of the token that follows the longest context.
    """
    lengths = sorted({len(context) for context in following}, reverse=True)
    found: dict[Context, int | None] = {}
    for context in following:
        shorter = (context[-length:] for length in lengths if length < len(context))
        found[context] = next((following[suffix] for suffix in shorter if suffix in following), None)
    return found


def twin_contexts(
    facts: Iterable[Fact], following: Mapping[Context, int], before: Mapping[Context, int | None]
) -> list[dict[int, Context]]:
    """Return the groups of contexts that could share a hidden unit. Each group maps first tokens to contexts.

    `following` maps each context to its next token, and `before` to its inherited token (see `inherited`). The contexts of a group
    differ only in their first token, and have the same next token and the same inherited token. They belong to the same rows of the
    data, so that they are forgotten together. Contexts with two equal neighbouring tokens are left out: at the beginning of a text,
    a head may read a mixture of tokens (see `check_beginnings`), and a unit for two contexts might accept this mixture.
    """
    rows: dict[Context, set[int]] = {}
    for fact in facts:
        for context, _ in fact.contexts():
            rows.setdefault(context, set()).add(fact.row)
    groups: dict[tuple[Any, ...], dict[int, Context]] = {}
    for context, token in following.items():
        if all(one != other for one, other in pairwise(context)):
            alike = context[1:], token, before[context], frozenset(rows[context])
            groups.setdefault(alike, {})[context[0]] = context
    return [group for group in groups.values() if len(group) > 1]


def first_token_pairs(twins: Iterable[Mapping[int, Context]]) -> list[tuple[int, int]]:
    """Choose pairs of tokens, such as a word with and without a space before it. In each mapping of `twins`, the contexts differ
    only in their first token. Two of them can share a hidden unit if their first tokens are one of the chosen pairs.

    The pairs that save the most units are chosen first. No token is in two pairs.
    """
    saved: Counter[tuple[int, int]] = Counter()
    for group in twins:
        saved.update(combinations(sorted(group), 2))
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for pair, _ in sorted(saved.items(), key=lambda item: (-item[1], item[0])):
        if taken.isdisjoint(pair):
            pairs.append(pair)
            taken.update(pair)
    return pairs


def shared_units(
    following: Iterable[Context], twins: Iterable[Mapping[int, Context]], pairs: Iterable[tuple[int, int]]
) -> list[tuple[Context, ...]]:
    """Return, for each hidden unit, the contexts that it stores: one context, or two that share the unit.

    following: all contexts.
    twins: mappings from a first token to the context that begins with it. The contexts of one mapping differ only in their first
    token.
    pairs: two contexts of one mapping share a unit if their first tokens form one of these pairs.
    """
    partner = {first: second for pair in pairs for first, second in (pair, pair[::-1])}
    twin = {
        context: group[partner[token]]
        for group in twins
        for token, context in group.items()
        if partner.get(token) in group
    }
    # the context with the smaller first token stands for both
    return [
        (context, twin[context]) if context in twin else (context,)
        for context in following
        if context not in twin or context < twin[context]
    ]


def check_beginnings(facts: Iterable[Fact], keys: Sequence[str] = ()) -> None:
    """Refuse facts whose answer could also follow a part of the key at the beginning of a prompt. If `keys` (the key of each row)
    is given, the error quotes the keys.

    Suppose that a prompt begins with the tokens i, i + 1, ... of a fact, with i >= 1, so the earlier tokens of the fact are
    missing. Each head is meant to read the token at a fixed distance. If this distance leads to a place before the prompt, the
    head reads something in the prompt instead.

    Consider the head that is meant to read token i - 1 itself. There is such a head, because the blocks of `heads.plan_gathers`
    begin with offset 0. Let j be its distance. It would read token i - 1 from position j - 1 of the prompt (the first position is
    0). From there, it can only read at distances from 0 to j - 1. Of these, distance j - 1 has the highest score (see
    `heads.choose_kernel`), so the head reads the first token of the prompt, which is token i. The context can therefore match
    only if tokens i - 1 and i are equal.

    If they are equal, what is read in place of the tokens before token i - 1 is a token of the prompt or a mixture of its tokens.
    The context still does not match if one of the tokens before token i - 1 does not occur in the prompt.
    """
    rows = sorted({fact.row for fact in facts if _begins_ambiguously(fact.tokens[:-1])})
    if not rows:
        return
    named = ", ".join(f"{row + 1:,} ({keys[row]!r})" if keys else f"{row + 1:,}" for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    raise AssumptionViolated(
        "two neighbouring tokens are equal, and the tokens before them, if any, all occur again later, in "
        f"{amount(len(rows), 'row')}: {named}{more}. At the "
        "beginning of a prompt, a Transformer cannot count repetitions, so the answer could also "
        "follow the text of such a row without its first tokens.\n"
        '  Put other text before the key, for example with template="Q: {input}\\nA:" (--template "Q: {input}\\nA:").',
        row=rows[0],
        rows=rows,
    )


def _begins_ambiguously(tokens: Context) -> bool:
    """Return whether a prompt that lacks the first of these tokens could be mistaken for all of them (see `check_beginnings`).

    This is possible if two neighbouring tokens, at i - 1 and i, are equal, and all tokens before them also occur at i or later.
    """
    return any(
        tokens[i - 1] == tokens[i] and set(tokens[: i - 1]) <= set(tokens[i:]) for i in range(1, len(tokens))
    )
