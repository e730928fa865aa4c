"""The module of every family inside other programs: under autocast, after casts and loads, and asked with wrong inputs."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import byheart as bh
from byheart.errors import UsageError
from byheart.model import Model
from byheart.network.compiled_module import RoundedWeights, freeze
from byheart.network.transformer.architecture import Precision, Transformer
from byheart.network.transformer.stored_module import to_stored_module
from tests.refusal import refused

FACTS = {f"{number:b}"[::-1]: number * 37 % 101 for number in range(64, 128)}
FAMILIES: dict[str, tuple[str, Precision]] = {
    "float64": ("auto", "float64"),
    "float32": ("auto", "float32"),
    "bfloat16": ("auto", "bfloat16"),
    "int8": ("auto", "int8"),
    "decoder": ("madden-2024", "float32"),
    "attention-only": ("dana-2024", "float64"),
    "llama": ("llama", "float32"),
}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    method, precision = FAMILIES[request.param]
    return bh.compile(FACTS, method=method, precision=precision)


def inputs_of(model: Model) -> torch.Tensor:
    assert model.network.n_vocab is not None
    return model.encode(list(FACTS)).clamp(max=model.network.n_vocab - (model.network.spec.family == "llama"))


def bits(module: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> bytes:
    with torch.no_grad():
        return module(inputs).numpy().tobytes()


def test_autocast_changes_no_bit(model: Model) -> None:
    inputs, module = inputs_of(model), model.module
    expected = bits(module, inputs)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert bits(module, inputs) == expected
            assert torch.is_autocast_enabled("cpu")  # it stays on for the rest of the program
            assert model.predict(list(FACTS)) == list(FACTS.values())


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        ("auto", "int8"),
        ("madden-2024", "float32"),
        ("dana-2024", "float32"),
        ("kajitsuka-sato-2025", "exact"),
    ],
)
def test_autocast_changes_no_weight_and_no_certificate(method: str, precision: Precision) -> None:
    facts = dict(list(FACTS.items())[:12])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = bh.compile(facts, method=method, precision=precision)
        found = bh.verify(model, bh.Dataset.from_pairs(facts.items()))
    again = bh.compile(facts, method=method, precision=precision)
    assert found.holds
    assert model.certificate is not None
    assert again.certificate is not None
    assert replace(model.certificate, seconds=0.0) == replace(again.certificate, seconds=0.0)


def test_the_stored_module_ignores_autocast() -> None:
    model = bh.compile(FACTS, precision="int8")
    assert isinstance(model.network, Transformer)
    module, inputs = to_stored_module(model.network), inputs_of(model)
    expected = bits(module, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert bits(module, inputs) == expected


def test_facts_are_located_under_autocast() -> None:
    model, fact = bh.compile(FACTS, precision="float32"), next(iter(FACTS))
    expected = [each.index for each in model.locate(fact)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert [each.index for each in model.locate(fact)] == expected


@pytest.mark.slow
def test_compiled_and_exported_modules_ignore_autocast_too() -> None:
    model = bh.compile(FACTS, precision="int8")
    module, inputs = model.module, inputs_of(model)
    expected = bits(module, inputs)
    compiled = torch.compile(copy.deepcopy(module), fullgraph=True)
    exported = torch.export.export(module, (inputs,)).module()
    for each in (compiled, exported):
        assert bits(each, inputs) == expected
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert bits(each, inputs) == expected
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(module, inputs)
    assert bits(traced, inputs) == expected


def test_a_module_without_values_gives_shapes(model: Model) -> None:
    inputs = inputs_of(model)
    shape = copy.deepcopy(model.module).to("meta")(inputs.to("meta")).shape
    assert shape == model.module(inputs).shape


def cast_back(model: Model) -> nn.Module:
    """The module after a cast to a narrower type and back."""
    dtype = next(model.module.parameters()).dtype
    return copy.deepcopy(model.module).half().to(dtype)


def test_a_cast_to_a_narrower_type_and_back_is_refused(model: Model) -> None:
    inputs, rounded = inputs_of(model), cast_back(model)
    saved = io.BytesIO()
    torch.save(rounded, saved)
    saved.seek(0)
    inside = nn.Sequential(copy.deepcopy(model.module))
    inside.half().double()
    for each in (
        rounded,
        copy.deepcopy(rounded),
        torch.load(saved, weights_only=False),
        rounded.double(),
        inside,
    ):
        with refused(RoundedWeights, compiled=str(next(model.module.parameters()).dtype)):
            each(inputs)


def test_loaded_weights_decide_whether_a_module_runs(model: Model) -> None:
    inputs, rounded = inputs_of(model), cast_back(model)
    expected = bits(model.module, inputs)
    saved = io.BytesIO()
    torch.save(nn.ModuleDict({"memory": rounded}).state_dict(), saved)
    saved.seek(0)
    other = nn.ModuleDict({"memory": copy.deepcopy(model.module)})
    other.load_state_dict(torch.load(saved, weights_only=True))
    with refused(RoundedWeights):  # the mark is saved with the weights
        other["memory"](inputs)
    other["memory"].load_state_dict(dict(list(model.module.state_dict().items())[1:]), strict=False)
    with refused(RoundedWeights):  # not all of them were loaded
        other["memory"](inputs)
    other["memory"].load_state_dict(model.module.state_dict())
    assert bits(other["memory"], inputs) == expected
    halved = copy.deepcopy(model.module).half()
    halved.load_state_dict(model.module.state_dict())  # this rounds them again
    with refused(RoundedWeights):
        halved.double()(inputs)
    halved.load_state_dict(model.module.state_dict(), assign=True)
    assert bits(halved, inputs) == expected


def test_casts_that_change_no_weight_are_allowed(model: Model) -> None:
    inputs = inputs_of(model)
    dtype = next(model.module.parameters()).dtype
    expected = bits(model.module, inputs)
    assert bits(copy.deepcopy(model.module).double().to(dtype), inputs) == expected
    simple = freeze(copy.deepcopy(model.network.module()))
    with torch.no_grad():
        for weights in simple.parameters():
            weights.round_().clamp_(-8, 8)
    expected = bits(simple, inputs)
    assert bits(simple.half().to(dtype), inputs) == expected  # float16 has these weights exactly


def test_what_is_not_a_tensor_of_token_ids_is_refused(model: Model) -> None:
    inputs, module = inputs_of(model)[:1], model.module
    with refused(UsageError, given_type="ndarray"):
        module(inputs.numpy())
    with refused(UsageError, "n_ids", lowest=-1, largest=-1):
        module(torch.full_like(inputs, -1))
    with refused(UsageError, "n_ids", lowest=999, largest=999):
        module(torch.full_like(inputs, 999))


def test_vectors_must_be_a_tensor_too() -> None:
    vectors = np.arange(24.0).reshape(4, 3, 2)
    model = bh.compile((vectors, np.arange(4)))
    assert model.decode(model.module(model.encode(vectors))) == [0, 1, 2, 3]
    with refused(UsageError, given_type="ndarray"):
        model.module(vectors)
