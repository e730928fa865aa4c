"""Compute how many sequences of equal tokens data of a given shape can contain. Some lower bounds are about such sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace

from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.bounds.vc_dimension import smallest
from byheart.data.possible_contexts import SequenceSizes
from byheart.data.shape import DataShape


def equal_token_sequences(shape: DataShape) -> int:
    """Return how many sequences of equal tokens data of this shape can contain. Sequences that repeat the same token count once.

    The result is never larger than the largest possible number. It may be smaller if tokens are vectors, because it is not known
    exactly how many fit into a ball, or if each token has a label and sequences differ in length. It is 0 if the network needs
    positions, because positions make equal tokens differ.
    """
    if shape.has_positions:
        return 0
    n_tokens = _tokens_that_fit(shape) if shape.vocab is None else shape.vocab
    ids = replace(shape, vocab=n_tokens, dim=None)
    most = min(ids.n_samples, ids.context_count, n_tokens)  # each such sequence has a context of its own
    if ids.task != "seq-to-seq" or ids.n_contexts is None:
        return most
    return _LabelledTokens(ids.sequence_sizes, n_tokens, ids.n_contexts, ids.label_count).most_constant(most)


def _tokens_that_fit(shape: DataShape) -> int:
    """Return a number of different vectors that certainly fit into the ball, or the total number of tokens if more fit."""
    n_tokens = shape.label_count * shape.context_len
    vectors = tokens_as_vectors(shape)
    return n_tokens if vectors is None else vectors.distinct_tokens(n_tokens)


@dataclass(frozen=True)
class _LabelledTokens:
    """The sizes of data with a label for each token, where the order of tokens does not matter.

    Each different token of a sequence is a context. A sequence of equal tokens is therefore one context, and any other sequence is
    at least two. Sequences that contain the same tokens equally often share their contexts.
    """

    sizes: SequenceSizes
    n_tokens: int
    n_contexts: int
    n_labels: int

    def most_constant(self, most: int) -> int:
        """Return the largest number of sequences of equal tokens, at most `most`, with which the contexts of all sequences
        can add up to `n_contexts`.

        With fewer sequences of equal tokens, more contexts are possible, until all other sequences occur. So there is a largest
        number that leaves room for enough contexts. With this number or, if `n_contexts` cannot be reached exactly, with one less,
        `_is_possible` holds. (If sequences differ in length, it may fail for both. Then 0 is returned.)
        """
        least = max(self.n_contexts - self._most_contexts(self.sizes.n_sequences), 0)
        if least > most:
            return 0
        largest = most - smallest(lambda n: n >= most - least or self._leaves_room(most - n), start=0)
        return next((n for n in (largest, largest - 1) if n >= 0 and self._is_possible(n)), 0)

    def _leaves_room(self, n_constant: int) -> bool:
        """Return whether `n_constant` sequences of equal tokens, with the best others, have at least `n_contexts` contexts."""
        n_others = self.sizes.n_sequences - n_constant
        return n_constant + self._most_contexts(n_others) >= self.n_contexts

    def _is_possible(self, n_constant: int) -> bool:
        """Return whether `n_constant` sequences of equal tokens and some other sequences have `n_contexts` contexts together.

        A given number of other sequences can have every number of contexts between its smallest and its largest, because
        a sequence can be replaced by one with one more different token. So it suffices to try the largest number of sequences
        whose smallest number of contexts is not too large. All remaining sequences repeat these.

        If lengths differ, the number of labels must be reached as well. All sequences have different sets of tokens, and
        any length from the size of this set. Let all sequences have their smallest length, except one sequence of equal tokens,
        which has the full length. This gives the smallest number of labels. Every larger number can be reached, up to
        one label less than that of sequences of full length: longer sequences of other tokens add single labels, a second
        sequence of equal tokens adds up to length - 1, and the repeated ones are either short or of full length. A third
        sequence of equal tokens is shorter than the full length.
        """
        remaining = self.n_contexts - n_constant
        n_others = min(self.sizes.n_sequences - n_constant, self._most_others(remaining))
        if remaining > self._most_contexts(n_others):
            return False
        if not self.sizes.ragged:
            return True
        n_repeated = self.sizes.n_sequences - n_constant - n_others
        fewest_labels = self.n_contexts + n_repeated + self.sizes.length - 1
        most_labels = self.sizes.n_sequences * self.sizes.length - 1
        return n_constant >= 3 and fewest_labels <= min(self.n_labels, most_labels)

    def _n_others(self, n_different: int) -> int:
        """Return how many sequences with this number of different tokens can be chosen.

        If lengths differ, only one sequence is chosen for each set of tokens. Otherwise, how often each token occurs makes further
        sequences. If the number is above `n_sequences`, a smaller number may be returned, but at least `n_sequences`.
        """
        n_sets = self.sizes.choices(self.n_tokens, n_different)
        return (
            n_sets
            if self.sizes.ragged
            else n_sets * self.sizes.choices(self.sizes.length - 1, n_different - 1)
        )

    @property
    def _most_different(self) -> int:
        return min(self.sizes.length, self.n_tokens)

    def _most_contexts(self, n_sequences: int) -> int:
        """Return the largest number of contexts that `n_sequences` sequences have together if none consists of equal tokens."""
        total = 0
        for n_different in range(self._most_different, 1, -1):
            chosen = min(n_sequences, self._n_others(n_different))
            total, n_sequences = total + chosen * n_different, n_sequences - chosen
            if not n_sequences:
                break
        return total

    def _most_others(self, n_contexts: int) -> int:
        """Return the largest number of sequences that have at most `n_contexts` contexts, if none consists of equal tokens.

        If this number is above `n_sequences`, a smaller number may be returned, but at least `n_sequences`.
        """
        total = 0
        for n_different in range(2, self._most_different + 1):
            n_such = self._n_others(n_different)
            chosen = min(n_such, n_contexts // n_different)
            total, n_contexts = total + chosen, n_contexts - chosen * n_different
            if chosen < n_such or total >= self.sizes.n_sequences:
                break
        return total
