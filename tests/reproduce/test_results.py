"""The stored results of the paper's scale: small, decided by their rules, and every number computed again from the seeds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.report.page import read_passes
from byheart.reproduce.dana_2024.curves import agreement_in_words
from byheart.reproduce.figure import Check, Computed, ConditionResult, decide
from byheart.reproduce.figure_files import assemble, read_record, recompute
from byheart.reproduce.registry import FIGURES, figure_of
from byheart.reproduce.wall_clock import wall_clock
from tests.examples import examples

RESULTS = Path(__file__).resolve().parents[2] / "results"
STORED = [path for name in FIGURES if (path := RESULTS / f"{name}.json").is_file()]


def test_the_wall_clock_of_the_passes_is_stored_beside_them() -> None:
    passes = read_passes(RESULTS)
    assert passes
    assert all("H200" in one.device for one in passes)
    assert 0 < wall_clock(passes) < 2 * 60 * 60


def test_every_figure_has_a_result() -> None:
    assert {path.stem for path in STORED} == set(FIGURES)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_result_is_small_and_follows_from_the_values_of_its_seeds(path: Path) -> None:
    assert path.stat().st_size < 900_000
    record = read_record(path)
    figure = figure_of(path.stem)
    assert (record.figure, record.scale) == (path.stem, "paper")
    assert (record.claim, record.own, record.rule) == (figure.claim, figure.own, figure.rule)
    assert record.counter
    assert record.runs["devices"]
    assert record.runs["count"] == len(record.observations)
    assert recompute(record) == []


def test_dana_as_coded_meets_most_of_the_stored_points() -> None:
    records = [read_record(path) for path in STORED if path.stem.startswith("dana-2024")]
    said = agreement_in_words(records)
    good, whole = (
        int(word) for word in re.findall(r"agrees with (\d+) of the authors' (\d+) stored", said)[0]
    )
    assert whole == 90 + 24 + 6  # Figures 1 and 2, the MLPs of 3, and 4
    assert good >= 0.95 * whole
    assert agreement_in_words([]) == ""


def test_a_changed_number_is_noticed() -> None:
    record = read_record(RESULTS / "dana-2024-fig4.json")
    one = record.observations[0]
    moved = replace(one, measured={**one.measured, "accuracy_tail": one.measured["accuracy_tail"] + 1e-6})
    assert recompute(replace(record, observations=(moved, *record.observations[1:])))
    panel = record.panels[0]
    line = panel.series[0]
    drawn = replace(line, y=(line.y[0] + 1e-8, *line.y[1:]))
    other = replace(record, panels=(replace(panel, series=(drawn, *panel.series[1:])), *record.panels[1:]))
    (said,) = recompute(other)
    assert "/panels/0/series/0/y/0: stored" in said


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_no_supporting_check_turns_a_verdict(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is put together again without each of its supporting checks, and with each of them turned round."""
    record = read_record(path)
    figure = figure_of(record.figure)
    computed = figure.compute(record.scale, record.observations, record.facts)
    for number, check in enumerate(computed.checks):
        rest = computed.checks[:number] + computed.checks[number + 1 :]
        for checks in (rest, (*rest, replace(check, holds=not check.holds))):
            assert (
                _outcome(record.figure, replace(computed, checks=checks), monkeypatch)
                == record.verdict.outcome
            )


def test_the_deciding_rule_turns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where a trial is turned round, so is the verdict."""
    computed = Computed((), (ConditionResult("here", "1", True),), (Check("beside", "1", "2", True),))
    assert _outcome("dana-2024-fig4", computed, monkeypatch) == "holds"
    turned = replace(computed, trials=(replace(computed.trials[0], holds=False),))
    assert _outcome("dana-2024-fig4", turned, monkeypatch) == "does not hold as the paper has it"


def _outcome(name: str, computed: Computed, monkeypatch: pytest.MonkeyPatch) -> str:
    figure = replace(figure_of(name), compute=lambda scale, observations, facts: computed)
    with monkeypatch.context() as patch:
        patch.setattr("byheart.reproduce.figure_files.figure_of", lambda _: figure)
        return assemble(name, "paper", (), {}, {}).verdict.outcome


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ((True, True), "holds"),
        ((True, False), "holds"),
        ((False, False), "does not hold as the paper has it"),
        ((None, True), "not settled"),
        ((True, None), "holds"),
        ((False, True), "does not hold as the paper has it"),
        ((False, None), "does not hold as the paper has it"),
    ],
)
def test_what_trials_say_together(holds: tuple[bool | None, bool | None], expected: str) -> None:
    trials = [
        ConditionResult("the paper's", "", holds[0]),
        ConditionResult("ours", "", holds[1], is_own=False),
    ]
    assert decide("paper", trials).outcome == expected
    assert decide("smoke", trials).outcome == "not settled"
    assert decide("paper", trials, "Runs are missing.").outcome == "not settled"


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from([True, False, None]), st.booleans(), st.sampled_from(["", "a", "b"])))
)
def test_a_failed_condition_of_the_papers_own_never_reads_holds(
    cases: list[tuple[bool | None, bool, str]],
) -> None:
    trials = [ConditionResult("c", "", holds, is_own, claim) for holds, is_own, claim in cases]
    verdict = decide("paper", trials)
    if any(trial.is_own and trial.holds is not True for trial in trials) or not any(t.is_own for t in trials):
        assert verdict.outcome != "holds"
        assert not verdict.headline.startswith("holds")
    else:
        assert verdict.outcome == "holds"


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_verdict_is_led_by_the_papers_own_condition(path: Path) -> None:
    verdict = read_record(path).verdict
    own = [trial.holds for trial in verdict.trials if trial.is_own]
    expected = (
        "not settled"
        if None in own or not own
        else "holds"
        if all(own)
        else "does not hold as the paper has it"
    )
    assert verdict.outcome == expected


def test_a_verdict_names_its_conditions() -> None:
    trials = [
        ConditionResult("as coded", "", False, claim="linear"),
        ConditionResult("as coded", "", True, claim="faster"),
        ConditionResult("as written", "", True, is_own=False, claim="linear"),
        ConditionResult("longer", "", True, is_own=False, claim="faster"),
    ]
    verdict = decide("paper", trials)
    # of the variations those that save the claim that failed
    assert verdict.headline == "does not hold as the paper has it (holds when: linear: as written)"
    assert "Does not hold under the paper's own condition: linear: as coded." in verdict.summary
    assert decide("paper", []).outcome == "not settled"
