"""One vector per sample: what the feed-forward predecessors of KS25 memorise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from byheart.data.dataset import Dataset, Task
from byheart.data.separation import Separation
from byheart.errors import AssumptionViolated, InexactWeights, UsageError
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.memory import Memory
from byheart.network.size import Size
from byheart.network.transformer.architecture import Embedding, Layer, Precision, Transformer
from byheart.network.transformer.float_exactness import float_exactness
from byheart.network.transformer.floats import as_floats
from byheart.program.construction import Assumption, Statistics, statistics_of
from byheart.program.distinct_tokens import largest_spread, line_table_tally, words_of
from byheart.program.projection import IntegerPoints, Projection, project_apart
from byheart.program.weight_count import Blocks, Tally, alike, block_parameters, block_width, size_from

TASKS: tuple[Task, ...] = ("next-token", "set")


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """The distinct samples: where each lies, and its label from 1 to C.

    embedding  the table that places token ids on a line; None if the samples are vectors
    """

    points: IntegerPoints
    labels: tuple[int, ...]
    separation: Separation
    embedding: Embedding | None

    @property
    def dim(self) -> int:
        """The dimension of the vectors that enter the network."""
        return int(self.points.coordinates.shape[1])


def require_single(method: str, seq_len: int) -> None:
    """Refuse sequences of more than one token."""
    if seq_len > 1:
        raise AssumptionViolated(
            f"{method} memorises one vector per sample, and these samples have up to {seq_len} tokens.\n"
            "  It has no attention, so it sees each token alone. Choose a construction with attention, such as "
            "kajitsuka-sato-2025,\n  or join the tokens of each sample into one vector.",
            method=method,
            seq_len=seq_len,
        )


def refuse_options(method: str, options: Mapping[str, object]) -> None:
    """Raise `UsageError` where a method without options is given some."""
    if options:
        raise UsageError(f"{method} takes no options; got {', '.join(sorted(options))}.")


def labelled_vectors(method: str, data: Dataset) -> LabelledVectors:
    """The distinct samples of `data` with their labels; refused where there is more than one token."""
    require_single(method, data.seq_len)
    data.require_finite()
    data.require_consistent()
    words = words_of(replace(data, ordered=False))  # one place: there is no order to see
    labels = np.zeros(words.points.n_points, dtype=np.int64)
    labels[words.sequences[:, -1]] = data.labels + 1
    return LabelledVectors(words.points, tuple(labels.tolist()), words.separation, words.embedding)


def onto_the_line(vectors: LabelledVectors, rng: np.random.Generator) -> Projection:
    """The samples on a line, at least 2 and 2 apart (KS25 Lemma C.2).

    A table has placed every token so already, those that do not occur included, and is left as it is.
    """
    if vectors.embedding is not None:
        places = [Fraction(int(value)) for (value,) in vectors.points.coordinates]
        return Projection((Fraction(1),), Fraction(0), places)
    return project_apart(vectors.points, rng, largest_spread(vectors.separation, vectors.dim))


def assumptions_on(data: Dataset, vectors: LabelledVectors) -> tuple[Assumption, ...]:
    """What the predecessors assume, as found."""
    separation = vectors.separation
    apart = "a single one" if separation.delta is None else f"at least {separation.delta:.6g} apart"
    return (
        Assumption("one vector per sample", True, f"{data.n_samples} samples of one token"),
        Assumption(
            "equal samples carry equal labels", True, f"{vectors.points.n_points} distinct samples, {apart}"
        ),
    )


def memory_of(
    data: Dataset,
    vectors: LabelledVectors,
    w_in: SparseMatrix,
    layers: tuple[Layer, ...],
    answer_channel: int,
) -> Memory:
    """The network that reads one vector and answers with the channel given."""
    w_out = SparseMatrix.of((1, w_in.shape[0]), {(0, answer_channel): 1})
    network = Transformer(w_in, layers, w_out, 1, vectors.embedding)
    return Memory(network, data.task, data.label_names, data.tokenizer, data.ordered)


def natively(method: str, memory: Memory, data: Dataset, precision: Precision) -> tuple[Memory, float]:
    """The same network in floats, and the bits of mantissa its widest sum needs.

    Refused unless every weight and every sum on these data is exact in that type, in any order of summation.
    """
    reason = ""
    try:
        network = as_floats(memory.transformer, precision)
        exactness = float_exactness(network, memory.encode(data.inputs))
        if exactness.holds:
            return replace(memory, network=network), exactness.bits_needed
        reason = f"{exactness.where} needs {exactness.bits_needed:.0f} bits of mantissa, and it has {exactness.bits_available}"
    except InexactWeights as error:
        reason = str(error).splitlines()[0]
    raise AssumptionViolated(
        f"{method} does not fit {precision} on these data: {reason}.\n"
        "  Compile with precision exact, or round the inputs to a coarser grid.",
        method=method,
        precision=precision,
    )


def measured(data: Dataset, vectors: LabelledVectors) -> Statistics:
    """The statistics of `data`, with the number of distinct samples."""
    return replace(statistics_of(data), n_contexts=vectors.points.n_points)


def line_bits_guess(statistics: Statistics) -> int:
    """Bits of the largest place on the line: every token has one; random points in space need about N²."""
    if statistics.vocab is not None:
        return (2 * statistics.vocab).bit_length()
    return 2 * statistics.n_samples.bit_length() + 1


def size_of_blocks(
    statistics: Statistics, model_width: int, blocks: Sequence[Blocks], weights: Tally
) -> Size:
    """The size of E_out ∘ blocks ∘ E_in on one vector; `weights` are those of E_in and the blocks."""
    dim = 1 if statistics.vocab is not None else (statistics.dim or 1)
    n_vocab = statistics.vocab or 0
    return size_from(
        n_vocab + model_width * dim + model_width + block_parameters(blocks, model_width),
        weights + line_table_tally(n_vocab, None) + alike(1, 1),  # the table, and one entry of E_out
        sum(n_blocks for n_blocks, _ in blocks),
        block_width(blocks, model_width),
        statistics.precision,
    )
