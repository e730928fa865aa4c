"""Save and load a model as a folder, which is written atomically and checked when it is read.

model.safetensors   the weights: exact weights in the format of `sparse_weights`, floats as tensors under their names,
                    and int8 weights as whole numbers with exponents
model.json          schema, architecture, task, tokenizer, label names and how the model was made
certificate.json    what was verified about these weights, if anything was
signature.json      a signature of the certificate, if it was signed (written by `signature`, not here)

Some families of networks have further files, such as the tokenizer and the configuration of a Llama.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from byheart.data.dataset import Task
from byheart.data.label_types import misfit
from byheart.data.tokenizers import Tokenizer
from byheart.errors import ByheartError, CorruptModel, DataError, MissingExtra, UsageError
from byheart.files.atomic_folder import mend, read_whole, replaced_folder
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.families import FAMILIES, NetworkFamily, read_spec
from byheart.network.logits import AnswersWithLogits
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import Network, NetworkSpec
from byheart.network.transformer.architecture import ShapeMismatch, Transformer
from byheart.network.transformer.spec import TransformerSpec
from byheart.records.fields import Fields, read_bytes, read_json
from byheart.records.refusals import corrupt
from byheart.records.vocabulary import LabelType
from byheart.storage.sparse_weights import DTYPES as SPARSE_DTYPES
from byheart.storage.sparse_weights import decode_sparse, encode_sparse
from byheart.storage.target import (
    CERTIFICATE,
    LEFT_BY_SYSTEMS,
    MODEL,
    WEIGHTS,
    as_path,
    check_target,
    is_graft,
    own_files,
)
from byheart.storage.tensor_file import BFLOAT16, StoredTensor, read_header, read_tensor, write_tensors
from byheart.verify.certificate import Certificate, origin_of

SCHEMA = 1
FLOATS = {"float64": "F64", "float32": "F32"}
STORED = {"int8": "I8", "int16": "I16", "float32": "F32", "bfloat16": "BF16"}
EXPONENTS = ".exponents"
FEW_COLUMNS = 4096


def save_folder(
    path: str | Path, memoriser: Memoriser, record: Mapping[str, Any], certificate: Certificate | None
) -> None:
    """Write a model folder at `path`.

    A model folder that exists there is replaced; a file or a folder with other content is refused.

    The same arguments give the same bytes. `record` says how the model was made; it may contain only JSON types.
    """
    network = memoriser.network
    family = FAMILIES[network.spec.family]
    document = {
        "schema": SCHEMA,
        "architecture": _readable(network.spec).to_json(),
        "task": memoriser.task,
        "ordered": memoriser.ordered,
        "labels": list(memoriser.label_names),
        **({} if memoriser.label_type == "text" else {"label_type": memoriser.label_type}),
        "tokenizer": None if memoriser.tokenizer is None else memoriser.tokenizer.to_json(),
        "record": dict(record),
    }
    texts = {MODEL: _as_text(document)}
    if certificate is not None:
        texts[CERTIFICATE] = _as_text(certificate.to_json())
    files = {**network.files(), **texts}
    assert set(network.files()) <= set(family.files), (
        "the network wrote a file that its family's list of files lacks"
    )
    tensors = _tensors(network)
    with replaced_folder(as_path(path), check_target) as folder:
        write_tensors(folder / WEIGHTS, tensors, family.tensor_note)
        for name, content in files.items():
            (folder / name).write_bytes(content)


def _readable(spec: NetworkSpec) -> NetworkSpec:
    """Check that `load_folder` could read a network with this specification, and return the specification."""
    try:
        return read_spec(Fields(spec.to_json(), "this network", "architecture"))
    except CorruptModel as error:
        problem = error.facts["problem"]
        raise UsageError(f"this network cannot be saved: {problem}.", problem=problem) from error


def _as_text(document: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError as error:
        # the document starts with more than ten ASCII characters
        piece = error.object[error.start - 10 : error.start + 10]
        raise DataError(
            "a label, token or note holds text that is not valid Unicode and cannot be saved: "
            f"{piece!a}.\n"
            "  One of its characters is half of a surrogate pair. Replace this character in the data.",
            text=ascii(piece),
        ) from None
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the record of this model is not plain JSON, so it cannot be saved: {error}.", error=error
        ) from None


def _tensors(network: Network) -> dict[str, np.ndarray]:
    parameters = dict(network.parameters())
    if network.precision == "exact":
        return encode_sparse(matrix for matrix in parameters.values() if isinstance(matrix, SparseMatrix))
    if isinstance(network, Transformer) and network.storage is not None:
        found = {}
        for name, (numbers, exponents) in network.encoded().items():
            found[name] = numbers.view(BFLOAT16) if network.precision == "bfloat16" else numbers
            if exponents is not None:
                found[name + EXPONENTS] = exponents
        return found
    return {name: array for name, array in parameters.items() if isinstance(array, np.ndarray)}


def load_folder(
    path: str | Path, certified: object = None
) -> tuple[Memoriser, dict[str, Any], Certificate | None]:
    """Load the memoriser, record and certificate that were saved at `path`.

    certified: the document of the certificate if the caller has read it, for example to check its signature. The file is then not
        read again, because it could be another one by now.

    Raise `UsageError` if there is no model folder, or if it has a newer schema. Raise `CorruptModel`, which names the
    file and the fault, if the files are not valid or do not match each other. Whether the certificate was issued for these weights
    is not checked here. Sizes are checked before memory is allocated. If the folder is replaced during reading, it is read again;
    see `read_whole`.
    """
    folder = as_path(path)
    return read_whole(folder, lambda: _load(folder, certified))


def _load(folder: Path, certified: object) -> tuple[Memoriser, dict[str, Any], Certificate | None]:
    if not (folder / MODEL).exists():
        # a save may have been interrupted after moving the old model away and before moving the new one in
        mend(folder)
    if not (folder / MODEL).exists():
        if is_graft(folder):
            raise UsageError(
                f"{folder} is a graft, a checkpoint with added facts, and not a model folder.\n"
                "  To check it, use: byheart verify DIR DATA --host HOST. To list its facts, use: byheart detect DIR. "
                "To run it, open it with transformers.",
                path=str(folder),
                is_graft=True,
            )
        what = "does not exist"
        if folder.exists():
            what = (
                f"has no {MODEL}, so it is not a model folder"
                if folder.is_dir()
                else "is a file, not a folder"
            )
        raise UsageError(
            f"{folder} {what}.\n  Give a folder that `byheart compile -o` wrote.", path=str(folder)
        )
    fields = Fields.read(folder / MODEL)
    schema = fields.integer("schema", 1)
    if schema > SCHEMA:
        raise UsageError(
            f"{folder / MODEL} has schema {schema}; this version of byheart reads schemas up to {SCHEMA}.\n"
            "  Install a newer byheart.",
            schema=schema,
        )
    spec = read_spec(fields.child("architecture"))
    _refuse_other_files(folder, FAMILIES[spec.family])
    network = _network(spec, folder, FAMILIES[spec.family])
    memoriser = _memory(network, fields)
    record = _record(fields.child("record"))
    origin_of(record, folder / MODEL)
    if certified is None:
        if not (folder / CERTIFICATE).exists():
            return memoriser, record, None
        certified = read_json(folder / CERTIFICATE)
    certificate = Certificate.from_json(certified, folder / CERTIFICATE)
    _require_possible(certificate, memoriser, folder / CERTIFICATE)
    return memoriser, record, certificate


def _require_possible(certificate: Certificate, memoriser: Memoriser, where: Path) -> None:
    """Refuse a certificate for another task, or one that names an evaluator which networks of this kind do not have."""
    task, network = certificate.dataset.shape.task, memoriser.network
    if task != memoriser.task:
        raise corrupt(
            where, f"the checked data are for the task {task}, but the model is for {memoriser.task}"
        )
    for name, backend in (("backend", certificate.backend), ("rechecked_by", certificate.rechecked_by)):
        if backend is not None and backend not in (*network.backends, network.second_backend):
            raise corrupt(where, f"{name} is {backend!r}, which is not an evaluator of this kind of network")


def _memory(network: Network, fields: Fields) -> Memoriser:
    task: Any = fields.text("task", get_args(Task))
    labels = fields.texts("labels")
    if not labels or len(set(labels)) < len(labels):
        raise fields.refuse("labels", "a list of at least one label name, all distinct")
    tokenizer = _tokenizer(fields) if fields.has("tokenizer") else None
    if tokenizer is not None:
        n_known = network.n_vocab or 0
        if len(tokenizer.vocabulary) > n_known:
            raise corrupt(
                fields.where,
                f"the tokenizer has {len(tokenizer.vocabulary):,} tokens, but the network embeds only {n_known:,}",
            )
    network.require_words(tokenizer, labels)
    if isinstance(network, AnswersWithLogits) and network.n_outputs > len(labels):
        raise corrupt(
            fields.where,
            f"the network has {network.n_outputs:,} logits, one for each label, but the number of labels is {len(labels):,}",
        )
    return Memoriser(network, task, labels, tokenizer, fields.boolean("ordered"), _label_type(fields, labels))


def _label_type(fields: Fields, labels: Sequence[str]) -> LabelType:
    """Return the type that labels had before they were converted to text. If the folder does not record it, return `text`."""
    if not fields.has("label_type"):
        return "text"
    kind = cast(LabelType, fields.text("label_type", get_args(LabelType)))
    odd = misfit(kind, labels)
    if odd is not None:
        raise fields.refuse(
            "label_type",
            "the type of every label, in the form that compile writes, and no two labels may stand for the same value; "
            f"{odd!r} is not such a label",
        )
    return kind


def _record(fields: Fields) -> dict[str, Any]:
    """Return the record of how the model was made.

    Check that `notes`, `options`, `versions`, `refused` and `reading` are objects, if present, and that the values of `versions`
    and `refused` are texts. Other fields are not checked here.
    """
    for name in ("notes", "options", "versions", "refused", "reading"):
        if fields.has(name):
            fields.child(name)
    for name in ("versions", "refused"):
        if fields.has(name):
            part = fields.child(name)
            for each in part.values:
                part.text(each)
    return fields.values


def _tokenizer(fields: Fields) -> Tokenizer:
    try:
        return Tokenizer.from_json(fields.child("tokenizer").values)
    except MissingExtra:  # such an error is not the fault of the file
        raise
    except (ByheartError, ValueError) as error:
        raise corrupt(fields.where, f"the tokenizer cannot be read ({error})") from error


def _network(spec: NetworkSpec, folder: Path, family: NetworkFamily) -> Network:
    path = folder / WEIGHTS
    header = read_header(path)
    weights: Iterator[Weights]
    if spec.precision == "exact":
        weights = _sparse(spec, header, path)
    elif isinstance(spec, TransformerSpec) and spec.precision in ("int8", "bfloat16"):
        weights = _stored(spec, header, path)
    else:
        weights = _floats(spec, header, path)
    files = {name: read_bytes(folder / name) for name in family.files if (folder / name).exists()}
    try:
        return spec.build(weights, files)
    except ShapeMismatch as error:
        raise corrupt(path, f"its weights do not match each other ({error})") from error


def _refuse_other_files(folder: Path, family: NetworkFamily) -> None:
    """Refuse a folder that holds files which byheart did not write, except files that operating systems put into folders.

    A program that loads the model might use an unknown file. For example, an adapter changes the weights, a chat template changes
    the question, and some files contain code.
    """
    others = {path.name for path in folder.iterdir()} - own_files(family) - LEFT_BY_SYSTEMS
    if others:
        raise corrupt(
            folder,
            f"the folder also holds {_few(others)}, which byheart neither wrote nor checked",
            "Other programs may read these files, so move them elsewhere.",
        )


def _sparse(spec: NetworkSpec, header: Mapping[str, StoredTensor], path: Path) -> Iterator[SparseMatrix]:
    if set(header) != set(SPARSE_DTYPES):
        raise corrupt(
            path,
            f"the file must hold the tensors {', '.join(SPARSE_DTYPES)} and no others; it holds {_few(header)}",
        )
    for name, allowed in SPARSE_DTYPES.items():
        stored = header[name]
        if stored.dtype not in allowed or len(stored.shape) != 1:
            raise corrupt(
                path,
                f"tensor {name} must have one axis and dtype {' or '.join(allowed)}, not shape "
                f"{list(stored.shape)} and dtype {stored.dtype}",
            )
    n_rows, n_wanted = header["row_counts"].shape[0], spec.n_rows
    if n_rows != n_wanted:
        raise corrupt(
            path,
            f"row_counts describes {n_rows:,} matrix rows, but the architecture in {MODEL} has {n_wanted:,}",
        )
    shapes = [(shape[0], shape[1]) for _, shape in spec.shapes()]  # tensors of exact weights are matrices
    n_entries, widest = header["columns"].shape[0], max(columns for _, columns in shapes)
    # columns without an entry take no bytes in the file, but memory when the network runs
    if widest > max(FEW_COLUMNS, n_entries):
        raise corrupt(
            path,
            f"the architecture in {MODEL} has a matrix of {widest:,} columns, too many for only {n_entries:,} stored entries",
        )
    tensors = {name: read_tensor(path, stored) for name, stored in header.items()}
    return decode_sparse(tensors, shapes, path)


def _floats(spec: NetworkSpec, header: Mapping[str, StoredTensor], path: Path) -> Iterator[np.ndarray]:
    _require_count(header, spec.n_arrays, path)
    dtype = FLOATS[spec.precision]
    tensors = [(name, _expected(header, name, shape, dtype, path)) for name, shape in spec.shapes()]
    return (_finite(read_tensor(path, stored), name, path) for name, stored in tensors)


def _stored(spec: TransformerSpec, header: Mapping[str, StoredTensor], path: Path) -> Iterator[np.ndarray]:
    """Read the weights of an int8 or bfloat16 network as float32 arrays.

    The weights of an int8 network are stored as whole numbers and exponents.
    """
    _require_count(header, spec.n_stored, path)
    assert spec.storage is not None
    tensors = []
    for (name, shape), form in zip(spec.shapes(), spec.storage.formats, strict=True):
        numbers = _expected(header, name, shape, STORED[form.numbers], path)
        scales = form.exponents_shape(shape)
        exponents = None if scales is None else _expected(header, name + EXPONENTS, scales, "I8", path)
        tensors.append((name, form, numbers, exponents))
    return (
        _finite(
            form.decode(read_tensor(path, numbers), None if scale is None else read_tensor(path, scale)),
            name,
            path,
        )
        for name, form, numbers, scale in tensors
    )


def _require_count(header: Mapping[str, StoredTensor], n_wanted: int, path: Path) -> None:
    if len(header) != n_wanted:
        raise corrupt(
            path, f"the file holds {len(header):,} tensors, but the architecture in {MODEL} has {n_wanted:,}"
        )


def _expected(
    header: Mapping[str, StoredTensor], name: str, shape: tuple[int, ...], dtype: str, path: Path
) -> StoredTensor:
    stored = header.get(name)
    if stored is None:
        raise corrupt(path, f"the file lacks the tensor {name}")
    if stored.shape != shape or stored.dtype != dtype:
        raise corrupt(
            path,
            f"tensor {name} must have shape {list(shape)} and dtype {dtype}, not {list(stored.shape)} "
            f"and {stored.dtype}",
        )
    return stored


def _finite(array: np.ndarray, name: str, path: Path) -> np.ndarray:
    if not np.isfinite(array).all():
        raise corrupt(path, f"tensor {name} holds a weight that is not finite")
    return array


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    return (", ".join(listed[:8]) or "none") + (", ..." if len(listed) > 8 else "")
