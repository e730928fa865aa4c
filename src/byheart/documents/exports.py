"""A saved model in another format: what `byheart export --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from byheart.errors import UsageError
from byheart.network.llama.architecture import Llama
from byheart.pipeline import load
from byheart.records.json_record import JsonRecord

Format = Literal["gguf", "onnx", "transformer-lens"]


@dataclass(frozen=True)
class ExportedFile(JsonRecord):
    """The file that was written. Where none is needed, `path` is the model folder and `bytes` is None."""

    format: str
    path: str
    bytes: int | None


def export_model(folder: Path, kind: Format, output: Path | None) -> ExportedFile:
    """Write a saved model for llama.cpp or an ONNX runtime, or check that TransformerLens opens its folder."""
    if kind != "transformer-lens" and output is None:
        raise UsageError(f"--to {kind} writes a file: name it with -o PATH.")
    if (folder / "graft.json").is_file():
        if kind != "gguf":
            raise UsageError(
                f"--to {kind} does not take a graft; --to gguf does, and transformers opens the folder."
            )
        from byheart.graft.gguf_export import export_gguf

        export_gguf(folder, cast(Path, output))
        return ExportedFile(kind, str(output), cast(Path, output).stat().st_size)
    network = load(folder).network
    if kind != "onnx" and not isinstance(network, Llama):
        raise UsageError(
            f"--to {kind} takes models that `llama` compiled; this one is a {network.spec.family}.\n"
            "  Its blocks are not those of a Llama: they have biases, and attention without softmax. Compile with --method llama.",
            family=network.spec.family,
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
        return ExportedFile(kind, str(folder), None)
    assert output is not None
    return ExportedFile(kind, str(output), output.stat().st_size)
