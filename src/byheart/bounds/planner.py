"""The capacity planner: what an architecture could hold, and the size of a model for a given number of facts.

Each row of a plan is a size of one of four kinds, which are kept apart: estimates for our constructions (`estimate`), sizes that
theorems prove to suffice (`theorem`), sizes computed from laws that were measured on trained models (`trained`), and lower bounds
for every model (`floor`). Models of different precisions are compared by the bits of facts that they hold per stored bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from byheart.bounds import dana_2024, madden_2024
from byheart.bounds import kajitsuka_sato_2025 as ks25
from byheart.bounds import kajitsuka_sato_2025_lower as ks25_lower
from byheart.bounds.architecture import Architecture
from byheart.bounds.bound import KS25, Bound, Estimate, NotApplicable, spell
from byheart.bounds.empirical import PUBLISHED_LAWS, EmpiricalLaw
from byheart.bounds.pigeonhole import label_bits, parameter_floor
from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.data.shape import DataShape
from byheart.errors import UsageError
from byheart.records.arguments import takes_numbers
from byheart.records.json_record import JsonRecord

RowKind = Literal["estimate", "theorem", "trained", "floor"]
SMOOTH_ACTIVATIONS = ("gelu", "silu", "swish", "tanh", "sigmoid", "quick_gelu")
_WORDS = (64, 32, 16)
MEASURED = "data of the experiments"
"""The facts to which a law of trained models applies."""
MOST_FACTS = 10**18
"""Maximum number of facts to plan for: more than anyone has. Exact sizes for far more facts would take minutes to compute."""


@dataclass(frozen=True)
class PlanRow(JsonRecord):
    """One row of a plan: the size of a model for `n_facts` facts, in parameters and, if known, in bits, with its source.

    bits                 size of the model in bits; in `Capacity.trained`, the bits of facts that the model would hold
    precision            how a parameter is stored, as text for display, such as "16 bits" or "float64"
    bits_per_stored_bit  bits of facts for each stored bit of the model, if known
    speaks_of            the facts to which the row applies: all facts of this shape, some of them (the worst case), or those that
                         were measured
    networks             the networks that a lower bound is about; empty if it is about all networks
    """

    name: str
    kind: RowKind
    n_facts: int
    parameters: int
    bits: int | None
    source: str
    note: str = ""
    precision: str = ""
    bits_per_stored_bit: float | None = None
    speaks_of: str = "all data of this shape"
    networks: str = ""


@dataclass(frozen=True)
class SizePlan:
    """The sizes of a model for `n_facts` facts, one in each row, and the constructions that do not accept facts of this shape."""

    n_facts: int
    value_bits: int
    shape: DataShape
    rows: tuple[PlanRow, ...]
    not_applicable: tuple[NotApplicable, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "facts": self.n_facts,
            "value_bits": self.value_bits,
            "rows": [row.to_json() for row in self.rows],
            "not_applicable": [entry.to_json() for entry in self.not_applicable],
        }


@dataclass(frozen=True)
class Capacity:
    """What one architecture could memorise: by theory, and by laws measured on trained models."""

    architecture: Architecture
    value_bits: int
    bits_per_parameter: int
    bounds: tuple[Bound, ...]
    not_applicable: tuple[NotApplicable, ...]
    trained: tuple[PlanRow, ...]


@dataclass(frozen=True)
class Curve:
    """One line of a log-log figure of parameters against facts: its label and its points (facts, parameters)."""

    name: str
    kind: RowKind
    source: str
    points: tuple[tuple[int, int], ...]


@takes_numbers
def plan(
    n_facts: int,
    value_bits: int,
    *,
    estimates: Callable[[DataShape], Iterable[Estimate | NotApplicable]] | None = None,
    laws: Sequence[EmpiricalLaw] = PUBLISHED_LAWS,
    vocab: int = 1000,
    seq_len: int = 8,
) -> SizePlan:
    """Return the sizes of a model for `n_facts` facts of `value_bits` bits each, according to estimates, theorems, measured
    laws and lower bounds.

    A fact is a sequence of `seq_len` tokens from a vocabulary of size `vocab`, with one of 2^value_bits values. The order of the
    tokens matters. `estimates` returns the estimated sizes of byheart's own constructions for data of a given shape. `laws` are
    laws of size that were measured on trained models.
    """
    if n_facts < 1 or value_bits < 1:
        raise UsageError(
            f"facts = {n_facts} and value bits = {value_bits} must both be at least 1.",
            n_facts=n_facts,
            value_bits=value_bits,
        )
    if n_facts > MOST_FACTS:
        raise UsageError(
            f"at most {spell(MOST_FACTS)} facts can be planned for; got {spell(n_facts)}.",
            n_facts=n_facts,
            most=MOST_FACTS,
        )
    shape = DataShape(n_facts, seq_len, 1 << value_bits, vocab=vocab, ordered=True)
    shape.require_possible()
    bits = label_bits(n_facts, shape.n_classes)
    found = () if estimates is None else tuple(estimates(shape))
    rows = (
        *(_estimate_row(entry, n_facts, bits) for entry in found if isinstance(entry, Estimate)),
        *_theorem_rows(shape, bits),
        *_trained_rows(n_facts, bits, laws),
        *_floors(shape, bits),
    )
    refused = tuple(entry for entry in found if isinstance(entry, NotApplicable))
    return SizePlan(n_facts, value_bits, shape, rows, refused)


def curves(plans: Sequence[SizePlan]) -> tuple[Curve, ...]:
    """Convert plans to the lines of a figure.

    Each plan is for one number of facts, and has a row for each estimate, theorem, law and bound. All rows with the same name
    form one line of the figure, in order of the number of facts.
    """
    lines: dict[str, list[PlanRow]] = {}
    for one in sorted(plans, key=lambda p: p.n_facts):
        for row in one.rows:
            lines.setdefault(row.name, []).append(row)
    return tuple(
        Curve(name, rows[0].kind, rows[0].source, tuple((row.n_facts, row.parameters) for row in rows))
        for name, rows in lines.items()
    )


@takes_numbers
def capacity_of(
    architecture: Architecture,
    *,
    value_bits: int = 1,
    bits_per_parameter: int = 16,
    laws: Sequence[EmpiricalLaw] = PUBLISHED_LAWS,
) -> Capacity:
    """Return what `architecture` could memorise by each bound that applies, and why the other bounds do not apply.

    A fact has `value_bits` bits; a parameter is stored in `bits_per_parameter` bits. For a mixture of experts, the parameters
    of all experts count, because any of them can hold a fact.
    """
    if value_bits < 1 or bits_per_parameter < 1:
        raise UsageError(
            f"value bits = {value_bits} and bits per parameter = {bits_per_parameter} must both be at least 1.",
            value_bits=value_bits,
            bits_per_parameter=bits_per_parameter,
        )
    bounds = [_storage_bound(architecture, value_bits, bits_per_parameter)]
    refused = [
        ks25_lower.THEOREM_4_2.refuse("normalisation layers are not piecewise polynomial"),
        ks25_lower.THEOREM_4_3.refuse("this bound is about hard attention without normalisation layers"),
        madden_2024.THEOREM_5.refuse("this bound is about one layer without residuals or normalisation"),
        dana_2024.THEOREM_1.refuse("this bound is about attention without feed-forward parts"),
    ]
    size, reason = architecture.parameters, _not_smooth(architecture)
    if reason:
        refused += [theorem.refuse(reason) for theorem in (madden_2024.LEMMA_1, madden_2024.THEOREM_1)]
    else:
        bounds += [each(size, architecture.vocab) for each in (madden_2024.lemma_1, madden_2024.theorem_1)]
    held = {law: law.bits_held_by(size) for law in laws}
    trained = tuple(
        PlanRow(
            law.name,
            "trained",
            bits // value_bits,
            size,
            bits,
            law.source,
            _range_note(law, size),
            speaks_of=MEASURED,
        )
        for law, bits in held.items()
    )
    return Capacity(architecture, value_bits, bits_per_parameter, tuple(bounds), tuple(refused), trained)


def _storage_bound(architecture: Architecture, value_bits: int, word: int) -> Bound:
    total = architecture.parameters * word
    remark = KS25.theorem("Remark 4.4 (counting)", "KS25-R4.4", "Remark 4.4")
    assumptions = (f"{word} bits per parameter", "the values of facts are arbitrary and independent")
    sentence = (
        f"{spell(architecture.parameters)} parameters of {word} bits have 2^{spell(total)} states, so at most "
        f"{spell(total // value_bits)} arbitrary facts of {spell(value_bits)} bits fit."
    )
    return remark.bound("facts", "upper", total // value_bits, assumptions, sentence)


def _not_smooth(architecture: Architecture) -> str:
    if architecture.kind != "decoder":
        return f"this bound is about decoders that predict the next token, but this model is an {architecture.kind}"
    if architecture.vocab < 2:
        return "over a vocabulary of one token there is only one distribution"
    if not architecture.activation.startswith(SMOOTH_ACTIVATIONS):
        return f"the activation {architecture.activation} is not known to be continuously differentiable"
    return "the choice of experts is not a continuous function" if architecture.n_experts > 1 else ""


def _estimate_row(entry: Estimate, n_facts: int, bits: int) -> PlanRow:
    return PlanRow(
        name=entry.title,
        kind="estimate",
        n_facts=n_facts,
        parameters=entry.parameters,
        bits=entry.bits,
        source=f"this project's construction {entry.title}",
        precision=entry.precision,
        bits_per_stored_bit=bits / max(1, entry.bits),
    )


def _theorem_rows(shape: DataShape, bits: int) -> tuple[PlanRow, ...]:
    assert shape.vocab is not None
    vectors = tokens_as_vectors(shape)
    assert vectors is not None
    sizes = (shape.n_samples, shape.seq_len, shape.n_classes)
    promised = (
        ks25.theorem_4_1(*sizes, vectors.dim, vectors.radius, vectors.separation),
        ks25.theorem_e_1(*sizes, shape.vocab * shape.seq_len),
    )
    return tuple(
        PlanRow(
            name=size.name,
            kind="theorem",
            n_facts=shape.n_samples,
            parameters=size.parameters,
            bits=size.total_bits,
            source=size.theorem.source,
            precision=f"{spell(size.weight_bits)} bits",
            bits_per_stored_bit=bits / size.total_bits,
        )
        for size in promised
    )


def _trained_rows(n_facts: int, bits: int, laws: Sequence[EmpiricalLaw]) -> tuple[PlanRow, ...]:
    sizes = {law: law.parameters_for(bits) for law in laws}
    return tuple(
        PlanRow(
            name=law.name,
            kind="trained",
            n_facts=n_facts,
            parameters=parameters,
            bits=parameters * law.stored_bits,
            source=law.source,
            note=_range_note(law, parameters),
            precision=law.precision,
            bits_per_stored_bit=float(law.bits_per_stored_bit),
            speaks_of=MEASURED,
        )
        for law, parameters in sizes.items()
    )


def _range_note(law: EmpiricalLaw, parameters: int) -> str:
    if law.covers(parameters):
        return law.conditions
    return (
        f"{law.conditions}; extended beyond the measured range of {law.smallest_parameters:,} to "
        f"{law.largest_parameters:,} parameters"
    )


def _floors(shape: DataShape, bits: int) -> tuple[PlanRow, ...]:
    hard = ks25_lower.theorem_4_3(shape.n_samples, shape.seq_len, shape.n_samples)
    words: tuple[int | None, ...] = (*_WORDS, None)
    bounds = (*(parameter_floor(bits, word) for word in _WORDS), hard)
    return tuple(
        PlanRow(
            name=bound.name,
            kind="floor",
            n_facts=shape.n_samples,
            parameters=int(bound.value),
            bits=None if word is None else bits,
            source=bound.source,
            note="; ".join(bound.assumptions),
            networks=bound.networks,
            precision="any" if word is None else f"{word} bits",
            bits_per_stored_bit=None if word is None else 1.0,
            speaks_of=bound.speaks_of,
        )
        for bound, word in zip(bounds, words, strict=True)
    )
