"""The compiled models that the pictures show, and how to look inside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from byheart.construct.kajitsuka_sato_2025.contextual_mapping import ContextualMapping, contextual_mapping
from byheart.construct.kajitsuka_sato_2025.network_program import REGISTERS
from byheart.construct.kajitsuka_sato_2025.theorem import METHOD
from byheart.data.dataset import Dataset, TokenSequences
from byheart.network import Attention, FeedForward, SparseMatrix, Transformer
from byheart.network.exact.dyadic import as_sparse
from byheart.network.transformer.interpreter import interpret
from byheart.program.construction import Construction

ROOT = Path(__file__).resolve().parents[1]
CAPITALS = ROOT / "examples" / "capitals.csv"
QUESTION = "capital of France"
SUMS = (
    "one plus one = two, one plus two = three, two plus one = three, two plus two = four, "
    "two times two = four, two times three = six, three times two = six, three plus three = six, "
    "three times three = nine, four minus one = three, four minus two = two, three minus two = one"
)


@dataclass(frozen=True)
class Compiled:
    """A data set, its contextual mapping and the model compiled from it, all from one seed."""

    data: Dataset
    mapping: ContextualMapping
    construction: Construction

    @staticmethod
    def of(data: Dataset) -> Compiled:
        mapping = contextual_mapping(data, np.random.default_rng(0))
        return Compiled(data, mapping, METHOD.plan(data, METHOD.options(), np.random.default_rng(0)).emit())

    @property
    def network(self) -> Transformer:
        return self.construction.memoriser.network

    def note(self, name: str) -> int:
        """A number the construction has noted, such as `group_size_second`."""
        value = self.construction.notes[name]
        assert isinstance(value, int)
        return value

    @property
    def attention_at(self) -> int:
        """The number of the attention layer."""
        return next(at for at, layer in enumerate(self.network.layers) if isinstance(layer, Attention))

    @property
    def second_part(self) -> tuple[FeedForward, ...]:
        """The blocks after attention."""
        after = self.network.layers[self.attention_at + 1 :]
        return tuple(layer for layer in after if isinstance(layer, FeedForward))

    def groups(self) -> list[list[Fraction]]:
        """The contexts on their line, cut into the groups of the second part."""
        values, size = sorted(self.mapping.labels), self.note("group_size_second")
        return [values[at : at + size] for at in range(0, len(values), size)]

    def place(self, sample: int) -> Fraction:
        """Where the context of a sample lies on the line."""
        mapping = self.mapping
        last = int(mapping.tokens.sequences[sample, -1])
        context = (
            mapping.weights.get(last, 0),
            mapping.token_line.values[last],
            mapping.sequence_ids[sample],
        )
        line = mapping.context_line
        terms = (c * v for c, v in zip(line.coefficients, context, strict=True))
        return sum(terms, line.offset)

    def group_of(self, sample: int) -> int:
        """The number of the group a sample lies in."""
        return next(number for number, group in enumerate(self.groups()) if self.place(sample) in group)

    def lookup_words(self) -> Iterator[tuple[Fraction, Fraction]]:
        """Keys and labels of every group as two fractions, read from the weights of the lookup blocks."""
        keys, labels = (REGISTERS.index(name) for name in ("keys_high", "labels_high"))
        for block in self.second_part[1 : 1 + self.note("groups_second")]:
            entries = as_sparse(block.w2).entries
            yield entries[keys, 0].fraction, entries[labels, 0].fraction

    def sample_of(self, text: str) -> int:
        """The number of the sample with this text."""
        return next(i for i in range(self.data.n_samples) if self.text(i) == text)

    def text(self, sample: int) -> str:
        """The text of a sample."""
        assert self.data.tokenizer is not None
        assert isinstance(self.data.inputs, TokenSequences)
        return self.data.tokenizer.decode(self.data.inputs[sample].tolist())

    def label(self, sample: int) -> str:
        """The label of a sample by name."""
        return self.data.label_names[self.data.labels[sample]]


@cache
def sums() -> Compiled:
    """Twelve small sums in words."""
    pairs = [tuple(row.split(" = ")) for row in SUMS.split(", ")]
    return Compiled.of(Dataset.from_pairs(pairs, tokenizer="word"))


@cache
def capitals() -> Compiled:
    """The bundled example."""
    return Compiled.of(Dataset.from_csv(CAPITALS))


def random_vectors(n_samples: int) -> Compiled:
    """Sequences of 8 random vectors of dimension 4 with one of 16 labels."""
    rng = np.random.default_rng(0)
    return Compiled.of(Dataset.from_arrays(rng.random((n_samples, 8, 4)), rng.integers(0, 16, n_samples)))


def trace(model: Compiled, sample: int) -> tuple[list[str], np.ndarray]:
    """The residual stream at the last token after attention and after every block that follows."""
    network, width = model.network, model.network.model_width
    identity = SparseMatrix.of((width, width), {(channel, channel): 1 for channel in range(width)})
    first = network.layers[: model.attention_at + 1]
    upto = Transformer(network.w_in, first, identity, network.seq_len, network.embedding, network.pad)
    encoded = model.construction.memoriser.encode(model.data.inputs.take(np.array([sample])))
    stream = interpret(upto, encoded[0])[-1]
    found = [stream]
    for block in model.second_part:
        hidden = [
            max(Fraction(0), a + b) for a, b in zip(_times(block.w1, stream), _column(block.b1), strict=True)
        ]
        added = zip(stream, _times(block.w2, hidden), _column(block.b2), strict=True)
        stream = [sum(terms, Fraction(0)) for terms in added]
        found.append(stream)
    return list(REGISTERS), np.array([[float(v) for v in row] for row in found])


def _times(weights: SparseMatrix | np.ndarray, vector: list[Fraction]) -> list[Fraction]:
    return [sum((v.fraction * vector[c] for c, v in row), Fraction(0)) for row in as_sparse(weights).rows()]


def _column(weights: SparseMatrix | np.ndarray) -> list[Fraction]:
    return [sum((v.fraction for _, v in row), Fraction(0)) for row in as_sparse(weights).rows()]
