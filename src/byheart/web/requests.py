"""What the page may ask for: the bodies of its requests, checked before anything is done."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=100_000)]
Precision = Literal["exact", "float64", "float32", "bfloat16", "int8"]


class Strict(BaseModel):
    """A body without fields nobody knows."""

    model_config = ConfigDict(extra="forbid")


class Reading(Strict):
    """How a data file is to be understood; what is not given is left to the reader."""

    task: Literal["next-token", "seq-to-seq", "set", "distribution"] | None = None
    tokenizer: Literal["char", "word", "bytes"] | None = None
    input: Name | None = Field(None, description="column of inputs")
    label: Name | None = Field(None, description="column of labels")

    def reading(self) -> dict[str, str]:
        """As options of `Dataset.read`."""
        return self.model_dump(include=set(Reading.model_fields), exclude_none=True)


class Examine(Reading):
    """Count rows, duplicates and conflicts of a data file, and say what every construction would take."""

    kind: Literal["examine"]
    data: Name


class Compile(Reading):
    """Compile a data file and verify every sample."""

    kind: Literal["compile"]
    data: Name
    method: Name = "auto"
    precision: Precision | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    reject_bits: Annotated[int, Field(ge=0, le=24)] | None = None
    on_conflict: Literal["error", "first", "last", "majority", "drop"] = "error"
    name: Name | None = Field(None, description="name of the model; that of the data file unless given")

    def options(self) -> dict[str, str | int]:
        """As options of `byheart.compile`."""
        return self.model_dump(include={"method", "precision", "seed", "reject_bits"}, exclude_none=True)


class AskFile(Strict):
    """Ask every line of a file."""

    kind: Literal["predict"]
    model: Name
    data: Name


class Edit(Strict):
    """One weight changed: the bit worth 2^power turned over, or another value."""

    matrix: Name
    row: Annotated[int, Field(ge=0)]
    column: Annotated[int, Field(ge=0)]
    power: int | None = None
    value: Name | None = None


class Break(Strict):
    """Change weights and verify every sample again."""

    kind: Literal["break"]
    model: Name
    edits: Annotated[list[Edit], Field(min_length=1, max_length=64)]
    data: Name | None = Field(None, description="the data of the model, where they are not beside it")


class Forget(Strict):
    """Compile again without one fact, from the same seed, and compare the weights."""

    kind: Literal["forget"]
    model: Name
    text: Text
    data: Name | None = None


class Export(Strict):
    """Write a model in another program's format."""

    kind: Literal["export"]
    model: Name
    format: Literal["gguf", "onnx"]


JobRequest = Annotated[Examine | Compile | AskFile | Break | Forget | Export, Field(discriminator="kind")]


class Question(Strict):
    """Texts to ask."""

    texts: Annotated[list[Text], Field(max_length=1000)]


class TraceRequest(Strict):
    """One text to follow through the network."""

    text: Text
