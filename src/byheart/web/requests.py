"""What the page may ask for: the bodies of its requests, checked before anything is done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request

from byheart.records.json_file import parse_json
from byheart.records.reader import described, json_schemas, length, read_value, read_values, within
from byheart.records.refusals import refuse_usage
from byheart.records.vocabulary import Compilable, EmptyLabels, Precision, RowRule, Task

Name = Annotated[str, length(1, 200)]
Text = Annotated[str, length(0, 100_000)]
Index = Annotated[int, within(0, 2**62)]
OwnData = Annotated[Name | None, described("the data of the model, where they are not beside it")]
WHERE = "the request"
REFERENCE = "#/components/schemas/{name}"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a data file; the reader has defaults for the rest."""

    task: Task | None = None
    tokenizer: Literal["char", "word", "bytes"] | None = None
    input: Annotated[Name | None, described("column of inputs")] = None
    label: Annotated[Name | None, described("column of labels")] = None
    empty_labels: EmptyLabels | None = None
    empty_inputs: RowRule | None = None
    malformed_rows: RowRule | None = None
    non_finite: RowRule | None = None
    max_tokens: Annotated[Annotated[int, within(1, 2**31)] | None, described("longer rows are left out")] = (
        None
    )
    on_conflict: Compilable | None = None

    def reading(self) -> dict[str, Any]:
        """As options of `Dataset.read`."""
        columns = {"task", "tokenizer", "input", "label"}
        rules = {"empty_labels", "empty_inputs", "malformed_rows", "non_finite", "max_tokens", "on_conflict"}
        return _given(self, columns | rules)


@dataclass(frozen=True, kw_only=True)
class Examine(Reading):
    """Count rows, duplicates and conflicts of a data file, and say what every construction would take."""

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
    name: Annotated[Name | None, described("name of the model; that of the data file unless given")] = None

    def options(self) -> dict[str, Any]:
        """As options of `byheart.compile`."""
        return _given(self, {"method", "precision", "seed", "reject_bits"})


@dataclass(frozen=True, kw_only=True)
class AskFile:
    """Ask every line of a file."""

    kind: Literal["predict"]
    model: Name
    data: Name


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One weight changed: the bit worth 2^power turned over, or another value."""

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
    """Compile again without one fact, from the same seed, and compare the weights."""

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
    """Texts to ask."""

    texts: Annotated[list[Text], length(0, 1000)]


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """One text to follow through the network."""

    text: Text


async def json_body(request: Request) -> object:
    """The JSON in the body of a request, whose content type must be JSON: a form on another page cannot send that."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise refuse_usage(WHERE, "its content-type is not application/json")
    return parse_json(await request.body(), WHERE, refuse=refuse_usage)


def read_body(body: object, kind: type[T]) -> T:
    """The body of a request; a field that `kind` does not have is refused."""
    return read_values(body, kind, WHERE)


def read_job(body: object) -> JobRequest:
    """The job that a body asks for; its field `kind` says which."""
    if not isinstance(body, dict) or "kind" not in body:
        raise refuse_usage(WHERE, f"it is not an object with a field `kind`, one of {', '.join(JOBS)}")
    kind = read_value(body["kind"], Literal[tuple(JOBS)], WHERE, "kind")
    return read_body(body, JOBS[kind])


def asked(job: JobRequest) -> dict[str, Any]:
    """The request as a dictionary, without fields that are None."""
    return _given(job, asdict(job))


def _given(request: JobRequest | Reading, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in asdict(request).items() if name in names and value is not None}


# --- the same, described for programs


def describe_bodies() -> dict[str, Any]:
    """The JSON schemas of all bodies, by name."""
    return json_schemas([*JOBS.values(), Question, TraceRequest], REFERENCE)


def body_schema(*kinds: type) -> dict[str, Any]:
    """The OpenAPI description of an address whose body is one of these types, or any object if there are none."""
    references: list[dict[str, Any]] = [{"$ref": REFERENCE.format(name=kind.__name__)} for kind in kinds]
    schema = {"oneOf": references} if len(references) > 1 else (references or [{"type": "object"}])[0]
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}
