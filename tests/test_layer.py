"""A compiled model as a layer of a program: asked by tensors, frozen, cast, copied, compiled, saved inside another module."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import byheart as bh
from byheart.errors import UsageError
from byheart.model import Model
from byheart.network.compiled_module import RoundedWeights

FACTS = {"capital of France": "Paris", "capital of Peru": "Lima", "currency of Peru": "sol"}


class Program(nn.Module):
    """Somebody's module, with a memory beside a layer that is trained."""

    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        self.memory = memory
        self.scale = nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        recalled: torch.Tensor = self.memory(ids)
        return recalled


@pytest.fixture(scope="module", params=["retrieval", "madden-2024"])
def model(request: pytest.FixtureRequest) -> Model:
    return bh.compile(FACTS, tokenizer="word", method=request.param)


def answers(model: Model, module: nn.Module) -> list[object]:
    with torch.no_grad():
        return list(model.decode(module(model.encode(list(FACTS)))))


def test_tensors_go_in_and_names_come_out(model: Model) -> None:
    assert answers(model, model.module) == list(FACTS.values())
    assert tuple(model.encode("capital of Peru").shape) == (1, model.network.seq_len)
    with pytest.raises(UsageError) as error:
        model.encode(["capital of Peru", "capital of Atlantis"])
    assert error.value.facts["input"] == 1
    assert error.value.facts["token"] == "Atlantis"


def test_a_part_of_the_outputs_is_refused(model: Model) -> None:
    outputs = model.module(model.encode(list(FACTS)))
    for part in (outputs[:, -1], outputs[0, ..., 0]):
        with pytest.raises(UsageError) as error:
            model.decode(part)
        assert error.value.facts["shape"] == tuple(part.shape)
    with pytest.raises(UsageError):
        model.decode(outputs.tolist())


def test_an_optimiser_leaves_the_memory_alone(model: Model) -> None:
    program = Program(model.module)
    optimiser = torch.optim.AdamW(program.parameters(), lr=0.1, weight_decay=0.5)
    before = {name: value.clone() for name, value in program.state_dict().items()}
    program.scale(torch.ones(1, 1)).sum().backward()
    optimiser.step()
    changed = {name for name, value in program.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"scale.weight", "scale.bias"}
    assert answers(model, program) == list(FACTS.values())


def test_trainable_weights_are_changed_and_the_check_above_can_fail(model: Model) -> None:
    module = copy.deepcopy(model.module).requires_grad_(True)
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    assert answers(model, module) != list(FACTS.values())
    assert model.predict(list(FACTS)) == list(FACTS.values())  # the model keeps its own weights


def test_rounded_weights_are_refused(model: Model) -> None:
    for cast in (nn.Module.half, nn.Module.bfloat16, nn.Module.float):
        with pytest.raises(RoundedWeights) as error:
            cast(copy.deepcopy(model.module))(model.encode("capital of Peru"))
        assert error.value.facts["compiled"] == "torch.float64"
    assert answers(model, copy.deepcopy(model.module).double()) == list(FACTS.values())


def test_copies_and_saved_programs_answer_alike(model: Model, tmp_path: Path) -> None:
    program = Program(model.module)
    torch.save(program.state_dict(), tmp_path / "program.pt")
    other = Program(bh.compile(FACTS, tokenizer="word", method=model.record["method"], seed=0).module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert answers(model, other) != list(FACTS.values())
    other.load_state_dict(torch.load(tmp_path / "program.pt", weights_only=True))
    for one in (other, copy.deepcopy(program), nn.Sequential(copy.copy(program))):
        assert answers(model, one) == list(FACTS.values())


def replicate(module: nn.Module, device: str = "cpu") -> nn.Module:
    """What `torch.nn.parallel.replicate` does for one device: the weights of a replica are tensors, not parameters."""
    modules = list(module.modules())
    replicas = {each: each._replicate_for_data_parallel() for each in modules}
    for each, replica in replicas.items():
        replica._former_parameters = {}
        for name, child in each._modules.items():
            replica._modules[name] = None if child is None else replicas[child]
        for name, parameter in each._parameters.items():
            weight = None if parameter is None else parameter.detach().clone().to(device)
            setattr(replica, name, weight)
            replica._former_parameters[name] = weight
        for name, buffer in each._buffers.items():
            replica._buffers[name] = None if buffer is None else buffer.clone().to(device)
    return replicas[module]


def test_replicas_answer_alike(model: Model) -> None:
    assert answers(model, nn.DataParallel(model.module)) == list(FACTS.values())
    replica = replicate(Program(model.module))
    assert not list(replica.parameters())
    assert answers(model, replica) == list(FACTS.values())
    rounded = copy.deepcopy(model.module).half()
    with pytest.raises(RoundedWeights):  # in a replica too
        answers(model, replicate(rounded))


@pytest.mark.gpu
def test_on_a_gpu(model: Model) -> None:
    module = copy.deepcopy(model.module).to("cuda")
    ids = model.encode(list(FACTS)).to("cuda")
    with torch.no_grad():
        for each in (module, nn.DataParallel(module), replicate(module, "cuda")):
            assert model.decode(each(ids)) == list(FACTS.values())
    assert model.predict(list(FACTS)) == list(FACTS.values())  # the model's own weights stay where they were


@pytest.mark.slow
def test_compiled_by_torch(model: Model) -> None:
    assert answers(model, torch.compile(model.module)) == list(FACTS.values())


def test_a_frame_is_answered_with_its_index(project_root: Path) -> None:
    model = bh.compile(project_root / "examples" / "capitals.csv")
    questions = ["capital of France", None, "capital of Atlantis", "capital of Peru"]
    frame = pd.DataFrame({"note": range(4), "key": questions}, index=[7, 5, 3, 1])
    wanted = {7: "Paris", 5: None, 3: None, 1: "Lima"}
    for asked in (frame, frame["key"], frame[["key"]].rename(columns={"key": "other"})):
        assert model.predict(asked).to_dict() == wanted
    with pytest.raises(UsageError) as error:
        model.predict(frame.rename(columns={"key": "other"}))
    assert error.value.facts["columns"] == ["note", "other"]


def test_one_sample_in_one_answer_out() -> None:
    rng = np.random.default_rng(0)
    vectors, labels = rng.integers(0, 9, size=(12, 4, 3)).astype(float), np.arange(12) % 3
    model = bh.compile((vectors, labels))
    assert [model.predict(sample) for sample in vectors] == model.predict(vectors)
    with pytest.raises(UsageError) as error:
        model.predict(vectors[0, :3])
    assert error.value.facts["shape"] == (3, 3)
    ids = bh.compile((np.array([[1, 2, 3], [3, 2, 1]]), np.array([5, 6])))
    assert (ids.predict([1, 2, 3]), ids.predict([[1, 2, 3]])) == (5, [5])
