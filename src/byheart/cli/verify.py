"""`byheart verify`: check a saved model on a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from byheart.cli.options import (
    PATH,
    RULES,
    WholeNumber,
    column_options,
    data_argument,
    model_argument,
    output_options,
    prompt_options,
    row_options,
    text_options,
    threads_option,
)
from byheart.cli.output import echo_json, say, say_wrapped, show_pairs
from byheart.cli.progress import watch
from byheart.cli.summary import describe_check, describe_data, distribution_lines
from byheart.errors import ExitStatus
from byheart.process.progress import Steps

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset, OnConflict
    from byheart.data.options import DataSource
    from byheart.model import Model
    from byheart.storage.signature import Signature
    from byheart.verify.certificate import Certificate


@click.command()
@model_argument
@data_argument
@column_options
@text_options
@click.option(
    "--on-conflict",
    type=click.Choice(RULES[1:]),
    help="Which label to check if equal inputs have different labels. By default every row is checked, so some are wrong.",
)
@row_options
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Device to run the model on."
)
@click.option(
    "--rule",
    type=click.Choice(["contexts", "total-gap"]),
    help="How to judge next-token distributions. With contexts (the default), each context must be right by itself, and the "
    'verdict is "holds". With total-gap, only the total loss must be near the entropy, and the verdict is "fitted".',
)
@click.option(
    "--sample",
    type=WholeNumber(),
    metavar="K",
    help="Check only K samples, drawn at random (the same ones each time), and say so in the certificate.",
)
@click.option(
    "--host",
    type=PATH,
    metavar="HOST",
    help="If DIR is a graft: the checkpoint it was made from. Prove that DIR is HOST with only the facts of DATA added.",
)
@click.option(
    "--text",
    type=PATH,
    metavar="FILE",
    help="With --host: compare the logits of the graft and of its host on the text in this file.",
)
@prompt_options("With --host: ")
@click.option(
    "--signed-by",
    metavar="KEY",
    help="Require that this public key (a file, or 64 hexadecimal digits) signed the certificate of DIR.",
)
@threads_option
@output_options
def command(
    folder: Path,
    data: Path,
    device: str,
    rule: str | None,
    sample: int | None,
    on_conflict: OnConflict | None,
    host: Path | None,
    text: Path | None,
    chat: bool,
    chat_column: str | None,
    template: str | None,
    end: bool | None,
    signed_by: str | None,
    as_json: bool,
    **reading: str | None,
) -> int:
    """Check every sample of DATA on the model in DIR, without trusting whoever made the model.

    The verdict is "holds" if the model gives every row its label. By default, DATA is read with the columns, task and
    tokenizer that the model was compiled with; the first line of the output names the columns. Rows are left out only
    by a rule given in this command. The verdict is false (exit status 3) if a row is wrong, or if the data, weights
    or labels are not those that the certificate of DIR names. With --signed-by it is also false if that key did not
    sign the certificate; DIR is then not opened.
    """
    if signed_by is not None:
        from byheart.cli.graft_checks import refuse_graft

        refuse_graft(folder)
    prompts = {"chat": chat, "chat_column": chat_column, "template": template, "end": end}
    if host is not None or text is not None or prompts != NO_PROMPTS:
        from byheart.cli.graft_checks import verify_graft_folder

        return verify_graft_folder(folder, data, host, text, device, as_json, prompts, reading)
    from byheart.pipeline import load
    from byheart.storage.data_source import read_like
    from byheart.storage.signature import read_signature
    from byheart.storage.target import SIGNATURE
    from byheart.verify.verifier import verify_model

    changed = {name: value for name, value in reading.items() if value is not None}
    with watch(whole="verify") as progress:
        steps = Steps(progress, {"read": 0.3, "verify": 0.7}, are_named=True)
        told = steps.begin("read")
        model = load(folder, check=False, signed_by=signed_by)
        every = read_like(model, data, progress=told, **changed)
        dataset = every if on_conflict is None else every.resolved(on_conflict)
        certificate = verify_model(
            model,
            dataset,
            device=device,
            sample=sample,
            progress=steps.begin("verify"),
            **({} if rule is None else {"rule": rule}),
        )
    signature = read_signature(folder) if (folder / SIGNATURE).exists() else None
    columns = _columns_in_words(data, every, changed)
    unnamed = 0 if on_conflict is not None else _left_out_by_record(model, every)
    if as_json:
        read = {
            "verdict": certificate.verdict,
            "fitted": certificate.fitted,
            "columns": certificate.columns,
            "rows_left_out": certificate.rows_left_out,
            "read_with": _said_of_reading(model, changed),
            "columns_named_by": columns.named_by,
            "rows_the_record_leaves_out": unnamed,
            "signed_by": signature.public_key if signature is not None and signed_by is not None else None,
        }
        echo_json({"digest": certificate.dataset.digest, **certificate.to_json(), **read})
    else:
        for line in filter(None, (columns.warning, certificate.headline)):
            say_wrapped(line)
        say()
        checked = ("model", f"{folder} on {data}")
        _show(
            certificate,
            [checked, *_signature_lines(signature, signed_by), *_reading_lines(model, changed, unnamed)],
        )
    return ExitStatus.HOLDS if certificate.holds or certificate.fitted else ExitStatus.FALSE


NO_PROMPTS = {"chat": False, "chat_column": None, "template": None, "end": None}
SAID = "claimed by the model, not checked"


class _Columns(NamedTuple):
    """How the columns that were read were chosen.

    `named_by` is `usual` if they are the default columns or if the file has no columns, `caller` if the caller named them, and
    `model` if only the model's record names them. If it is `model`, `warning` names the columns.
    """

    named_by: str
    warning: str = ""


def _columns_in_words(path: Path, data: Dataset, given: Mapping[str, str]) -> _Columns:
    """Return whether the columns are the usual ones, named by the caller or named by the model's record of its data.

    If the record names unusual columns, also return a warning that names them.

    The warning is printed before the verdict.
    """
    assert data.source is not None
    read, usual = data.source.columns(data.task), _usual_columns(path, data.source)
    if usual is None or read == usual:
        return _Columns("usual")
    named = zip(("input", "label"), read, usual, strict=True)
    if all(name in given for name, own, other in named if own != other):
        return _Columns("caller")
    pairs = (f"{own!r} -> {other!r}" for own, other in (read, usual))
    return _Columns("model", "the model chose the columns: {}, not the usual {}".format(*pairs))


def _usual_columns(path: Path, source: DataSource) -> tuple[str, str] | None:
    """Return the columns that are read by default, or None if the file has no columns to choose from."""
    from byheart.data.options import NEXT_TOKEN, USUAL_COLUMNS, WITHOUT_COLUMNS
    from byheart.data.readers import kind_of, text_format
    from byheart.data.tables import column_names

    kind = kind_of(path)
    if kind in WITHOUT_COLUMNS:
        return None
    names = column_names(path, kind, text_format(path, kind, source.delimiter, source.encoding))
    if "text" in names and USUAL_COLUMNS[0] not in names:
        return "text", NEXT_TOKEN
    # with only two columns, the choice is clear
    is_pair = len(names) == 2 and not set(names) & set(USUAL_COLUMNS)
    return (names[0], names[1]) if is_pair else USUAL_COLUMNS


def _left_out_by_record(model: Model, every: Dataset) -> int:
    """Count the rows that the rule in the model's record would leave out.

    These rows are checked nevertheless, because the caller did not give this rule.
    """
    from byheart.errors import ConflictingLabels
    from byheart.storage.data_source import source_of

    rule = source_of(model).on_conflict
    try:
        return 0 if rule == "error" else every.n_samples - every.resolved(rule).n_samples
    except ConflictingLabels:  # the rule leaves no rows
        return every.n_samples


def _signature_lines(signature: Signature | None, signed_by: str | None) -> list[tuple[str, str]]:
    """Return a line with the key that signed the certificate, if --signed-by was given; otherwise a hint that a
    signature exists.
    """
    if signature is None:
        return []
    if signed_by is not None:
        return [("signed by", signature.public_key[:32])]
    return [
        (
            "signature",
            f"names the key {signature.public_key[:16]}...; the signature was not checked (use --signed-by)",
        )
    ]


def _said_of_reading(model: Model, given: Mapping[str, str]) -> dict[str, str | bool]:
    """Return the options for reading the data, such as columns, that the model's record supplies because `given` lacks them."""
    from byheart.storage.data_source import source_of

    source, tokenizer = source_of(model), model.memoriser.tokenizer
    names = ("input", "label", "recite", "delimiter", "encoding")
    said = {name: value for name in names if name not in given and (value := getattr(source, name))}
    if tokenizer is not None and tokenizer.name == "file":
        said["tokenizer"] = "its own file"
    return said


def _reading_lines(model: Model, given: Mapping[str, str], n_unnamed: int) -> list[tuple[str, str]]:
    from byheart.storage.data_source import source_of

    said = ", ".join(f"{name}={value}" for name, value in _said_of_reading(model, given).items())
    lines = [("read with", f"{said} ({SAID})")] if said else []
    if n_unnamed:
        rule = source_of(model).on_conflict
        left_out = (
            f"{n_unnamed:,} of the checked rows, which on_conflict={rule} in the model's record "
            "would leave out"
        )
        lines.append(
            ("not left out", f"{left_out}: every row is checked unless --on-conflict {rule} is given")
        )
    return lines


def _show(certificate: Certificate, reading: list[tuple[str, str]]) -> None:
    show_pairs(
        [
            ("method", f"{certificate.method or 'unknown'} ({SAID})"),
            ("theorem", f"{certificate.theorem or 'none'} ({SAID})"),
            ("data", describe_data(certificate.dataset.shape)),
            *reading,
            ("checked", describe_check(certificate)),
            *distribution_lines(certificate),
            ("data digest", certificate.dataset.digest[:32]),
            ("weights digest", certificate.weights_digest[:32]),
            ("seconds", f"{certificate.seconds:.1f}"),
            *[("problem", problem) for problem in certificate.problems],
            *[("wrong", str(sample)) for sample in certificate.wrong_samples],
        ]
    )
    n_more = certificate.wrong - len(certificate.wrong_samples)
    if n_more > 0:
        say(f"  wrong {certificate.unit}s that are not listed: {n_more:,}")
