"""Signatures: who vouches for a certificate. What was signed is accepted, for every family; whatever was changed since is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.errors import CorruptModel, MissingExtra, UsageError
from byheart.storage.keys import read_private_key, read_public_key, write_new_key
from byheart.storage.signature import PREFIX, canonical, require_signed, sign
from byheart.verify.digest import model_digest
from tests.refusal import refused
from tests.storage.test_fixtures import FIXTURES
from tests.storage.test_folder import GONE

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")

FOLDERS = sorted(path.name for path in FIXTURES.iterdir() if (path / "certificate.json").exists())
DATA = Path(__file__).resolve().parents[2] / "examples" / "capitals.csv"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two keys: `ours` and `theirs`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        write_new_key(folder / name)
    return folder


@pytest.fixture(scope="module")
def signed_once(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "model"
    bh.compile(DATA, method="retrieval").save(folder)
    sign(folder, keys / "ours")
    return folder


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed_once, tmp_path / "model"))


def edit(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, **changes}, ensure_ascii=False), encoding="utf-8")


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


# --- what was signed is accepted --------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_every_family_is_signed(name: str, keys: Path, tmp_path: Path) -> None:
    model, folder = bh.load(FIXTURES / name), tmp_path / "model"
    assert model.certificate is not None
    digest = model_digest(model.memoriser)
    replace(model, certificate=replace(model.certificate, model_digest=digest)).save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = bh.sign(folder, keys / "ours")
    assert found.public_key == read_public_key(keys / "ours.pub").hex()
    assert require_signed(folder, keys / "ours.pub") == found
    assert bh.load(folder, signed_by=keys / "ours.pub").certificate == bh.load(folder).certificate
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {**before, "signature.json": after["signature.json"]} == after
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_signature_is_what_the_documentation_says(signed: Path) -> None:
    """Checked with the package `cryptography` alone."""
    found = json.loads((signed / "signature.json").read_text())
    document = json.loads((signed / "certificate.json").read_text(encoding="utf-8"))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    content = b"byheart certificate 1\n" + text.encode("ascii")
    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["public_key"]))
    key.verify(bytes.fromhex(found["signature"]), content)
    assert found["certificate"] == hashlib.sha256(content).hexdigest()


def test_the_layout_of_a_certificate_is_not_signed(signed: Path, keys: Path) -> None:
    path = signed / "certificate.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(dict(sorted(document.items(), reverse=True)), indent=7))
    require_signed(signed, keys / "ours.pub")


def test_signing_twice_gives_the_same_bytes_and_another_key_replaces_them(signed: Path, keys: Path) -> None:
    first = (signed / "signature.json").read_bytes()
    sign(signed, keys / "ours")
    assert (signed / "signature.json").read_bytes() == first
    sign(signed, keys / "theirs")
    require_signed(signed, keys / "theirs.pub")
    with refused(CorruptModel, "problem", "key"):
        require_signed(signed, keys / "ours.pub")


@pytest.mark.parametrize("how", ["digits", "DIGITS", "path as text", "file of digits", "OpenSSH"])
def test_a_public_key_is_given_in_several_ways(how: str, signed: Path, keys: Path, tmp_path: Path) -> None:
    digits = read_public_key(keys / "ours.pub").hex()
    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(digits))
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (tmp_path / "digits.txt").write_text(f"{digits}\n")
    (tmp_path / "ssh.pub").write_bytes(line + b" me@here\n")
    given: dict[str, str | Path] = {
        "digits": digits,
        "DIGITS": digits.upper(),
        "path as text": str(keys / "ours.pub"),
        "file of digits": tmp_path / "digits.txt",
        "OpenSSH": tmp_path / "ssh.pub",
    }
    require_signed(signed, given[how])


def test_a_private_key_of_openssh_signs(signed: Path, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    (tmp_path / "id_ed25519").write_bytes(key.private_bytes(*form))
    sign(signed, tmp_path / "id_ed25519")
    require_signed(signed, key.public_key().public_bytes_raw().hex())


# --- what was changed is refused --------------------------------------------------------------------------


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


# --- what is not signed -----------------------------------------------------------------------------------


def test_what_a_kill_leaves_of_signing_is_cleared_away(signed: Path, keys: Path) -> None:
    """The new file is written beside the folder."""
    left = signed.with_name(f".{signed.name}.{GONE}-{'0' * 8}.new")
    left.mkdir()
    (left / "signature.json").write_text("half")
    bh.load(signed, signed_by=keys / "ours.pub")
    bh.load(signed).save(signed)
    assert not left.exists()


def test_a_place_that_cannot_be_written_is_named(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (signed / "signature.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with refused(UsageError, path=str(signed.resolve() / "signature.json")):
        sign(signed, keys / "theirs")
    assert (signed / "signature.json").read_bytes() == before
    assert [path.name for path in signed.parent.iterdir()] == [signed.name]


def test_a_changed_folder_is_not_signed(signed: Path, keys: Path) -> None:
    (signed / "signature.json").unlink()
    edit(signed / "model.json", ordered=False)
    with refused(CorruptModel):
        sign(signed, keys / "ours")
    assert not (signed / "signature.json").exists()


def test_a_folder_without_certificate_is_not_signed(signed: Path, keys: Path) -> None:
    (signed / "certificate.json").unlink()
    with refused(UsageError, path=str(signed)):
        sign(signed, keys / "ours")


def test_a_certificate_of_an_older_version_is_not_signed(keys: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "schema-1-exact", tmp_path / "model")
    with refused(CorruptModel, "problem"):
        sign(folder, keys / "ours")
    assert not (tmp_path / "model" / "signature.json").exists()


def test_a_graft_has_no_certificate(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "graft.json").write_text("{}")
    assert run(["sign", str(tmp_path), "--key", str(keys / "ours")]) == 2
    assert run(["verify", str(tmp_path), str(DATA), "--signed-by", str(keys / "ours.pub")]) == 2


# --- keys -------------------------------------------------------------------------------------------------


def test_a_new_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        public = write_new_key(tmp_path / "deep" / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "key").stat().st_mode) == 0o600
    assert read_public_key(tmp_path / "deep" / "key.pub") == public
    assert read_private_key(tmp_path / "deep" / "key").public_key().public_bytes_raw() == public
    assert write_new_key(tmp_path / "other") != public


@pytest.mark.parametrize("taken", ["key", "key.pub"])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_key_is_never_overwritten(taken: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / taken
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.mkdir()
    with refused(UsageError, path=str(path)):
        write_new_key(tmp_path / "key")
    assert [each.name for each in tmp_path.iterdir()] == [taken]
    assert kind != "file" or path.read_text() == "mine"


def test_a_key_is_not_written_into_a_model_folder(signed: Path) -> None:
    with refused(UsageError, path=str(signed / "key")):
        write_new_key(signed / "key")
    assert not (signed / "key").exists()


def bad_private_keys() -> Iterator[tuple[str, bytes]]:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    secret = serialization.BestAvailableEncryption(b"word")
    key = ed25519.Ed25519PrivateKey.generate()
    yield "passphrase", key.private_bytes(*form, secret)
    yield "RSA", generate_private_key(65537, 1024).private_bytes(*form, serialization.NoEncryption())
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    yield "public", key.public_key().public_bytes(form[0], spki)
    yield "empty", b""
    yield "text", b"a key"
    yield "binary", bytes(range(256))
    yield "large", b"-" * 2**20
    yield "cut", key.private_bytes(*form, serialization.NoEncryption())[:60]


def test_what_is_not_an_unprotected_ed25519_key_is_refused(signed: Path, tmp_path: Path) -> None:
    for name, content in bad_private_keys():
        (tmp_path / "key").write_bytes(content)
        with refused(UsageError, "problem", path=str(tmp_path / "key")):
            sign(signed, tmp_path / "key")
        if name != "public":
            with refused(UsageError, "problem", path=str(tmp_path / "key")):
                require_signed(signed, tmp_path / "key")
    for missing in (tmp_path / "nowhere", tmp_path):
        with refused(UsageError, "problem", path=str(missing)):
            sign(signed, missing)
        with refused(UsageError, "problem", path=str(missing)):
            require_signed(signed, missing)


@pytest.mark.parametrize("key", [5, None, "a\0b"])
def test_what_is_not_a_path_is_refused(key: Any, signed: Path) -> None:
    with refused(UsageError, "path"):
        sign(signed, key)
    with refused(UsageError, "path"):
        require_signed(signed, key)


def test_a_key_that_is_no_point_made_no_signature(signed: Path) -> None:
    for digits in ("ff" * 32, "02" + "00" * 31):
        edit(signed / "signature.json", public_key=digits)
        with refused(CorruptModel, "problem", key=digits):
            require_signed(signed, digits)


def test_without_the_package_it_says_what_to_install(
    signed: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = read_public_key(keys / "ours.pub").hex()
    for name in [each for each in sys.modules if each.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    bh.load(signed)  # needs no key
    for needs in (
        lambda: sign(signed, keys / "ours"),
        lambda: require_signed(signed, digits),
        lambda: require_signed(signed, keys / "ours.pub"),
        lambda: write_new_key(tmp_path / "key"),
    ):
        with refused(MissingExtra, package="cryptography", extra="sign"):
            needs()


# --- the commands -----------------------------------------------------------------------------------------


def test_the_commands(signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sign", "--new-key", str(tmp_path / "mine"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert run(["sign", str(signed), "--key", str(tmp_path / "mine"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public_key"] == made["public_key"]
    told = ["verify", str(signed), str(DATA), "--json"]
    assert run([*told, "--signed-by", made["public_key"]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["signed_by"]) == (True, made["public_key"])
    assert run(told) == 0
    assert json.loads(capsys.readouterr().out)["signed_by"] is None
    assert run([*told, "--signed-by", "00" * 32]) == 3
    error = json.loads(capsys.readouterr().out or "{}")
    assert error.get("holds") is not True


@pytest.mark.parametrize(
    "given",
    [[], ["model"], ["--key", "k"], ["model", "--new-key", "k"], ["model", "--key", "k", "--new-key", "k"]],
)
def test_a_key_or_a_new_key(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sign", *given]) == 2
    assert not list(tmp_path.iterdir())


def test_a_number_that_json_lacks_is_not_signed() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"seconds": float("nan")})
