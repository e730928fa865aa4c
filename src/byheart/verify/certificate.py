"""The certificate: which weights were checked on which data, by which software, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from byheart.data.assumption import Assumption
from byheart.data.shape import DataRecord
from byheart.errors import DoesNotHold, amount
from byheart.network.protocol import Backend
from byheart.network.size import Size
from byheart.records.fields import Fields
from byheart.records.refusals import corrupt

SCHEMA = 1

DistributionRule = Literal["contexts", "total-gap"]
"""The rule by which next-token distributions are judged.

contexts: each context must be right by itself, which is the meaning of `holds`.
total-gap: the loss over all contexts must be near the entropy, which is the meaning of `fitted`. This is the rule of the paper
    MFT24; it implies nothing about a single context.
"""

Verdict = Literal["holds", "fitted", "DOES NOT HOLD"]


UNCHECKED = ("method", "theorem", "theorem_size", "assumptions")
"""Fields of a certificate that repeat claims of the model. The verifier did not compute them."""

LEFT_OUT_OF_FILES: Mapping[str, object] = {
    "sampled": None,
    "fitted": None,
    "columns": None,
    "rows_left_out": 0,
    "on_conflict": None,
    "left_out": {},
    "unit": "sample",
}
"""Fields that older certificates do not have, with their default values.

A field is saved only if its value differs from its default. So if an older certificate is loaded and saved again, none of these
fields is added, except `fitted` if the certificate was judged by the rule `total-gap`.
"""


@dataclass(frozen=True)
class WrongSample:
    """A sample whose answer differs from the label in the data.

    `number` is the row of the sample in the source of the data, counted from 1. `expected` and `got` are label names; `got` is None
    if the network answers "unknown" or if no answer was computed. `reason` is None if the network just gives another answer. In
    all other cases, it says what is wrong: the model cannot take the sample, the model does not have the label, or the next-token
    distribution differs too much.
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
    return "that the input is unknown" if label is None else repr(label)


@dataclass(frozen=True)
class Distributional:
    """How far the next-token distributions of a model diverge from those in the data, in nats, and which divergence is allowed.

    max_divergence       the largest Kullback-Leibler divergence KL(data ‖ model) of a context
    mean_divergence      the mean over all predicted tokens, in which each context counts as often as it occurs
    loss_nats            the cross-entropy of the model, summed over all predicted tokens
    entropy_nats         the least possible loss: the entropy of the data, summed over all predicted tokens
    gap_nats             loss minus entropy
    gap_percent          the gap in per cent of the entropy; None if the entropy is 0
    allowed_divergence   the largest divergence for which a context counts as right
    allowed_gap_percent  the largest gap, in per cent of the entropy, for which `Certificate.fitted` can be true; None unless the
                         rule `total-gap` was requested. A small gap implies nothing about any single context
    wrong_tokens         number of contexts that have only one next token in the data and for which the model prefers another token;
                         None in older certificates
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
        """The rule by which the caller chose to judge the distributions."""
        return "contexts" if self.allowed_gap_percent is None else "total-gap"

    def __str__(self) -> str:
        share = "" if self.gap_percent is None else f" ({self.gap_percent:.3g}% of the entropy)"
        return (
            f"{amount(self.n_contexts, 'context')}: divergence at most {self.max_divergence:.3g} nats, "
            f"{self.mean_divergence:.3g} on average; the loss is {self.gap_nats:.3g} nats above the entropy of "
            f"{self.entropy_nats:,.6g}{share}"
        )

    @property
    def is_within_gap(self) -> bool:
        """Whether the gap (loss minus entropy) is within the allowed share of the entropy. If the entropy is 0, the gap
        must be 0.
        """
        return self.gap_nats <= (self.allowed_gap_percent or 0) / 100 * self.entropy_nats


@dataclass(frozen=True)
class Findings:
    """The findings of one check: how many samples were checked and how many are wrong, the first wrong ones, and other problems.

    Wrong samples are counted, but not listed in `problems`. `n_rechecked` samples were checked again by a second evaluator.
    `fitted` says whether the loss is near enough to the entropy; it is None unless the rule `total-gap` was requested.
    """

    checked: int
    wrong: int
    shown: tuple[WrongSample, ...]
    problems: tuple[str, ...]
    n_rechecked: int
    distribution: Distributional | None = None
    fitted: bool | None = None


@dataclass(frozen=True)
class Certificate:
    """The result of one run of the verifier.

    holds     whether the model passed every check. This means: every row that was checked got its right label; a second evaluator
              gave the same answers for the rows that it checked again; and the digests of the data, weights and model are those in
              the earlier certificate, if there is one. For the task `distribution`, the checks of labels are replaced by these: no
              context diverges by more than the allowed divergence, and if only one token follows a context in the data, the model
              prefers this token. If `holds` is false, `problems` says why.
    fitted    None unless the caller requested the rule `total-gap`. Then: whether the loss exceeds the entropy by at most the
              allowed share. Wrong contexts do not make it false, but any other problem does.

    `method`, `theorem`, `theorem_size` and `assumptions` repeat what the model's own record says. The verifier does not check them.
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
    seconds: float = field(compare=False)  # the only field in which two equal checks may differ
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
    sampled: int | None = None  # the number of samples drawn for the check; None if all were checked
    fitted: bool | None = None
    # the columns read as input and as label; None for data that are not from a file, and in older certificates
    columns: tuple[str, ...] | None = field(default=None, compare=False)
    rows_left_out: int = 0  # left out by rules that the caller chose
    on_conflict: str | None = None  # the rule for conflicting labels, if it left out rows
    # rows that each rule left out; empty in older certificates
    left_out: Mapping[str, int] = field(default_factory=dict)
    # what was checked one by one, see `DataSource.unit`; `sample` in older certificates, which do not say what it was
    unit: Literal["sample", "row", "context"] = field(default="sample", compare=False)

    @property
    def label_bits(self) -> float:
        return self.dataset.label_bits

    @property
    def bits_per_parameter(self) -> float | None:
        """The information in the labels, in bits, per entry of the weight matrices, including zeros.

        None if the labels have more bits than the stored weights; see `Size.bits_per_stored_bit`.
        """
        return self.size.bits_per_parameter(self.label_bits)

    @property
    def bits_per_stored_bit(self) -> float | None:
        """The information in the labels, in bits, per bit that stores the weights. This is never above 1.

        None if the labels have more bits than the stored weights; see `Size.bits_per_stored_bit`.
        """
        return self.size.bits_per_stored_bit(self.label_bits)

    def __str__(self) -> str:
        return "\n".join([f"{self.headline} ({self.backend})", *self.problems, *map(str, self.wrong_samples)])

    @property
    def verdict(self) -> Verdict:
        """The verdict in one to three words."""
        if self.holds:
            return "holds"
        return "fitted" if self.fitted else "DOES NOT HOLD"

    @property
    def headline(self) -> str:
        """The verdict in one line. It also says how many rows are right, which columns were used, how far distributions may be off,
        and how many rows were left out.
        """
        of, judged = self.columns, self.distribution
        counted = f"{self.checked - self.wrong:,} of {amount(self.checked, self.unit)}{'' if self.holds else ' right'}"
        columns = "" if of is None else f", {of[0]!r} -> {of[1]!r}"
        rule = ""
        if judged is not None and judged.allowed_divergence is not None:
            rule = f", each within {judged.allowed_divergence:g} nats"
        if judged is not None and self.verdict == "fitted":
            rule = f", total gap {judged.gap_percent:.3g}% of the entropy (allowed {judged.allowed_gap_percent:g}%)"
        left_out = f" ({self.rows_left_out_in_words})" if self.rows_left_out else ""
        return f"{self.verdict}{self.on_sample}: {counted}{columns}{rule}{left_out}"

    @property
    def rows_left_out_in_words(self) -> str:
        """A text that says how many rows each rule left out."""
        by_rule = self.left_out or {f"on_conflict={self.on_conflict}": self.rows_left_out}
        listed = ", ".join(f"{n_rows:,} by {rule}" for rule, n_rows in by_rule.items())
        return f"{amount(self.rows_left_out, 'more row')} left out: {listed}"

    @property
    def on_sample(self) -> str:
        """The words after the verdict that say that only a sample of the data was checked. Empty if all data were checked."""
        if self.sampled is None:
            return ""
        return f" on a sample of {self.sampled:,} of {self.dataset.shape.n_samples:,}"

    def require_fitted(self, method: str, options: Mapping[str, object], remedy: str = "") -> None:
        """Raise `DoesNotHold` unless `fitted` is true, which means that the loss is close enough to the entropy.

        `byheart.compile` calls this for a certificate that does not hold. The message names `method` and gives the advice
        `remedy`. If `remedy` is empty, it advises to leave out or change the `options`, if there are any.
        """
        if self.fitted:
            return
        given = ", ".join(
            f"{name}={value}" for name, value in options.items() if name not in ("precision", "shards")
        )
        remedy = remedy or (f"Leave out the options ({given}), or change them." if given else "")
        mistake = "This is a bug in byheart. Please report it with the data."
        advice = f"{remedy}\n  If that does not help: {mistake}" if remedy else mistake
        raise DoesNotHold(
            f"{method} built a network that does not memorise these data; nothing was saved.\n"
            f"  {self.problems[0]}\n  {advice}",
            certificate=self,
        )

    def to_json(self) -> dict[str, Any]:
        values = asdict(self) | {"dataset": self.dataset.to_json()}
        for name, nothing in LEFT_OUT_OF_FILES.items():
            if values[name] == nothing:
                del values[name]
        return {"schema": values.pop("schema"), **values, "unchecked": list(UNCHECKED)}

    @staticmethod
    def from_json(document: object, where: str | Path = "certificate.json") -> Certificate:
        """Convert the content of certificate.json to a certificate. Raise `CorruptModel` if a field is invalid."""
        found = Fields(document, where)
        schema = found.integer("schema", 1)
        if schema > SCHEMA:
            problem = f"the file has schema {schema}; this version of byheart reads schemas up to {SCHEMA}"
            raise corrupt(where, problem, "Install a newer byheart.")
        certificate = found.record(
            Certificate, dataset=DataRecord.from_json(found.values.get("dataset"), where)
        )
        found.text("backend", get_args(Backend))
        if found.has("sampled"):
            found.integer("sampled", 1)
        if certificate.columns is not None and len(certificate.columns) != 2:
            raise found.refuse("columns", "the names of two columns")
        said = certificate.dataset.shape.n_samples if certificate.sampled is None else certificate.sampled
        if certificate.distribution is None and certificate.checked != said:
            counted = f"{certificate.checked:,} checked samples, but it should count {said:,}"
            raise corrupt(where, f"the file counts {counted}")
        judged = certificate.distribution
        if judged is not None and judged.rule == "total-gap" and certificate.fitted is None:
            certificate = _read_total_gap(certificate, judged)
        _require_possible_counts(certificate, where)
        if certificate.holds and (certificate.wrong or certificate.problems):
            raise corrupt(
                where, "the field `holds` is true, but the file also lists wrong samples or a problem"
            )
        percentages = () if judged is None else (judged.gap_percent, judged.allowed_gap_percent)
        if certificate.fitted and (judged is None or not judged.is_within_gap or None in percentages):
            raise corrupt(
                where, "the field `fitted` is true, but the gap is missing or larger than the allowed gap"
            )
        return certificate


def _require_possible_counts(certificate: Certificate, where: str | Path) -> None:
    """Raise `CorruptModel` if counts of a certificate contradict each other."""
    sampled, n_samples = certificate.sampled, certificate.dataset.shape.n_samples
    if sampled is not None and sampled >= n_samples:
        raise corrupt(where, f"sampled is {sampled:,}, but the data have only {amount(n_samples, 'sample')}")
    for name in ("wrong", "rechecked_by_interpreter"):
        counted = getattr(certificate, name)
        if not 0 <= counted <= certificate.checked:
            raise corrupt(
                where, f"{name} is {counted:,}, but the number of checked samples is {certificate.checked:,}"
            )
    if certificate.left_out and sum(certificate.left_out.values()) != certificate.rows_left_out:
        raise corrupt(where, "rows_left_out is not the sum of the rows in left_out")


def _read_total_gap(certificate: Certificate, judged: Distributional) -> Certificate:
    """Convert an older certificate for distributions to the present form.

    Older certificates say "holds" for what is now called "fitted". If the entropy is 0, their `gap_percent` is not the same as
    now, so `fitted` is decided by `gap_nats`.
    """
    is_right = not certificate.wrong and certificate.holds
    return replace(certificate, holds=is_right, fitted=certificate.holds and judged.is_within_gap)


@dataclass(frozen=True)
class OriginData:
    """The data set from which a model was built."""

    digest: str | None = None


@dataclass(frozen=True)
class Origin:
    """How a network was made, as its record says.

    These are its method, its theorem, the assumptions that were checked on its data, the size that the theorem gives, and the
    digest of the data. Each may be missing.
    """

    method: str | None = None
    theorem: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    theorem_size: Mapping[str, int] | None = None
    dataset: OriginData = OriginData()


UNKNOWN_ORIGIN = Origin()


def origin_of(record: Mapping[str, Any], where: str | Path = "the record of this model") -> Origin:
    """Return the part of a model's record that says how the model was made. A certificate repeats it."""
    return Fields(dict(record), where).record(Origin)
