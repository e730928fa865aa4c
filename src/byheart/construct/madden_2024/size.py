"""The sizes of MFT24's constructions, and their entries in the registry; `theorem` builds them."""

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
"""The embedding dimension of every solver but steps, which have dimension 1."""

ALLOWED_GAP = 0.01
"""Share of the entropy that MFT24's experiment allows as gap; the convex solver's default goal."""

FIRST_WIDTH = 64
"""Where the search for the fewest neurons begins."""

OVERSAMPLING = {"float64": (1, 1), "float32": (5, 4)}
"""Neurons per context, as a fraction: as the theorem has it, and with a quarter more, which keeps the output matrix small
enough for float32."""


def neurons_for(n_contexts: int, precision: str) -> int:
    """The neurons that random features take by default."""
    times, over = OVERSAMPLING[precision]
    return -(-n_contexts * times // over)


LARGEST_BASE = 16
"""Scores are below 9 in dimension 1: a larger base leaves one token alone, and rounding grows with its logarithm."""

LARGEST_MARGIN = 1_000_000  # of logits; beyond some hundreds a softmax in floats is a single token


@dataclass(frozen=True)
class MaddenOptions:
    """The options of both constructions.

    solver        `steps` (d = 1, no solve), `random-features` (one solve), `convex` (fewer neurons than contexts),
                  `stochastic` (the same for many contexts with one right token each), or `auto`: steps in float64
                  where the images lie far enough apart, else random features
    dim, n_heads  embedding dimension and heads; steps have one of each
    hidden_width  neurons; None for as many as contexts, or for the convex solver the fewest that reach the goal,
                  and for the stochastic one 64 doubled until all are right
    gap           convex: the share of the entropy that may be left
    neurons       convex: `shaped` to the data before the convex fit, or left as `random` as they are drawn
    skip          attention: add the last token to what it attends to, which the paper leaves out for simplicity
    base          attention: the base of its softmax; e where none is given
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
                raise UsageError(f"{name} must be above 0 and at most {LARGEST_MARGIN:,}; got {value}.")
        if self.base is not None and not (1 / LARGEST_BASE <= self.base <= LARGEST_BASE and self.base != 1):
            raise UsageError(
                f"base must lie between 1/{LARGEST_BASE} and {LARGEST_BASE} and differ from 1; got {self.base}.\n"
                "  To the base 1 all scores weigh the same, and attention sees only a multiset of tokens.",
                base=self.base,
            )
        if self.solver == "steps" and self.activation != "tanh":
            raise UsageError(
                f"steps need an activation that saturates: tanh, not {self.activation}.\n"
                "  Choose solver=random-features for it."
            )
        if self.solver == "steps" and self.hidden_width is not None:
            raise UsageError(
                f"hidden_width={self.hidden_width} does not go with solver=steps, which has a neuron for each context.\n"
                "  Leave it out, or choose another solver.",
                hidden_width=self.hidden_width,
            )

    @property
    def tries_steps(self) -> bool:
        """Whether the step solution is tried first."""
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
    """Refuse the options of attention where tokens are averaged."""
    if kind == "averaging" and (options.skip or options.base is not None):
        raise UsageError(
            "skip and base are options of attention, and madden-2024-averaging has none.\n  Choose method madden-2024 for them."
        )


def size_of(kind: Kind, shape: DataShape, options: MaddenOptions) -> Size:
    """The size if steps suffice where they are tried; the search for fewer neurons than contexts begins at 64."""
    require_attention(kind, options)
    if shape.vocab is None:
        raise AssumptionViolated("this construction embeds tokens, and these inputs are vectors.")
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
