"""The types of the page's request bodies, which are checked before any work is done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request

from byheart.records.json_file import parse_json
from byheart.records.reader import described, json_schemas, length, read_value, read_values, within
from byheart.records.refusals import refuse_usage
from byheart.records.vocabulary import Compilable, EmptyLabels, Precision, RowRule, Task

Name = Annotated[str, length(1, 200)]
Text = Annotated[str, length(0, 100_000)]
Index = Annotated[int, within(0, 2**62)]
OwnData = Annotated[
    Name | None, described("the data file of the model, if it is not stored beside the model")
]
WHERE = "the request"
REFERENCE = "#/components/schemas/{name}"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options for reading a data file. Options that are not given have the defaults of the reader."""

    task: Task | None = None
    tokenizer: Literal["char", "word", "bytes"] | None = None
    input: Annotated[Name | None, described("column of inputs")] = None
    label: Annotated[Name | None, described("column of labels")] = None
    delimiter: Annotated[
        Literal[",", ";", "|", "tab"] | None, described("separator of the cells of a .csv or .tsv file")
    ] = None
    empty_labels: EmptyLabels | None = None
    empty_inputs: RowRule | None = None
    malformed_rows: RowRule | None = None
    non_finite: RowRule | None = None
    max_tokens: Annotated[
        Annotated[int, within(1, 2**31)] | None, described("rows with more tokens are left out")
    ] = None
    on_conflict: Compilable | None = None

    def reading(self) -> dict[str, Any]:
        """Return the options for `Dataset.read`."""
        return _given(self, {field.name for field in fields(Reading)})


@dataclass(frozen=True, kw_only=True)
class Examine(Reading):
    """Count the rows, duplicates and conflicts of a data file, and estimate the size of every construction."""

    kind: Literal["examine"]
    data: Name


@dataclass(frozen=True, kw_only=True)
class Compile(Reading):
    """Compile a data file and verify every sample."""

    kind: Literal["compile"]
    data: Name
    method: Name = "auto"
    precision: Precision | None = None
    seed: Annotated[int, within(0, 2**32 - 1)] = 0
    reject_bits: Annotated[int, within(0, 24)] | None = None
    name: Annotated[Name | None, described("name of the model (default: the name of the data file)")] = None

    def options(self) -> dict[str, Any]:
        """Return the options for `byheart.compile`."""
        return _given(self, {"method", "precision", "seed", "reject_bits"})


@dataclass(frozen=True, kw_only=True)
class AskFile:
    """Answer the questions in a file. Empty lines of a text file are left out."""

    kind: Literal["predict"]
    model: Name
    data: Name


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of one weight: flip the bit that stands for 2^`power`, or set the weight to `value`."""

    matrix: Name
    row: Index
    column: Index
    power: int | None = None
    value: Name | None = None


@dataclass(frozen=True, kw_only=True)
class Break:
    """Change weights and verify every sample again."""

    kind: Literal["break"]
    model: Name
    edits: Annotated[list[Edit], length(1, 64)]
    data: OwnData = None


@dataclass(frozen=True, kw_only=True)
class Forget:
    """Compile again without one fact, with the same seed, and compare the weights."""

    kind: Literal["forget"]
    model: Name
    text: Text
    data: OwnData = None


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model in another format."""

    kind: Literal["export"]
    model: Name
    format: Literal["gguf", "onnx"]


JobRequest = Examine | Compile | AskFile | Break | Forget | Export
JOBS: dict[str, type[JobRequest]] = {
    "examine": Examine,
    "compile": Compile,
    "predict": AskFile,
    "break": Break,
    "forget": Forget,
    "export": Export,
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """Questions to answer."""

    texts: Annotated[list[Text], length(0, 1000)]


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """One text to follow through the network."""

    text: Text


async def json_body(request: Request) -> object:
    """Return the JSON in the body of a request. The content type must be JSON, which a form on another page cannot send."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise refuse_usage(WHERE, "its content-type is not application/json")
    return parse_json(await request.body(), WHERE, refuse=refuse_usage)


def read_body(body: object, kind: type[T]) -> T:
    """Read the body of a request as `kind`. Fields that `kind` does not have are refused."""
    return read_values(body, kind, WHERE)


def read_job(body: object) -> JobRequest:
    """Read a job from a body. Its field `kind` gives the type of the job."""
    if not isinstance(body, dict) or "kind" not in body:
        raise refuse_usage(WHERE, f"it must be a JSON object whose field `kind` is one of {', '.join(JOBS)}")
    kind = read_value(body["kind"], Literal[tuple(JOBS)], WHERE, "kind")
    return read_body(body, JOBS[kind])


def asked(job: JobRequest) -> dict[str, Any]:
    """Return the request as a dictionary, without fields that are None."""
    return _given(job, asdict(job))


def _given(request: JobRequest | Reading, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in asdict(request).items() if name in names and value is not None}


# --- descriptions of these types for programs


def describe_bodies() -> dict[str, Any]:
    """Return the JSON schemas of all bodies, by name."""
    return json_schemas([*JOBS.values(), Question, TraceRequest], REFERENCE)


def body_schema(*kinds: type) -> dict[str, Any]:
    """Return the OpenAPI description of a request body. The body has one of the types `kinds`; without `kinds`, it is any JSON
    object.
    """
    references: list[dict[str, Any]] = [{"$ref": REFERENCE.format(name=kind.__name__)} for kind in kinds]
    schema = {"oneOf": references} if len(references) > 1 else (references or [{"type": "object"}])[0]
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}
