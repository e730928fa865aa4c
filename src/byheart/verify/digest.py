"""Digests of the weights and of the rest of a model: SHA-256 of their content, independent of the layout of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from byheart.errors import CorruptModel
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import Network
from byheart.verify.certificate import Certificate


def weights_digest(network: Network) -> str:
    """Return the SHA-256, in hexadecimal, of the canonical content of `network`.

    The content is the precision, sequence length and padding, the network's `traits()` (properties in which networks with the same
    weights may differ), and the name, shape and values of every parameter in the order of `parameters()`. Exact weights are written
    as lines of text, "row col mantissa exponent", with the mantissa in hexadecimal. Float weights are written as their
    little-endian bytes. If one bit changes, the digest changes.
    """
    digest = hashlib.sha256()
    pad = "none" if network.pad is None else network.pad
    head = f"byheart weights 1\n{network.precision} {network.seq_len} {pad}\n{' '.join(network.traits())}\n"
    digest.update(head.encode())
    for name, weights in network.parameters():
        digest.update(f"{name} {'x'.join(map(str, weights.shape))}\n".encode())
        digest.update(_content(weights))
    return digest.hexdigest()


def model_digest(memoriser: Memoriser) -> str:
    """Return the SHA-256, in hexadecimal, of everything on which an answer depends, except the weights.

    The digest covers the task, whether order matters, the label names and their type, the tokenizer with its vocabulary, the shape
    of the network, and any further files that its kind of network needs. A certificate that covered only the weights would not
    notice that someone changed a label, and thus an answer.
    """
    tokenizer = None if memoriser.tokenizer is None else memoriser.tokenizer.to_json()
    content = {
        "task": memoriser.task,
        "ordered": memoriser.ordered,
        "labels": list(memoriser.label_names),
        **({} if memoriser.label_type == "text" else {"label_type": memoriser.label_type}),
        "tokenizer": tokenizer,
        "architecture": memoriser.network.spec.to_json(),
        "files": {name: hashlib.sha256(raw).hexdigest() for name, raw in memoriser.network.files().items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(b"byheart model 1\n" + text.encode()).hexdigest()


def require_certified(memoriser: Memoriser, certificate: Certificate, where: str | Path) -> None:
    """Raise `CorruptModel` unless the certificate was issued for this model, which was read from `where`.

    For an older certificate, which has no digest of the rest of the model, only the weights are compared.
    """
    found = {
        "weights are": (weights_digest(memoriser.network), certificate.weights_digest),
        "labels, tokenizer, task, use of token order, architecture or further files are": (
            model_digest(memoriser),
            certificate.model_digest,
        ),
    }
    for what, (digest, certified) in found.items():
        if certified is not None and digest != certified:
            raise CorruptModel(
                f"{where}: the {what} not those for which its certificate was issued; they were changed.\n"
                "  Run `byheart verify DIR DATA` to see what is wrong, restore the folder, or compile again.",
                path=str(where),
                certified=certified,
            )


def _content(weights: Weights) -> bytes:
    if isinstance(weights, SparseMatrix):
        return "".join(
            f"{row} {col} {value.mantissa:x} {value.exponent}\n"
            for (row, col), value in weights.entries.items()
        ).encode()
    return np.ascontiguousarray(weights, dtype=weights.dtype.newbyteorder("<")).tobytes()
