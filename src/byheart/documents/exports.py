"""Export a saved model to another format. The result is the document that `byheart export --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from byheart.errors import DoesNotHold, UsageError
from byheart.network.llama.architecture import Llama
from byheart.pipeline import load
from byheart.records.json_record import JsonRecord
from byheart.storage.target import is_graft

Format = Literal["gguf", "onnx", "transformer-lens"]


@dataclass(frozen=True)
class ExportedFile(JsonRecord):
    """The exported file and its size in bytes. If the format needs no file, `path` is the model folder and `bytes` is None."""

    format: str
    path: str
    bytes: int | None


def export_model(folder: Path, kind: Format, output: Path | None) -> ExportedFile:
    """Write a saved model as a file for llama.cpp or an ONNX runtime.

    For `transformer-lens`, write nothing, but check on random prompts that TransformerLens and transformers compute equal logits.
    """
    if kind != "transformer-lens" and output is None:
        raise UsageError(f"--to {kind} writes a file: give its path with -o PATH.", kind=kind)
    if output is not None and output.is_dir():
        raise UsageError(
            f"-o {output} is a folder.\n  Nothing was written. Give the path of a file.", path=str(output)
        )
    if is_graft(folder):
        if kind != "gguf":
            raise UsageError(
                f"--to {kind} cannot export a graft.\n"
                "  Use --to gguf, or open the folder itself with transformers.",
                kind=kind,
            )
        from byheart.graft.gguf_export import export_gguf

        export_gguf(folder, cast(Path, output))
        return ExportedFile(kind, str(output), cast(Path, output).stat().st_size)
    network = load(folder).network
    if kind != "onnx" and not isinstance(network, Llama):
        raise UsageError(
            f"--to {kind} exports only models of the method llama; this model is of the family {network.spec.family}.\n"
            "  Its layers are not those of a Llama. Compile with --method llama.",
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
            raise DoesNotHold(
                "TransformerLens and transformers do not compute the same logits; number of logits that differ: "
                f"{n_different:,}.",
                n_different=n_different,
            )
        return ExportedFile(kind, str(folder), None)
    assert output is not None
    return ExportedFile(kind, str(output), output.stat().st_size)
