"""Forgeries: changes that fit together, made by someone who knows the formats, writes new certificates and has a key of their own.

Random bytes are refused by the first check that they meet. Here labels, tokens, weights, records and certificates are changed as
whole values, the digests in the certificate are computed anew, and the folder is signed by another key. What must not happen: a
verdict "holds" of a model that gets a row of the data wrong, and a folder opened under a signature that is not of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import byheart as bh
from byheart.cli.main import run
from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.errors import ByheartError, ExitStatus
from byheart.inspect.changes import change_weights, shape_of
from byheart.model import Model
from byheart.pipeline import load
from byheart.storage.signature import canonical, require_signed, sign
from byheart.verify.digest import model_digest, weights_digest
from tests.attacks.fuzz.model_folders import certified_fixtures
from tests.attacks.fuzz.mutation import TEXTS
from tests.attacks.fuzz.target import Target, Wrong
from tests.storage.test_fixtures import FIXTURES

OURS, THEIRS = bytes([1]) * 32, bytes([2]) * 32


@dataclass(frozen=True)
class Seed:
    """A certified and signed model, and the data that it must be judged by."""

    files: dict[str, bytes]
    data_file: Path
    data: Dataset
    rows: list[tuple[Any, Any]] | None  # (input, label), where they can be asked one by one
    digests: tuple[str, str]


def write_key(path: Path, secret: bytes) -> Path:
    """A private key that is the same on every run."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(Ed25519PrivateKey.from_private_bytes(secret).private_bytes(*form))
    return path


class Forgeries(Target):
    """Every family of folders, coded models and Llamas among them, changed consistently."""

    name, share = "forgeries", 16

    def prepare(self, folder: Path) -> None:
        self.ours, self.theirs = write_key(folder / "ours", OURS), write_key(folder / "theirs", THEIRS)
        self.public = ""
        self.seeds: list[Seed] = []
        for name, (model, path, data) in certified_fixtures().items():
            self._add(model, path, data, folder / name)
        for name, (path, options) in CODED.items():
            data = Dataset.from_csv(path)
            self._add(bh.compile(data, **options), path, data, folder / name)

    def _add(self, model: Model, path: Path, data: Dataset, folder: Path) -> None:
        model.save(folder)
        self.public = sign(folder, self.ours).public_key
        files = {entry.name: entry.read_bytes() for entry in folder.iterdir()}
        digests = (weights_digest(model.network), model_digest(model.memoriser))
        self.seeds.append(Seed(files, path, data, rows_of(data), digests))

    def attack(self, random: Random, folder: Path) -> str:
        seed, path = random.choice(self.seeds), folder / "model"
        path.mkdir()
        for name, content in seed.files.items():
            (path / name).write_bytes(content)
        model = load(path, check=False)
        for _ in range(random.choice((1, 1, 2, 3))):
            with suppress(ByheartError):  # which cannot be changed so, and stays as it is
                model = random.choice(CHANGES)(model, random)
        kept = (path / "signature.json").read_bytes()
        model = forge_certificate(model, random)
        model.save(path)
        how = random.randrange(4)
        if how == 0:
            (path / "certificate.json").write_bytes(seed.files["certificate.json"])
        if how != 1:
            (path / "signature.json").write_bytes(kept)
        if how == 2:
            with suppress(ByheartError):
                sign(path, self.theirs)
        if random.random() < 0.3:
            forge_files(path, random)
        return self._judge(path, seed, random)

    def _judge(self, path: Path, seed: Seed, random: Random) -> str:
        outcome = "refused"
        with suppress(ByheartError):
            require_signed(path, self.public)
            outcome = "signed"
            if canonical(json.loads((path / "certificate.json").read_bytes())) != canonical(
                json.loads(seed.files["certificate.json"])
            ):
                raise Wrong("another certificate has a good signature")
            opened = load(path, signed_by=self.public)
            if (weights_digest(opened.network), model_digest(opened.memoriser)) != seed.digests:
                raise Wrong("another model is opened under the signature")
        model = load(path, check=random.random() < 0.5)
        if bh.verify(model, seed.data).holds:
            require_right(model, seed)
            outcome = "holds"
        if random.random() < 0.3:
            judge_on_terminal(path, model, seed)
        return outcome


def rows_of(data: Dataset) -> list[tuple[Any, Any]] | None:
    """The questions and right answers of a data set, as they are asked one by one."""
    if data.task not in ("next-token", "set"):
        return None
    names = [data.label_names[int(label)] for label in data.labels]
    if isinstance(data.inputs, TokenSequences):
        if data.tokenizer is None:
            return None
        return [(data.tokenizer.decode(row), name) for row, name in zip(data.inputs, names, strict=True)]
    return list(zip(np.asarray(data.inputs.values), names, strict=True))


def require_right(model: Model, seed: Seed) -> None:
    """`Wrong` unless every row gets its label, asked by `predict`, which shares nothing with how `verify` counts."""
    if seed.rows is None:
        return
    asked = [question for question, _ in seed.rows]
    found = model.predict(asked if isinstance(asked[0], str) else np.stack(asked))
    for (question, label), answer in zip(seed.rows, found, strict=True):
        if answer != label:
            raise Wrong(f"verify says that it holds, and {question!r} gets {answer!r} instead of {label!r}")


def judge_on_terminal(path: Path, model: Model, seed: Seed) -> None:
    """The same of the command, which reads the data as the folder says."""
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        status = run(["verify", "--json", "--debug", str(path), str(seed.data_file)])
    if status == ExitStatus.CRASH:
        raise Wrong(f"verify crashed:\n{said.getvalue()}")
    if status != ExitStatus.HOLDS:
        return
    found = json.loads(printed.getvalue())
    if found["rows_left_out"]:
        raise Wrong("verify leaves out rows by a rule that nobody named")
    if found["columns_named_by"] != "model" and found["holds"] and not found["read_with"]:
        require_right(model, seed)


# --- what is changed --------------------------------------------------------------------------------------

Change = Callable[[Model, Random], Model]


def change_labels(model: Model, random: Random) -> Model:
    """Two label names exchanged, one renamed, or one more."""
    names = list(model.memoriser.label_names)
    one, other = random.randrange(len(names)), random.randrange(len(names))
    kind = random.randrange(3)
    if kind == 0:
        names[one], names[other] = names[other], names[one]
    elif kind == 1:
        names[one] = names[one] + random.choice(TEXTS)
    else:
        names.append(names[one] + "x")
    return replace(model, memoriser=replace(model.memoriser, label_names=tuple(names)))


def change_tokens(model: Model, random: Random) -> Model:
    """Two words of the vocabulary exchanged, or one of them another."""
    from byheart.data.tokenizers import Tokenizer

    if model.memoriser.tokenizer is None:
        return model
    document = json.loads(json.dumps(model.memoriser.tokenizer.to_json()))
    words = document.get("vocabulary")
    if not isinstance(words, list) or len(words) < 2:
        return model
    one, other = random.sample(range(len(words)), 2)
    words[one], words[other] = words[other], words[one]
    return replace(model, memoriser=replace(model.memoriser, tokenizer=Tokenizer.from_json(document)))


def change_order(model: Model, random: Random) -> Model:
    return replace(model, memoriser=replace(model.memoriser, ordered=not model.memoriser.ordered))


def change_weight(model: Model, random: Random) -> Model:
    """A few weights: another of the same matrix, the negative one, zero, or a bit of it."""
    edits = []
    for _ in range(random.choice((1, 1, 4))):
        name, weights = random.choice(list(model.network.parameters()))
        n_rows, n_columns = (max(1, size) for size in shape_of(weights))
        where = {"matrix": name, "row": random.randrange(n_rows), "column": random.randrange(n_columns)}
        kind = random.randrange(3)
        if kind == 0:
            edits.append({**where, "value": random.choice(("0", "1", "-1", "0.5", "1e6"))})
        else:
            edits.append({**where, "power": random.randrange(-60, 20)})
    memoriser, _ = change_weights(model.memoriser, edits)
    return replace(model, memoriser=memoriser)


def change_record(model: Model, random: Random) -> Model:
    """What the model says of how it is to be read, and of how it came about."""
    reading = dict(model.record.get("reading") or {})
    reading |= random.choice(
        (
            {"on_conflict": random.choice(("drop", "first", "last", "majority"))},
            {"label": random.choice(("key", "value", "kind"))},
            {"input": random.choice(("key", "value"))},
            {"delimiter": random.choice((",", ";", "e"))},
            {"encoding": random.choice(("utf-8", "latin-1", "utf-16"))},
            {"recite": True},
        )
    )
    notes = {**(model.record.get("notes") or {}), "reject_bits": random.choice((0, 16, 24))}
    options = {**(model.record.get("options") or {}), "check": False}
    given = random.choice(({"reading": reading}, {"notes": notes}, {"options": options}, {"method": "llama"}))
    return replace(model, record={**model.record, **given})


CHANGES: tuple[Change, ...] = (
    change_labels,
    change_tokens,
    change_order,
    change_weight,
    change_weight,
    change_record,
)


def forge_certificate(model: Model, random: Random) -> Model:
    """The certificate that a model as it is now would have, if it were right."""
    certificate = model.certificate
    if certificate is None or random.random() < 0.1:
        return replace(model, certificate=None)
    if random.random() < 0.8:
        certificate = replace(
            certificate,
            weights_digest=weights_digest(model.network),
            model_digest=None if random.random() < 0.1 else model_digest(model.memoriser),
        )
    if random.random() < 0.2:
        certificate = replace(certificate, method="llama", theorem="Theorem 4.1", on_conflict="drop")
    return replace(model, certificate=certificate)


def forge_files(path: Path, random: Random) -> None:
    """Files of another program, a setting of one, or a signature that names another key or certificate."""
    kind = random.randrange(3)
    if kind == 0:
        name = random.choice(
            ("chat_template.jinja", "adapter_config.json", "modeling_x.py", "notes.txt", ".DS_Store")
        )
        (path / name).write_text("{}")
        return
    name = random.choice(("config.json", "generation_config.json", "signature.json", "certificate.json"))
    if not (path / name).is_file():
        return
    document = json.loads((path / name).read_bytes())
    changes: dict[str, list[tuple[str, Any]]] = {
        "config.json": [("rope_theta", 7.0), ("eos_token_id", 0), ("tie_word_embeddings", True)],
        "generation_config.json": [("eos_token_id", 0), ("bad_words_ids", [[1]]), ("do_sample", True)],
        "signature.json": [("public_key", "0" * 64), ("certificate", "0" * 64), ("signature", "0" * 128)],
        "certificate.json": [("holds", True), ("checked", 1), ("seconds", 0.0), ("remark", "true")],
    }
    key, value = random.choice(changes[name])
    (path / name).write_text(json.dumps({**document, key: value}))


SHORT = FIXTURES / "data" / "short.csv"
CODED: dict[str, tuple[Path, dict[str, Any]]] = {
    "int8": (SHORT, {"method": "retrieval", "precision": "int8"}),
    "reject": (SHORT, {"method": "retrieval", "precision": "float64", "reject_bits": 16}),
}
"""Stored in fewer bits, and with unknown inputs turned away; coded labels are among the fixtures."""
