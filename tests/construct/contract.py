"""What every construction promises, as checks that name the construction they fail for.

`test_contract` runs each check on every name of the registry, and on throw-away constructions that break one promise each.
Compiled models are shared by all checks of a run.
"""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from byheart import theorems
from byheart.construct.registry import Example, Method, get
from byheart.data import Dataset, TokenSequences
from byheart.data.dataset import Task
from byheart.data.generators import random_labels
from byheart.data.shape import DataShape
from byheart.errors import (
    AssumptionViolated,
    ConflictingLabels,
    CorruptModel,
    DataError,
    NonFiniteInput,
    UsageError,
)
from byheart.model import Model
from byheart.network import size_of_network
from byheart.pipeline import compile, load
from byheart.verify.verifier import verify_model
from tests.adversarial import ADVERSARIAL
from tests.effort import at_most_calls

from .rival_data import answers

ROOT = Path(__file__).resolve().parents[2]
FILES = ("model.safetensors", "model.json", "certificate.json")
N_CHANGED = 6  # tensors of a model that are tampered with, one byte each
OUR_OWN = "byheart:"  # how the source of a construction begins that no paper describes
UNMEMORISABLE = {
    "conflicting-labels": ConflictingLabels,
    "not-a-number": NonFiniteInput,
    "infinite": NonFiniteInput,
}


# --- what it brings -------------------------------------------------------------------------------------


def example_of(name: str) -> Example:
    """The example of a construction: at least two samples and two classes, so that something can be wrong."""
    make = get(name).example
    assert make is not None, f"{name} brings no example: give its Method `example`"
    example = make()
    data = example.data
    assert data.task in get(name).tasks, (
        f"{name}: its example has the task {data.task}, which it does not offer"
    )
    assert data.n_samples >= 2, f"{name}: its example has one sample; give it two"
    assert data.n_classes >= 2, f"{name}: its example has one class; give it two"
    return example


def check_options(name: str) -> None:
    """Its options are a frozen dataclass with defaults, and an unknown one is refused."""
    method = get(name)
    parameters = getattr(method.options, "__dataclass_params__", None)
    assert parameters is not None, f"{name}: its options are not a dataclass"
    assert parameters.frozen, f"{name}: its options can be changed; freeze the dataclass"
    lacking = [
        each.name
        for each in dataclasses.fields(method.options)
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    ]
    assert not lacking, f"{name}: its options {lacking} have no default"
    with pytest.raises(UsageError, match=name):
        method.read_options({"no_such_option": 1})


def check_page(name: str, docs: Path = ROOT / "docs") -> None:
    """A page of the docs describes it, and the page for choosing a construction lists it."""
    page = get(name).page
    assert page is not None, f"{name} names no page of the docs: give its Method `page`"
    for each in (page, "choose.md"):
        path = docs / each
        assert path.is_file(), f"{name}: docs/{each} does not exist"
        assert f"`{name}`" in path.read_text(encoding="utf-8"), f"docs/{each} does not mention `{name}`"


@cache
def _index() -> dict[str, theorems.Entry]:
    return {entry.id: entry for entry in theorems.index()}


def check_statements(name: str) -> None:
    """It names the statements it rests on, each realised and checked; only what no paper has may do without."""
    method = get(name)
    assert method.source, f"{name} has no source"
    if method.source.startswith(OUR_OWN):
        return
    assert method.statements, f"{name} names no statement of the theorem index: give its Method `statements`"
    for each in method.statements:
        assert each in _index(), f"{name} names {each}, which the theorem index does not have"
        state = _index()[each].state
        assert state == "done", f"{name} names {each}, which is {state}: realise it and check it in a test"


# --- what it does ---------------------------------------------------------------------------------------


def compile_example(name: str, seed: int = 0) -> Model:
    example = example_of(name)
    return compile(example.data, method=name, seed=seed, **example.options)


@cache
def shared_model(name: str) -> Model:
    return compile_example(name)


def check_verified(name: str) -> None:
    """Every label of its example is answered right, and the model says who made it, for what and how."""
    example, model = example_of(name), shared_model(name)
    certificate = model.certificate
    assert certificate is not None
    assert certificate.holds, f"{name} does not memorise its example: {certificate.problems}"
    assert certificate.wrong == 0, f"{name}: {certificate.wrong} of its example are wrong"
    expected = len(example.data.contexts()) if example.data.task == "distribution" else example.data.n_samples
    assert certificate.checked == expected, f"{name}: only {certificate.checked} of {expected} were checked"
    assert model.record["method"] == name, f"{name} calls itself {model.record['method']}"
    assert model.record["theorem"], f"{name} does not say which theorem it is"
    assert model.precision in get(name).precisions, f"{name} built {model.precision}, which it does not offer"


def check_precisions(name: str) -> None:
    """Asked for a precision it offers, it builds that one."""
    example = example_of(name)
    for precision in get(name).precisions:
        if precision == shared_model(name).precision:
            continue
        options = {key: value for key, value in example.options.items() if key != "precision"}
        try:
            model = compile(example.data, method=name, precision=precision, **options)
        except AssumptionViolated as refusal:
            said = str(refusal)
            assert precision in said, f"{name} refuses its example in {precision} without saying why: {said}"
        else:
            assert model.precision == precision, (
                f"{name} was asked for {precision} and built {model.precision}"
            )


def check_size(name: str) -> None:
    """The size it plans is the size it builds, and a size for 10^12 samples is told at once."""
    method, example = get(name), example_of(name)
    shape, precision = DataShape.of(example.data), shared_model(name).precision
    options = method.read_options(method.fitting_options(shape, precision, example.options))
    plan = method.plan(example.data, options, np.random.default_rng(0), None)
    told, built = plan.size, size_of_network(plan.emit(None).memoriser.network)
    assert told == built, f"{name} plans {told} and builds {built}"
    assert built == shared_model(name).size, f"{name} builds another size than compile: {built}"
    large = dataclasses.replace(shape, n_samples=10**12, n_labels=None, n_contexts=None, n_last_tokens=None)
    # no data of that shape may be taken: that too is told at once
    with at_most_calls(20_000_000), suppress(AssumptionViolated):
        method.size_of(large, method.read_options(example.options))


def check_folder(name: str, place: Path) -> None:
    """Saved, loaded and saved again it is the same to the last byte, and answers alike."""
    model = shared_model(name)
    model.save(place / "first")
    again = load(place / "first")
    again.save(place / "second")
    for file in FILES:
        same = (place / "first" / file).read_bytes() == (place / "second" / file).read_bytes()
        assert same, f"{name}: {file} changes when it is loaded and saved"
    assert again.size == model.size
    certificate = verify_model(again, example_of(name).data)
    assert certificate.holds, f"{name}: the loaded model fails: {certificate.problems}"


def check_tampering(name: str, place: Path) -> None:
    """A changed weight is not loaded, and a changed label is not verified."""
    shared_model(name).save(place / "model")
    weights = place / "model" / FILES[0]
    whole, tensors = weights.read_bytes(), load_file(weights)
    rng = np.random.default_rng(0)
    filled = [tensor for tensor, values in tensors.items() if values.size]
    for tensor in rng.permutation(filled)[:N_CHANGED]:
        flat = tensors[tensor].reshape(-1).view(np.uint8)
        at = int(rng.integers(flat.size))
        flat[at] ^= 2
        save_file(tensors, weights)
        flat[at] ^= 2
        try:
            load(place / "model")
        except CorruptModel:
            continue
        raise AssertionError(f"{name}: a change of byte {at} of {tensor} is not noticed")
    weights.write_bytes(whole)
    certificate = verify_model(load(place / "model"), changed(example_of(name).data))
    assert not certificate.holds, f"{name}: changed data are not noticed"
    assert certificate.wrong > 0, f"{name}: changed data are not counted as wrong"


def changed(data: Dataset) -> Dataset:
    """The same data set with every label moved by one, or for documents with every token."""
    if data.task != "distribution":
        return data.with_labels((data.labels + 1) % data.n_classes)
    assert isinstance(data.inputs, TokenSequences)
    ids = (data.inputs.ids + 1) % data.inputs.n_vocab
    return dataclasses.replace(data, inputs=dataclasses.replace(data.inputs, ids=ids))


def check_seed(name: str) -> None:
    """The same seed gives the same weights, the same record and the same certificate."""
    first, second = shared_model(name), compile_example(name)
    assert first.certificate is not None
    assert second.certificate is not None
    same = first.certificate.weights_digest == second.certificate.weights_digest
    assert same, f"{name} gives other weights for the same seed"
    assert first.record == second.record, f"{name} keeps another record for the same seed"


# --- data made to break it ------------------------------------------------------------------------------


def task_for_adversaries(name: str) -> Task:
    return next(task for task in get(name).tasks if task != "distribution")


@cache
def adversary(name: str, task: Task) -> Dataset:
    """The adversary, its inputs labelled anew where the task is not its own."""
    data = ADVERSARIAL[name](7)
    if data.task == task:
        return data
    if ADVERSARIAL[name].refused:  # the fault lies in its own labels or values: one label more often
        per_sample = data.seq_len if task == "seq-to-seq" else 1
        return Dataset(
            data.inputs, np.repeat(data.labels, per_sample), task, data.label_names, None, ordered=False
        )
    ordered = data.ordered and task != "set"
    relabelled = random_labels(data.inputs, data.n_classes, np.random.default_rng(7), task, ordered)
    return dataclasses.replace(relabelled, tokenizer=data.tokenizer)


def check_adversary(name: str, which: str, task: Task | None = None, precision: str | None = None) -> bool:
    """The adversary is memorised to the last label, or refused with the reason; True if it was memorised.

    What nothing memorises is refused as such. Exact arithmetic has no other reason than the shape of the data, so it
    takes whatever data it estimates a size for.
    """
    method = get(name)
    task = task or task_for_adversaries(name)
    precision = precision or method.precisions[0]
    data = adversary(which, task)
    try:
        data.require_finite()
        data.require_consistent()
        options = method.read_options({}, precision)
        construction = method.plan(data, options, np.random.default_rng(0), None).emit(None)
    except DataError as refusal:
        _check_refusal(method, precision, which, data, refusal)
        return False
    assert which not in UNMEMORISABLE, f"{name} memorises {which}, which nothing can"
    assert construction.memoriser.network.precision == precision, (
        f"{name} built another precision for {which}"
    )
    expected = construction.memoriser.expected_labels(data)  # classes may be numbered by frequency
    n_wrong = int((answers(construction, data) != expected).sum())
    assert n_wrong == 0, f"{name} gets {n_wrong} labels of {which} wrong"
    return True


def _check_refusal(method: Method, precision: str, which: str, data: Dataset, refusal: DataError) -> None:
    name, said = method.name, str(refusal)
    if which in UNMEMORISABLE:
        assert isinstance(refusal, UNMEMORISABLE[which]), (
            f"{name} refuses {which} as {type(refusal).__name__}"
        )
        assert "row" in said, f"{name} does not say which row of {which} is wrong: {said}"
        return
    assert isinstance(refusal, AssumptionViolated), f"{name} refuses {which} as {type(refusal).__name__}"
    assert re.search(r"\n {2,}\S", said), (
        f"{name} refuses {which} and does not say what to do instead: {said}"
    )
    # a theorem of all data; others tell what data probably take
    if precision == "exact" and method.statements:
        assert not _takes(method, data), f"{name} refuses {which}, though it told a size for it: {said}"


def _takes(method: Method, data: Dataset) -> bool:
    """Whether data of this shape are taken, by what the construction says of sizes."""
    try:
        method.estimate(DataShape.of(data))
    except AssumptionViolated:
        return False
    return True
