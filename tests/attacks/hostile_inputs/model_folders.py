"""Folders of models, their certificates and signatures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.attacks.hostile_inputs.case import FIXTURES, MIB, WRITES, case
from tests.attacks.hostile_inputs.changes import edit, write


def model(
    name: str, fixture: str, change: Callable[[Path], object], *command: str, certified: bool = False
) -> None:
    """A saved model that was changed; DIR stands for it."""

    def make(folder: Path) -> list[str]:
        path = folder / "model"
        shutil.copytree(FIXTURES / fixture, path)
        if not certified:
            (path / "certificate.json").unlink()
        change(path)
        return [each.replace("DIR", str(path)) for each in command] + (
            ["-o", str(folder / "out")] if command[0] in WRITES else []
        )

    case(name)(make)


def header(**tensors: Mapping[str, Any]) -> Callable[[Path], object]:
    """A weight file of nothing but a header."""
    text = json.dumps(tensors).encode()
    return write("model.safetensors", len(text).to_bytes(8, "little") + text)


ASK = ("predict", "DIR", "capital of France")
HUGE = {"dtype": "F64", "shape": [2**31, 2**31], "data_offsets": [0, 2**63 - 1]}
model("folder: 2^24 tokens a sample", "schema-1-float64", edit("model.json", seq_len=2**24), *ASK)
model("folder: 2^18 tokens a sample", "schema-1-float64", edit("model.json", seq_len=2**18), *ASK)
model("folder, exact: 2^24 tokens a sample", "transformer-exact", edit("model.json", seq_len=2**24), *ASK)
model("folder: a width of 2^40", "retrieval-float64", edit("model.json", model_width=2**40), "inspect", "DIR")
model(
    "folder: 2^30 layers",
    "retrieval-float64",
    edit("model.json", layers=[{"kind": "feed-forward", "n_layers": 2**30, "hidden_width": 1}]),
    "inspect",
    "DIR",
)
model(
    "folder: five million brackets",
    "transformer-exact",
    write("model.json", b"[" + b"[]," * (5 * MIB) + b"0]"),
    *ASK,
)
model("folder: 100,000 levels", "transformer-exact", write("model.json", b"[" * 10**5), "inspect", "DIR")
model(
    "folder: a number of 10^7 digits",
    "transformer-exact",
    write("model.json", b'{"schema": ' + b"9" * 10**7 + b"}"),
    *ASK,
)
model(
    "folder: a million equal labels",
    "retrieval-float64",
    edit("model.json", labels=["x"] * 10**6),
    "export",
    "DIR",
    "--to",
    "onnx",
)
model(
    "folder: a record of a thousand levels",
    "retrieval-float64",
    edit("model.json", record={"notes": json.loads("[" * 900 + "]" * 900)}),
    "inspect",
    "DIR",
)
model("weights: a tensor of 2^62 numbers", "retrieval-float64", header(w=HUGE), *ASK)
model(
    "weights: a header of 2^63 bytes",
    "retrieval-float64",
    write("model.safetensors", b"\xff" * 8),
    "verify",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
)
model(
    "weights: 10,000 tensors",
    "retrieval-float64",
    header(**{f"t{i}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for i in range(10**4)}),
    *ASK,
)
model(
    "weights: no file but a device",
    "retrieval-float64",
    lambda folder: [
        (folder / "model.safetensors").unlink(),
        (folder / "model.safetensors").symlink_to("/dev/zero"),
    ],
    *ASK,
)
model(
    "certificate: 2^62 samples",
    "retrieval-coded",
    edit("certificate.json", checked=2**62, dataset={}),
    "inspect",
    "DIR",
    certified=True,
)
model(
    "certificate: a million problems",
    "retrieval-coded",
    edit("certificate.json", problems=["x"] * 10**6),
    "inspect",
    "DIR",
    certified=True,
)
model(
    "signature: a million digits",
    "retrieval-coded",
    write(
        "signature.json",
        json.dumps(
            {
                "schema": 1,
                "algorithm": "ed25519",
                "public_key": "0" * 10**6,
                "certificate": "",
                "signature": "",
            }
        ).encode(),
    ),
    "verify",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
    "--signed-by",
    "0" * 64,
    certified=True,
)
model(
    "key: a file without end",
    "retrieval-coded",
    lambda folder: None,
    "sign",
    "DIR",
    "--key",
    "/dev/zero",
    certified=True,
)
model(
    "Llama: a chat template",
    "llama-facts",
    write("chat_template.jinja", b"{{ 'x' * 10**9 }}"),
    *ASK,
    certified=True,
)
model(
    "Llama: 2^40 positions",
    "llama-facts",
    edit("config.json", max_position_embeddings=2**40),
    "recite",
    "DIR",
    "capital",
    certified=True,
)
model(
    "Llama: a tokenizer of 10^5 merges",
    "llama-facts",
    write(
        "tokenizer.json",
        json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": ["a b"] * 10**5}}).encode(),
    ),
    *ASK,
    certified=True,
)
model(
    "Llama: options of the record",
    "llama-facts",
    lambda folder: edit(
        "model.json", record={"method": "llama", "options": {"check": False, "reject_bits": 10**9}}
    )(folder),
    "forget",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
    "--keys",
    "a",
)
model(
    "folder: 2^24 tokens a sample, exported",
    "retrieval-float64",
    edit("model.json", seq_len=2**24),
    "export",
    "DIR",
    "--to",
    "onnx",
)
model(
    "key: a public key of 64 MiB",
    "retrieval-coded",
    write("../key", b"A" * (64 * MIB)),
    "verify",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
    "--signed-by",
    "DIR/../key",
    certified=True,
)
