"""The distinct contexts (prefixes) of documents, the tokens that follow each, and their entropy (Madden, Fox and Thrampoulidis,
2024, section 3).

The documents are sorted in dictionary order. A prefix of a document is then new if and only if it is longer than the
prefix that the document shares with the document before it. So all prefixes can be numbered in time linear in the number of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from byheart.data.row_groups import flat_ranges, gather_ranges
from byheart.data.sequences import TokenSequences, freeze, offsets_of
from byheart.errors import DataError, UsageError
from byheart.process.memory_limit import require_memory
from byheart.theorems import realises

MOST_WRITTEN = 2**22
"""`Contexts.as_sequences` applies the limit `MOST_COPIES` only if all contexts together have more than this many tokens."""

MOST_COPIES = 512
"""The largest allowed ratio of the number of tokens in all contexts to the number of tokens in all documents.

Each beginning of a document is a context. A document of 1,025 tokens has 1,024 of them, and a ratio of 512.
"""

BYTES_WRITTEN = 32
"""Measured peak memory of a compilation and its check, in bytes per token, counting the padding of all contexts to the longest."""


@realises("MFT24-eq1")
@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts α¹, ..., αⁿ of documents, numbered in order of first appearance.

    Context i first appears as the first `lengths[i]` tokens of document `documents[i]`. Its last token is `last_tokens[i]`.
    `parents[i]` is the number of the context without this token, or -1 if there is none. The context is followed by a token
    `counts[i]` times. The distinct tokens that follow it are `next_tokens[offsets[i]:offsets[i + 1]]`, in ascending order, and
    `next_counts` says how often each of them follows it. These numbers, divided by `counts[i]`, are the non-zero entries of row i
    of the empirical distribution π̂.
    """

    source: TokenSequences
    documents: Int[np.ndarray, " n_contexts"]
    lengths: Int[np.ndarray, " n_contexts"]
    last_tokens: Int[np.ndarray, " n_contexts"]
    parents: Int[np.ndarray, " n_contexts"]
    counts: Int[np.ndarray, " n_contexts"]
    offsets: Int[np.ndarray, " n_offsets"]
    next_tokens: Int[np.ndarray, " n_successors"]
    next_counts: Int[np.ndarray, " n_successors"]

    def __post_init__(self) -> None:
        """Make every array read-only."""
        for name, value in vars(self).items():
            if name != "source":
                object.__setattr__(self, name, freeze(value, np.int64))

    def __len__(self) -> int:
        return int(self.counts.size)

    def __getitem__(self, i: int) -> Int[np.ndarray, " context_len"]:
        if not 0 <= i < len(self):
            raise IndexError(f"there is no context {i}; there are {len(self)}, numbered from 0")
        return self.source[int(self.documents[i])][: self.lengths[i]]

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary, ω."""
        return self.source.n_vocab

    @property
    def n_predictions(self) -> int:
        """Total number of predicted tokens: every token except the first of its document."""
        return int(self.counts.sum())

    @cached_property
    def successor_contexts(self) -> Int[np.ndarray, " n_successors"]:
        """For each entry of `next_tokens`, the number of its context."""
        return freeze(np.repeat(np.arange(len(self)), np.diff(self.offsets)), np.int64)

    @cached_property
    def probabilities(self) -> Float[np.ndarray, " n_successors"]:
        """The probability π̂ of each entry of `next_tokens`, given its context."""
        return freeze(self.next_counts / self.counts[self.successor_contexts], np.float64)

    def as_sequences(self) -> TokenSequences:
        """Return each context as a sequence of its own.

        A document of n tokens has n - 1 contexts of n / 2 tokens on average. Raise `DataError` if long documents make
        the contexts many times as long as the data, and `OverMemoryLimit` if running a network on all of them would
        take too much memory.
        """
        n_written, longest = int(self.lengths.sum()), int(self.lengths.max(initial=0))
        if n_written > max(MOST_WRITTEN, MOST_COPIES * self.source.ids.size):
            row = int(self.source.lengths.argmax()) + 1
            raise DataError(
                f"document {row} has {self.source.max_len:,} tokens. Each of its beginnings is a separate "
                f"context, and all contexts together have {n_written:,} tokens, more than {MOST_COPIES} "
                "times as many as the documents.\n"
                "  Divide long documents into lines of at most a thousand tokens, or memorise the texts "
                "with --recite.",
                document=row,
                n_tokens=self.source.max_len,
                n_written=n_written,
            )
        require_memory(
            f"running the model on {len(self):,} contexts of up to {longest:,} tokens",
            BYTES_WRITTEN * len(self) * longest,
        )
        starts = self.source.offsets[self.documents]
        ids = gather_ranges(self.source.ids, starts, self.lengths)
        return TokenSequences(ids, offsets_of(self.lengths), self.n_vocab)

    def dense_probabilities(self) -> Float[np.ndarray, "n_contexts n_vocab"]:
        """Return the probabilities π̂ of all next tokens as a dense matrix with one row per context."""
        table = np.zeros((len(self), self.n_vocab))
        table[self.successor_contexts, self.next_tokens] = self.probabilities
        return table

    @cached_property
    def _surprisals(self) -> Float[np.ndarray, " n_successors"]:
        """Return -log π̂ for every entry of `next_tokens`, where π̂ is the entry's probability given its context.

        The result is accurate to about the last digit, because it is computed as log1p((total - count) / count) and the difference
        is exact. Here `count` says how often the entry follows its context, and `total` how often any token does.
        """
        totals = self.counts[self.successor_contexts]
        return np.asarray(np.log1p((totals - self.next_counts) / self.next_counts))

    @cached_property
    def entropy_nats(self) -> float:
        """The total entropy in nats: -Σ_i Σ_γ c_i π̂_γi log π̂_γi, where c_i is the count of context i, and π̂_γi is the share of
        token γ among the tokens that follow this context (Madden et al., 2024, section 3).

        No term is negative, each term is accurate to a few units in its last place, and the sum is rounded once.
        """
        return math.fsum((self.next_counts * self._surprisals).tolist())

    @property
    def entropy_nats_per_token(self) -> float:
        """The total entropy in nats (`entropy_nats`), divided by the number of predicted tokens."""
        return self.entropy_nats / self.n_predictions

    @cached_property
    def context_entropies(self) -> Float[np.ndarray, " n_contexts"]:
        """The entropy in nats of each context's own distribution, not weighted by its count."""
        return np.bincount(
            self.successor_contexts, weights=self.probabilities * self._surprisals, minlength=len(self)
        )

    @realises("MFT24-L2")
    def cross_entropy_nats(self, log_probabilities: Float[np.ndarray, "n_contexts n_vocab"]) -> float:
        """Return the total loss, in nats, of a model with these log-probabilities for the next token after each context.

        The loss is summed over all predicted tokens of all documents. If the probabilities of each context add up to at most 1,
        it is never below `entropy_nats`, except by rounding errors (Madden et al., 2024, Lemma 2).
        """
        if log_probabilities.shape != (len(self), self.n_vocab):
            raise UsageError(
                f"expected log-probabilities of shape {(len(self), self.n_vocab)}; "
                f"got {log_probabilities.shape}.",
                shape=log_probabilities.shape,
            )
        chosen = log_probabilities[self.successor_contexts, self.next_tokens]
        return -math.fsum((self.next_counts * chosen).tolist())


def contexts_of(documents: TokenSequences) -> Contexts:
    """Find the distinct contexts of `documents`: the prefixes that are followed by a token."""
    if not (documents.lengths >= 2).any():
        raise DataError(
            "no document has two or more tokens, so there is nothing to predict.\n"
            "  Give longer documents, or a tokenizer that splits them into more tokens."
        )
    order = _dictionary_order(documents)
    ordered = documents.take(order)
    ids, positions = ordered.ids, ordered.positions
    is_new = positions >= np.repeat(_shared_with_previous(ordered), ordered.lengths)
    nodes = _node_numbers(positions, is_new)

    # Every new prefix is a node of the tree of prefixes; its parent is the prefix one token shorter.
    at = np.flatnonzero(is_new)  # node v ends with the token at[v]
    n_nodes = at.size
    parent = np.where(positions[at] > 0, nodes[np.maximum(at - 1, 0)], -1)
    occurrences = np.bincount(nodes, minlength=n_nodes)

    # Contexts are the nodes that are followed by a token, in the order in which this happens first.
    followed = np.ones(ids.size, dtype=bool)
    followed[ordered.offsets[1:][ordered.lengths > 0] - 1] = False
    first_document = np.full(n_nodes, len(documents), dtype=np.int64)
    np.minimum.at(first_document, nodes[followed], np.repeat(order, ordered.lengths)[followed])
    inner = np.unique(parent[parent >= 0])
    inner = inner[np.lexsort((positions[at[inner]], first_document[inner]))]
    number = np.full(n_nodes + 1, -1, dtype=np.int64)  # the last entry is for parent -1
    number[inner] = np.arange(inner.size)

    children = np.flatnonzero(parent >= 0)
    children = children[np.lexsort((ids[at[children]], number[parent[children]]))]
    owner = number[parent[children]]
    offsets = offsets_of(np.bincount(owner, minlength=inner.size))
    next_counts = occurrences[children]
    return Contexts(
        source=documents,
        documents=first_document[inner],
        lengths=positions[at[inner]] + 1,
        last_tokens=ids[at[inner]],
        parents=number[parent[inner]],
        counts=np.add.reduceat(next_counts, offsets[:-1]),
        offsets=offsets,
        next_tokens=ids[at[children]],
        next_counts=next_counts,
    )


def _dictionary_order(documents: TokenSequences) -> Int[np.ndarray, " n_documents"]:
    """Return the indices of the documents in dictionary order. Equal documents keep their order."""
    raw = documents.ids.astype(">u8").tobytes()  # big-endian: comparing bytes compares numbers
    bounds = (documents.offsets * 8).tolist()
    keys = [raw[begin:end] for begin, end in pairwise(bounds)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _shared_with_previous(documents: TokenSequences) -> Int[np.ndarray, " n_documents"]:
    """For documents in dictionary order, return how many leading tokens each shares with the document before it."""
    lengths, offsets = documents.lengths, documents.offsets
    shared = np.zeros(len(documents), dtype=np.int64)
    common = np.minimum(lengths[1:], lengths[:-1])
    here = flat_ranges(offsets[1:-1], common)
    before = flat_ranges(offsets[:-2], common)
    # Find the first position that differs. If a document is a prefix of the other, all its tokens are shared.
    differs = documents.ids[here] != documents.ids[before]
    clash = np.where(differs, documents.positions[here], np.iinfo(np.int64).max)
    some = np.flatnonzero(common)
    if some.size:
        starts = (np.cumsum(common) - common)[some]
        shared[some + 1] = np.minimum(np.minimum.reduceat(clash, starts), common[some])
    return shared


def _node_numbers(
    positions: Int[np.ndarray, " n_tokens"], is_new: np.ndarray
) -> Int[np.ndarray, " n_tokens"]:
    """For each token, return the number of the prefix that ends there.

    The documents are in dictionary order. `positions` holds the position of each token in its document, and `is_new` says whether
    the prefix that ends there is new. A prefix that is not new equals the prefix of the same length in the previous document. Its
    number is that of the latest new prefix of this length.
    """
    number = np.where(is_new, np.cumsum(is_new) - 1, -1)
    by_position = np.argsort(positions, kind="stable")
    nodes = np.empty_like(number)
    # Numbers only grow in dictionary order, and the first token at each position is new. A running maximum
    # within one position is therefore the latest new node. Adding the rank of the position keeps positions
    # apart.
    base = positions[by_position] * (number.size + 1)
    nodes[by_position] = np.maximum.accumulate(number[by_position] + base) - base
    return nodes
