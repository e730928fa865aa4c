"""Progress on standard error, numbers for people, and quick help."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import byheart as bh
from byheart.cli import progress
from byheart.cli.compare import short
from byheart.cli.fact import _bits
from byheart.cli.inspect import _inputs_and_labels
from byheart.cli.output import count, ratio
from byheart.cli.summary import show_worst_case
from byheart.inspect.location import Location


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that a person watches."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_quick_work_says_nothing(clock: Clock) -> None:
    for stream in (io.StringIO(), Terminal()):
        with progress.watch(stream) as report:
            clock.now += 1.9
            report(1, 2, "compile")
        assert stream.getvalue() == ""


def test_a_log_gets_a_line_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    with progress.watch(stream) as report:
        for done in range(1, 13):
            clock.now += 1
            report(done, 12, "verify")
    assert stream.getvalue() == (
        "verify: 16% after 2 s, about 10 s left\nverify: 58% after 7 s, about 5 s left\nverify: 100% after 12 s\n"
    )


def test_stages_of_one_work_have_one_estimate(clock: Clock) -> None:
    stream = io.StringIO()
    with progress.watch(stream, whole="compile") as report:
        for done, stage in ((0, "read"), (10, "compile"), (30, "verify"), (80, "save")):
            report(done, 100, stage)
            clock.now += 5
            report(done, 100, stage)
    assert stream.getvalue() == (
        "read: 0% after 5 s\ncompile: 10% after 10 s, about 90 s left\nverify: 30% after 15 s, about 35 s left\n"
        "save: 80% after 20 s, about 5 s left\n"
    )


def test_a_person_sees_a_bar_that_goes_away(clock: Clock) -> None:
    stream = Terminal()
    with progress.watch(stream) as report:
        clock.now += 3
        report(1, 4, "compile")
        report(2, 4, "verify")
    assert "compile" in stream.getvalue()
    assert "25%" in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (10**15 - 1, "999,999,999,999,999"),
        (10**15, "1.0e15"),
        (27 * 10**20, "2.7e21"),
        (Fraction(6, 2), "3"),
        (Fraction(1, 3), "0.3333"),
        (18456.7, "18,457"),
        (1136.55, "1,137"),
    ],
)
def test_numbers_for_people(value: int | Fraction | float, text: str) -> None:
    assert count(value) == text


def test_numbers_that_python_does_not_write_out() -> None:
    assert count(2**20_000) == "2^20000"


def test_ratios() -> None:
    assert (ratio(0.0628), ratio(None), ratio(12.345)) == ("0.0628", "-", "12.3")


def test_one_bit_is_no_range() -> None:
    place = Location("a", "b", 0, 1, 1, "w", (0, 0), 1, (), None, None, (), 0)
    powers = {(): "", (5,): "2^5", (2, 3, 4): "2^2 to 2^4", (2, 5, 6): "2^2 and 2^5 to 2^6"}
    assert {each: _bits(replace(place, powers=each)) for each in powers} == powers


@pytest.mark.parametrize(("seq_len", "told"), [(1, "1 vector of"), (2, "2 vectors of")])
def test_one_vector_is_singular(seq_len: int, told: str) -> None:
    inputs = np.arange(8.0 * seq_len).reshape(4, seq_len, 2)
    model = bh.compile(inputs, [0, 1, 0, 1])
    assert dict(_inputs_and_labels(model, model.network.spec))["input"].startswith(told)


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from byheart.cli.main import run; run(['--help']);"
        "print([name for name in ('numpy', 'torch', 'numba', 'rich', 'scipy') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_a_stage_that_says_nothing_is_spoken_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes long and reports nothing, such as reading a large file."""
    stream, spoken = io.StringIO(), threading.Event()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.001)
    stream.flush = lambda: spoken.set() if stream.getvalue().count("\n") > 2 else None
    with progress.watch() as report:
        report(0, 1, "read")
        assert spoken.wait(60)
    assert all(line.startswith("read: 0% after ") for line in stream.getvalue().splitlines())


def test_worst_cases_list_parameters_before_bits(capsys: pytest.CaptureFixture[str]) -> None:
    needs = [("parameters", 1), ("bits", 1), ("parameters of 64 bits", 1), ("parameters of 32 bits", 2)]
    show_worst_case([(quantity, value, "theorem") for quantity, value in needs])
    said = " ".join(capsys.readouterr().out.split())
    shown = [
        said.find(part)
        for part in ("1 parameter (", "1 parameter of 64", "2 parameters of 32", "1 bit in all")
    ]
    assert -1 < shown[0] < shown[1] < shown[2] < shown[3]


def test_counts_beyond_the_range_of_floats_are_shortened() -> None:
    assert short(10**400) == "1.0e+400"
