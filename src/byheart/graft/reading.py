"""What is read from the memory of a grafted checkpoint, the layers that store facts: its columns, contexts and answers.

The columns are found here, from the embedding. The layers are read by `symbolic_run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2, sqrt
from typing import Any

import numpy as np

from byheart.graft.host import EMBEDDING, FolderHost, Host

Tokens = tuple[int, ...]
OUTWEIGHED = 2.0**12
"""A constant column outweighs the other columns of an embedding if it is at least this many times as large."""


@dataclass(frozen=True)
class StoredUnit:
    """A context that a hidden unit of the memory matches. If the text ends in `tokens`, the unit adds `change` times
    `Reading.message` to the columns that hold the code (an integer vector) of the answer. A unit that matches two contexts is
    listed twice.
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
    codes            the code of every token of the vocabulary, one in each row; all have the norm √squared_norm
    message          the factor by which all units multiply the codes that they add
    least_nats       the smallest lead of a head: how much its highest attention score exceeds every other
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


def constant_columns(embedding: np.ndarray) -> np.ndarray:
    """Return, for each column of an embedding, whether it holds the same large number for all tokens. Only
    checkpoints that byheart makes have such columns.
    """
    same: np.ndarray = (embedding == embedding[0]).all(0) & (np.abs(embedding[0]) >= 2.0**20)
    return same


def has_no_host(checkpoint: Host) -> bool:
    """Return whether the weights are built like those of a Llama that byheart compiled, which contains no host: the embedding has
    constant columns that outweigh all others, and no layer changes them.

    Every norm then divides by nearly the same number everywhere, so no layer normalises anything. A graft is built in another way:
    its memory clears the constant columns, because otherwise they would outweigh the host's columns in the host's norms.
    """
    # the layers of trained checkpoints write to every column, so the embedding need not be read
    return bool(_unwritten(checkpoint, 0).any()) and _keeps_constants(
        checkpoint, checkpoint.tensor(EMBEDDING).numpy()
    )


def _keeps_constants(checkpoint: Host, embedding: np.ndarray) -> bool:
    """Return whether an embedding has constant columns that outweigh all others, and no layer of the checkpoint changes them."""
    constant = constant_columns(embedding)
    if not constant.any():
        return False
    largest = float(np.abs(embedding[:, ~constant]).max(initial=0))
    if largest * OUTWEIGHED > float(np.abs(embedding[0, constant]).max()):
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
    """Return what the embedding of a checkpoint shows of its memory.

    Return None if there is no memory: no column of the embedding holds the same large number for all tokens, or the checkpoint
    contains no host.
    """
    embedding = checkpoint.tensor(EMBEDDING).numpy()
    constant = constant_columns(embedding)
    if not constant.any() or _keeps_constants(checkpoint, embedding):
        return None
    pins = {int(column): float(embedding[0, column]) for column in np.flatnonzero(constant)}
    norm = checkpoint.tensor("model.layers.0.input_layernorm.weight").numpy()
    mine = norm != 0
    coded = mine & ~constant & (embedding != 0).any(0)
    codes = embedding[:, coded]
    scale = sqrt(sum(size**2 for size in pins.values()) / embedding.shape[1])
    whole = codes.astype(np.int64)
    faults = []
    if log2(scale) % 1:
        faults.append(
            f"{EMBEDDING}: the squares of the constant columns' values do not sum to the width times a power of four"
        )
    squares = (whole**2).sum(1)
    if not np.array_equal(whole, codes) or len(np.unique(squares)) != 1:
        faults.append(
            f"{EMBEDDING}: the codes (the vectors that identify tokens) are not integer vectors of equal norm"
        )
    n_layers = 0
    while n_layers < checkpoint.shape.n_layers and not _reads_host(checkpoint, n_layers, ~mine):
        n_layers += 1
    return Reading(
        n_layers, np.flatnonzero(~mine), pins, np.flatnonzero(coded), whole, int(squares[0]), faults=faults
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
