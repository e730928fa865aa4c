"""`byheart export`: write a saved model as GGUF or ONNX, or check that TransformerLens opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from byheart.cli.options import model_argument, output_option, output_options
from byheart.cli.output import echo_json, say

FORMATS = ("gguf", "onnx", "transformer-lens")


@click.command()
@model_argument
@click.option("--to", "kind", type=click.Choice(FORMATS), required=True, help="Format to write.")
@output_option("PATH", "File to write (gguf, onnx).")
@output_options
def command(folder: Path, kind: Any, output: Path | None, as_json: bool) -> None:
    """Write the model in DIR for another program.

    gguf: a file for llama.cpp, from a grafted checkpoint, or from a model of the method `llama` that was compiled with the
    tokenizer char or bytes.

    onnx: a file for ONNX runtimes, from any model except a Llama or a graft. Floats must represent all weights exactly.

    transformer-lens: for a model of the method `llama`, writes nothing, but checks that TransformerLens opens DIR and computes
    the same logits as transformers. The folder needs no conversion.
    """
    from byheart.documents.exports import export_model

    written = export_model(folder, kind, output)
    if as_json:
        echo_json(written.to_json())
    elif written.bytes is not None:
        say(f"{output}: {written.bytes:,} bytes")
    else:
        say(
            f"{folder}: TransformerLens opens this folder (TransformerBridge.boot_transformers) "
            "and computes the same logits as transformers"
        )
