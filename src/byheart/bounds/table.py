"""Every bound for one data set side by side: those that apply, and those that do not, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from byheart.bounds import dana_2024, madden_2024, predecessors
from byheart.bounds import kajitsuka_sato_2025 as upper
from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds.assumptions import ASSUMED, DataChecks, check_assumptions
from byheart.bounds.bound import Bound, Estimate, NotApplicable, spell
from byheart.bounds.pigeonhole import counting_next_token, counting_seq_to_seq, label_bits, parameter_floor
from byheart.bounds.token_vectors import shape_of, tokens_as_vectors
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape

Entry = Bound | NotApplicable

_SUFFICIENT = (
    ("KS25 Theorem 4.1", "KS25-T4.1", "next-token", upper.theorem_4_1),
    ("KS25 Theorem F.1", "KS25-T F.1", "next-token", upper.theorem_f_1),
    ("KS25 Corollary 4.1", "KS25-C4.1", "seq-to-seq", upper.corollary_4_1),
    ("KS25 Theorem D.1", "KS25-T D.1", "set", upper.theorem_d_1),
)


@dataclass(frozen=True)
class BoundTable:
    """All bounds for data of one shape, and beside them what our constructions take."""

    shape: DataShape
    applicable: tuple[Bound, ...]
    not_applicable: tuple[NotApplicable, ...]
    estimates: tuple[Estimate, ...] = ()

    def of(self, quantity: str, kind: str) -> tuple[Bound, ...]:
        """The applicable bounds on one quantity and of one kind."""
        return tuple(b for b in self.applicable if b.quantity == quantity and b.kind == kind)

    def to_json(self) -> dict[str, object]:
        return {
            "bounds": [bound.to_json() for bound in self.applicable],
            "estimates": [estimate.to_json() for estimate in self.estimates],
            "not_applicable": [entry.to_json() for entry in self.not_applicable],
        }


def for_shape(
    shape: DataShape,
    estimates: Iterable[Estimate | NotApplicable] = (),
    checks: DataChecks = ASSUMED,
) -> BoundTable:
    """Evaluate every bound that applies to data of this shape.

    estimates: what our constructions take, or why they do not take such data; shown beside the bounds, never among them.
    checks: what was found on the data; without them, assumptions that only data settle are stated with each bound.
    """
    entries: list[Entry | Estimate] = [
        *_counting(shape),
        *_kajitsuka_sato_upper(shape),
        *_kajitsuka_sato_lower(shape),
        *_madden(shape),
        *_dana(shape, checks),
        *_flat_networks(shape, checks),
        *_without_separation(shape),
        *estimates,
    ]
    return BoundTable(
        shape,
        tuple(entry for entry in entries if isinstance(entry, Bound)),
        tuple(entry for entry in entries if isinstance(entry, NotApplicable)),
        tuple(entry for entry in entries if isinstance(entry, Estimate)),
    )


def table(dataset: Dataset, estimates: Iterable[Estimate | NotApplicable] = ()) -> BoundTable:
    """Every bound for a data set whose assumptions hold on it: consistency, separation, general position and so on.

    Documents also get the entropy below which no model's loss on them falls (MFT24 Lemma 2).
    """
    result = for_shape(shape_of(dataset), estimates, check_assumptions(dataset))
    if dataset.task != "distribution":
        return result
    contexts = dataset.contexts()
    entropy = madden_2024.lemma_2(contexts.counts.tolist(), contexts.next_counts.tolist())
    return BoundTable(result.shape, (*result.applicable, entropy), result.not_applicable, result.estimates)


def _counting(shape: DataShape) -> Iterator[Entry]:
    if shape.task == "distribution":
        yield NotApplicable(
            "KS25 Remark 4.4 (counting)", "KS25-R4.4", "distributions are not finitely many labels"
        )
        return
    if shape.task == "seq-to-seq":
        yield counting_seq_to_seq(shape.context_count, 1, shape.n_classes)
    else:
        yield counting_next_token(shape.context_count, shape.n_classes)
    bits = label_bits(shape.context_count, shape.n_classes)
    yield from (parameter_floor(bits, word) for word in (64, 32, 16))


def _kajitsuka_sato_upper(shape: DataShape) -> Iterator[Entry]:
    for name, statement, task, theorem in _SUFFICIENT:
        if shape.task != task:
            yield NotApplicable(name, statement, f"it is about {task}, and the task is {shape.task}")
        elif not shape.is_consistent:
            yield NotApplicable(name, statement, "equal contexts carry different labels")
        elif task == "set" and shape.ragged:
            yield NotApplicable(name, statement, "it is about sets of one size, and these differ")
        elif (vectors := tokens_as_vectors(shape)) is None:
            yield NotApplicable(name, statement, "nothing is known of the separation of the token vectors")
        else:
            sizes = (shape.n_samples, shape.context_len, shape.n_classes, vectors.dim)
            yield from theorem(*sizes, vectors.radius, vectors.separation).bounds()
    name, statement = "KS25 Theorem E.1", "KS25-T E.1"
    if shape.vocab is None:
        yield NotApplicable(name, statement, "tokens are vectors; it is about token ids with an embedding")
    elif shape.task != "next-token":
        yield NotApplicable(name, statement, f"it is about next-token, and the task is {shape.task}")
    elif not shape.is_consistent:
        yield NotApplicable(name, statement, "equal contexts carry different labels")
    else:  # where positions matter, each pair of token and position is a token of its own
        n_ids = shape.vocab + shape.ragged  # one more fills up shorter sequences
        vocab = n_ids * (shape.context_len if shape.has_positions else 1)
        yield from upper.theorem_e_1(shape.n_samples, shape.context_len, shape.n_classes, vocab).bounds()


def _kajitsuka_sato_lower(shape: DataShape) -> Iterator[Entry]:
    if shape.dim is not None:
        yield lower.remark_4_3(shape.dim)
    about = {"KS25-T4.2": "KS25 Theorem 4.2", "KS25-T4.3": "KS25 Theorem 4.3"}
    for reason in _no_shattering(shape):
        yield from (NotApplicable(name, statement, reason) for statement, name in about.items())
        return
    outputs = shape.context_count
    yield lower.theorem_4_3(shape.n_samples, shape.context_len, outputs)
    for reason in _no_constant_sequences(shape):
        yield NotApplicable("KS25 Theorem 4.2", "KS25-T4.2", reason)
        return
    n_constant = _constant_sequences(shape)
    yield lower.theorem_4_2(n_constant)
    if shape.dim is not None and shape.task == "next-token":
        yield lower.theorem_4_2_depth(n_constant, shape.dim, 14)


def _no_shattering(shape: DataShape) -> Iterator[str]:
    if shape.task == "distribution":
        yield "it counts labellings, and the task asks for distributions"
    elif shape.n_classes < 2:
        yield "with one class there is nothing to tell apart"


def _no_constant_sequences(shape: DataShape) -> Iterator[str]:
    if shape.has_positions:
        yield "positions tell equal tokens apart, so attention is not linear on sequences of equal tokens"


def _constant_sequences(shape: DataShape) -> int:
    """Sequences of equal tokens that data sets of this size may hold."""
    contexts = min(shape.n_samples, shape.context_count)
    if shape.vocab is not None:
        return min(contexts, shape.vocab)
    vectors = tokens_as_vectors(shape)
    return contexts if vectors is None else vectors.distinct_tokens(contexts)


def _madden(shape: DataShape) -> Iterator[Entry]:
    statements = {
        "MFT24-L1": "MFT24 Lemma 1",
        "MFT24-T1": "MFT24 Theorem 1",
        "MFT24-T5": "MFT24 Theorem 5",
        "MFT24-T7": "MFT24 Theorem 7",
    }
    if shape.vocab is None:
        reason = "tokens are vectors; it is about token ids"
        yield from (NotApplicable(name, statement, reason) for statement, name in statements.items())
        return
    if shape.task == "distribution":
        if shape.n_classes >= 2:
            yield madden_2024.lemma_1_parameters(shape.context_count, shape.n_classes)
            yield madden_2024.theorem_1_parameters(shape.context_count, shape.n_classes)
    else:
        for statement in ("MFT24-L1", "MFT24-T1"):
            yield NotApplicable(
                statements[statement],
                statement,
                "it is about distributions; single labels take far fewer parameters",
            )
    reason = _unmet_by_single_labels(shape, "distribution")
    if reason:
        yield from (NotApplicable(statements[s], s, reason) for s in ("MFT24-T5", "MFT24-T7"))
        return
    sizes = (shape.context_count, shape.vocab, shape.context_len, shape.n_classes)
    yield madden_2024.theorem_5_parameters(*sizes)
    yield madden_2024.theorem_7_parameters(*sizes)


def _unmet_by_single_labels(shape: DataShape, also: str) -> str:
    """Why a next-token theorem over token ids does not apply, or nothing."""
    if shape.task not in ("next-token", also):
        return f"it is about next-token prediction, and the task is {shape.task}"
    return "" if shape.is_consistent else "equal contexts carry different labels"


def _dana(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    theorem, corollary = ("DPC24 Theorem 1", "DPC24-T1"), ("DPC24 Corollary 1", "DPC24-C1")
    if shape.vocab is None:
        yield from (
            NotApplicable(*each, "tokens are vectors; it is about token ids") for each in (theorem, corollary)
        )
        return
    n_tokens = max(shape.vocab, shape.n_classes)
    if shape.task == "distribution":
        yield dana_2024.proposition_2(n_tokens)
        reason = checks.one_length or checks.full_support
        if reason:
            yield NotApplicable(*theorem, reason)
        elif n_tokens >= 2:
            yield dana_2024.theorem_1_parameters(
                shape.context_count, n_tokens, shape.context_len, n_tokens - 1, shape.n_last_tokens
            )
        yield NotApplicable(*corollary, "contexts have more than one next token")
        return
    yield NotApplicable(*theorem, "labels are single tokens, where Corollary 1 says more")
    reason = _unmet_by_single_labels(shape, "next-token")
    if reason:
        yield NotApplicable(*corollary, reason)
        return
    yield dana_2024.proposition_3()
    if shape.ragged:
        yield NotApplicable(*corollary, "it is about sequences of one length, and these differ")
    else:
        yield dana_2024.corollary_1_parameters(
            shape.context_count, n_tokens, shape.context_len, shape.n_last_tokens
        )


def _flat_networks(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    """Feed-forward networks that read a sample as one vector, and the attention layer of MLT23."""
    names = (
        "two-layer ReLU interpolation",
        "Bubeck et al. 2020",
        "Baum 1988",
        "VYS22 Theorem 3.1",
        "MLT23 Theorem 1",
    )
    reason = ""
    if shape.task != "next-token":
        reason = f"it gives one label to one vector, and the task is {shape.task}"
    elif not shape.is_consistent:
        reason = "equal contexts carry different labels"
    elif shape.ragged:
        reason = "sequences differ in length, so they are not vectors of one dimension"
    if reason:
        yield from (NotApplicable(name, "", reason) for name in names)
        return
    n_samples, input_dim = shape.n_samples, shape.seq_len * (shape.dim or 1)
    yield predecessors.two_layer_relu(n_samples, input_dim)
    if shape.dim is not None:
        yield lower.feed_forward_input(shape.seq_len, shape.dim)
    yield from _in_general_position(shape, checks)
    vectors = tokens_as_vectors(shape)
    if vectors is None:
        yield NotApplicable(
            "VYS22 Theorem 3.1", "KS25-L C.1", "nothing is known of the separation of the samples"
        )
    else:
        square = shape.seq_len * vectors.radius**2
        yield predecessors.vardi_2022(n_samples, shape.n_classes, input_dim, square, vectors.separation)
    if shape.dim is None or not 2 <= shape.seq_len <= shape.dim:
        yield NotApplicable("MLT23 Theorem 1", "DPC24-S6", "it needs vectors with 2 <= seq_len <= dim")
    elif checks.independent_tokens:
        yield NotApplicable("MLT23 Theorem 1", "DPC24-S6", checks.independent_tokens)
    else:
        yield predecessors.mahdavi_2023_parameters(n_samples, shape.seq_len, shape.dim)


def _in_general_position(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    reason = "token ids are not in general position" if shape.dim is None else checks.general_position
    sizes = (shape.n_samples, shape.seq_len * (shape.dim or 1))
    yield NotApplicable("Bubeck et al. 2020", "", reason) if reason else predecessors.bubeck_2020(*sizes)
    if shape.n_classes > 2:
        reason = f"it is about two classes, not {spell(shape.n_classes)}"
    yield NotApplicable("Baum 1988", "", reason) if reason else predecessors.baum_1988(*sizes)


def _without_separation(shape: DataShape) -> Iterator[Entry]:
    names = ("Sontag 1997", "Siegel 2024")
    reasons = [*_no_shattering(shape), *_no_constant_sequences(shape)]
    if shape.dim is None:
        reasons.append("token ids are a finite set of inputs; it is about all points of a ball")
    if reasons:
        yield from (NotApplicable(name, "", reasons[0]) for name in names)
        return
    vectors = tokens_as_vectors(shape)
    if vectors is None:
        yield predecessors.sontag_1997(shape.n_samples)
        yield NotApplicable("Siegel 2024", "", "nothing is known of the separation of the tokens")
    else:
        yield NotApplicable(
            "Sontag 1997", "", "the tokens are separated; it is about points with no separation"
        )
        contexts = min(shape.n_samples, shape.context_count)
        yield predecessors.siegel_2024(contexts, vectors.radius, vectors.separation)
