"""Records of figures that others changed are refused in our words, wherever it shows: read, drawn or computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from byheart.errors import MalformedFile
from byheart.report.page import page
from byheart.reproduce.figure_files import read_record, recompute, to_json
from byheart.reproduce.wall_clock import Pass, read
from tests.refusal import refused
from tests.report.test_page import RECORD

RESULTS = Path(__file__).resolve().parents[2] / "results"


def changed(tmp_path: Path, document: dict[str, Any], path: tuple[str | int, ...], value: object) -> Path:
    """The document in a file, with the value at `path` replaced."""
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    file = tmp_path / f"{document['figure']}.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("schema",), "x", 'has schema "x"; this version of byheart reads schema 3'),
        (("title",), 7, "title is 7; it must be a text"),
        (("scale",), "huge", "scale is"),
        (("paper",), "KS25", "dana-2024-fig1a is not a figure of KS25"),
        (("seeds",), ["a"], "seeds"),
        (("verdict", "outcome"), "nice", "verdict.outcome is"),
        (("verdict", "trials", 0, "holds"), "yes", "holds is"),
        (("panels", 0, "series", 0, "style"), "pink", "style is"),
        (("panels", 0, "series", 0, "x"), [1.0], "have different lengths"),
        (("panels", 0, "series", 0, "low"), [], "have different lengths"),
        (("panels", 1, "cells"), [[0.5]], "does not have one cell for each row and column"),
        (("tables", 0, "heads"), ["x", "y"], "does not have as many cells as the header"),
        (("runs", "count"), "many", "count is"),
        (("runs",), {}, "runs: count is missing"),
        (("observations",), [{"common": {}}, {}], "its observations cannot be read"),
        (("observations",), 3, "its observations cannot be read"),
    ],
)
def test_odd_fields_are_named(
    tmp_path: Path, path: tuple[str | int, ...], value: object, complaint: str
) -> None:
    with pytest.raises(MalformedFile) as caught:
        read_record(changed(tmp_path, json.loads(to_json(RECORD)), path, value))
    assert complaint in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_what_is_no_document_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with refused(MalformedFile, "file", "problem"):
        read_record(tmp_path / "x.json")


def test_null_stands_for_a_number_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(to_json(RECORD))
    assert str(read_record(tmp_path / "x.json").panels[1].cells) == "((0.5, nan),)"


def test_observations_that_do_not_make_the_figure_are_said_so(tmp_path: Path) -> None:
    document = json.loads((RESULTS / "dana-2024-fig4.json").read_text(encoding="utf-8"))
    file = changed(tmp_path, document, ("observations", 0, "common"), {})
    with refused(MalformedFile, figure="dana-2024-fig4"):
        recompute(read_record(file))


def test_counts_that_are_none_are_said_so(tmp_path: Path) -> None:
    document = json.loads(to_json(RECORD)) | {"numbers": {"stored points met, of": [1, 0]}}
    (tmp_path / "x.json").write_text(json.dumps(document))
    with refused(MalformedFile, figure="dana-2024-fig1a"):
        page([read_record(tmp_path / "x.json")])


@pytest.mark.parametrize(
    "line",
    [
        '{"began": 3, "seconds": 1, "device": "cpu", "n_trained": 1}',
        '{"began": "soon", "seconds": 1, "device": "cpu", "n_trained": 1}',
        '{"began": "0001-01-01T00:00:00", "seconds": -1, "device": "cpu", "n_trained": 1}',
        '{"began": "2026-01-01T00:00:00", "seconds": 1, "device": ["cpu"], "n_trained": 1}',
        '{"seconds": 1}',
        "[" * 100_000,
        "3",
    ],
)
def test_a_pass_of_odd_fields_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    good = '{"began": "2026-01-01T00:00:00", "seconds": 1, "device": "cpu", "n_trained": 1}'
    (tmp_path / "passes.jsonl").write_text(f"{good}\n{line}\n")
    with refused(MalformedFile, "file", "problem"):
        read(tmp_path / "passes.jsonl")
    (tmp_path / "passes.jsonl").write_text(f"{good}\n")
    assert read(tmp_path / "passes.jsonl") == [Pass("2026-01-01T00:00:00", 1.0, "cpu", 1)]


def test_more_than_can_be_drawn_is_refused(tmp_path: Path) -> None:
    """A record of 170 kB with a thousand panels was drawn for a minute."""
    table = json.loads(to_json(RECORD))
    table["panels"] = table["panels"][:1] * 1000
    (tmp_path / "x.json").write_text(json.dumps(table))
    with refused(MalformedFile, "file", "problem"):
        read_record(tmp_path / "x.json")
