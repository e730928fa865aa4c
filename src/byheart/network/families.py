"""The families of networks a model may be. Adding one takes a folder of this package and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from byheart.network.protocol import Network, NetworkSpec
from byheart.records.fields import Fields

__all__ = ["FAMILIES", "Network", "NetworkFamily", "NetworkSpec", "read_spec"]


@dataclass(frozen=True)
class NetworkFamily:
    """Where the shape of a family is defined, and which files its folder may hold beside those of every model.

    spec         a class with a static method `from_json(fields) -> NetworkSpec`, as "module:name"
    files        names of files that `Network.files` may return; those in the folder are passed to `NetworkSpec.build`
    tensor_note  metadata in the header of model.safetensors, for other programs that read it
    """

    spec: str
    files: tuple[str, ...] = ()
    tensor_note: Mapping[str, str] | None = None


TRANSFORMER = "transformer"
FAMILIES = {
    TRANSFORMER: NetworkFamily("byheart.network.transformer.spec:TransformerSpec"),
    "decoder": NetworkFamily("byheart.network.decoder.architecture:DecoderSpec"),
    "averaging-decoder": NetworkFamily("byheart.network.decoder.architecture:DecoderSpec"),
    "attention-only": NetworkFamily("byheart.network.attention_only.architecture:AttentionOnlySpec"),
    "llama": NetworkFamily(
        "byheart.network.llama.spec:LlamaSpec",
        ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "README.md"),
        {"format": "pt"},
    ),
}


def family_of(fields: Fields) -> str:
    """The family that the architecture in model.json names; one without a name is a Transformer."""
    return fields.text("family", tuple(FAMILIES)) if fields.has("family") else TRANSFORMER


def read_spec(fields: Fields) -> NetworkSpec:
    """The shape that the architecture in model.json describes, every number checked."""
    module, name = FAMILIES[family_of(fields)].spec.split(":")
    spec: NetworkSpec = getattr(import_module(module), name).from_json(fields)
    return spec
