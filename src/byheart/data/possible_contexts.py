"""Compute the largest number of distinct contexts that sequences of given sizes can have.

The number is exact: some sequences of these sizes have this many contexts. A context is everything that a network can use to
predict one label:

    next-token      the last token with the multiset of all tokens, or the whole sequence if positions matter
    set             the multiset of all tokens
    seq-to-seq      a token with the multiset of all tokens, or a position in the whole sequence if positions matter
    distribution    a prefix of a document
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

from byheart.data.options import Task


@dataclass(frozen=True)
class SequenceSizes:
    """The sizes of sequences.

    length     number of tokens in the longest sequence; for documents, in the longest prefix that is followed by a token
    n_tokens   number of different tokens, or None if it is not limited
    ragged     whether at least one sequence is shorter than `length`
    """

    task: Task
    n_sequences: int
    length: int
    n_tokens: int | None
    ordered: bool
    ragged: bool

    def most_contexts(self) -> int:
        """Return the largest number of distinct contexts that sequences of these sizes can have. Sequences may repeat."""
        if self.task == "distribution":
            return self._most_prefixes()
        if self.task == "seq-to-seq":
            return self._most_labelled_tokens()
        return self.most_distinct()

    def most_distinct(self) -> int:
        """Return how many of the `n_sequences` sequences can have pairwise different contexts."""
        if self.n_tokens is None:
            return self.n_sequences
        total = 0
        for length in self._lengths():
            total += self._n_distinct(length, self.n_tokens)
            if total >= self.n_sequences:
                return self.n_sequences
        return total

    def _lengths(self) -> range:
        return range(self.length, 0, -1) if self.ragged else range(self.length, self.length - 1, -1)

    def _n_distinct(self, length: int, n_tokens: int) -> int:
        """Return the number of different contexts that sequences of this length can have.

        If this number is above `n_sequences`, a smaller number may be returned, but at least `n_sequences`.
        """
        if self.ordered:
            return self._power(n_tokens, length)
        if self.task == "next-token":  # the last token, and the multiset of the others
            return n_tokens * self.choices(n_tokens + length - 2, length - 1)
        return self.choices(n_tokens + length - 1, length)

    def _most_prefixes(self) -> int:
        """Return the largest number of distinct prefixes of documents.

        For each length, count the possible prefixes or the documents, whichever are fewer. If `ragged` is true and there are
        several documents, at least one of them is shorter than the longest, so it has no prefix of the full length.
        """
        n_documents, n_tokens = self.n_sequences, self.n_tokens
        # one document is too short to have a prefix of full length
        is_short = self.ragged and n_documents > 1
        if n_tokens == 1:
            return self.length
        total, length = 0, 0
        while n_tokens is not None and length < self.length and n_tokens ** (length + 1) < n_documents:
            length += 1
            total += n_tokens**length
        return total + n_documents * (self.length - length) - (is_short and length < self.length)

    def _most_labelled_tokens(self) -> int:
        """Return the largest number of contexts for `seq-to-seq`, reached by choosing the sequences with the most contexts."""
        total, remaining = 0, self.n_sequences
        for n_contexts, n_such in self._sequences_by_contexts():
            chosen = min(remaining, n_such)
            total, remaining = total + chosen * n_contexts, remaining - chosen
            if not remaining:
                break
        is_full = total == self.n_sequences * self.length
        return total - (is_full and self.ragged and self.n_sequences > 1)

    def _sequences_by_contexts(self) -> Iterator[tuple[int, int]]:
        """Yield pairs: a number of contexts in one sequence, and how many distinct sequences have this number of contexts.

        The largest number of contexts comes first.
        """
        n_tokens = self.n_tokens
        if n_tokens is None:
            yield self.length, self.n_sequences
        elif self.ordered:  # each position is a context
            yield from ((length, self._power(n_tokens, length)) for length in self._lengths())
        else:  # each different token is a context
            for n_used in range(min(self.length, n_tokens), 0, -1):
                # the other tokens repeat these; in shorter sequences some of them are missing
                n_multisets = self.choices(self.length - (not self.ragged), n_used - (not self.ragged))
                yield n_used, self.choices(n_tokens, n_used) * n_multisets

    def _power(self, base: int, exponent: int) -> int:
        """Return a power, or `n_sequences` if the power is larger, without computing a very large number."""
        if base > 1 and exponent >= self.n_sequences.bit_length():
            return self.n_sequences
        return min(int(base**exponent), self.n_sequences)

    def choices(self, n: int, k: int) -> int:
        """Return a binomial coefficient, or `n_sequences` if it is larger, without computing a very large number."""
        k = min(k, n - k)
        if k >= self.n_sequences.bit_length():  # the coefficient is at least (n / k)^k >= 2^k
            return self.n_sequences
        return min(comb(n, k), self.n_sequences) if k >= 0 else 0
