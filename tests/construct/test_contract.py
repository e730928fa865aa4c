"""One contract for all constructions: found through the registry, checked without exception, failed by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import count, product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from byheart.construct import registry
from byheart.construct.registry import Example, Method, get, names
from byheart.data.dataset import Task
from byheart.data.generators import random_tokens
from byheart.errors import AssumptionViolated, DoesNotHold
from byheart.model import Model
from byheart.network import SparseMatrix
from byheart.network.size import Size
from byheart.pipeline import load
from byheart.program.construction import Construction, Plan
from tests.adversarial import ADVERSARIAL

from . import contract
from .throw_away import METHOD as THROW_AWAY

NAMES = names()


BRINGS = (contract.check_options, contract.check_page, contract.check_statements)
KEEPS = (contract.check_verified, contract.check_precisions, contract.check_size, contract.check_seed)
STORED = (contract.check_folder, contract.check_tampering)
Register = Callable[..., str]
NUMBERS = count()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", BRINGS)
def test_it_brings(check: Callable[[str], None], name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", KEEPS)
def test_it_keeps(check: Callable[[str], None], name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", STORED)
def test_it_is_stored(check: Callable[[str, Path], None], name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


# --- data made to break it ------------------------------------------------------------------------------


def is_slow(which: str, method: Method, task: Task, precision: str) -> bool:
    """The default run takes each construction in its first precision and on its first task.

    A table of a million tokens takes seconds to make, and weights of a thousand bits seconds to run: one exact construction
    is enough for these.
    """
    if task != contract.task_for_adversaries(method.name) or precision != method.precisions[0]:
        return True
    is_long = which == "huge-and-denormal" and precision == "exact" and method.name != NAMES[0]
    return is_long or which == "sparse-vocabulary"


ADVERSARIES = [
    pytest.param(
        name,
        which,
        task,
        precision,
        marks=[pytest.mark.slow] if is_slow(which, get(name), task, precision) else [],
    )
    for name in NAMES
    for which, task, precision in product(ADVERSARIAL, get(name).tasks, get(name).precisions)
    if task != "distribution"
]


@pytest.mark.parametrize(("name", "which", "task", "precision"), ADVERSARIES)
def test_an_adversary_is_memorised_or_refused_with_the_reason(
    name: str, which: str, task: Task, precision: str
) -> None:
    contract.check_adversary(name, which, task, precision)


def test_floats_do_not_refuse_everything() -> None:
    """Exact constructions refuse nothing that can be memorised, by the test above; floats the few that need more bits."""
    taken = [
        which
        for which in ADVERSARIAL
        if which != "sparse-vocabulary" and contract.check_adversary("kajitsuka-sato-2023", which)
    ]
    assert len(taken) > 15


# --- a construction that breaks a promise fails by name -------------------------------------------------


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Enter the throw-away construction into the registry, changed, under a name that no check has seen."""

    def enter(**changes: Any) -> str:
        name = f"throw-away-{next(NUMBERS)}"
        module = ModuleType(name)
        plan = changes.pop("plan", THROW_AWAY.plan)

        def plan_by_name(*arguments: Any) -> Any:
            made = plan(*arguments)
            return replace(made, method=name)

        kept = {field.name: getattr(THROW_AWAY, field.name) for field in fields(Method)}
        given = {**kept, "name": name, "plan": plan_by_name, **changes}
        module.METHOD = Method(**{key: value for key, value in given.items() if value is not None})
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(registry._MODULES, name, name)
        return name

    return enter


def changed_plan(change: Callable[[Construction], Plan]) -> Callable[..., Plan]:
    return lambda *arguments: change(THROW_AWAY.plan(*arguments))


def with_notes(made: Construction) -> Construction:
    drawn = {"drawn": float(np.random.default_rng().random())}  # not from the seed
    return replace(made, notes=drawn)


def silent(made: Construction) -> Construction:
    memoriser: Any = made.memoriser
    network = replace(memoriser.network, w_out=SparseMatrix.of(memoriser.network.w_out.shape, {}))
    return replace(made, memoriser=replace(memoriser, network=network))


@dataclass(frozen=True)
class Boasting(Construction):
    """A plan that tells a smaller size."""

    @property
    def size(self) -> Size:
        return replace(super().size, parameters_dense=1)


def boast(made: Construction) -> Construction:
    return Boasting(**{each.name: getattr(made, each.name) for each in fields(made)})


@dataclass
class Loose:
    """Options that can be changed."""

    copies: int = 1


def refuse(*_: object) -> Plan:
    raise AssumptionViolated("no.")


def refuse_politely(*_: object) -> Plan:
    raise AssumptionViolated("not these.\n  Take others.")


def test_the_throw_away_construction_keeps_all_of_it(register: Register, tmp_path: Path) -> None:
    name = register()
    for page in ("choose.md", "rivals.md"):
        (tmp_path / page).write_text(f"`{name}` is a throw-away.\n")
    contract.check_page(name, tmp_path)
    for check in (*BRINGS, *KEEPS):
        if check is not contract.check_page:
            check(name)
    for stored in STORED:
        stored(name, tmp_path)
    for which in ADVERSARIAL:
        contract.check_adversary(name, which)  # each is refused: no adversary has one token id a sample


@pytest.mark.parametrize(
    ("check", "changes", "words"),
    [
        (contract.check_verified, {"example": None}, "brings no example"),
        (
            contract.check_verified,
            {"example": lambda: Example(random_tokens(1, 1, 9, 2, seed=0))},
            "one sample",
        ),
        (contract.check_options, {"options": Loose}, "can be changed"),
        (contract.check_options, {"options": dict}, "not a dataclass"),
        (contract.check_page, {"page": None}, "names no page"),
        (contract.check_page, {"page": "nowhere.md"}, "docs/nowhere.md does not exist"),
        (contract.check_page, {}, "docs/rivals.md does not mention"),
        (contract.check_statements, {"source": "a paper", "statements": ()}, "names no statement"),
        (contract.check_statements, {"source": "a paper", "statements": ("KS25-T9",)}, "does not have"),
        (contract.check_verified, {"plan": changed_plan(silent)}, "does not memorise"),
        (contract.check_precisions, {"precisions": ("float64",)}, "another precision"),
        (contract.check_size, {"plan": changed_plan(boast)}, "plans"),
        (contract.check_seed, {"plan": changed_plan(with_notes)}, "another record"),
    ],
)
def test_what_it_lacks_is_said_by_name(
    register: Register, check: Callable[[str], None], changes: dict[str, Any], words: str
) -> None:
    name = register(**changes)
    with pytest.raises((AssertionError, DoesNotHold), match=rf"{name}.*{words}|{words}.*{name}"):
        check(name)


@pytest.mark.parametrize(
    ("plan", "words"), [(refuse, "does not say what to do"), (refuse_politely, "though it told a size")]
)
def test_a_refusal_without_a_reason_is_said_by_name(
    register: Register, plan: Callable[..., Plan], words: str
) -> None:
    name = register(plan=plan, size_of=lambda shape, options: Size(1, 1, 1, 1, 1, 1))
    with pytest.raises(AssertionError, match=rf"(?s){name} refuses length-one.*{words}"):
        contract.check_adversary(name, "length-one")


def test_what_storage_gets_wrong_is_said_by_name(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = register()
    monkeypatch.setattr(contract, "load", lambda path: load(path, check=False))
    with pytest.raises(AssertionError, match=rf"{name}: a change of byte \d+ of \w+ is not noticed"):
        contract.check_tampering(name, tmp_path)

    def forgetful(path: Path) -> Model:
        model = load(path)
        return replace(model, record={**model.record, "seed": 8})

    monkeypatch.setattr(contract, "load", forgetful)
    with pytest.raises(AssertionError, match=rf"{name}: model.json changes"):
        contract.check_folder(name, tmp_path / "folder")
