"""A model trained in a stack of mixed sizes is the model trained alone.

The tolerance: padding adds exact zeros, so a stack differs from a solo run only by the order in which matrix products
sum their terms. One step then differs by a few units of rounding, u = 2^-53; Adam divides by √v, so a step moves a weight
by at most the learning rate and a relative error ε of the gradient moves it by at most 2·ε·rate. Over T steps a
Lipschitz factor L per step amplifies this to at most T·c·u·L^T; with T = 16 and c·L^T below 10^5 (seen: below 10^2) the
loss agrees to 10^-9 relative, while a leak of padded weights shows at the size of the learning rate.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from byheart.errors import UsageError
from byheart.measure.families import ModelConfig
from byheart.measure.parameter_block import ParameterBlock
from byheart.measure.recipe import PassRule, Training
from byheart.measure.stack import make_stack
from byheart.measure.trainer import Outcome, _milestones, train
from tests.measure.problems import CASES, Case, pairs

TOLERANCE = 1e-9
STEPS = 16


def trainings_of(case: Case, **changes: object) -> list[Training]:
    settings = {
        "steps": STEPS,
        "dtype": "float64",
        "record_every": 1,
        "optimiser": "adamw",
        "weight_decay": 0.01,
    }
    return [
        Training(**(settings | {"learning_rate": 1e-3 * (1 + k), "warmup": k} | changes))
        for k in range(len(case.models))
    ]


def stacked(case: Case, plans: list[Training]) -> list[Outcome]:
    stack = make_stack(case.models, case.training_sets, range(len(case.models)), dtype=torch.float64)
    return train(stack, plans, keep_weights=True)


def alone(case: Case, plans: list[Training]) -> list[Outcome]:
    outcomes = []
    for k, (model, training_set, plan) in enumerate(zip(case.models, case.training_sets, plans, strict=True)):
        outcomes += train(
            make_stack([model], [training_set], [k], dtype=torch.float64), [plan], keep_weights=True
        )
    return outcomes


def assert_same(first: list[Outcome], second: list[Outcome], tolerance: float = TOLERANCE) -> None:
    for one, other in zip(first, second, strict=True):
        assert one.n_parameters == other.n_parameters
        np.testing.assert_array_equal(one.curve_steps, other.curve_steps)
        np.testing.assert_allclose(one.curve["loss"], other.curve["loss"], rtol=tolerance)
        assert one.curve["loss"][-1] != one.curve["loss"][0]  # something was learnt


FORMS = [case for case in CASES if case.name.startswith("attention-only")]
"""The forms of one family: the first of them stands for the others except in `make test-all`."""


def each_family(cases: list[Case]) -> pytest.MarkDecorator:
    """Every case by its name, and those that another stands for only when all tests run."""
    marked = [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * (c in FORMS[1:])) for c in cases]
    return pytest.mark.parametrize("case", marked)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stack_equals_solo(case: Case) -> None:
    plans = trainings_of(case)
    assert_same(stacked(case, plans), alone(case, plans))


@each_family(FORMS)
def test_drawn_batches_equal_solo(case: Case) -> None:
    plans = trainings_of(case, batch=7)
    assert_same(stacked(case, plans), alone(case, plans))


@each_family(CASES)
def test_lbfgs_equals_solo(case: Case) -> None:
    # A line search branches on comparisons, so rounding can change its path: agreement is asked of the first rounds.
    plans = trainings_of(case, optimiser="lbfgs", weight_decay=0.0, steps=8)
    assert_same(stacked(case, plans), alone(case, plans), tolerance=1e-6)


@each_family(CASES)
def test_other_neighbours_change_no_bit(case: Case) -> None:
    """With nothing padded, who the neighbours are and how many of them there are changes no bit of a model.

    (A stack of one calls another matrix product, which may sum in another order.)
    """
    model, training_set = case.models[1], case.training_sets[1]
    plan = trainings_of(case)[2]

    def weights(seeds: list[int]) -> dict[str, torch.Tensor]:
        stack = make_stack([model] * len(seeds), [training_set] * len(seeds), seeds, dtype=torch.float64)
        found = train(stack, [plan] * len(seeds), keep_weights=True)[0].weights
        assert found is not None
        return found

    expected = weights([0, 1, 2, 3])
    for name, tensor in weights([0, 7]).items():
        assert torch.equal(expected[name], tensor), name


@each_family(CASES)
def test_padding_stays_exactly_zero(case: Case) -> None:
    stack = make_stack(case.models, case.training_sets, range(8), dtype=torch.float64)
    from byheart.measure.steppers import make_stepper

    stepper = make_stepper(stack, trainings_of(case), "eager")
    stepper.run(5)
    padding = ~stack.layout.mask()
    assert padding.any()
    assert bool((stepper.flat.detach()[padding] == 0).all())


def test_a_leak_would_be_seen() -> None:
    """Twin of the above: without the mask, biases of padded blocks move and the curves part."""
    case = CASES[0]
    plans = trainings_of(case)
    stack = make_stack(case.models, case.training_sets, range(8), dtype=torch.float64)
    object.__setattr__(stack, "mask", None)
    leaky = train(stack, plans)
    with pytest.raises(AssertionError):
        assert_same(leaky, alone(case, plans))


def test_who_stops_early_leaves_the_others_as_they_are() -> None:
    case = CASES[4]
    plans = trainings_of(case)
    plain = stacked(case, plans)
    rule = PassRule("loss", float(np.median([outcome.curve["loss"][8] for outcome in plain])))
    stopping = [Training(**{**vars(plan), "stop": rule if k % 2 else None}) for k, plan in enumerate(plans)]
    early = stacked(case, stopping)
    assert {outcome.status for outcome in early[1::2]} >= {"passed"}
    assert all(outcome.status == "done" for outcome in early[::2])
    assert_same(early[::2], plain[::2])
    for stopped, full in zip(early[1::2], plain[1::2], strict=True):
        if stopped.status == "passed":
            assert stopped.steps < STEPS
            assert rule.holds(stopped.measured)
            count = len(stopped.curve_steps)
            np.testing.assert_allclose(stopped.curve["loss"], full.curve["loss"][:count], rtol=TOLERANCE)


def test_a_diverged_model_is_recorded_and_harms_nobody() -> None:
    case = CASES[0]
    plans = trainings_of(case)
    wild = [
        Training(**{**vars(plan), "learning_rate": 1e200}) if k == 3 else plan for k, plan in enumerate(plans)
    ]
    outcomes = stacked(case, wild)
    assert outcomes[3].status == "diverged"
    assert not np.isfinite(outcomes[3].measured["loss"])
    calm = stacked(case, plans)
    assert_same(outcomes[:3] + outcomes[4:], calm[:3] + calm[4:])


def test_table_and_direct_forms_agree() -> None:
    for options in ({"variant": "as-written"}, {"variant": "as-coded"}):
        model = {"dim": 5, "head_dim": 3, "n_heads": 4}
        curves = []
        for form in ("table", "direct"):
            stack = make_stack(
                [ModelConfig("attention-only", model, options | {"form": form})],
                [pairs(7, 0)],
                [3],
                dtype=torch.float64,
            )
            plan = Training(steps=30, batch=16, dtype="float64", record_every=1)
            curves.append(train(stack, [plan])[0].curve["loss"])
        np.testing.assert_allclose(*curves, rtol=1e-11)


def test_mixed_families_or_options_are_refused() -> None:
    one = ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 1})
    other = ModelConfig("attention-only", {"dim": 2, "head_dim": 2, "n_heads": 1}, {"variant": "as-coded"})
    with pytest.raises(UsageError):
        make_stack([one, other], [pairs(4, 0)] * 2, [0, 1])


def test_layout_round_trip() -> None:
    shapes = [{"a": (2, 3), "b": (1,)}, {"a": (3, 1), "b": (4,)}]
    layout = ParameterBlock.of(shapes)
    weights = [{n: torch.randn(s, dtype=torch.float64) for n, s in model.items()} for model in shapes]
    flat = layout.pack(weights)
    assert flat.shape == (2, 3 * 3 + 4)
    for k in range(2):
        for name, tensor in layout.unpack(flat, k).items():
            assert torch.equal(tensor, weights[k][name])
    assert int(layout.mask().sum()) == 2 * 3 + 1 + 3 + 4


def test_a_model_is_not_measured_before_its_first_step() -> None:
    assert _milestones(Training(steps=5, tail=5))[0] == 1
