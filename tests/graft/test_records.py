"""The tables of docs/graft.md are those of the stored records."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "benchmarks" / "records"


def test_the_comparison_is_printed_from_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = import_module("graft_editing").table(RECORDS / "graft_editing_h200.jsonl")
    assert table in (ROOT / "docs" / "graft.md").read_text(encoding="utf-8")


def test_hosts_of_real_shapes_are_printed_from_their_record() -> None:
    page = (ROOT / "docs" / "graft.md").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in (RECORDS / "graft_hosts_h200.jsonl").read_text().splitlines()]
    steps = {(line["host"], line["step"]): line for line in lines}
    for name in {line["host"] for line in lines}:
        graft, verify = steps[name, "graft"], steps[name, "verify"]
        assert verify["answer"]["holds"]
        assert steps[name, "files equal"]["equal"]
        size, ratio = graft["answer"]["host_parameters"] / 1e6, graft["answer"]["ratio"]
        cells = [name, f"{size:,.1f} M", f"{ratio:.3f} times"]
        cells += [f"{step['seconds']:.0f} s, {step['peak_gb']:.1f} GB" for step in (graft, verify)]
        assert f"| {' | '.join(cells)} |" in page
