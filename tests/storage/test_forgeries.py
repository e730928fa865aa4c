"""Whatever was changed since it was signed is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart import pipeline
from byheart.cli.main import run
from byheart.errors import CorruptModel
from byheart.storage import signature
from byheart.storage.keys import read_private_key, read_public_key
from byheart.storage.signature import PREFIX, canonical, require_signed, sign
from byheart.verify import verifier
from tests.refusal import refused
from tests.storage.conftest import DATA, edit

pytest.importorskip("cryptography", reason="needs the `sign` extra")


def sign_as_it_is(folder: Path, key: Path) -> None:
    """Sign whatever certificate is there, as someone who has the key and other software can."""
    private = read_private_key(key)
    content = canonical(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))
    document = {
        "schema": 1,
        "algorithm": "ed25519",
        "public_key": private.public_key().public_bytes_raw().hex(),
        "certificate": hashlib.sha256(content).hexdigest(),
        "signature": private.sign(content).hex(),
    }
    (folder / "signature.json").write_text(json.dumps(document))


def test_no_field_of_the_certificate_is_changed_unnoticed(signed: Path, keys: Path) -> None:
    path = signed / "certificate.json"
    whole = path.read_bytes()
    document = json.loads(whole)
    for name, value in document.items():
        for changed in ({**document, name: [value]}, {k: v for k, v in document.items() if k != name}):
            path.write_text(json.dumps(changed))
            with refused(CorruptModel, "problem", "key"):
                require_signed(signed, keys / "ours.pub")
    path.write_text(json.dumps({**document, "remark": "true of all data"}))
    with refused(CorruptModel, "problem", "key"):
        require_signed(signed, keys / "ours.pub")
    path.write_bytes(whole)
    require_signed(signed, keys / "ours.pub")


def resign_with_digest(folder: Path, keys: Path) -> None:
    """Another certificate, whose digest stands in the signature that was made for the first one."""
    edit(folder / "certificate.json", checked=1)
    content = canonical(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))
    edit(folder / "signature.json", certificate=hashlib.sha256(content).hexdigest())


def claim_our_key(folder: Path, keys: Path) -> None:
    """Signed by them, under our name."""
    sign(folder, keys / "theirs")
    edit(folder / "signature.json", public_key=read_public_key(keys / "ours.pub").hex())


def signature_of_another_model(folder: Path, keys: Path) -> None:
    other = folder.with_name("other")
    bh.compile({"ab": "x", "cd": "y"}, method="retrieval").save(other)
    sign(other, keys / "ours")
    shutil.copy(other / "signature.json", folder / "signature.json")


def sign_without_prefix(folder: Path, keys: Path) -> None:
    """The same key, asked to sign something else: the certificate as it stands in the file."""
    private = read_private_key(keys / "ours")
    content = canonical(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))
    edit(folder / "signature.json", signature=private.sign(content.removeprefix(PREFIX)).hex())


ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "stripped": lambda folder, _: (folder / "signature.json").unlink(),
    "both stripped": lambda folder, _: [
        (folder / f"{n}.json").unlink() for n in ("signature", "certificate")
    ],
    "certificate stripped": lambda folder, _: (folder / "certificate.json").unlink(),
    "another key": lambda folder, keys: sign(folder, keys / "theirs"),
    "another key under our name": claim_our_key,
    "changed certificate, new digest": resign_with_digest,
    "signature of another model": signature_of_another_model,
    "no prefix": sign_without_prefix,
    "empty": lambda folder, _: (folder / "signature.json").write_text(""),
    "a list": lambda folder, _: (folder / "signature.json").write_text("[]"),
    "a pipe": lambda folder, _: [(folder / "signature.json").unlink(), os.mkfifo(folder / "signature.json")],
    "a folder": lambda folder, _: [(folder / "signature.json").unlink(), (folder / "signature.json").mkdir()],
    "newer schema": lambda folder, _: edit(folder / "signature.json", schema=2),
    "schema 0": lambda folder, _: edit(folder / "signature.json", schema=0),
    "another algorithm": lambda folder, _: edit(folder / "signature.json", algorithm="none"),
    "no algorithm": lambda folder, _: edit(folder / "signature.json", algorithm=None),
    "one more field": lambda folder, _: edit(folder / "signature.json", trusted=True),
    "short signature": lambda folder, _: edit(folder / "signature.json", signature="00" * 63),
    "long signature": lambda folder, _: edit(folder / "signature.json", signature="00" * 65),
    "zero signature": lambda folder, _: edit(folder / "signature.json", signature="00" * 64),
    "odd digits": lambda folder, _: edit(folder / "signature.json", signature="xy" * 64),
    "signature is a number": lambda folder, _: edit(folder / "signature.json", signature=7),
    "short key": lambda folder, _: edit(folder / "signature.json", public_key="00"),
    "short digest": lambda folder, _: edit(folder / "signature.json", certificate="00"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_folder_that_was_changed_is_not_opened(attack: str, signed: Path, keys: Path) -> None:
    bh.load(signed, signed_by=keys / "ours.pub")
    ATTACKS[attack](signed, keys)
    with refused(CorruptModel, "problem"):
        require_signed(signed, keys / "ours.pub")
    assert run(["verify", str(signed), str(DATA), "--signed-by", str(keys / "ours.pub")]) == 3


UNSIGNED = (
    "stripped",
    "certificate stripped",
    "another key",
    "signature of another model",
    "changed certificate, new digest",
)

MALFORMED = (
    "newer schema",
    "another algorithm",
    "short signature",
    "odd digits",
    "short key",
    "short digest",
)


def test_each_reason_why_a_folder_is_not_signed_is_another(
    signed_once: Path, keys: Path, tmp_path: Path
) -> None:
    """Who did not sign it is told with the key that should have; what is no signature, with its file."""
    wanted, problems = read_public_key(keys / "ours.pub").hex(), set()
    for attack in (*UNSIGNED, *MALFORMED):
        folder = Path(shutil.copytree(signed_once, tmp_path / attack / "model"))
        ATTACKS[attack](folder, keys)
        told = {"path": str(folder), "key": wanted}
        if attack in MALFORMED:
            told = {"file": str(folder / "signature.json")}
        with refused(CorruptModel, "problem", **told) as caught:
            require_signed(folder, keys / "ours.pub")
        problems.add(str(caught.value.facts["problem"]))
    assert len(problems) == len(UNSIGNED) + len(MALFORMED)


def test_a_signed_certificate_of_another_model_speaks_of_that_one(signed: Path, keys: Path) -> None:
    signature_of_another_model(signed, keys)
    shutil.copy(signed.with_name("other") / "certificate.json", signed / "certificate.json")
    require_signed(signed, keys / "ours.pub")
    with refused(CorruptModel, "certified"):
        bh.load(signed, signed_by=keys / "ours.pub")
    assert run(["verify", str(signed), str(DATA), "--signed-by", str(keys / "ours.pub")]) == 3


def test_no_digit_of_a_signature_is_changed_unnoticed(signed: Path, keys: Path) -> None:
    path = signed / "signature.json"
    document = json.loads(path.read_text())
    for name in ("public_key", "certificate", "signature"):
        for place in range(0, len(document[name]), 5):
            digit = "0" if document[name][place] != "0" else "1"
            changed = document[name][:place] + digit + document[name][place + 1 :]
            path.write_text(json.dumps({**document, name: changed}))
            with refused(CorruptModel, "problem", "key"):
                require_signed(signed, keys / "ours.pub")


def test_weights_and_labels_are_under_the_signature(signed: Path, keys: Path) -> None:
    """They are under the digests of the certificate, which is signed."""
    path = signed / "model.json"
    labels = json.loads(path.read_text(encoding="utf-8"))["labels"]
    edit(path, labels=[*labels[1:], labels[0]])
    require_signed(signed, keys / "ours.pub")
    with refused(CorruptModel, "certified"):
        bh.load(signed, signed_by=keys / "ours.pub")
    assert run(["verify", str(signed), str(DATA), "--signed-by", str(keys / "ours.pub")]) == 3


@pytest.mark.parametrize("change", [{"holds": False, "wrong": 1}, {"model_digest": None}])
def test_a_certificate_that_vouches_for_too_little_is_refused(
    change: dict[str, Any], signed: Path, keys: Path
) -> None:
    """Where one was signed by other software."""
    edit(signed / "certificate.json", **change)
    sign_as_it_is(signed, keys / "ours")
    with refused(CorruptModel, "problem"):
        require_signed(signed, keys / "ours.pub")
    with refused(CorruptModel, "problem"):
        sign(signed, keys / "ours")


def test_the_twin_that_signs_as_it_is_is_accepted(signed: Path, keys: Path) -> None:
    """So that the refusals above are not those of a wrong signature."""
    sign_as_it_is(signed, keys / "ours")
    require_signed(signed, keys / "ours.pub")


def test_what_is_saved_anew_is_not_signed(signed: Path, keys: Path) -> None:
    bh.load(signed).save(signed)
    assert not (signed / "signature.json").exists()
    with refused(CorruptModel, "problem", key=read_public_key(keys / "ours.pub").hex()):
        require_signed(signed, keys / "ours.pub")


def replaced_by_another_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the folder by an unsigned model, with its own certificate, as soon as the signature was checked."""
    other = folder.with_name("other")
    bh.compile({"ab": "x", "cd": "y"}, method="retrieval").save(other)
    check = signature.require_signed

    def check_and_replace(path: str | Path, key: str | Path) -> object:
        found = check(path, key)
        for each in other.iterdir():
            (folder / each.name).write_bytes(each.read_bytes())
        return found

    for module in (signature, pipeline):
        monkeypatch.setattr(module, "require_signed", check_and_replace, raising=False)


def test_a_model_that_takes_the_place_of_the_signed_one_is_not_loaded(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate was read once for the signature and once more for the model."""
    replaced_by_another_model(signed, monkeypatch)
    with refused(CorruptModel, "certified"):
        bh.load(signed, signed_by=keys / "ours.pub")


def test_verify_compares_with_the_signed_certificate(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replaced_by_another_model(signed, monkeypatch)
    table = signed.with_name("t.csv")
    table.write_text("key,value\nab,x\ncd,y\n")
    assert run(["verify", str(signed), str(table), "--signed-by", str(keys / "ours.pub"), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["wrong"]) == (False, 0)  # only the digests differ


def test_verify_names_the_key_whose_signature_was_checked(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It read the signature again after the check, and named the key of another one."""
    check = verifier.verify_model

    def check_and_sign(*arguments: Any, **options: Any) -> object:
        found = check(*arguments, **options)
        sign(signed, keys / "theirs")
        return found

    monkeypatch.setattr(verifier, "verify_model", check_and_sign)
    for how in ([], ["--json"]):
        sign(signed, keys / "ours")
        assert run(["verify", str(signed), str(DATA), "--signed-by", str(keys / "ours.pub"), *how]) == 0
        ours, theirs = (read_public_key(keys / f"{name}.pub").hex() for name in ("ours", "theirs"))
        shown = capsys.readouterr().out
        assert ours[:32] in shown
        assert theirs[:32] not in shown
    assert json.loads(shown)["signed_by"] == ours


def test_what_is_signed_is_the_certificate_that_was_compared_with_the_model(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sign` read the certificate a second time, after the check, to sign it."""
    other, compare = signed.with_name("other"), signature.load_folder
    bh.compile({"ab": "x", "cd": "y"}, method="retrieval").save(other)

    def load_and_replace(path: Path) -> object:
        found = compare(path)
        shutil.copy(other / "certificate.json", signed / "certificate.json")
        return found

    monkeypatch.setattr(signature, "load_folder", load_and_replace)
    with refused(CorruptModel, "certified"):
        sign(signed, keys / "ours")
