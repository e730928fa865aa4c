"""The sizes of MFT24's constructions, and their entries in the registry. `theorem` builds the networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from byheart.construct.registry import Example, Method, deferred_plan
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.decoder.architecture import Activation, DecoderSpec
from byheart.network.size import Size, size_of_spec
from byheart.records.reader import within

Kind = Literal["attention", "averaging"]
METHOD_NAMES: dict[Kind, str] = {"attention": "madden-2024", "averaging": "madden-2024-averaging"}


DIM = 16
"""The default embedding dimension of all solvers except `steps`, whose dimension is 1."""

ALLOWED_GAP = 0.01
"""The gap between loss and entropy that MFT24's experiment allows, as a share of the entropy. This is
also the default goal of the convex solver.
"""

FIRST_WIDTH = 64
"""The number of neurons at which a search for the fewest begins, or less if shaped neurons are fitted to fewer contexts."""

OVERSAMPLING = {"float64": (1, 1), "float32": (5, 4)}
"""Neurons per context, as a fraction. float64 has one neuron per context, as in the theorem. float32 has a quarter more, which
keeps the weights of the output matrix small enough."""


def neurons_for(n_contexts: int, precision: str) -> int:
    """Return the default number of neurons for random features."""
    times, over = OVERSAMPLING[precision]
    return -(-n_contexts * times // over)


LARGEST_BASE = 16
"""The largest base of softmax. Scores in dimension 1 are below 9, and with a larger base, softmax could give all weight to one
token. Rounding errors grow with the logarithm of the base."""

LARGEST_MARGIN = (
    1_000_000  # for logits; from a few hundred on, a softmax in floats puts all weight on one token
)


@dataclass(frozen=True)
class MaddenOptions:
    """The options of `madden-2024` and `madden-2024-averaging`.

    solver        `steps` (dimension 1, weights by a formula), `random-features` (one linear system), `convex` (fewer neurons than
                  contexts), `stochastic` (like convex, for many contexts with one right token each), or `auto`. `auto` uses `steps`
                  if the precision is float64, activation, dim, n_heads and hidden_width have their defaults, and the mixing layer
                  (attention or averaging) keeps the contexts far enough apart. Otherwise it uses `random-features`
    dim, n_heads  embedding dimension and number of heads; for steps, both are 1
    hidden_width  number of neurons. Default for steps: one per context; for random-features: one per context, in float32 a quarter
                  more; for convex: the fewest that reach the goal; for stochastic: 64, doubled until all contexts are right
    margin        for steps and random-features: the number added to the logits of the tokens that follow a context. The default
                  depends on the precision
    gap           for convex: the allowed gap between loss and entropy, as a share of the entropy
    neurons       for convex: `shaped` fits the neurons to the data before the convex fit; `random` keeps their random weights
    skip          only with attention: add the last token to the output of attention (a skip connection, which the paper omits for
                  simplicity)
    base          only with attention: the base of the softmax in attention; by default e
    """

    precision: Literal["float64", "float32"] = "float64"
    solver: Literal["auto", "steps", "random-features", "convex", "stochastic"] = "auto"
    activation: Activation = "tanh"
    dim: Annotated[int, within(1, 1 << 31)] = DIM
    n_heads: Annotated[int, within(1, 1 << 31)] = 1
    hidden_width: Annotated[int, within(1, 1 << 53)] | None = None
    margin: float | None = None
    gap: float = ALLOWED_GAP
    neurons: Literal["shaped", "random"] = "shaped"
    skip: bool = False
    base: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("margin", self.margin), ("gap", self.gap)):
            if value is not None and not 0 < value <= LARGEST_MARGIN:
                raise UsageError(
                    f"{name} must be above 0 and at most {LARGEST_MARGIN:,}; got {value}.",
                    name=name,
                    value=value,
                )
        if self.base is not None and not (1 / LARGEST_BASE <= self.base <= LARGEST_BASE and self.base != 1):
            raise UsageError(
                f"base must lie between 1/{LARGEST_BASE} and {LARGEST_BASE} and differ from 1; got {self.base}.\n"
                "  With base 1, attention gives every token the same weight, so it sees only a multiset of tokens.",
                base=self.base,
            )
        if self.solver == "steps" and self.activation != "tanh":
            raise UsageError(
                f"solver=steps needs an activation that saturates: tanh, not {self.activation}.\n"
                "  Choose solver=random-features for this activation.",
                activation=self.activation,
            )
        if self.solver == "steps" and self.hidden_width is not None:
            raise UsageError(
                f"hidden_width={self.hidden_width} cannot be used with solver=steps, which has one neuron per context.\n"
                "  Leave it out, or choose another solver.",
                hidden_width=self.hidden_width,
            )

    @property
    def tries_steps(self) -> bool:
        """Whether the solver `steps` is tried first."""
        usual = MaddenOptions(
            self.precision,
            solver=self.solver,
            margin=self.margin,
            gap=self.gap,
            neurons=self.neurons,
            skip=self.skip,
            base=self.base,
        )
        is_usual = self.precision == "float64" and self == usual
        return self.solver == "steps" or (self.solver == "auto" and is_usual)


def require_attention(kind: Kind, options: MaddenOptions) -> None:
    """Raise `UsageError` if options of attention are given to the averaging construction."""
    if kind == "averaging" and (options.skip or options.base is not None):
        raise UsageError(
            "skip and base are options of attention, which madden-2024-averaging does not have.\n"
            "  Leave them out, or choose the method madden-2024."
        )


def size_of(kind: Kind, shape: DataShape, options: MaddenOptions) -> Size:
    """Return the size, assuming that the solver `steps` succeeds if it is tried.

    If the solver searches for the fewest neurons, return the size for `FIRST_WIDTH` neurons.
    """
    require_attention(kind, options)
    if shape.vocab is None:
        raise AssumptionViolated(
            "this construction embeds token ids, but these inputs are vectors.\n"
            "  Choose a construction for vectors, such as kajitsuka-sato-2025."
        )
    dim = 1 if options.tries_steps else options.dim
    if options.solver in ("convex", "stochastic"):
        default = FIRST_WIDTH
    elif options.tries_steps:
        default = shape.sequence_count
    else:
        default = neurons_for(shape.sequence_count, options.precision)
    spec = DecoderSpec(
        options.precision,
        shape.vocab,
        shape.context_len,
        dim,
        None if kind == "averaging" else (options.n_heads if dim > 1 else 1, dim, dim),
        options.hidden_width or default,
        shape.n_classes,
        options.activation,
        options.skip,
    )
    return size_of_spec(spec)


def _example() -> Example:
    return Example(
        Dataset.from_documents(
            ["the cat sat on the mat", "the cat ran to the dog", "the dog sat on the log", "a cat ran on"]
        )
    )


def method(kind: Kind) -> Method:
    theorem = {"attention": "5", "averaging": "7"}[kind]
    return Method(
        name=METHOD_NAMES[kind],
        source=f"Madden, Fox & Thrampoulidis 2024, Theorem {theorem}",
        tasks=("distribution", "next-token"),
        precisions=("float64", "float32"),
        size_of=partial(size_of, kind),
        plan=deferred_plan("byheart.construct.madden_2024.theorem", kind=kind),
        options=MaddenOptions,
        example=_example,
        page="closed_forms.md",
        statements=(f"MFT24-T{theorem}",),
    )
