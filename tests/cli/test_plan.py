"""What `byheart plan` prints, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import METHOD, Byheart


def test_plan(byheart: Byheart) -> None:
    done = byheart("plan", "--facts", "1e9")
    assert done.status == 0
    assert done.out.startswith("1,000,000,000 facts of 10 bits: 8 tokens each, vocabulary 1,000\n")
    for word in ("estimate", "promised", "trained", "floor", "bits/stored bit", "int8", "0.995", METHOD):
        assert word in done.out
    found = byheart("plan", "--facts", "1,000", "--value-bits", 4, "--json").document
    assert (found["facts"], found["value_bits"]) == (1000, 4)
    assert {row["kind"] for row in found["rows"]} == {"estimate", "theorem", "trained", "floor"}


@pytest.mark.parametrize("facts", ["0", "-5", "1.5", "many", "nan", "1e99"])
def test_plan_wants_a_whole_number(byheart: Byheart, facts: str) -> None:
    done = byheart("plan", f"--facts={facts}")
    assert done.status == 2
    assert f"'{facts}'" in done.err


def test_plan_refuses_at_once_what_would_take_minutes(byheart: Byheart) -> None:
    done = byheart("plan", "--facts", "1e30", "--json")
    assert (done.status, done.document["facts"]["n_facts"]) == (2, 10**30)


def test_the_figure_of_a_plan_leaves_out_impossible_numbers_of_facts(
    byheart: Byheart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It always planned for 1e6 to 1e12 facts."""
    pytest.importorskip("matplotlib", reason="the package matplotlib is not installed")
    drawn: list[set[int]] = []
    monkeypatch.setattr(
        "byheart.report.figures.draw_plan",
        lambda curves, *_: drawn.append({facts for curve in curves for facts, _ in curve.points}),
    )
    figure = str(tmp_path / "plan.png")
    few = byheart("plan", "--facts", "100", "--vocab", "10", "--seq-len", "3", "--figure", figure)
    some = byheart("plan", "--facts", "100", "--vocab", "10", "--seq-len", "7", "--figure", figure)
    assert (few.status, some.status) == (0, 0)
    assert drawn == [{100}, {100, 10**6, 10**7}]
    assert few.err
    assert some.err
    assert not byheart("plan", "--facts", "100", "--figure", figure).err
