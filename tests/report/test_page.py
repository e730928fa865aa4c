"""The page of figures: whole, self-contained, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from byheart.errors import UsageError
from byheart.report.page import page, read_results, write_page
from byheart.reproduce.figure import Check, ConditionResult, FigureRecord, Panel, Series, Table, Verdict
from byheart.reproduce.figure_files import to_json
from tests.refusal import refused

RECORD = FigureRecord(
    figure="dana-2024-fig1a",
    paper="DPC24",
    title="A <title> & more",
    claim="A claim.",
    scale="paper",
    panels=(
        Panel(
            "lines",
            "x axis",
            "y axis",
            (Series("one", "measured", (1.0, 2.0), (0.1, 0.2), (0.0, 0.1), (0.2, 0.3), 3),),
        ),
        Panel("map", "x", "y", columns=(1.0, 2.0), rows=(4.0,), cells=((0.5, float("nan")),)),
    ),
    own="As the <paper> has it.",
    rule="A rule.",
    counter="But & yet.",
    budget="3 seeds",
    verdict=Verdict(
        "does not hold as the paper has it",
        "Under <so>.",
        (ConditionResult("a", "1", False), ConditionResult("b<", "3", True, is_own=False)),
    ),
    checks=(Check("c", "5", "6", True),),
    tables=(Table("Numbers", ("x",), (("<1>",),)),),
    facts={},
    numbers={"slope": [1.0, 0.9, 1.1]},
    choices=("A choice.",),
    seeds=(0, 1),
    runs={
        "count": 12,
        "diverged": 0,
        "devices": ["a device"],
        "versions": [{"torch": "2"}],
        "first": "2026-01-01",
        "last": "2026-01-01",
        "seconds": 3.0,
    },
)


def test_the_page_carries_everything_in_itself() -> None:
    text = page([RECORD])
    assert not re.search(r'(src|href)="(?!#|data:)[^"]*"', text.replace('xlink:href="#', 'href="#'))
    assert "<link" not in text
    assert "<script" not in text
    assert text.count("<svg") == 1
    assert 'name="viewport"' in text


def test_texts_are_escaped_and_verdicts_shown() -> None:
    text = page([RECORD])
    assert "A &lt;title&gt; &amp; more" in text
    assert "Under &lt;so&gt;." in text
    assert '<span class="badge no">does not hold as the paper has it</span>' in text
    assert "(holds when: b&lt;)" in text
    assert "As the &lt;paper&gt; has it." in text
    assert "But &amp; yet." in text
    assert (text.count('class="mark yes"'), text.count('class="mark no"')) == (2, 1)
    assert "&lt;1&gt;" in text
    assert "a device" in text
    assert "torch 2" in text


def test_results_are_read_from_a_folder_and_written_whole(tmp_path: Path) -> None:
    with refused(UsageError, "folder"):
        read_results(tmp_path)
    (tmp_path / "dana-2024-fig1a.json").write_text(to_json(RECORD))
    second = replace(RECORD, figure="dana-2024-fig4", title="Another")
    (tmp_path / "dana-2024-fig4.json").write_text(to_json(second))
    records = read_results(tmp_path)
    assert [record.figure for record in records] == ["dana-2024-fig1a", "dana-2024-fig4"]
    path = write_page(records, tmp_path / "page")
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]
    assert "Another" in path.read_text()
