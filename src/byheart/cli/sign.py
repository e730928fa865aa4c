"""`byheart sign`: sign the certificate of a saved model, or make a key for signing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from byheart.cli.options import PATH, output_options
from byheart.cli.output import echo_json, say, show_pairs
from byheart.errors import UsageError


@click.command()
@click.argument("folder", metavar="[DIR]", type=PATH, required=False)
@click.option("--key", type=PATH, metavar="FILE", help="Ed25519 private key to sign with (PEM or OpenSSH).")
@click.option(
    "--new-key",
    type=PATH,
    metavar="FILE",
    help="Make a key instead of signing: write a new private key to FILE and its public key to FILE.pub.",
)
@output_options
def command(folder: Path | None, key: Path | None, new_key: Path | None, as_json: bool) -> None:
    """Sign the certificate of the model in DIR with a private key, and write the signature to DIR/signature.json.

    Your signature tells others that you vouch for the certificate. Sign only models that you compiled, or that you
    verified on your own data. Others check the signature with `byheart verify DIR DATA --signed-by KEY`, where KEY is
    the public key.
    """
    if (key is None) == (new_key is None) or (folder is None) != (key is None):
        raise UsageError("give DIR and --key FILE to sign, or --new-key FILE alone to make a key.")
    if new_key is not None:
        _make_key(new_key, as_json)
        return
    assert folder is not None
    assert key is not None
    from byheart.cli.graft_checks import refuse_graft
    from byheart.storage.signature import sign

    refuse_graft(folder)
    found = sign(folder, key)
    if as_json:
        echo_json({"path": str(folder), **asdict(found)})
        return
    say(f"{folder} is signed: signature.json signs the certificate that the folder holds now.\n")
    show_pairs([("public key", found.public_key), ("certificate", found.certificate[:32])])
    say("\nOthers check it with `byheart verify DIR DATA --signed-by KEY`.")


def _make_key(path: Path, as_json: bool) -> None:
    from byheart.storage.keys import SUFFIX, write_new_key

    public = write_new_key(path).hex()
    if as_json:
        echo_json({"private_key": str(path), "public_key": public})
        return
    say(f"{path} is a new private key. Keep it secret.\n")
    show_pairs([("public key", public), ("file", f"{path}{SUFFIX}")])
    say("\nGive the public key to others.")
