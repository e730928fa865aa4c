"""Bounds for one data set: those that apply, and those that do not apply, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from byheart.bounds import dana_2024, madden_2024
from byheart.bounds import kajitsuka_sato_2025 as upper
from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds import predecessors as known
from byheart.bounds.assumptions import ASSUMED, DataChecks, check_assumptions
from byheart.bounds.bound import KS25, Bound, Estimate, NotApplicable, Scope, spell
from byheart.bounds.equal_tokens import equal_token_sequences
from byheart.bounds.pigeonhole import counting_next_token, counting_seq_to_seq, label_bits, parameter_floor
from byheart.bounds.token_vectors import VectorView, id_vectors, shape_of, tokens_as_vectors
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.shape import DataShape
from byheart.errors import UsageError

Entry = Bound | NotApplicable

_SUFFICIENT = (
    (upper.THEOREM_4_1, "next-token", upper.theorem_4_1),
    (upper.THEOREM_F_1, "next-token", upper.theorem_f_1),
    (upper.COROLLARY_4_1, "seq-to-seq", upper.corollary_4_1),
    (upper.THEOREM_D_1, "set", upper.theorem_d_1),
)
_POSITIONS = "the proof uses sequences whose tokens are all equal, but positions make equal tokens differ"
_NO_CONSTANT = (
    "this bound is proved with sequences of equal tokens, but data with this number of contexts need not "
    "contain such sequences"
)
_INCONSISTENT = "equal contexts carry different labels"


@dataclass(frozen=True)
class BoundTable:
    """Bounds for data of one shape and, listed separately, the sizes of byheart's own constructions."""

    shape: DataShape
    applicable: tuple[Bound, ...]
    not_applicable: tuple[NotApplicable, ...]
    estimates: tuple[Estimate, ...] = ()

    def of(self, quantity: str, kind: str, speaks_of: Scope | None = None) -> tuple[Bound, ...]:
        """Return the applicable bounds of one kind on one quantity.

        If `speaks_of` is given, return only the bounds with this scope.
        """
        return tuple(
            bound
            for bound in self.applicable
            if (bound.quantity, bound.kind) == (quantity, kind) and speaks_of in (None, bound.speaks_of)
        )

    def to_json(self) -> dict[str, object]:
        return {
            "bounds": [bound.to_json() for bound in self.applicable],
            "estimates": [estimate.to_json() for estimate in self.estimates],
            "not_applicable": [entry.to_json() for entry in self.not_applicable],
        }


def for_shape(
    shape: DataShape, estimates: Iterable[Estimate | NotApplicable] = (), checks: DataChecks = ASSUMED
) -> BoundTable:
    """Evaluate the bounds that apply to data of this shape. For most of the others, give the reason why they do not apply.

    estimates: sizes of byheart's own constructions, or why they do not accept such data. They are listed apart from the bounds.
    checks: the result of checking the assumptions that can be checked only on the data. By default, nothing is checked: bounds
    with such assumptions are returned, and each of them states its assumptions.
    """
    shape.require_possible()
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


def table(dataset: Dataset | DatasetPieces, estimates: Iterable[Estimate | NotApplicable] = ()) -> BoundTable:
    """Return the bounds whose assumptions about the data hold for a data set, and for most of the others the reason why they do not
    apply. Examples of such assumptions are that equal inputs have equal labels, and that vectors are in general position.

    If the task is `distribution` and the data set is not in pieces, the table also contains the entropy of the data. No model has a
    smaller loss on these data (Madden et al. 2024, Lemma 2).
    """
    if not isinstance(dataset, Dataset | DatasetPieces):
        raise UsageError(
            f"table takes a Dataset, not {type(dataset).__name__}.\n"
            "  Make one with byheart.Dataset.read(path) or byheart.Dataset.from_pairs(pairs).",
            given_type=type(dataset).__name__,
        )
    result = for_shape(shape_of(dataset), estimates, check_assumptions(dataset))
    if isinstance(dataset, DatasetPieces) or dataset.task != "distribution":
        return result
    contexts = dataset.contexts()
    entropy = madden_2024.lemma_2(contexts.counts.tolist(), contexts.next_counts.tolist())
    return replace(result, applicable=(*result.applicable, entropy))


def _counting(shape: DataShape) -> Iterator[Entry]:
    reason = _uncounted(shape)
    if shape.task == "distribution":
        reason = "there are infinitely many distributions, so they cannot be counted"
    if reason:
        yield KS25.theorem("Remark 4.4 (counting)", "KS25-R4.4").refuse(reason)
        return
    n_contexts = _some_data(shape).context_count
    if shape.task == "seq-to-seq":
        yield counting_seq_to_seq(n_contexts, 1, shape.n_classes)
    else:
        yield counting_next_token(n_contexts, shape.n_classes)
    bits = label_bits(n_contexts, shape.n_classes)
    yield from (parameter_floor(bits, word) for word in (64, 32, 16))


def _uncounted(shape: DataShape) -> str:
    """Return why lower bounds that count contexts do not apply to data of this shape, or an empty string if they apply."""
    is_data_set = shape.n_labels is not None
    return (
        "the distinct contexts of these data were not counted"
        if is_data_set and shape.n_contexts is None
        else ""
    )


def _some_data(shape: DataShape) -> DataShape:
    """Return a shape whose `context_count` is reached by at least some data of the given shape.

    This is the given shape, except if its tokens are vectors of known norm and separation and its contexts were not counted. It
    is not known exactly how many such vectors fit into a ball. The result then has token ids in place of vectors, and the
    size of its vocabulary is a number of vectors that certainly fit.
    """
    if shape.n_contexts is not None or shape.dim is None or shape.radius is None or shape.separation is None:
        return shape
    ball = VectorView(shape.dim, Fraction(shape.radius), Fraction(shape.separation))
    n_tokens = ball.distinct_tokens(shape.label_count * shape.context_len)
    return replace(shape, vocab=n_tokens, dim=None)


def _kajitsuka_sato_upper(shape: DataShape) -> Iterator[Entry]:
    for theorem, task, size in _SUFFICIENT:
        if shape.task != task:
            yield theorem.refuse(
                f"this bound is about the task {task}, but the task of these data is {shape.task}"
            )
        elif not shape.is_consistent:
            yield theorem.refuse(_INCONSISTENT)
        elif (vectors := tokens_as_vectors(shape)) is None:
            yield theorem.refuse("the separation of the token vectors is not known")
        else:
            sizes = (shape.n_samples, shape.context_len, shape.n_classes, vectors.dim)
            found = size(*sizes, vectors.radius, vectors.separation)
            yield from replace(found, assumptions=(*found.assumptions, *id_vectors(shape))).bounds()
    if shape.vocab is None:
        yield upper.THEOREM_E_1.refuse(
            "this bound is about token ids with an embedding, but these tokens are vectors"
        )
    elif shape.task != "next-token":
        yield upper.THEOREM_E_1.refuse(
            f"this bound is about the task next-token, but the task of these data is {shape.task}"
        )
    elif not shape.is_consistent:
        yield upper.THEOREM_E_1.refuse(_INCONSISTENT)
    else:  # where positions matter, each pair of token and position is a separate token
        n_ids = shape.vocab + shape.ragged  # one more id pads shorter sequences
        vocab = n_ids * (shape.context_len if shape.has_positions else 1)
        yield from upper.theorem_e_1(shape.n_samples, shape.context_len, shape.n_classes, vocab).bounds()


def _kajitsuka_sato_lower(shape: DataShape) -> Iterator[Entry]:
    if shape.dim is not None:
        yield lower.remark_4_3(shape.dim)
    if reason := _no_shattering(shape):
        yield from (theorem.refuse(reason) for theorem in (lower.THEOREM_4_2, lower.THEOREM_4_3))
        return
    data = _some_data(shape)  # its contexts lie in the sequences that differ
    yield lower.theorem_4_3(data.most_sequences, shape.context_len, data.context_count)
    if shape.has_positions:
        yield lower.THEOREM_4_2.refuse(_POSITIONS)
        return
    n_constant = equal_token_sequences(shape)
    if not n_constant:
        yield lower.THEOREM_4_2.refuse(_NO_CONSTANT)
        return
    yield lower.theorem_4_2(n_constant)
    if shape.dim is not None and shape.task == "next-token":
        yield lower.theorem_4_2_depth(n_constant, shape.dim, 14)


def _no_shattering(shape: DataShape) -> str:
    if shape.task == "distribution":
        return "this bound counts labellings, but the task is about distributions"
    return "with one class there is nothing to distinguish" if shape.n_classes < 2 else _uncounted(shape)


def _madden(shape: DataShape) -> Iterator[Entry]:
    necessary, enough = (
        (madden_2024.LEMMA_1, madden_2024.THEOREM_1),
        (madden_2024.THEOREM_5, madden_2024.THEOREM_7),
    )
    if shape.vocab is None:
        yield from (
            each.refuse("this bound is about token ids, but these tokens are vectors")
            for each in necessary + enough
        )
        return
    if shape.task != "distribution":
        reason = "this bound is about distributions; single labels need far fewer parameters"
        yield from (each.refuse(reason) for each in necessary)
    elif reason := _uncounted(shape):
        yield from (each.refuse(reason) for each in necessary)
    elif shape.n_classes >= 2:
        yield madden_2024.lemma_1_parameters(shape.context_count, shape.n_classes)
        yield madden_2024.theorem_1_parameters(shape.context_count, shape.n_classes)
    if reason := _unmet_by_single_labels(shape, "distribution"):
        yield from (each.refuse(reason) for each in enough)
        return
    sizes = (shape.sequence_count, shape.vocab, shape.context_len, shape.n_classes)
    yield madden_2024.theorem_5_parameters(*sizes)
    yield madden_2024.theorem_7_parameters(*sizes)


def _unmet_by_single_labels(shape: DataShape, also: str) -> str:
    """Return why a theorem that covers only the task `next-token` and the task named by `also` does not apply to these data.

    Return an empty string if it applies.
    """
    if shape.task not in ("next-token", also):
        return f"this bound is about next-token prediction, but the task is {shape.task}"
    return "" if shape.is_consistent else _INCONSISTENT


def _dana(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    theorem, corollary = dana_2024.THEOREM_1, dana_2024.COROLLARY_1
    if shape.vocab is None:
        yield from (
            each.refuse("this bound is about token ids, but these tokens are vectors")
            for each in (theorem, corollary)
        )
        return
    n_tokens = max(shape.vocab, shape.n_classes)
    sizes = (shape.sequence_count, n_tokens, shape.context_len)
    if shape.task == "distribution":
        embedding = dana_2024.proposition_2(n_tokens, shape.context_count)
        yield embedding
        if reason := _unmet_by_documents(shape, n_tokens) or checks.full_support:
            yield theorem.refuse(reason)
        elif n_tokens >= 2:
            yield dana_2024.theorem_1_parameters(*sizes, int(embedding.value), shape.n_last_tokens)
        yield corollary.refuse("contexts have more than one next token")
        return
    yield theorem.refuse("labels are single tokens, and for these, Corollary 1 gives a stronger bound")
    if reason := _unmet_by_single_labels(shape, "next-token"):
        yield corollary.refuse(reason)
        return
    yield dana_2024.proposition_3()
    if shape.ragged:
        yield corollary.refuse("this bound is about sequences of equal length, but these lengths differ")
    else:
        yield dana_2024.corollary_1_parameters(*sizes, shape.n_last_tokens)


def _unmet_by_documents(shape: DataShape, n_tokens: int) -> str:
    """Return why Theorem 1 of Dana et al. 2024 does not apply to documents of this shape, or an empty string if it may apply."""
    if shape.context_len > 1:
        return "contexts are the beginnings of documents, which differ in length, but this bound needs equal lengths"
    if shape.n_samples < n_tokens:
        return "there are fewer documents than tokens, so no distribution has full support"
    return ""


def _flat_networks(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    """Yield bounds for feed-forward networks that read a sample as one vector, and for the attention layer of Mahdavi et al.
    2023.
    """
    reason = ""
    if shape.task != "next-token":
        reason = f"this bound is about one label for each vector, but the task is {shape.task}"
    elif not shape.is_consistent:
        reason = _INCONSISTENT
    elif shape.ragged:
        reason = "sequences differ in length, so they are not vectors of one dimension"
    if reason:
        theorems = (known.TWO_LAYERS, known.BUBECK, known.BAUM, known.VARDI, known.MAHDAVI)
        yield from (each.refuse(reason) for each in theorems)
        return
    n_samples, input_dim = shape.n_samples, shape.seq_len * (shape.dim or 1)
    yield known.two_layer_relu_size(n_samples, input_dim).parameter_bound()
    if shape.dim is not None:
        yield lower.feed_forward_input(shape.seq_len, shape.dim)
    yield from _in_general_position(shape, checks)
    vectors = tokens_as_vectors(shape)
    if vectors is None:
        yield known.VARDI.refuse("the separation of the samples is not known")
    else:
        sizes = (n_samples, shape.n_classes, input_dim, shape.seq_len * vectors.radius**2)
        yield known.vardi_2022_size(*sizes, vectors.separation).parameter_bound()
    if shape.dim is None or not 2 <= shape.seq_len <= shape.dim:
        yield known.MAHDAVI.refuse("this bound needs tokens that are vectors, with 2 <= seq_len <= dim")
    elif checks.independent_tokens:
        yield known.MAHDAVI.refuse(checks.independent_tokens)
    else:
        yield known.mahdavi_2023_parameters(n_samples, shape.seq_len, shape.dim)


def _in_general_position(shape: DataShape, checks: DataChecks) -> Iterator[Entry]:
    reason = "token ids are not in general position" if shape.dim is None else checks.general_position
    sizes = (shape.n_samples, shape.seq_len * (shape.dim or 1))
    yield known.BUBECK.refuse(reason) if reason else known.bubeck_2020(*sizes)
    if shape.n_classes > 2:
        reason = f"this bound is about two classes, not {spell(shape.n_classes)}"
    yield known.BAUM.refuse(reason) if reason else known.baum_1988(*sizes)


def _without_separation(shape: DataShape) -> Iterator[Entry]:
    reason = _no_shattering(shape) or (_POSITIONS if shape.has_positions else "")
    if shape.dim is None:
        reason = (
            reason or "this bound is about all points of a ball, but token ids are a finite set of inputs"
        )
    n_points = equal_token_sequences(shape)
    reason = reason or ("" if n_points else _NO_CONSTANT)
    if reason:
        yield from (theorem.refuse(reason) for theorem in (known.SONTAG, known.SIEGEL))
    elif (vectors := tokens_as_vectors(shape)) is None:
        yield known.sontag_1997(n_points)
        yield known.SIEGEL.refuse("the separation of the tokens is not known")
    else:
        yield known.SONTAG.refuse(
            "the tokens are separated, but this bound is about points that may be arbitrarily close"
        )
        yield known.siegel_2024(n_points, vectors.radius, vectors.separation)
