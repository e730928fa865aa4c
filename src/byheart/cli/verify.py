"""`byheart verify`: check a saved model on a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
from byheart.cli.reading_choices import choices_of
from byheart.cli.summary import SAID, describe_check, describe_data, distribution_lines
from byheart.errors import ExitStatus
from byheart.process.progress import Steps

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset, OnConflict
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
    from byheart.model import Model
    from byheart.pipeline import load
    from byheart.storage.data_source import read_like
    from byheart.storage.signature import load_signed
    from byheart.verify.verifier import verify_model

    changed = {name: value for name, value in reading.items() if value is not None}
    with watch(whole="verify") as progress:
        steps = Steps(progress, {"read": 0.3, "verify": 0.7}, are_named=True)
        told = steps.begin("read")
        if signed_by is None:
            model, signature = load(folder, check=False), None
        else:
            memoriser, record, certified, signature = load_signed(folder, signed_by)
            model = Model(memoriser, record, certified)
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
    choices = choices_of(data, every, changed)
    unnamed = 0 if on_conflict is not None else _left_out_by_record(model, every)
    if as_json:
        read = {
            "verdict": certificate.verdict,
            "fitted": certificate.fitted,
            "columns": certificate.columns,
            "rows_left_out": certificate.rows_left_out,
            "read_with": _said_of_reading(model, changed),
            **{f"{part}_named_by": choice.named_by for part, choice in choices.items()},
            "rows_the_record_leaves_out": unnamed,
            "signed_by": None if signature is None else signature.public_key,
        }
        echo_json({"digest": certificate.dataset.digest, **certificate.to_json(), **read})
    else:
        for line in filter(None, (*(choice.warning for choice in choices.values()), certificate.headline)):
            say_wrapped(line)
        say()
        checked = ("model", f"{folder} on {data}")
        _show(
            certificate,
            [checked, *_signature_lines(folder, signature), *_reading_lines(model, changed, unnamed)],
        )
    return ExitStatus.HOLDS if certificate.holds or certificate.fitted else ExitStatus.FALSE


NO_PROMPTS = {"chat": False, "chat_column": None, "template": None, "end": None}


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


def _signature_lines(folder: Path, checked: Signature | None) -> list[tuple[str, str]]:
    """Return a line with the key of the signature that was checked. If none was, return a line that says whose key a signature in
    the folder names, if there is one.
    """
    from byheart.storage.signature import read_signature
    from byheart.storage.target import SIGNATURE

    if checked is not None:
        return [("signed by", checked.public_key[:32])]
    if not (folder / SIGNATURE).exists():
        return []
    named = read_signature(folder).public_key[:16]
    return [("signature", f"names the key {named}...; the signature was not checked (use --signed-by)")]


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
