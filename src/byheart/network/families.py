"""The families of networks that a model may use. To add a family, add a folder to this package and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from byheart.network.protocol import Network, NetworkSpec
from byheart.records.fields import Fields

__all__ = ["FAMILIES", "Network", "NetworkFamily", "NetworkSpec", "read_spec"]


@dataclass(frozen=True)
class NetworkFamily:
    """Describes a family: where its shape is defined, and which additional files a saved model of this family may contain.

    spec         a class with a static method `from_json(fields) -> NetworkSpec`, as "module:name"
    files        names of the files that `Network.files` may return. When a model is loaded, those that exist in its folder are
                 passed to `NetworkSpec.build`
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
    """Return the family named in model.json. An architecture without a family is a Transformer."""
    return fields.text("family", tuple(FAMILIES)) if fields.has("family") else TRANSFORMER


def read_spec(fields: Fields) -> NetworkSpec:
    """Read the shape of a network from the architecture in model.json, and check every number."""
    module, name = FAMILIES[family_of(fields)].spec.split(":")
    spec: NetworkSpec = getattr(import_module(module), name).from_json(fields)
    return spec
