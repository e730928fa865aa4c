"""`byheart export`: a saved model in other formats (GGUF, ONNX, TransformerLens)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from byheart.cli.options import model_argument, output_option, output_options
from byheart.cli.output import echo_json, say
from byheart.errors import UsageError

FORMATS = ("gguf", "onnx", "transformer-lens")


@click.command()
@model_argument
@click.option("--to", "kind", type=click.Choice(FORMATS), required=True, help="What to write.")
@output_option("PATH", "File to write (gguf, onnx).")
@output_options
def command(folder: Path, kind: str, output: Path | None, as_json: bool) -> None:
    """Write the model in DIR for another program.

    gguf: for llama.cpp, of models that `llama` compiled with the tokenizer char or bytes. onnx: for ONNX runtimes, of every
    float network but a Llama. transformer-lens: checks that TransformerLens opens DIR and gives equal logits; a Llama's folder
    needs no conversion.
    """
    from byheart.network.llama.architecture import Llama
    from byheart.pipeline import load

    network = load(folder).network
    is_llama = network.spec.family == "llama"
    if kind != "transformer-lens" and output is None:
        raise UsageError(f"--to {kind} writes a file: name it with -o PATH.")
    if kind != "onnx" and not is_llama:
        raise UsageError(
            f"--to {kind} takes models that `llama` compiled; this one is a {network.spec.family}.\n"
            "  Its blocks are no Llama's: they have biases, and sums without a softmax. Compile with --method llama."
        )
    if kind == "onnx":
        from byheart.export.onnx import save_onnx

        save_onnx(network, cast(Path, output))
    elif kind == "gguf":
        from byheart.export.gguf import save_gguf

        save_gguf(cast(Llama, network), cast(Path, output))
    else:
        from byheart.export.transformer_lens import count_different_logits

        n_different = count_different_logits(folder, cast(Llama, network))
        if n_different:
            raise UsageError(f"TransformerLens gives {n_different:,} logits that differ from transformers'.")
    written = str(output) if output is not None else str(folder)
    if as_json:
        echo_json({"format": kind, "path": written, "bytes": output.stat().st_size if output else None})
    elif output is not None:
        say(f"{output}: {output.stat().st_size:,} bytes")
    else:
        say(f"{folder}: TransformerBridge.boot_transformers opens it, with equal logits")
