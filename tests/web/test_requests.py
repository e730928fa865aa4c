"""The bodies of requests: what is taken, and what a refusal names."""

from __future__ import annotations

from typing import Any

import pytest

from byheart.errors import UsageError
from byheart.web.requests import (
    JOBS,
    Compile,
    Edit,
    Question,
    TraceRequest,
    asked,
    body_schema,
    describe_bodies,
    read_body,
    read_job,
)
from tests.refusal import refused


def test_a_job_is_what_its_kind_says() -> None:
    found = read_job({"kind": "compile", "data": "a.csv", "task": "set", "reject_bits": 8})
    assert found == Compile(kind="compile", data="a.csv", task="set", reject_bits=8)
    assert found.reading() == {"task": "set"}
    assert found.options() == {"method": "auto", "seed": 0, "reject_bits": 8}


def test_what_was_asked_leads_to_the_same_job() -> None:
    edit = {"matrix": "layers.0.w", "row": 1, "column": 2, "power": -3}
    for body in (
        {"kind": "examine", "data": "a.csv", "input": "question"},
        {"kind": "compile", "data": "a.csv", "precision": "int8", "on_conflict": "majority", "name": "m"},
        {"kind": "predict", "model": "m", "data": "a.csv"},
        {"kind": "break", "model": "m", "edits": [edit, edit]},
        {"kind": "forget", "model": "m", "text": "x", "data": "a.csv"},
        {"kind": "export", "model": "m", "format": "onnx"},
    ):
        job = read_job(body)
        assert type(job) is JOBS[str(body["kind"])]
        assert read_job(asked(job)) == job


COMPILE = {"kind": "compile", "data": "a.csv"}
EDIT = {"matrix": "w", "row": 0, "column": 0}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ([], "kind"),
        (b"kind", "kind"),
        ({"data": "a.csv"}, "kind"),
        ({"kind": "exmine"}, "kind"),
        ({"kind": ["compile"]}, "kind"),
        ({"kind": "compile"}, "data"),
        ({**COMPILE, "path": "/etc"}, "path"),
        ({**COMPILE, "data": ""}, "data"),
        ({**COMPILE, "data": "a" * 201}, "data"),
        ({**COMPILE, "precision": "float16"}, "precision"),
        ({**COMPILE, "on_conflict": "keep"}, "on_conflict"),
        ({**COMPILE, "delimiter": "ab"}, "delimiter"),
        ({**COMPILE, "seed": -1}, "seed"),
        ({**COMPILE, "seed": 2**32}, "seed"),
        ({**COMPILE, "seed": "1"}, "seed"),
        ({**COMPILE, "seed": 1.5}, "seed"),
        ({**COMPILE, "reject_bits": 25}, "reject_bits"),
        ({**COMPILE, "reject_bits": True}, "reject_bits"),
        ({"kind": "break", "model": "m", "edits": []}, "edits"),
        ({"kind": "break", "model": "m", "edits": [EDIT] * 65}, "edits"),
        ({"kind": "break", "model": "m", "edits": [EDIT, {**EDIT, "row": -1}]}, "edits[1].row"),
        ({"kind": "break", "model": "m", "edits": [{**EDIT, "colum": 1}]}, "edits[0].colum"),
        ({"kind": "export", "model": "m", "format": "pickle"}, "format"),
    ],
)
def test_a_refusal_names_the_field(body: Any, named: str) -> None:
    with refused(UsageError) as refusal:
        read_job(body)
    assert named in str(refusal.value.facts["problem"])


def test_texts_are_limited() -> None:
    assert read_body({"texts": ["a"] * 1000}, Question).texts == ["a"] * 1000
    for texts in (["a"] * 1001, ["a" * 100_001], "a", [None]):
        with refused(UsageError):
            read_body({"texts": texts}, Question)


def test_every_body_is_described_with_its_limits() -> None:
    schemas = describe_bodies()
    assert set(schemas) == {kind.__name__ for kind in (*JOBS.values(), Edit, Question, TraceRequest)}
    assert schemas["Compile"]["properties"]["seed"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**32 - 1,
        "default": 0,
    }
    assert all(schema["description"] for schema in schemas.values())
    one_of = body_schema(*JOBS.values())["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert [each["$ref"].rpartition("/")[2] for each in one_of] == [kind.__name__ for kind in JOBS.values()]
