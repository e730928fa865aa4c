"""Every labelling realised by one architecture; and what is not shattered is not called so."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from byheart import shatter as module
from byheart.cli.main import run
from byheart.construct import registry
from byheart.errors import DoesNotHold, UsageError
from byheart.shatter import shatter


@pytest.mark.parametrize(
    ("method", "seq_len"), [("kajitsuka-sato-2025", 1), ("kajitsuka-sato-2025", 2), ("two-layer-relu", 1)]
)
def test_every_labelling_of_a_few_points_is_realised(method: str, seq_len: int) -> None:
    found = shatter(3, method=method, seq_len=seq_len)
    assert (found.n_labellings, found.n_realised, found.holds) == (8, 8, True)
    assert found.vc_at_most >= 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kajitsuka-sato-2025", "two-layer-relu"])
def test_twelve_points_are_shattered(method: str) -> None:
    assert shatter(12, method=method).n_realised == 4096


@pytest.mark.parametrize(("n_points", "seed"), [(2, 11), (4, 2)])
def test_points_that_are_drawn_twice_are_drawn_again(n_points: int, seed: int) -> None:
    assert shatter(n_points, method="two-layer-relu", seed=seed).holds


def test_labellings_with_different_architectures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, other = registry.get("two-layer-relu"), registry.get("vardi-2022")

    def by_turns(data, options, rng, progress):  # another construction for one labelling
        chosen = other if data.labels.tolist() == [1, 0] else honest
        return chosen.plan(data, chosen.read_options({}, "exact"), rng, progress)

    monkeypatch.setattr(module, "get", lambda name: replace(honest, plan=by_turns))
    with pytest.raises(DoesNotHold):
        shatter(2, method="two-layer-relu")


def test_a_wrong_network_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = registry.get("two-layer-relu")

    def always_the_first(data, options, rng, progress):
        return honest.plan(replace(data, labels=np.zeros_like(data.labels)), options, rng, progress)

    monkeypatch.setattr(module, "get", lambda name: replace(honest, plan=always_the_first))
    found = shatter(2, method="two-layer-relu")
    assert (found.n_realised, found.holds) == (1, False)
    assert run(["shatter", "--points", "2", "--method", "two-layer-relu"]) == 3
    assert "at least" not in capsys.readouterr().out


@pytest.mark.parametrize("n_points", [0, 21])
def test_the_number_of_points_is_limited(n_points: int) -> None:
    with pytest.raises(UsageError):
        shatter(n_points)


def test_constructions_in_floats_are_refused() -> None:
    with pytest.raises(UsageError):
        shatter(2, method="madden-2024")


def test_the_command_prints_both_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["shatter", "--points", "2", "--method", "two-layer-relu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["n_realised"], said["holds"]) == (4, True)
    assert said["vc_at_most"] > 2


@pytest.mark.parametrize("odd", ["--seed=-1", "--seq-len=-1", "--seq-len=99999999999", "--points=0"])
def test_numbers_that_make_no_inputs_are_refused(odd: str) -> None:
    assert run(["shatter", "--points", "2", odd]) == UsageError.exit_status
