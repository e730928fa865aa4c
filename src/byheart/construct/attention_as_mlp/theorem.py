"""A hidden layer that interpolates labels along a line of tokens. Each of its neurons is an attention head.

Every token attends to itself and to a zero vector. The last coordinate of every token is 1; that of the zero vector is 0. Head h
has W_QK = v_h e_lastᵀ, where e_last is the unit vector of that coordinate, so a token x has the score v_h·x for itself and the
score 0 for the zero vector. The value v_h·x is written in the direction w_h, weighted by softmax(v_h·x, 0) = sigmoid(v_h·x). So
the heads together compute Σ_h SiLU(v_h·x) w_h.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from byheart.bounds.bound import Theorem
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.registry import Example, Method, NoOptions
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size, size_of_spec
from byheart.network.transformer.architecture import Embedding
from byheart.process.progress import Progress
from byheart.program.circle import circle_points
from byheart.program.construction import Construction
from byheart.program.single_samples import count_wrong, require_one_token
from byheart.program.targets import targets_of

NAME = "attention-as-mlp"
DIM = 2
"""The dimension of a token: its position on a line, and the constant 1."""

LABEL_DIM = 2
"""The dimension of a label, which is a point on a circle."""

SLOPE = 40.0
"""The scale β.

For integers x, SiLU(βx)/β acts like ReLU(x) in float64. For x >= 1, sigmoid(40·x) rounds to 1. For x <= -1, the value is so small
(about x·e^-40) that it is lost when it is added to numbers near 1.
"""


def plan(
    data: Dataset, options: NoOptions, rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile associations of single tokens into one attention layer with one head per token.

    Source:     Huben & Morris (2023): a head of size 1 that attends to its own token and to a zero vector computes
                sigmoid(v·x)·(v·x) = SiLU(v·x), so a hidden layer of m neurons is m heads.
    Assumes:    one token per sample. Token i is the point i on a line.
    Guarantee:  the network is the piecewise linear function through the labels' points on a circle (Proposition 3 of Dana et
                al. 2024), up to rounding. Every answer is checked with the native forward pass. A network with a wrong answer is
                rejected.
    Size:       `size_of`: n heads for n tokens.
    Departs:    the zero vector is part of the attention layer (`zero_token`), not a token of the sequence.
    """
    require_one_token(NAME, DataShape.of(data))
    targets = targets_of(data)
    tokens, n_items = targets.contexts.ids, len(targets)
    points = circle_points(targets.n_outputs)
    heads = broken_line(tokens, points[targets.next_tokens])
    network = network_of_heads(*heads, targets.contexts.n_vocab, points)
    n_wrong = count_wrong(network, tokens, targets.next_tokens)
    if n_wrong:
        raise AssumptionViolated(
            f"the network gives {n_wrong} of {n_items} tokens a wrong label: its {targets.n_outputs} labels lie on a circle, "
            f"and are closer together than the rounding error of a sum over {n_items} neurons.\n"
            "  Choose the construction madden-2024, where rounding errors do not accumulate.",
            wrong=n_wrong,
        )
    return Construction(
        Memoriser.of(network, data, ordered=True),
        NAME,
        "Huben & Morris 2023",
        assumptions=(Assumption("one token per sample", True, f"{n_items} tokens"),),
        theorem_size=TheoremSize(
            Theorem("one head per neuron", "", "Huben & Morris 2023"),
            width=n_items,
            depth=1,
            parameters=n_items * (3 * DIM + LABEL_DIM),
            weight_bits=0,
            assumptions=("every token also attends to a zero vector",),
        ),
        notes={"n_contexts": n_items, "n_heads": network.n_heads, "slope": SLOPE},
    )


def broken_line(
    tokens: Int[np.ndarray, " n_items"], values: Float[np.ndarray, "n_items label_dim"]
) -> tuple[Float[np.ndarray, "n_heads dim"], Float[np.ndarray, "n_heads label_dim"]]:
    """Return the directions v_h and the outputs w_h of heads. At each integer t in `tokens`, Σ_h SiLU(v_h·(t, 1)) w_h is the row of
    `values` for t, up to rounding.

    For integers t, this sum is piecewise linear, because the SiLU is so steep that it acts like a ReLU. The output of one head is
    the same for all t. Each other head changes the slope at the start of one piece.
    """
    order = np.argsort(tokens)
    x, y = tokens[order].astype(np.float64), values[order]
    slopes = np.diff(y, axis=0) / np.diff(x)[:, None]
    turns = np.diff(slopes, axis=0, prepend=0.0) if len(slopes) else slopes
    hidden = np.concatenate([[0.0], np.ones(len(turns))])
    bias = np.concatenate([[1.0], -x[:-1]])
    return SLOPE * np.stack([hidden, bias], axis=1), np.concatenate([y[:1], turns]) / SLOPE


def network_of_heads(
    directions: Float[np.ndarray, "n_heads dim"],
    outputs: Float[np.ndarray, "n_heads label_dim"],
    n_vocab: int,
    points: Float[np.ndarray, "n_outputs label_dim"],
) -> AttentionOnly:
    """Build the network in which token t is the vector x = (t, 1). A head with the direction v gives the score v·x to the token
    itself, and the score 0 to the zero vector to which the token also attends. `outputs` are the vectors that heads write, and
    `points` is the unembedding: one point for each label.
    """
    places = np.stack([np.arange(n_vocab, dtype=np.float64), np.ones(n_vocab)], axis=1)
    asked, constant = directions[:, None, :], np.tile([[[0.0, 1.0]]], (len(directions), 1, 1))
    embedding = Embedding(places, np.zeros((1, DIM)))
    heads = (asked, constant, asked.copy(), outputs[:, :, None])
    return AttentionOnly(embedding, *heads, points, 1, skip=False, zero_token=True)


def size_of(shape: DataShape, options: NoOptions) -> Size:
    """Return the size: one head per stored token. Query, key, value and output of a head have two numbers each."""
    n_vocab, n_items = require_one_token(NAME, shape)
    sizes = (n_vocab, 1, DIM, n_items, 1, 1, LABEL_DIM, shape.n_classes)
    return size_of_spec(AttentionOnlySpec("float64", *sizes, skip=False, zero_token=True))


METHOD = Method(
    name=NAME,
    source="Huben & Morris 2023",
    page="closed_forms.md",
    statements=("DPC24-P3",),
    plan=plan,
    size_of=size_of,
    tasks=("next-token",),
    precisions=("float64",),
    example=lambda: Example(random_tokens(12, 1, 30, 3, seed=0)),
)
