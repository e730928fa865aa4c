"""`byheart inspect`: show the parts of a saved model, and what was verified about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from byheart.cli.options import PATH, model_argument, output_options
from byheart.cli.output import count, echo_json, one_line, say, show_pairs, show_table
from byheart.cli.summary import (
    SAID,
    density_lines,
    describe_check,
    describe_data,
    distribution_lines,
    entropy_lines,
    show_sizes,
)
from byheart.errors import UsageError, amount

if TYPE_CHECKING:
    from byheart.inspect.stages import Stage
    from byheart.model import Model
    from byheart.network.protocol import NetworkSpec
    from byheart.verify.certificate import Certificate


@click.command()
@model_argument
@click.option(
    "--fact",
    "facts",
    multiple=True,
    metavar="TEXT",
    help="Show which weights hold the fact with this input; may be repeated (models of `retrieval`, `llama` and "
    "the methods that begin with `kajitsuka-sato-2025`, and grafts).",
)
@click.option(
    "--data",
    metavar="DATA",
    type=PATH,
    help="Data file of the model, needed to name the other facts that share weights with a fact. Without --fact, all facts of"
    " this file are shown. Refused for a graft, which names these facts itself.",
)
@output_options
def command(folder: Path, facts: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Show the architecture, size, certificate and record of the model in DIR.

    The weights are compared with the certificate, but the model is not run on any data: everything else in the certificate is
    claimed by the model and not checked. To check it, use `byheart verify`.
    """
    from byheart.storage.target import is_graft

    if is_graft(folder):
        from byheart.cli.graft_checks import inspect_graft

        if data is not None:
            raise UsageError("inspect needs no data file for a graft.\n  Leave out --data.", data=str(data))
        inspect_graft(folder, facts, as_json)
        return
    if facts or data is not None:
        from byheart.cli.fact import show_facts

        show_facts(folder, facts, data, as_json)
        return
    from byheart.documents.model_summary import known_stages, summarise
    from byheart.pipeline import load

    model = load(folder)
    spec = model.network.spec
    if as_json:
        echo_json(summarise(model, folder))
        return
    say(f"{folder}: {model.memoriser.task}, {model.precision} weights\n")
    show_pairs(_inputs_and_labels(model, spec))
    say()
    show_table(("layers", "kind", "sizes"), spec.sections())
    say()
    stages = known_stages(model)
    if stages:
        n_columns = 3 if any(stage.lemma for stage in stages) else 2
        rows = [_stage_row(stage)[:n_columns] for stage in stages[1:]]
        show_table(("layers", "what they do", "by")[:n_columns], rows)
        say()
    said = model.certificate.theorem_size if model.certificate else None
    show_sizes(model.size, said, None, is_said=said is not None)
    say()
    show_pairs(_origin(model))
    say()
    show_pairs(_check_lines(model.certificate))


def _stage_row(stage: Stage) -> tuple[str, ...]:
    layers = str(stage.first) if stage.first == stage.last else f"{stage.first} to {stage.last}"
    return layers, stage.title, stage.lemma or ""


def _inputs_and_labels(model: Model, spec: NetworkSpec) -> list[tuple[str, str]]:
    tokenizer = model.memoriser.tokenizer
    if spec.n_vocab is None:
        takes = f"{amount(spec.seq_len, 'vector')} of dimension {spec.dim:,}"
    else:
        most = "" if spec.pad is None else "up to "
        kind = "token ids" if tokenizer is None else f"tokens of the {tokenizer.name} tokenizer"
        positions = ", with positions" if spec.has_positions else ""
        takes = f"{most}{spec.seq_len:,} {kind}, embedded in dimension {spec.dim:,}{positions}"
    names = model.memoriser.label_names
    except_last = ", but it matters which token is last" if model.memoriser.task == "next-token" else ""
    few = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return [
        ("input", takes),
        ("order", "matters" if model.memoriser.ordered else f"is ignored{except_last}"),
        ("labels", f"{len(names):,}: {few}"),
        ("residual width", f"{spec.model_width:,}"),
    ]


def _origin(model: Model) -> list[tuple[str, str]]:
    record = model.record
    notes = record.get("notes") or {}
    versions = record.get("versions") or {}
    return [
        ("method", str(record.get("method", "unknown"))),
        *[
            ("refused", f"{name}: {one_line(reason)}")
            for name, reason in (record.get("refused") or {}).items()
        ],
        ("theorem", f"{record.get('theorem', 'none')} ({SAID})"),
        ("seed", str(record.get("seed", "unknown"))),
        *[("option", f"{name} = {value}") for name, value in (record.get("options") or {}).items()],
        ("made with", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("notes", ", ".join(_note(str(name), value) for name, value in notes.items()) or "none"),
        ("label bits", "unknown" if model.label_bits is None else count(model.label_bits)),
        *density_lines(model),
        *entropy_lines(model),
    ]


def _note(name: str, value: object) -> str:
    """Return a note (a name and its value) as text. If the value is a dictionary of counts, counts of zero are left out."""
    if isinstance(value, dict):
        counts = (f"{number} {what}" for what, number in value.items() if number != 0)
        value = " and ".join(counts) or "none"
    return f"{name.replace('_', ' ')}: {value}"


def _check_lines(certificate: Certificate | None) -> list[tuple[str, str]]:
    if certificate is None:
        return [("certificate", "none: nothing was checked")]
    verdict = [
        ("verdict", certificate.headline),
        ("data", describe_data(certificate.dataset.shape)),
        ("checked", describe_check(certificate)),
        *distribution_lines(certificate),
        *[
            ("assumption", f"{item.statement}: {'yes' if item.holds else 'NO'} ({item.detail})")
            for item in certificate.assumptions
        ],
        *[("problem", problem) for problem in certificate.problems],
        ("data digest", certificate.dataset.digest[:32]),
    ]
    return [
        ("certificate", f"{SAID}; `byheart verify` checks it"),
        *[(f"  {name}", text) for name, text in verdict],
        # the model is loaded only if its weights have this digest
        ("weights digest", certificate.weights_digest[:32]),
    ]
