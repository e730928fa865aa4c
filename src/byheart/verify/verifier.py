"""Check a network on every sample of a data set. This module shares no code with the constructions that it checks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.options import DataSource, Unit
from byheart.data.shape import DataRecord
from byheart.errors import UsageError, amount
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import UNKNOWN, Backend, Evaluation, Network
from byheart.network.size import size_of_network
from byheart.process.progress import Progress, Steps, part_of, report
from byheart.records.arguments import whole_number
from byheart.verify.certificate import (
    UNKNOWN_ORIGIN,
    Certificate,
    DistributionRule,
    Findings,
    Origin,
    WrongSample,
    origin_of,
)
from byheart.verify.digest import model_digest, weights_digest
from byheart.verify.distributions import ALLOWED_GAP, check_distributions
from byheart.verify.encoded_inputs import Drawn, EncodedInputs, draw_samples, encode_inputs
from byheart.verify.versions import versions

ForEachSample: TypeAlias = Bool[np.ndarray, " n_samples"]
ForEachLabel: TypeAlias = Int[np.ndarray, " n_labels"]

MAX_WRONG_SHOWN = 5
"""The number of wrong samples that a certificate shows in full. All are counted."""

N_RECHECKED = 3
"""The number of samples that are checked again with a second evaluator, which shares no evaluation code with the first
one. Fewer are checked again if the data set has fewer samples, or if this would be slow.
"""

_CHECKING = {"encode": 0.13, "answer": 0.66, "ask again": 0.17, "compare": 0.04}
_CHECKING_TEXT = {"encode": 0.02, "answer": 0.92, "ask again": 0.05, "compare": 0.01}
"""The share of the checking time that each step takes. `_CHECKING_TEXT` is for networks that generate their answers as text."""

_MISREAD = "the tokenizer.json of the model converts the input to other ids than the tokenizer in model.json"

MANY_PRODUCTS = 2**22
"""If (tokens of a sample) · (parameters) exceeds this number, the second evaluator takes seconds for each sample. It then
checks at most a quarter of the samples, but at least one.
"""

WORDS = {
    "interpreter": "the slow interpreter",
    "equations": "the NumPy evaluation of the equations",
    "exact": "exact arithmetic",
}

PACKAGES = {
    "exact": ("numpy", "numba"),
    "interpreter": ("numpy",),
    "equations": ("numpy",),
    "module": ("numpy", "torch"),
    "transformers": ("numpy", "torch", "transformers"),
}


def verify(
    memoriser: Memoriser,
    dataset: Dataset | DatasetPieces,
    *,
    origin: Origin = UNKNOWN_ORIGIN,
    expected_digests: Mapping[str, str] | None = None,
    backend: Backend | None = None,
    device: str = "cpu",
    n_rechecked: int = N_RECHECKED,
    sample: int | None = None,
    rule: DistributionRule = "contexts",
    allowed_gap: float = ALLOWED_GAP,
    progress: Progress | None = None,
) -> Certificate:
    """Run `memoriser` on every sample of `dataset` and compare its answers, as label names, with the labels in the data.

    dataset: a dataset in pieces is checked piece by piece, so that only one piece is in memory at a time.
    backend: one of the network's `backends`. The default is `exact` for exact networks (no rounding anywhere), `module` for float
        networks, and `transformers` for a Llama if that package is installed. For the task `distribution`, it is always `module`.
    device: the device on which PyTorch runs float networks.
    n_rechecked: the number of samples that a second evaluator checks again; fewer if this would be slow. The second evaluator
        shares no evaluation code with the first one. The samples are drawn with a fixed seed; from a dataset in pieces, only
        samples of the first piece are checked again. Each disagreement is listed as a problem. For
        the task `distribution`, this option has no effect.
    sample: check only this many samples, drawn with a fixed seed. The certificate says so and covers no other sample.
    rule, allowed_gap: with `total-gap`, the certificate also says whether the loss is near enough to the entropy, see
        `check_distributions`. The rule and the gap are never taken from the model.
    origin: how the model was made, and the data on which its assumptions were checked. The certificate repeats this
        without checking it. It leaves out the assumptions if they were not checked on `dataset`.
    expected_digests: the digests `dataset`, `weights` and `model` of an earlier certificate. Each difference is listed as a
        problem.

    If an answer is wrong or there is another problem, no exception is raised, but the certificate says that it does not hold.
    `UsageError` is raised if an argument is invalid, or if the data are for a different task or were read with a different kind of
    tokenizer.
    """
    _check_data(memoriser, dataset)
    if rule not in get_args(DistributionRule):  # with an unknown rule nothing would be judged
        raise UsageError(f"rule {rule!r} is not one of {', '.join(get_args(DistributionRule))}.", rule=rule)
    start = time.perf_counter()
    if sample is not None:
        sample = whole_number("sample", sample)
        _check_sample(dataset, sample)
    backend = backend or memoriser.network.backend
    _check_evaluator(memoriser, backend, device)
    how = Evaluation(backend, device=device, progress=progress)
    is_drawn = np.ones(dataset.n_samples, dtype=bool)
    if sample is not None:
        is_drawn[:] = False
        is_drawn[draw_samples(dataset.n_samples, sample)] = True
    if isinstance(dataset, DatasetPieces):
        found = _check_pieces(memoriser, dataset, how, n_rechecked, is_drawn)
    elif dataset.task == "distribution":
        found = check_distributions(
            memoriser,
            dataset,
            rule=rule,
            allowed_gap=allowed_gap,
            n_shown=MAX_WRONG_SHOWN,
            device=device,
            progress=progress,
        )
    else:
        found = _check_labels(memoriser, dataset, how, n_rechecked, is_drawn)
    digests = {
        "dataset": dataset.digest,
        "weights": weights_digest(memoriser.network),
        "model": model_digest(memoriser),
    }
    software = {**versions(*PACKAGES[backend]), **memoriser.network.settings(backend)}
    source = dataset.source or DataSource()
    unit, columns = source.unit(dataset.task), source.columns(dataset.task)
    others = (*_digest_problems(digests, expected_digests or {}), *found.problems)
    problems = (*others, *(_wrong_in_words(found, unit) if found.wrong else ()))
    return Certificate(
        holds=not problems,
        fitted=found.fitted and not others,
        dataset=DataRecord.of(dataset),
        unit=unit,
        columns=None if dataset.source is None else columns,
        rows_left_out=sum(dataset.left_out.values()),
        on_conflict=_conflict_rule(dataset.left_out),
        left_out=dict(dataset.left_out),
        weights_digest=digests["weights"],
        size=size_of_network(memoriser.network),
        checked=found.checked,
        wrong=found.wrong,
        wrong_samples=found.shown,
        problems=problems,
        backend=backend,
        rechecked_by_interpreter=found.n_rechecked,
        seconds=round(time.perf_counter() - start, 3),
        method=origin.method,
        theorem=origin.theorem,
        assumptions=origin.assumptions if origin.dataset.digest == digests["dataset"] else (),
        theorem_size=origin.theorem_size,
        versions=software,
        distribution=found.distribution,
        model_digest=digests["model"],
        rechecked_by=memoriser.network.second_backend if found.n_rechecked else None,
        sampled=sample,
    )


def _conflict_rule(left_out: Mapping[str, int]) -> str | None:
    """Return the rule for conflicting labels if it left out rows, otherwise None."""
    rules = (rule.partition("=") for rule in left_out)
    return next((value for name, _, value in rules if name == "on_conflict"), None)


def _wrong_in_words(found: Findings, unit: Unit) -> list[str]:
    """Return sentences about the wrong samples, each of which is called a `unit`."""
    judged, counted = found.distribution, f"{found.wrong:,} of {amount(found.checked, unit)}"
    if judged is None:
        return [f"The answer is wrong in {counted}."]
    gap = f"the loss is {judged.gap_nats:.6g} nats above the entropy of {judged.entropy_nats:.6g} nats"
    return [
        f"The next-token distribution differs from that of the data in {counted}.",
        *(
            [f"{gap}; at most {judged.allowed_gap_percent:g}% of the entropy is allowed."]
            if found.fitted is False
            else []
        ),
    ]


def _check_labels(
    memoriser: Memoriser, dataset: Dataset, how: Evaluation, n_rechecked: int, is_drawn: ForEachSample
) -> Findings:
    """Check the samples for which `is_drawn` is true, in a data set with one label per sample or per token. (For data with
    next-token distributions, see `check_distributions`.)
    """
    network, inputs = memoriser.network, dataset.inputs
    steps = Steps(how.progress, _CHECKING_TEXT if network.generates_text else _CHECKING)
    steps.begin("encode")
    asked = encode_inputs(memoriser, inputs, dataset.tokenizer)
    if not is_drawn.all():
        kept = is_drawn[asked.asked]
        asked = replace(asked, asked=asked.asked[kept], encoded=asked.encoded[kept])
    tokenizer = dataset.tokenizer or memoriser.tokenizer
    if misread := network.find_misread(inputs, asked.asked, asked.encoded, tokenizer):
        asked = asked.refuse(misread, _MISREAD)
    answering = steps.begin("answer")
    answers = memoriser.answer(asked.encoded, backend=how.backend, device=how.device, progress=answering)
    rechecked = draw_samples(len(asked.asked), _affordable(network, n_rechecked, len(asked.asked)))
    problems = _disagreements(
        memoriser, dataset, asked, answers, rechecked, replace(how, progress=steps.begin("ask again"))
    )
    steps.begin("compare")
    got = _flat_answers(memoriser, dataset, asked, answers)
    owners = _owners(dataset)
    expected = memoriser.expected_labels(dataset)
    wrong_labels = np.flatnonzero(((got != expected) | (expected == UNKNOWN)) & is_drawn[owners])
    wrong_samples, first = np.unique(owners[wrong_labels], return_index=True)
    shown = [
        _wrong_sample(memoriser, dataset, asked, int(wrong_labels[at]), int(got[wrong_labels[at]]), owners)
        for at in first[:MAX_WRONG_SHOWN]
    ]
    report(how.progress, 1, 1)
    return Findings(int(is_drawn.sum()), len(wrong_samples), tuple(shown), tuple(problems), len(rechecked))


def _check_pieces(
    memoriser: Memoriser, dataset: DatasetPieces, how: Evaluation, n_rechecked: int, is_drawn: ForEachSample
) -> Findings:
    """Check one piece of the data set after the other. The second evaluator, which computes some answers again in another way, is
    used only for samples of the first piece.
    """
    total = Findings(0, 0, (), (), 0)
    n_before = 0
    for number, piece in enumerate(dataset.pieces()):
        drawn = is_drawn[n_before : n_before + piece.n_samples]
        shares = (n_before / len(is_drawn), (n_before + piece.n_samples) / len(is_drawn))
        part = how.progress and part_of(how.progress, *shares)
        if drawn.any():
            own = replace(how, progress=part)
            found = _check_labels(memoriser, piece, own, 0 if number else n_rechecked, drawn)
            total = Findings(
                total.checked + found.checked,
                total.wrong + found.wrong,
                (*total.shown, *found.shown)[:MAX_WRONG_SHOWN],
                (*total.problems, *found.problems),
                total.n_rechecked + found.n_rechecked,
            )
        n_before += piece.n_samples
    return total


def _affordable(network: Network, n_wanted: int, n_asked: int) -> int:
    """Return how many samples the second evaluator checks: `n_wanted`, or fewer to save time.

    If the second evaluator is slow for this network, it checks at most a quarter of the `n_asked` samples, but at least one if
    `n_wanted` is not 0.
    """
    is_cheap = network.seq_len * network.spec.parameters_dense <= MANY_PRODUCTS
    return n_wanted if is_cheap else min(n_wanted, max(1, n_asked // 4))


@runtime_checkable
class Checkable(Protocol):
    """What `verify_model` needs to know about a model."""

    @property
    def memoriser(self) -> Memoriser:
        """The network with its vocabulary and label names."""

    @property
    def record(self) -> Mapping[str, Any]:
        """How the model was made."""

    @property
    def certificate(self) -> Certificate | None:
        """The result of an earlier check, if any."""


def verify_model(model: Checkable, data: Dataset | DatasetPieces, **options: Any) -> Certificate:
    """Check the answers of `model` to the samples of `data`. The options are those of `verify`.

    The new certificate does not hold if the digests of the data, the weights or the rest of the model differ from those in the
    model's own certificate. It also repeats what the model's record says about how the model was made, which is not checked.
    Nothing else is taken from the model: the caller decides which rows are checked and by which rule they are judged.
    """
    if not isinstance(model, Checkable):
        raise UsageError(
            f"verify takes a Model, not {type(model).__name__}.\n  Open one with byheart.load(path).",
            given_type=type(model).__name__,
        )
    earlier = model.certificate
    expected = {}
    if earlier is not None:
        expected = {"dataset": earlier.dataset.digest, "weights": earlier.weights_digest}
        if earlier.model_digest is not None:
            expected["model"] = earlier.model_digest
    return verify(model.memoriser, data, origin=origin_of(model.record), expected_digests=expected, **options)


def _check_data(memoriser: Memoriser, dataset: object) -> None:
    if not isinstance(dataset, Dataset | DatasetPieces):
        raise UsageError(
            f"verify takes a Dataset, not {type(dataset).__name__}.\n"
            "  Make one with byheart.Dataset.read(path) or byheart.Dataset.from_pairs(pairs).",
            given_type=type(dataset).__name__,
        )
    if memoriser.task != dataset.task:
        raise UsageError(
            f"the model was made for the task {memoriser.task}, but this data set is for {dataset.task}.\n"
            f"  Read the data with task={memoriser.task!r}.",
            model=memoriser.task,
            data=dataset.task,
        )


def _check_sample(dataset: Dataset | DatasetPieces, sample: int) -> None:
    if dataset.task == "distribution":
        wanted = "omitted: for the task distribution, all contexts are checked"
    elif not 0 < sample < dataset.n_samples:
        wanted = f"at least 1 and less than {dataset.n_samples:,}, the number of samples"
    else:
        return
    raise UsageError(f"sample = {sample:,} must be {wanted}.", sample=sample)


def _check_evaluator(memoriser: Memoriser, backend: str, device: str) -> None:
    # next-token distributions are computed only by PyTorch
    backends = ("module",) if memoriser.task == "distribution" else memoriser.network.backends
    if backend not in backends:  # the evaluation would use another one
        raise UsageError(
            f"backend {backend!r} is not one of the evaluators of this model and task: {', '.join(backends)}.",
            backend=backend,
        )
    if device == "cpu":
        return
    if backend not in ("module", "transformers"):
        raise UsageError(
            f"the backend {backend!r} runs only on the cpu, not on {device}.\n  Verify on the cpu.",
            device=device,
            backend=backend,
        )
    from byheart.process.devices import choose_device  # imports torch

    choose_device(device)  # refuses a device that is not there


def _digest_problems(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    words = {
        "dataset": "the data set is not the one of the stored certificate",
        "weights": "the weights are not the ones of the stored certificate",
        "model": "labels, tokenizer, task, use of token order, architecture or further files are not those of the "
        "stored certificate",
    }
    return [
        f"{words[name]}: the digest is {found[name][:16]}…, the certificate has {digest[:16]}…."
        for name, digest in expected.items()
        if digest != found[name]
    ]


def _disagreements(
    memoriser: Memoriser,
    dataset: Dataset,
    asked: EncodedInputs,
    answers: np.ndarray,
    rechecked: Drawn,
    how: Evaluation,
) -> list[str]:
    """Check the samples in `rechecked` again with the second evaluator. Return a sentence for each disagreement."""
    second = memoriser.network.second_backend
    again = memoriser.answer(asked.encoded[rechecked], backend=second, progress=how.progress)
    return [
        f"{WORDS[second]} and the {how.backend} evaluator disagree on sample {dataset.row(int(asked.asked[at]))}."
        for at, answer in zip(rechecked, again, strict=True)
        if not np.array_equal(answer, answers[at])
    ]


def _flat_answers(
    memoriser: Memoriser, dataset: Dataset, asked: EncodedInputs, answers: np.ndarray
) -> ForEachLabel:
    """Return the answered class for every label of `dataset`; `UNKNOWN` for samples that could not be encoded."""
    if memoriser.answers_last_token_only:
        got = np.full(dataset.n_samples, UNKNOWN, dtype=np.int64)
        got[asked.asked] = answers
        return got
    width = memoriser.network.seq_len
    table = np.full((dataset.n_samples, width), UNKNOWN, dtype=np.int64)
    table[asked.asked] = answers
    # sequences are padded on the left, so the labels of a sequence are the last ones of its row
    lengths = dataset.lengths
    starts = np.cumsum(lengths) - lengths
    owners = _owners(dataset)
    column = width - lengths[owners] + np.arange(int(lengths.sum())) - starts[owners]
    return np.where(column >= 0, table[owners, np.maximum(column, 0)], UNKNOWN)


def _owners(dataset: Dataset) -> ForEachLabel:
    """Return, for each label, the index of its sample."""
    if dataset.task == "seq-to-seq":
        return np.repeat(np.arange(dataset.n_samples), dataset.lengths)
    return np.arange(dataset.n_samples)


def _wrong_sample(
    memoriser: Memoriser, dataset: Dataset, asked: EncodedInputs, label: int, got: int, owners: ForEachLabel
) -> WrongSample:
    sample = int(owners[label])
    shown = dataset.describe_input(sample)
    if dataset.task == "seq-to-seq":
        shown += f", token {label - int(np.searchsorted(owners, sample)) + 1}"
    expected = dataset.label_names[int(dataset.labels[label])]
    reason = asked.refused.get(sample)
    if reason is None and expected not in memoriser.label_names:
        answer = "that the input is unknown" if got == UNKNOWN else repr(memoriser.label_names[got])
        reason = f"the model does not have this label; it answers {answer}"
    return WrongSample(
        number=dataset.row(sample),
        input=shown,
        expected=expected,
        got=None if got == UNKNOWN else memoriser.label_names[got],
        reason=reason,
    )
