"""Check a network on every sample of a data set. Shares no code with the constructions it judges."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from byheart.data.dataset import Dataset
from byheart.errors import UsageError
from byheart.network.memory import UNKNOWN, Backend, Memory, Progress
from byheart.network.size import size_of_network
from byheart.verify.certificate import Certificate, DatasetNumbers, WrongSample
from byheart.verify.digest import weights_digest
from byheart.verify.distributions import check_distributions
from byheart.verify.encoded_inputs import Questions, questions
from byheart.verify.origin import origin_of
from byheart.verify.versions import versions

MAX_WRONG_SHOWN = 5
"""Wrong samples a certificate shows in full; all are counted."""

PACKAGES = {
    "exact": ("numpy", "numba"),
    "interpreter": ("numpy",),
    "equations": ("numpy",),
    "module": ("numpy", "torch"),
    "transformers": ("numpy", "torch", "transformers"),
}


def verify(
    memory: Memory,
    dataset: Dataset,
    *,
    record: Mapping[str, Any] | None = None,
    expected_digests: Mapping[str, str] | None = None,
    backend: Backend | None = None,
    device: str = "cpu",
    n_interpreted: int = 3,
    progress: Progress | None = None,
) -> Certificate:
    """Ask `memory` every sample of `dataset` and compare its answers with the labels, by name.

    backend: `exact` unless given for exact networks (no rounding anywhere), `module` for float networks.
    device: where PyTorch runs float networks.
    n_interpreted: samples asked once more of the slow interpreter, which shares no code with the exact
        evaluator. They are drawn with a fixed seed. A disagreement is a problem of the certificate.
    record: how the model came about: `method`, `theorem`, `theorem_size`, `assumptions` and the `dataset`
        these were checked on.
    expected_digests: `dataset` and `weights` as an earlier certificate has them. A difference is a problem.

    What does not hold is reported, never raised. `UsageError` only where the comparison makes no sense:
    another task or another kind of tokenizer.
    """
    if memory.task != dataset.task:
        raise UsageError(
            f"the model was made for the task {memory.task}; this data set is for {dataset.task}.\n"
            f"  Read the data with task={memory.task!r}.",
            model=memory.task,
            data=dataset.task,
        )
    if dataset.task == "distribution":
        return _verify_distributions(memory, dataset, record or {}, expected_digests or {}, device, progress)
    start = time.perf_counter()
    origin = origin_of(record or {})
    backend = backend or memory.network.backend
    asked = questions(memory, dataset.inputs, dataset.tokenizer)
    _check_device(backend, device)
    answers = memory.answer(asked.encoded, backend=backend, device=device, progress=_part(progress, 0, 2))
    n_rechecked = n_interpreted if memory.network.second_backend is not None else 0
    rechecked = _drawn(len(asked.asked), n_rechecked)
    digests = {"dataset": dataset.digest, "weights": weights_digest(memory.network)}
    problems = [
        *_digest_problems(digests, expected_digests or {}),
        *_disagreements(memory, dataset, asked, answers, rechecked, backend, _part(progress, 1, 2)),
    ]
    got = _flat_answers(memory, dataset, asked, answers)
    expected = memory.expected(dataset)
    wrong_labels = np.flatnonzero((got != expected) | (expected == UNKNOWN))
    owners = _owners(dataset)
    wrong_samples, first = np.unique(owners[wrong_labels], return_index=True)
    if len(wrong_samples):
        problems.append(f"{len(wrong_samples):,} of {dataset.n_samples:,} samples are answered wrongly.")
    shown = [
        _wrong_sample(memory, dataset, asked, int(wrong_labels[at]), int(got[wrong_labels[at]]), owners)
        for at in first[:MAX_WRONG_SHOWN]
    ]
    return Certificate(
        holds=not problems,
        dataset=dataset_numbers(dataset),
        weights_digest=digests["weights"],
        size=size_of_network(memory.network),
        checked=dataset.n_samples,
        wrong=len(wrong_samples),
        wrong_samples=tuple(shown),
        problems=tuple(problems),
        backend=backend,
        rechecked_by_interpreter=len(rechecked),
        seconds=round(time.perf_counter() - start, 3),
        method=origin.method,
        theorem=origin.theorem,
        assumptions=origin.assumptions if origin.dataset_digest == digests["dataset"] else (),
        theorem_size=origin.theorem_size,
        versions=versions(*PACKAGES[backend]),
    )


def _verify_distributions(
    memory: Memory,
    dataset: Dataset,
    record: Mapping[str, Any],
    expected_digests: Mapping[str, str],
    device: str,
    progress: Progress | None,
) -> Certificate:
    """The same for next-token distributions: what is checked are the distinct contexts of the documents."""
    start = time.perf_counter()
    origin = origin_of(record)
    _check_device("module", device)
    checked = check_distributions(
        memory, dataset, record, n_shown=MAX_WRONG_SHOWN, device=device, progress=progress
    )
    digests = {"dataset": dataset.digest, "weights": weights_digest(memory.network)}
    problems = (*_digest_problems(digests, expected_digests), *checked.problems)
    return Certificate(
        holds=not problems,
        dataset=dataset_numbers(dataset),
        weights_digest=digests["weights"],
        size=size_of_network(memory.network),
        checked=checked.numbers.n_contexts,
        wrong=len(checked.wrong),
        wrong_samples=checked.shown,
        problems=problems,
        backend="module",
        rechecked_by_interpreter=0,
        seconds=round(time.perf_counter() - start, 3),
        method=origin.method,
        theorem=origin.theorem,
        assumptions=origin.assumptions if origin.dataset_digest == digests["dataset"] else (),
        theorem_size=origin.theorem_size,
        versions=versions(*PACKAGES["module"]),
        distribution=checked.numbers,
    )


@runtime_checkable
class Checkable(Protocol):
    """What `verify_model` needs of a model."""

    @property
    def memory(self) -> Memory:
        """The network with its vocabulary and label names."""

    @property
    def record(self) -> Mapping[str, Any]:
        """How it came about."""

    @property
    def certificate(self) -> Certificate | None:
        """What was found when it was checked before."""


def verify_model(model: Checkable, data: Dataset, **options: Any) -> Certificate:
    """Check every sample of `data` on `model`; the options are those of `verify`.

    The new certificate does not hold if data or weights are not those of the model's own certificate.
    """
    earlier = model.certificate
    expected = {}
    if earlier is not None:
        expected = {"dataset": earlier.dataset.digest, "weights": earlier.weights_digest}
    return verify(model.memory, data, record=model.record, expected_digests=expected, **options)


def dataset_numbers(dataset: Dataset) -> DatasetNumbers:
    """The numbers of `dataset` that a certificate keeps."""
    return DatasetNumbers(
        dataset.digest,
        dataset.task,
        dataset.n_samples,
        dataset.n_labels,
        dataset.n_classes,
        dataset.seq_len,
        dataset.vocab,
        dataset.dim,
        dataset.label_bits,
    )


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """The same numbers, ready for JSON."""
    return asdict(dataset_numbers(dataset))


def _drawn(n_asked: int, n_wanted: int) -> Int[np.ndarray, " n_drawn"]:
    """Places of samples to ask again; the seed is fixed so that a certificate can be made again."""
    return np.sort(np.random.default_rng(0).permutation(n_asked)[:n_wanted])


def _part(progress: Progress | None, part: int, n_parts: int) -> Progress | None:
    """Progress of one of several parts of equal weight, told as progress of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(part * total + done, n_parts * total)


def _check_device(backend: Backend, device: str) -> None:
    if device == "cpu":
        return
    if backend not in ("module", "transformers"):
        raise UsageError(f"exact arithmetic runs on the cpu, not on {device}.", device=device)
    import torch

    if not torch.cuda.is_available():
        raise UsageError(f"there is no {device} device here.\n  Verify on the cpu.", device=device)


def _digest_problems(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    words = {
        "dataset": "the data set is not the one the stored certificate speaks of",
        "weights": "the weights are not the ones the stored certificate speaks of",
    }
    return [
        f"{words[name]}: its digest is {found[name][:16]}…, the certificate has {digest[:16]}…."
        for name, digest in expected.items()
        if digest != found[name]
    ]


def _disagreements(
    memory: Memory,
    dataset: Dataset,
    asked: Questions,
    answers: np.ndarray,
    rechecked: Int[np.ndarray, " n_drawn"],
    backend: Backend,
    progress: Progress | None,
) -> list[str]:
    """Ask some samples again, one at a time because each may take seconds."""
    problems = []
    for done, place in enumerate(rechecked, start=1):
        again = memory.answer(asked.encoded[[place]], backend=memory.network.second_backend)
        if not np.array_equal(again[0], answers[place]):
            row = dataset.row(int(asked.asked[place]))
            problems.append(f"the slow interpreter and the {backend} evaluator disagree on sample {row}.")
        if progress is not None:
            progress(done, len(rechecked))
    return problems


def _flat_answers(
    memory: Memory, dataset: Dataset, asked: Questions, answers: np.ndarray
) -> Int[np.ndarray, " n_labels"]:
    """The answered class of every label of `dataset`, `UNKNOWN` for samples that could not be asked."""
    if memory.answers_last_token_only:
        got = np.full(dataset.n_samples, UNKNOWN, dtype=np.int64)
        got[asked.asked] = answers
        return got
    width = memory.network.seq_len
    table = np.full((dataset.n_samples, width), UNKNOWN, dtype=np.int64)
    if len(asked.asked):
        table[asked.asked] = answers
    # sequences are filled up on the left, so the labels of a sequence are the last ones of its row
    lengths = dataset.lengths
    starts = np.cumsum(lengths) - lengths
    owners = _owners(dataset)
    column = width - lengths[owners] + np.arange(int(lengths.sum())) - starts[owners]
    return np.where(column >= 0, table[owners, np.maximum(column, 0)], UNKNOWN)


def _owners(dataset: Dataset) -> Int[np.ndarray, " n_labels"]:
    """The sample each label belongs to."""
    if dataset.task == "seq-to-seq":
        return np.repeat(np.arange(dataset.n_samples), dataset.lengths)
    return np.arange(dataset.n_samples)


def _wrong_sample(
    memory: Memory,
    dataset: Dataset,
    asked: Questions,
    label: int,
    got: int,
    owners: Int[np.ndarray, " n_labels"],
) -> WrongSample:
    sample = int(owners[label])
    shown = dataset.describe_input(sample)
    if dataset.task == "seq-to-seq":
        shown += f", token {label - int(np.searchsorted(owners, sample)) + 1}"
    expected = dataset.label_names[int(dataset.labels[label])]
    reason = asked.refused.get(sample)
    if reason is None and expected not in memory.label_names:
        answer = "nothing it knows" if got == UNKNOWN else repr(memory.label_names[got])
        reason = f"a label the model does not have; it answers {answer}"
    return WrongSample(
        number=dataset.row(sample),
        input=shown,
        expected=expected,
        got=None if got == UNKNOWN else memory.label_names[got],
        reason=reason,
    )
