"""Every bound on one problem side by side: those that apply, and those that do not, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from byheart.bounds import dana_2024, madden_2024, predecessors
from byheart.bounds import kajitsuka_sato_2025 as upper
from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds.bound import Bound, NotApplicable, spell
from byheart.bounds.pigeonhole import counting_next_token, counting_seq_to_seq, label_bits, parameter_floor
from byheart.bounds.problem import Problem, problem_of
from byheart.data import Dataset
from byheart.errors import ByheartError

Entry = Bound | NotApplicable


class SizeLike(Protocol):
    """What a construction says of its size before it is built."""

    @property
    def parameters_dense(self) -> int:
        """Every entry of every weight matrix."""

    @property
    def total_bits(self) -> int:
        """Bits that store the model."""


SizeOf = Callable[[Problem], SizeLike]

_SUFFICIENT = (
    ("KS25 Theorem 4.1", "KS25-T4.1", "next-token", upper.theorem_4_1),
    ("KS25 Theorem F.1", "KS25-T F.1", "next-token", upper.theorem_f_1),
    ("KS25 Corollary 4.1", "KS25-C4.1", "seq-to-seq", upper.corollary_4_1),
    ("KS25 Theorem D.1", "KS25-T D.1", "set", upper.theorem_d_1),
)


@dataclass(frozen=True)
class BoundTable:
    """All bounds for one problem."""

    problem: Problem
    applicable: tuple[Bound, ...]
    not_applicable: tuple[NotApplicable, ...]

    def of(self, quantity: str, kind: str) -> tuple[Bound, ...]:
        """The applicable bounds on one quantity and of one kind."""
        return tuple(b for b in self.applicable if b.quantity == quantity and b.kind == kind)

    def to_json(self) -> dict[str, object]:
        """A JSON-ready dictionary."""
        return {
            "bounds": [bound.to_json() for bound in self.applicable],
            "not_applicable": [entry.to_json() for entry in self.not_applicable],
        }


def for_problem(problem: Problem, constructions: Mapping[str, SizeOf] | None = None) -> BoundTable:
    """Evaluate every bound that applies to `problem`.

    `constructions` maps names to functions that tell the size a construction would have, so that what we
    can really build stands beside what the theorems promise; one that raises one of our errors is listed
    with that reason.
    """
    entries: list[Entry] = [
        *_counting(problem),
        *_kajitsuka_sato_upper(problem),
        *_kajitsuka_sato_lower(problem),
        *_madden(problem),
        *_dana(problem),
        *_flat_networks(problem),
        *_unseparated(problem),
        *_built(problem, constructions or {}),
    ]
    return BoundTable(
        problem,
        tuple(entry for entry in entries if isinstance(entry, Bound)),
        tuple(entry for entry in entries if isinstance(entry, NotApplicable)),
    )


def table(dataset: Dataset, constructions: Mapping[str, SizeOf] | None = None) -> BoundTable:
    """Every bound for a data set, its assumptions checked on it: consistency, separation, distinct contexts.

    Documents also get the entropy below which no model's loss on them falls (MFT24 Lemma 2).
    """
    result = for_problem(problem_of(dataset), constructions)
    if dataset.task != "distribution":
        return result
    contexts = dataset.contexts()
    entropy = madden_2024.lemma_2(contexts.counts.tolist(), contexts.next_counts.tolist())
    return BoundTable(result.problem, (*result.applicable, entropy), result.not_applicable)


def _counting(problem: Problem) -> Iterator[Entry]:
    if problem.task == "distribution":
        yield NotApplicable(
            "KS25 Remark 4.4 (counting)", "KS25-R4.4", "distributions are not finitely many labels"
        )
        return
    if problem.task == "seq-to-seq":
        yield counting_seq_to_seq(problem.context_count, 1, problem.n_classes)
    else:
        yield counting_next_token(problem.context_count, problem.n_classes)
    bits = label_bits(problem.context_count, problem.n_classes)
    yield from (parameter_floor(bits, word) for word in (64, 32, 16))


def _kajitsuka_sato_upper(problem: Problem) -> Iterator[Entry]:
    for name, statement, task, theorem in _SUFFICIENT:
        if problem.task != task:
            yield NotApplicable(name, statement, f"it is about {task}, and the task is {problem.task}")
        elif not problem.is_consistent:
            yield NotApplicable(name, statement, "equal contexts carry different labels")
        elif (vectors := problem.tokens_as_vectors()) is None:
            yield NotApplicable(name, statement, "nothing is known of the separation of the token vectors")
        else:
            sizes = (problem.n_samples, problem.seq_len, problem.n_classes, vectors.dim)
            yield from theorem(*sizes, vectors.radius, vectors.separation).bounds()
    name, statement = "KS25 Theorem E.1", "KS25-T E.1"
    if problem.vocab is None:
        yield NotApplicable(name, statement, "tokens are vectors; it is about token ids with an embedding")
    elif problem.task != "next-token":
        yield NotApplicable(name, statement, f"it is about next-token, and the task is {problem.task}")
    elif not problem.is_consistent:
        yield NotApplicable(name, statement, "equal contexts carry different labels")
    else:  # where positions matter, each pair of token and position is a token of its own
        vocab = problem.vocab * (problem.seq_len if problem.has_positions else 1)
        yield from upper.theorem_e_1(problem.n_samples, problem.seq_len, problem.n_classes, vocab).bounds()


def _kajitsuka_sato_lower(problem: Problem) -> Iterator[Entry]:
    if problem.dim is not None:
        yield lower.remark_4_3(problem.dim)
    about = {"KS25-T4.2": "KS25 Theorem 4.2", "KS25-T4.3": "KS25 Theorem 4.3"}
    for reason in _no_shattering(problem):
        yield from (NotApplicable(name, statement, reason) for statement, name in about.items())
        return
    outputs = problem.context_count
    yield lower.theorem_4_3(problem.n_samples, problem.seq_len, outputs)
    for reason in _no_constant_sequences(problem):
        yield NotApplicable("KS25 Theorem 4.2", "KS25-T4.2", reason)
        return
    n_constant = _constant_sequences(problem)
    yield lower.theorem_4_2(n_constant)
    if problem.dim is not None and problem.task == "next-token":
        yield lower.theorem_4_2_depth(n_constant, problem.dim, 14)


def _no_shattering(problem: Problem) -> Iterator[str]:
    if problem.task == "distribution":
        yield "it counts labellings, and the task asks for distributions"
    elif problem.n_classes < 2:
        yield "with one class there is nothing to tell apart"


def _no_constant_sequences(problem: Problem) -> Iterator[str]:
    if problem.has_positions:
        yield "positions tell equal tokens apart, so attention is not linear on sequences of equal tokens"


def _constant_sequences(problem: Problem) -> int:
    """Sequences of equal tokens that data sets of this size may hold."""
    contexts = min(problem.n_samples, problem.context_count)
    if problem.vocab is not None:
        return min(contexts, problem.vocab)
    vectors = problem.tokens_as_vectors()
    return contexts if vectors is None else vectors.distinct_tokens(contexts)


def _madden(problem: Problem) -> Iterator[Entry]:
    statements = {
        "MFT24-L1": "MFT24 Lemma 1",
        "MFT24-T1": "MFT24 Theorem 1",
        "MFT24-T5": "MFT24 Theorem 5",
        "MFT24-T7": "MFT24 Theorem 7",
    }
    if problem.vocab is None:
        reason = "tokens are vectors; it is about token ids"
        yield from (NotApplicable(name, statement, reason) for statement, name in statements.items())
        return
    if problem.task == "distribution":
        if problem.n_classes >= 2:
            yield madden_2024.lemma_1_parameters(problem.context_count, problem.n_classes)
            yield madden_2024.theorem_1_parameters(problem.context_count, problem.n_classes)
    else:
        for statement in ("MFT24-L1", "MFT24-T1"):
            yield NotApplicable(
                statements[statement],
                statement,
                "it is about distributions; single labels take far fewer parameters",
            )
    reason = _unmet_by_single_labels(problem, "distribution")
    if reason:
        yield from (NotApplicable(statements[s], s, reason) for s in ("MFT24-T5", "MFT24-T7"))
        return
    sizes = (problem.context_count, problem.vocab, problem.seq_len, problem.n_classes)
    yield madden_2024.theorem_5_parameters(*sizes)
    yield madden_2024.theorem_7_parameters(*sizes)


def _unmet_by_single_labels(problem: Problem, also: str) -> str:
    """Why a next-token theorem over token ids does not apply, or nothing."""
    if problem.task not in ("next-token", also):
        return f"it is about next-token prediction, and the task is {problem.task}"
    return "" if problem.is_consistent else "equal contexts carry different labels"


def _dana(problem: Problem) -> Iterator[Entry]:
    if problem.vocab is None:
        yield NotApplicable("DPC24", "DPC24-T1", "tokens are vectors; it is about token ids")
        return
    n_tokens = max(problem.vocab, problem.n_classes)
    if problem.task == "distribution":
        yield dana_2024.proposition_2(n_tokens)
        if n_tokens >= 2:
            yield dana_2024.theorem_1_parameters(
                problem.context_count, n_tokens, problem.seq_len, n_tokens - 1
            )
        yield NotApplicable("DPC24 Corollary 1", "DPC24-C1", "contexts have more than one next token")
        return
    yield NotApplicable(
        "DPC24 Theorem 1", "DPC24-T1", "labels are single tokens, where Corollary 1 says more"
    )
    reason = _unmet_by_single_labels(problem, "next-token")
    if reason:
        yield NotApplicable("DPC24 Corollary 1", "DPC24-C1", reason)
        return
    yield dana_2024.proposition_3()
    yield dana_2024.corollary_1_parameters(problem.context_count, n_tokens, problem.seq_len)


def _flat_networks(problem: Problem) -> Iterator[Entry]:
    """Feed-forward networks that read a sample as one vector, and the attention layer of MLT23."""
    names = (
        "two-layer ReLU interpolation",
        "Bubeck et al. 2020",
        "Baum 1988",
        "VYS22 Theorem 3.1",
        "MLT23 Theorem 1",
    )
    reason = ""
    if problem.task != "next-token":
        reason = f"it gives one label to one vector, and the task is {problem.task}"
    elif not problem.is_consistent:
        reason = "equal contexts carry different labels"
    if reason:
        yield from (NotApplicable(name, "", reason) for name in names)
        return
    n_samples, input_dim = problem.n_samples, problem.seq_len * (problem.dim or 1)
    yield predecessors.two_layer_relu(n_samples, input_dim)
    if problem.dim is None:
        yield NotApplicable("Bubeck et al. 2020", "", "token ids are not in general position")
        yield NotApplicable("Baum 1988", "", "token ids are not in general position")
    else:
        yield predecessors.bubeck_2020(n_samples, input_dim)
        if problem.n_classes > 2:
            yield NotApplicable("Baum 1988", "", f"it is about two classes, not {problem.n_classes}")
        else:
            yield predecessors.baum_1988(n_samples, input_dim)
    vectors = problem.tokens_as_vectors()
    if vectors is None:
        yield NotApplicable(
            "VYS22 Theorem 3.1", "KS25-L C.1", "nothing is known of the separation of the samples"
        )
    else:
        square = problem.seq_len * vectors.radius**2
        yield predecessors.vardi_2022(n_samples, problem.n_classes, input_dim, square, vectors.separation)
    if problem.dim is None or not 2 <= problem.seq_len <= problem.dim:
        yield NotApplicable("MLT23 Theorem 1", "DPC24-S6", "it needs vectors with 2 <= seq_len <= dim")
    else:
        yield predecessors.mahdavi_2023_parameters(n_samples, problem.seq_len, problem.dim)


def _unseparated(problem: Problem) -> Iterator[Entry]:
    names = ("Sontag 1997", "Siegel 2024")
    reasons = [*_no_shattering(problem), *_no_constant_sequences(problem)]
    if problem.dim is None:
        reasons.append("token ids are a finite set of inputs; it is about all points of a ball")
    if reasons:
        yield from (NotApplicable(name, "", reasons[0]) for name in names)
        return
    vectors = problem.tokens_as_vectors()
    if vectors is None:
        yield predecessors.sontag_1997(problem.n_samples)
        yield NotApplicable("Siegel 2024", "", "nothing is known of the separation of the tokens")
    else:
        yield NotApplicable(
            "Sontag 1997", "", "the tokens are separated; it is about points with no separation"
        )
        contexts = min(problem.n_samples, problem.context_count)
        yield predecessors.siegel_2024(contexts, vectors.radius, vectors.separation)


def _built(problem: Problem, constructions: Mapping[str, SizeOf]) -> Iterator[Entry]:
    for name, size_of in constructions.items():
        try:
            size = size_of(problem)
        except ByheartError as error:
            yield NotApplicable(f"{name}, built", "", str(error))
            continue
        for quantity, value in (("parameters", size.parameters_dense), ("bits", size.total_bits)):
            yield Bound(
                name=f"{name}, built",
                statement="",
                quantity=quantity,
                kind="upper",
                value=int(value),
                assumptions=("those the construction checks on the data",),
                source=f"this project's construction {name}",
                sentence=f"The construction {name} would take {spell(value)} {quantity}.",
            )
