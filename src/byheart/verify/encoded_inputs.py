"""Encode a data set for a network. For samples that do not fit, record the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from byheart.data.sequences import Sequences, TokenSequences, VectorSequences
from byheart.data.tokenizers import IdTokenizer, Tokenizer
from byheart.errors import UsageError
from byheart.network.memoriser import Memoriser

UNKNOWN_TOKEN = -1
Drawn: TypeAlias = Int[np.ndarray, " n_drawn"]


@dataclass(frozen=True, eq=False)
class EncodedInputs:
    """The samples of a data set, divided into those that the network can take and those that it cannot.

    `asked` holds the indices of the samples that it can take, and `encoded` their inputs. `refused` holds the reason for every
    other sample, by index.
    """

    asked: Int[np.ndarray, " n_asked"]
    encoded: np.ndarray
    refused: dict[int, str]

    def refuse(self, at: list[int], reason: str) -> EncodedInputs:
        """Return a copy in which more samples are refused, for the given reason. `at` holds their positions in `asked`."""
        refused = dict.fromkeys(self.asked[at].tolist(), reason)
        return EncodedInputs(
            np.delete(self.asked, at), np.delete(self.encoded, at, axis=0), self.refused | refused
        )


def draw_samples(n_asked: int, n_wanted: int) -> Drawn:
    """Draw `n_wanted` different numbers below `n_asked` (or all, if there are fewer), and return them in ascending order.

    The seed is fixed, so that a certificate can be reproduced.
    """
    return np.sort(np.random.default_rng(0).permutation(n_asked)[:n_wanted])


def encode_inputs(memoriser: Memoriser, inputs: Sequences, tokenizer: Tokenizer | None) -> EncodedInputs:
    """Encode every input for `memoriser`. An input that does not fit the network is listed with a reason.

    `tokenizer` is the tokenizer that produced the ids in `inputs`. If the model has a tokenizer too, their tokens are matched by
    their text. Therefore a data set with another vocabulary is encoded correctly, and tokens that the model does not know are named
    in the reasons. If the model has no tokenizer, ids are not matched with texts.

    Raise `UsageError` if the model has another kind of tokenizer.
    """
    if isinstance(inputs, VectorSequences):
        return _encode_vectors(memoriser, inputs)
    return _encode_tokens(memoriser, inputs, tokenizer)


def _encode_vectors(memoriser: Memoriser, inputs: VectorSequences) -> EncodedInputs:
    network = memoriser.network
    given = f"({inputs.seq_len}, {inputs.dim})"
    takes = f"({network.seq_len}, {network.dim})"
    if network.takes_ids or given != takes:
        takes = takes if not network.takes_ids else "token ids"
        return _refuse_all(
            memoriser,
            len(inputs),
            f"the sample has the shape (vectors, dimension) = {given}; this model takes {takes}",
        )
    finite = np.isfinite(inputs.values).all(axis=(1, 2))
    asked = np.flatnonzero(finite)
    reason = "the sample contains a value that is not finite"
    refused = {int(sample): reason for sample in np.flatnonzero(~finite)}
    return EncodedInputs(asked, memoriser.encode(VectorSequences(inputs.values[asked])), refused)


def _refuse_all(memoriser: Memoriser, n_samples: int, reason: str) -> EncodedInputs:
    shape = (0, memoriser.network.seq_len)
    return EncodedInputs(np.zeros(0, np.int64), np.zeros(shape), dict.fromkeys(range(n_samples), reason))


def _encode_tokens(
    memoriser: Memoriser, inputs: TokenSequences, tokenizer: Tokenizer | None
) -> EncodedInputs:
    network = memoriser.network
    if network.n_vocab is None:
        takes = f"an array of shape (vectors, dimension) = ({network.seq_len}, {network.dim})"
        return _refuse_all(
            memoriser, len(inputs), f"the sample consists of token ids; this model takes {takes}"
        )
    ids = _translate(memoriser, tokenizer, inputs.ids, network.n_vocab)
    refused: dict[int, str] = {}
    sample_of = np.repeat(np.arange(len(inputs)), inputs.lengths)
    names = () if tokenizer is None else tokenizer.vocabulary
    for at in np.flatnonzero(ids == UNKNOWN_TOKEN):
        token = int(inputs.ids[at])
        shown = repr(names[token]) if token < len(names) else f"id {token}"
        refused.setdefault(int(sample_of[at]), f"the model does not know the token {shown}")
    least, takes = (network.seq_len, "exactly") if network.pad is None else (1, "at most")
    for sample in np.flatnonzero((inputs.lengths < least) | (inputs.lengths > network.seq_len)):
        n_tokens = int(inputs.lengths[sample])
        reason = (
            f"the number of tokens in the sample is {n_tokens}; this model takes {takes} {network.seq_len}"
        )
        refused.setdefault(int(sample), reason)
    asked = np.array([sample for sample in range(len(inputs)) if sample not in refused], dtype=np.int64)
    known = TokenSequences(np.where(ids == UNKNOWN_TOKEN, 0, ids), inputs.offsets, network.n_vocab)
    return EncodedInputs(asked, memoriser.encode(known.take(asked) if refused else known), refused)


def _translate(
    memoriser: Memoriser, theirs: Tokenizer | None, ids: Int[np.ndarray, " n"], n_vocab: int
) -> Int[np.ndarray, " n"]:
    """Convert ids of the tokenizer `theirs` to the model's ids. A token that the model does not know becomes `UNKNOWN_TOKEN`.

    Some ids are numbers from the data that do not stand for texts. They may be large, so no table with one entry for every
    possible id is created.
    """
    own = memoriser.tokenizer
    if isinstance(own, IdTokenizer) and theirs is None:
        return own.positions_of(ids)
    if own is None and isinstance(theirs, IdTokenizer):
        ids = theirs.numbers[ids]
    if own is not None and theirs is not None and own.name != theirs.name:
        raise UsageError(
            f"the model reads text with its {own.name} tokenizer, but the data were read with the "
            f"{theirs.name} tokenizer.\n"
            f"  Read the data with tokenizer={own.name!r}.",
            model=own.name,
            data=theirs.name,
        )
    if own is not None and theirs is not None and own.vocabulary != theirs.vocabulary:
        number = {token: index for index, token in enumerate(own.vocabulary)}
        found = [number.get(token, UNKNOWN_TOKEN) for token in theirs.vocabulary]
        return np.asarray(np.array(found, dtype=np.int64).reshape(-1)[ids])
    is_known = ids < (n_vocab if own is None else len(own.vocabulary))
    if memoriser.network.pad is not None:
        is_known &= ids != memoriser.network.pad
    return np.where(is_known, ids, UNKNOWN_TOKEN)
