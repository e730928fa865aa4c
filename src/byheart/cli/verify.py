"""`byheart verify`: check a saved model on a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from byheart.cli.options import (
    RULES,
    column_options,
    data_argument,
    model_argument,
    output_options,
    text_options,
    threads_option,
)
from byheart.cli.output import echo_json, say, show_pairs
from byheart.cli.progress import watch
from byheart.cli.summary import describe_check, describe_data, distribution_lines
from byheart.errors import ExitStatus

if TYPE_CHECKING:
    from byheart.data.dataset import OnConflict
    from byheart.model import Model
    from byheart.verify.certificate import Certificate


@click.command()
@model_argument
@data_argument
@column_options
@text_options
@click.option(
    "--on-conflict",
    type=click.Choice(RULES[1:]),
    help="Which label to check where equal inputs carry different ones (default: as for the data that the certificate speaks of; "
    "without a certificate all, so that some are wrong).",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu")
@click.option(
    "--rule",
    type=click.Choice(["contexts", "total-gap"]),
    help="How distributions are judged: each context by itself, or the loss over all of them (default: as the certificate says).",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="K",
    help="Check K samples only, drawn at random (the same ones each time); the certificate says so.",
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
    as_json: bool,
    **reading: str | None,
) -> int:
    """Check every sample of DATA on the model in DIR, without trusting whoever made it.

    DATA is read as the data of the model were: the same columns, task and tokenizer, unless told otherwise. Where rows are left out
    because their labels conflict, the verdict says how many. The answer is false (exit status 3) if a sample is wrong, or if data,
    weights or labels are not those the certificate of DIR speaks of.
    """
    from byheart.pipeline import load, read_like
    from byheart.verify.verifier import verify_model

    changed = {name: value for name, value in reading.items() if value is not None}
    with watch() as progress:
        progress("read", 0, 1)
        model = load(folder, check=False)
        every = read_like(model, data, **changed, on_conflict="keep")
        conflicts = on_conflict or _certified_rule(model)
        dataset = every.resolved(conflicts)
        progress("verify", 0, 1)
        certificate = verify_model(
            model,
            dataset,
            device=device,
            sample=sample,
            progress=lambda done, total: progress("verify", done, total),
            **({} if rule is None else {"rule": rule}),
        )
    n_left_out = every.n_samples - dataset.n_samples
    if as_json:
        read = {"read_with": _said_of_reading(model, changed), "rows_left_out": n_left_out}
        echo_json({"digest": certificate.dataset.digest, **certificate.to_json(), **read})
    else:
        verdict = certificate.verdict
        if n_left_out:
            verdict += f", with {n_left_out:,} of {every.n_samples:,} rows left out (on_conflict={conflicts})"
        say(f"{folder} on {data}: {verdict}\n")
        _show(certificate, _reading_lines(model, changed, on_conflict))
    return ExitStatus.HOLDS if certificate.holds else ExitStatus.FALSE


SAID = "said by the model, not checked"


def _certified_rule(model: Model) -> OnConflict:
    """What becomes of conflicting rows: as the record says where a certificate, by its digest, names the rows that remain; else
    all are checked, or a folder could leave out what it does not know."""
    from byheart.pipeline import source_of

    rule = source_of(model).on_conflict
    return "keep" if model.certificate is None or rule == "error" else rule


def _said_of_reading(model: Model, given: Mapping[str, str]) -> dict[str, str | bool]:
    """What was read so because the model says so, where that is not the usual way."""
    from byheart.pipeline import source_of

    source, tokenizer = source_of(model), model.memoriser.tokenizer
    names = ("input", "label", "recite", "delimiter", "encoding")
    said = {name: value for name in names if name not in given and (value := getattr(source, name))}
    if tokenizer is not None and tokenizer.name == "file":
        said["tokenizer"] = "its own file"
    return said


def _reading_lines(model: Model, given: Mapping[str, str], on_conflict: str | None) -> list[tuple[str, str]]:
    from byheart.pipeline import source_of

    said = ", ".join(f"{name}={value}" for name, value in _said_of_reading(model, given).items())
    lines = [("read with", f"{said} ({SAID})")] if said else []
    rule = source_of(model).on_conflict
    if rule != "error" and on_conflict is None and model.certificate is None:
        lines.append(
            (
                "not followed",
                f"on_conflict={rule}: without a certificate every row is checked, unless --on-conflict is given",
            )
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
        say(f"  and {n_more:,} more wrong samples")
