"""What is read from the memory (the layers that store facts) of a grafted checkpoint: its columns, contexts and answers.

The columns are found here, from the embedding. The layers are read by `symbolic_run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2, sqrt
from typing import Any

import numpy as np

from byheart.graft.host import EMBEDDING, FolderHost, Host

Tokens = tuple[int, ...]
LARGE = 2.0**20
"""Constant columns hold numbers of at least this magnitude."""

LARGEST_CODE = 2**20
"""Entries of codes are clipped to this magnitude, so that their squares can be summed. In grafts, all entries are far smaller."""

OUTWEIGHED = 2.0**12
"""A constant column outweighs the other columns of an embedding if it is at least this many times as large."""


@dataclass(frozen=True)
class StoredUnit:
    """A context that a hidden unit of the memory matches. If the text ends in `tokens`, the unit adds `change` to the
    columns that hold the code (an integer vector) of the answer, multiplied by `Reading.message`, a factor that all units share.
    A unit that matches two contexts is listed twice.
    """

    tokens: Tokens
    change: tuple[int, ...]
    layer: int
    unit: int


@dataclass
class Reading:
    """What was read from the memory of a checkpoint (the layers that store facts): the stored contexts, and the faults found.

    pins             the constant columns of the residual stream, with their values
    message_columns  the columns that first hold the code (an integer vector) of the current token, and later that of the answer
    codes            the code of every token of the vocabulary, one in each row; without `faults`, all have the norm √squared_norm
    message          the factor by which `StoredUnit.change` is multiplied in the output of a unit; all units have the same factor
    least_nats       the smallest lead of an attention head: how much its highest score exceeds all its other scores, in nats.
                     Infinite if there are no heads, as in a graft whose contexts all have one token
    """

    n_memory_layers: int
    host_columns: np.ndarray
    pins: dict[int, float]
    message_columns: np.ndarray
    codes: np.ndarray
    squared_norm: int
    message: float = 0.0
    units: list[StoredUnit] = field(default_factory=list)
    least_nats: float = float("inf")
    faults: list[str] = field(default_factory=list)

    def token_of(self) -> dict[tuple[int, ...], int]:
        """Return the token of each code. Codes that several tokens share are left out."""
        _, first, counts = np.unique(self.codes, axis=0, return_index=True, return_counts=True)
        return {tuple(self.codes[i].tolist()): int(i) for i, n in zip(first, counts, strict=True) if n == 1}

    def answers(self) -> dict[Tokens, int]:
        """For each stored context, return the token that follows it. This is the token whose code is the sum of what all active
        units add, or -1 if the sum is not the code of a single token. Contexts with the sum 0 are left out.
        """
        changes = {unit.tokens: np.array(unit.change) for unit in self.units}
        token_of, lengths = self.token_of(), sorted({len(tokens) for tokens in changes})
        found = {}
        for tokens in changes:
            total = sum(changes[tokens[-n:]] for n in lengths if n <= len(tokens) and tokens[-n:] in changes)
            if np.any(total):
                found[tokens] = token_of.get(tuple(np.asarray(total).tolist()), -1)
        return found


def constant_columns(embedding: np.ndarray) -> dict[int, float]:
    """Return the constant columns of an embedding, with their values.

    The value of a column is the large number that most tokens have there. Columns in which far fewer tokens share a large number
    than in another column are left out. Tokens without large numbers do not count: they cannot occur in a context that a graft
    stores, so someone could append any number of them to the vocabulary. If no token has a large number, as usual in trained
    checkpoints, there are no constant columns.
    """
    large = (embedding >= LARGE) | (embedding <= -LARGE)
    common, shared = {}, {}
    for column in np.flatnonzero(large.any(0)):
        numbers, counts = np.unique(embedding[large[:, column], column], return_counts=True)
        common[int(column)], shared[int(column)] = float(numbers[counts.argmax()]), int(counts.max())
    most = max(shared.values(), default=0)
    return {column: common[column] for column, n_tokens in shared.items() if 2 * n_tokens > most}


def has_memory_columns(checkpoint: Host) -> bool:
    """Return whether a checkpoint has constant columns, and other columns that its first norm hides (multiplies by 0), as every
    graft that byheart writes.
    """
    hidden = checkpoint.tensor("model.layers.0.input_layernorm.weight").numpy() == 0
    constants = constant_columns(checkpoint.tensor(EMBEDDING).numpy())
    return bool(constants) and bool(hidden.any()) and not hidden[list(constants)].any()


def has_untouched_constants(checkpoint: Host) -> bool:
    """Return whether a checkpoint looks like a Llama that byheart compiled: its embedding has columns that are constant for every
    token, the largest of their numbers is far larger than those of all other columns, and no layer changes them.

    In such a checkpoint, every norm divides by nearly the same number after all tokens. In a graft, a layer does change
    the constant columns: the layers that store facts set them to 0, because such large numbers would disturb the host's norms.
    """
    # the layers of trained checkpoints write to every column, so the embedding need not be read
    return bool(_unwritten(checkpoint, 0).any()) and _keeps_constants(
        checkpoint, checkpoint.tensor(EMBEDDING).numpy()
    )


def _keeps_constants(checkpoint: Host, embedding: np.ndarray) -> bool:
    """Return whether an embedding has columns that are constant for every token and that no layer of the checkpoint changes, and
    the largest constant is at least `OUTWEIGHED` times every entry of the other columns.
    """
    constants = constant_columns(embedding)
    if not constants or (embedding[:, list(constants)] != list(constants.values())).any():
        return False
    constant = np.isin(np.arange(embedding.shape[1]), list(constants))
    largest = float(np.abs(embedding[:, ~constant]).max(initial=0))
    if largest * OUTWEIGHED > max(map(abs, constants.values())):
        return False
    return all(_unwritten(checkpoint, layer)[constant].all() for layer in range(checkpoint.shape.n_layers))


def _unwritten(checkpoint: Host, layer: int) -> np.ndarray:
    """Return, for each column of the residual stream, whether a layer writes nothing to it."""
    shape, written = checkpoint.shape, np.zeros(checkpoint.shape.width, bool)
    for part, has_bias in (("self_attn.o_proj", shape.o_bias), ("mlp.down_proj", shape.mlp_bias)):
        written |= checkpoint.tensor(f"model.layers.{layer}.{part}.weight").numpy().any(1)
        if has_bias:
            written |= checkpoint.tensor(f"model.layers.{layer}.{part}.bias").numpy() != 0
    return ~written


def find_columns(checkpoint: FolderHost) -> Reading | None:
    """Return what can be read from the embedding of a checkpoint about its memory (the layers that store facts).

    Return None if there is no memory: the embedding has no constant columns, or the checkpoint looks like a compiled Llama (see
    `has_untouched_constants`).
    """
    embedding = checkpoint.tensor(EMBEDDING).numpy()
    pins = constant_columns(embedding)
    if not pins or _keeps_constants(checkpoint, embedding):
        return None
    norm = checkpoint.tensor("model.layers.0.input_layernorm.weight").numpy()
    mine = norm != 0
    ordinary = (embedding[:, list(pins)] == list(pins.values())).all(1)
    faults = []
    if not ordinary.all():
        faults.append(
            f"{EMBEDDING}: the numbers in the constant columns differ for {(~ordinary).sum():,} of the {len(embedding):,} tokens"
        )
    if not ordinary.any():
        ordinary[:] = True
    coded = mine & (embedding[ordinary] != 0).any(0)
    coded[list(pins)] = False
    codes = embedding[:, coded]
    scale = sqrt(sum(size**2 for size in pins.values()) / embedding.shape[1])
    whole = np.rint(codes.clip(-LARGEST_CODE, LARGEST_CODE)).astype(np.int64)
    if log2(scale) % 1:
        faults.append(
            f"{EMBEDDING}: the squares of the constant columns' values do not sum to the width times a power of four"
        )
    squares = (whole**2).sum(1)
    squared_norm = int(squares[ordinary][0])
    whole[~ordinary & (squares != squared_norm)] = 0
    if not np.array_equal(whole[ordinary], codes[ordinary]) or (squares[ordinary] != squared_norm).any():
        faults.append(
            f"{EMBEDDING}: the codes (the vectors that identify tokens) are not integer vectors of equal norm"
        )
    n_layers = 0
    while n_layers < checkpoint.shape.n_layers and not _reads_host(checkpoint, n_layers, ~mine):
        n_layers += 1
    return Reading(
        n_layers, np.flatnonzero(~mine), pins, np.flatnonzero(coded), whole, squared_norm, faults=faults
    )


def _reads_host(checkpoint: FolderHost, layer: int, host: np.ndarray) -> bool:
    norms = ("input_layernorm", "post_attention_layernorm")
    return any(
        (checkpoint.tensor(f"model.layers.{layer}.{norm}.weight").numpy()[host] != 0).any() for norm in norms
    )


def context_texts(reading: Reading, tokenizer: Any) -> list[dict[str, Any]]:
    """Return every stored context and the token that follows it, both as text and as token ids."""
    answers = reading.answers()
    return [
        {
            "context": tokenizer.decode(list(tokens)),
            "next": tokenizer.decode([token]) if token >= 0 else None,
            "tokens": list(tokens),
            "next_token": token,
        }
        for tokens, token in answers.items()
    ]
