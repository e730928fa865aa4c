"""The certificate: who checked what about which weights and which data, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from byheart.data.assumption import Assumption
from byheart.data.data_record import DataRecord
from byheart.network.protocol import Backend
from byheart.network.size import Size
from byheart.records.fields import Fields, corrupt

SCHEMA = 1

DistributionRule = Literal["contexts", "total-gap"]
"""contexts: each context must be right by itself. total-gap: the loss over all of them must be near the entropy (MFT24's own)."""


UNCHECKED = ("method", "theorem", "theorem_size", "assumptions")
"""Fields of a certificate that the model says of itself. The verifier computed none of them."""


@dataclass(frozen=True)
class WrongSample:
    """A sample the network does not answer as the data say. `number` counts samples from 1, as in the file.

    `expected` and `got` are label names; `got` is None where the network names no label. `reason` is given
    where the sample could not be asked at all.
    """

    number: int
    input: str
    expected: str
    got: str | None
    reason: str | None = None

    def __str__(self) -> str:
        found = self.reason if self.reason is not None else f"the network answers {_quote(self.got)}"
        return f"sample {self.number}: {self.input}: expected {_quote(self.expected)}, {found}"


def _quote(label: str | None) -> str:
    return "nothing it knows" if label is None else repr(label)


@dataclass(frozen=True)
class Distributional:
    """How far next-token distributions are from the empirical ones, in nats, and by which rule they were judged.

    max_divergence       the largest KL(π̂ ‖ model) of a context
    mean_divergence      per predicted token, so contexts count as often as they occur
    gap_nats             loss minus entropy, a total; `gap_percent` is its share of the entropy, None if that is 0
    allowed_divergence   what a context may diverge to be right
    allowed_gap_percent  None where every context must be right; else the rule was the total gap, which says nothing of a
                         single context
    wrong_tokens         contexts with one certain successor for which another token is the most likely one; None in
                         certificates of older versions
    """

    n_contexts: int
    max_divergence: float
    mean_divergence: float
    loss_nats: float
    entropy_nats: float
    gap_nats: float
    gap_percent: float | None
    allowed_divergence: float | None
    allowed_gap_percent: float | None
    wrong_tokens: int | None = None

    @property
    def rule(self) -> DistributionRule:
        """The rule, as the caller gave it."""
        return "contexts" if self.allowed_gap_percent is None else "total-gap"

    def __str__(self) -> str:
        share = "" if self.gap_percent is None else f" ({self.gap_percent:.3g}% of the entropy)"
        judged = ""
        if self.rule == "total-gap":
            judged = (
                f"; judged by the total gap alone (at most {self.allowed_gap_percent:g}% of the entropy), which single contexts "
                "may miss by any amount"
            )
        return (
            f"{self.n_contexts:,} contexts diverge by at most {self.max_divergence:.3g} nats, {self.mean_divergence:.3g} on "
            f"average; the loss is {self.gap_nats:.3g} nats above the entropy of {self.entropy_nats:,.6g}{share}{judged}"
        )


@dataclass(frozen=True)
class Findings:
    """What one way of checking found: how many samples were checked and are wrong, the first few wrong ones, and the problems."""

    checked: int
    wrong: int
    shown: tuple[WrongSample, ...]
    problems: tuple[str, ...]
    n_rechecked: int
    distribution: Distributional | None = None


@dataclass(frozen=True)
class Certificate:
    """What one run of the verifier found.

    It holds if every sample was checked (or every one of a stated number, `sampled`), none was wrong, the second evaluator agreed
    wherever it was asked, and the data, weights and model are those an earlier certificate speaks of, if there is one.
    `problems` says in words what does not hold.
    Distributions may be judged by their total gap instead (`distribution.rule`); then wrong contexts are counted all the same.

    Four fields are `UNCHECKED`: they repeat what the record of the model says.
    """

    holds: bool
    dataset: DataRecord
    weights_digest: str
    size: Size
    checked: int
    wrong: int
    wrong_samples: tuple[WrongSample, ...]
    problems: tuple[str, ...]
    backend: str
    rechecked_by_interpreter: int
    seconds: float = field(compare=False)  # the one thing in which two equal checks differ
    method: str | None = None
    theorem: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    theorem_size: Mapping[str, int] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA
    distribution: Distributional | None = None  # for the task `distribution`, whose samples are contexts
    # of labels, tokenizer, task, order and architecture; None in older certificates
    model_digest: str | None = None
    rechecked_by: str | None = None  # the second evaluator; None if there was none
    sampled: int | None = None  # samples drawn to be checked; None where all were

    @property
    def label_bits(self) -> float:
        return self.dataset.label_bits

    @property
    def bits_per_parameter(self) -> float:
        """Label bits per entry of a weight matrix, zero entries included."""
        return self.label_bits / self.size.parameters_dense

    @property
    def bits_per_stored_bit(self) -> float:
        """Label bits per bit that stores the weights."""
        return self.label_bits / max(1, self.size.total_bits)

    def __str__(self) -> str:
        n_right = self.checked - self.wrong
        samples = "samples" if self.distribution is None else "contexts"
        first = f"{self.verdict}: {n_right:,} of {self.checked:,} {samples} right ({self.backend})"
        return "\n".join([first, *self.problems, *map(str, self.wrong_samples)])

    @property
    def verdict(self) -> str:
        """Whether it holds, by which rule where that is not each context, and on how many samples where not on all."""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        by_gap = self.distribution is not None and self.distribution.rule == "total-gap"
        return f"{verdict}{' by the total gap alone' if by_gap else ''}{self.on_sample}"

    @property
    def on_sample(self) -> str:
        """What is said after the verdict where not all samples were checked."""
        if self.sampled is None:
            return ""
        return f" on a sample of {self.sampled:,} of {self.dataset.shape.n_samples:,}"

    def to_json(self) -> dict[str, Any]:
        values = asdict(self) | {"dataset": self.dataset.to_json()}
        if self.sampled is None:
            del values["sampled"]
        return {"schema": values.pop("schema"), **values, "unchecked": list(UNCHECKED)}

    @staticmethod
    def from_json(document: object, where: str | Path = "certificate.json") -> Certificate:
        """From certificate.json, every field checked; `CorruptModel` where one is not as it should be."""
        found = Fields(document, where)
        schema = found.integer("schema", 1)
        if schema > SCHEMA:
            problem = f"the file has schema {schema}; this byheart reads {SCHEMA}"
            raise corrupt(where, problem, "Install a newer byheart.")
        certificate = found.record(
            Certificate, dataset=DataRecord.from_json(found.values.get("dataset"), where)
        )
        found.text("backend", get_args(Backend))
        if found.has("sampled"):
            found.integer("sampled", 1)
        said = certificate.dataset.shape.n_samples if certificate.sampled is None else certificate.sampled
        if certificate.distribution is None and certificate.checked != said:
            counted = f"{certificate.checked:,} checked samples of {said:,} that were to be checked"
            raise corrupt(where, f"the file counts {counted}")
        judged = certificate.distribution
        may_be_wrong = judged is not None and judged.rule == "total-gap"
        if certificate.holds and ((certificate.wrong and not may_be_wrong) or certificate.problems):
            raise corrupt(where, "the file says that it holds, and counts wrong samples or names a problem")
        return certificate


@dataclass(frozen=True)
class OriginData:
    """The data set a model was built from."""

    digest: str | None = None


@dataclass(frozen=True)
class Origin:
    """Method, theorem and what was found when the network was built, on that data set; each may be absent."""

    method: str | None = None
    theorem: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    theorem_size: Mapping[str, int] | None = None
    dataset: OriginData = OriginData()


UNKNOWN_ORIGIN = Origin()


def origin_of(record: Mapping[str, Any], where: str | Path = "the record of this model") -> Origin:
    """Read the parts of a record that a certificate repeats."""
    return Fields(dict(record), where).record(Origin)
