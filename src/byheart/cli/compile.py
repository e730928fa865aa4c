"""`byheart compile`: compile a data file into a verified model folder."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import (
    PATH,
    WholeNumber,
    data_argument,
    output_option,
    output_options,
    precision_option,
    reading_choices,
    reading_options,
    seed_option,
    threads_option,
)
from byheart.cli.output import count, echo_json, is_quiet, printable, say, show_pairs
from byheart.cli.progress import watch
from byheart.cli.summary import (
    density_lines,
    describe_check,
    describe_data,
    describe_files,
    describe_left_out,
    distribution_lines,
    entropy_lines,
    show_sizes,
)
from byheart.errors import UsageError

RESERVED = ("method", "precision", "task", "seed", "check", "progress")

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset
    from byheart.data.dataset_pieces import DatasetPieces
    from byheart.documents.compilation import CompiledFile
    from byheart.model import Model
    from byheart.process.progress import Progress


@click.command()
@data_argument
@output_option("DIR", "Model folder to write.", required=True)
@click.option("--method", default="auto", help="Construction to use; `byheart methods` lists them.")
@precision_option("the method's own")
@seed_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the construction, such as word_bits=64 with --precision exact; may be given several times.",
)
@click.option(
    "--reject-bits",
    type=WholeNumber(0, 35),
    metavar="F",
    help='Answer "unknown" to unknown inputs, except about one in 2^F of them; '
    "F is at most 24 (retrieval), or 35 minus the number of bits of a token id (llama).",
)
@click.option(
    "--shards",
    type=WholeNumber(1, 4096),
    metavar="N",
    help="Split the data into N shards on disk, for data that do not fit in memory (retrieval only; needs --work).",
)
@click.option(
    "--work",
    metavar="DIR",
    type=PATH,
    help="Folder for finished shards. After an interruption, the same command continues from there.",
)
@click.option(
    "--workers",
    type=WholeNumber(1, 1024),
    default=1,
    metavar="N",
    help="Number of processes that solve shards in parallel.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Address of a Ray cluster that solves the shards; `local` starts one for this machine alone.",
)
@click.option(
    "--sample",
    type=WholeNumber(),
    metavar="K",
    help="Check only K samples, drawn at random, and say so in the certificate (with --shards).",
)
@click.option(
    "--recite",
    is_flag=True,
    help="DATA holds texts: memorise which token follows each window of tokens, so that `byheart recite` can continue the texts.",
)
@reading_options
@threads_option
@output_options
def command(
    data: Path,
    output: Path,
    method: str,
    precision: Any,
    seed: int,
    settings: tuple[str, ...],
    reject_bits: int | None,
    shards: int | None,
    work: Path | None,
    workers: int,
    cluster: str | None,
    sample: int | None,
    recite: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compile DATA into a Transformer that memorises it, verify every sample (with --sample, some) and save it in DIR.

    DATA is a CSV, TSV, JSONL or Parquet file with the columns key and value, an NPZ file with the arrays inputs
    and labels, or a .txt file with one text per line. By default, the model runs natively in PyTorch if possible. If the
    method `retrieval` is chosen, it usually answers "unknown" to almost all inputs that are not in DATA. A model folder that
    already exists at DIR is replaced, once the new one is complete.
    """
    from byheart.bounds import table
    from byheart.construct.choice import note_on_options
    from byheart.data.dataset import Dataset
    from byheart.documents.compilation import compile_file, prepare, save_compiled
    from byheart.pipeline import compile_in_shards

    prepare(output, method)
    options = dict(_setting(text) for text in settings)
    if reject_bits is not None:
        options["reject_bits"] = reject_bits
    choices = reading_choices(reading)
    in_shards = _shard_options(shards, work, workers, cluster, sample, method, recite)
    note = note_on_options(options) if method == "auto" else None
    if note is not None and not is_quiet():
        click.echo(printable(f"Note: {note}"), err=True)
    with watch(whole="compile") as progress:
        if in_shards is None:
            chosen = {"method": method, "precision": precision, "seed": seed, **options}
            read = _read_texts if recite else Dataset.read
            found = compile_file(data, output, reading=choices, progress=progress, read=read, **chosen)
        else:
            start = time.perf_counter()
            options |= {"precision": precision or "float64", "seed": seed, "reading": choices}
            model = compile_in_shards(data, progress=progress, **in_shards, **options)
            seconds = time.perf_counter() - start
            theory = table(_pieces(model, data, in_shards["work"], choices))
            found = save_compiled(model, seconds, theory, output)
    if as_json:
        echo_json(found.to_json())
    else:
        _show(found, data)


def _shard_options(
    shards: int | None,
    work: Path | None,
    workers: int,
    cluster: str | None,
    sample: int | None,
    method: str,
    recite: bool,
) -> dict[str, Any] | None:
    """Return the arguments of `compile_in_shards` that these options give, or None without `--shards`.

    Raise `UsageError` if the options contradict each other.
    """
    if shards is None:
        if work or cluster or sample or workers > 1:
            raise UsageError(
                "--work, --workers, --cluster and --sample need --shards. Add --shards N, or leave them out."
            )
        return None
    if method != "retrieval" or recite or work is None:
        raise UsageError(
            "--shards needs --method retrieval and --work DIR, and cannot be combined with --recite."
        )
    from byheart.process.task_runner import Workers

    return {"n_shards": shards, "work": work, "sample": sample, "workers": Workers(workers, cluster)}


def _pieces(model: Model, data: Path, work: Path, choices: dict[str, Any]) -> DatasetPieces:
    """Return the data set that was compiled. It is stored in pieces in the folder `work`."""
    from byheart.data.dataset_pieces import spool

    assert model.certificate is not None
    told = {name: value for name, value in choices.items() if value is not None}
    pieces = spool(data, work / "pieces", **told)
    return replace(pieces, n_contexts=model.certificate.dataset.shape.n_contexts)


def _setting(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE. VALUE is parsed as JSON, such as 8 or true; if it is not valid JSON, it is kept as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or name in RESERVED:
        raise UsageError(
            f"--set needs NAME=VALUE, where NAME is an option of the construction (other than {', '.join(RESERVED)}); "
            f"got {text!r}.",
            setting=text,
        )
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _read_texts(data: Path, progress: Progress, **choices: Any) -> Dataset:
    """Read a file of texts into a data set of windows, each labelled with the token that follows it."""
    from byheart.storage.data_source import read_recitation

    if choices["task"] is not None or choices["label"] is not None or choices["ordered"] is not None:
        raise UsageError("--recite reads texts, so --task, --label and --ordered cannot be given with it.")
    kept = ("input", "delimiter", "encoding")
    tokenizer = choices.get("tokenizer", "word")
    return read_recitation(data, tokenizer=tokenizer, **{name: choices[name] for name in kept})


def _show(found: CompiledFile, data: Path) -> None:
    from byheart.construct.choice import describe_unknown_input

    model, seconds, theory, output = found.model, found.seconds, found.theory, found.path

    certificate = model.certificate
    assert certificate is not None
    numbers = certificate.dataset.shape
    say(
        f"{data}: {'memorised, verified' if certificate.holds else 'fitted, not memorised,'} and saved in {output}"
    )
    choice = model.record.get("choice")
    lines = [("method", f"{model.record['method']} ({model.memoriser.task}, {model.precision})")]
    if choice is not None:
        lines += [("chosen", choice["why"]), ("instead", choice["instead"])]
    if choice is None or "unknown input" not in choice["why"]:
        lines.append(("unknown", describe_unknown_input(model.record)))
    if certificate.rows_left_out:
        lines.append(("left out", describe_left_out(certificate.left_out)))
    if is_quiet():
        show_pairs(lines)
        return
    say()
    theorem = str(model.record["theorem"])
    show_pairs(
        [
            *lines,
            *([("theorem", theorem)] if "no theorem" not in theorem else []),
            ("data", describe_data(numbers)),
            ("verdict", certificate.headline),
            ("verified", describe_check(certificate)),
            *distribution_lines(certificate),
            ("seconds", f"compile {seconds['compile']:.1f}, verify {seconds['verify']:.1f}"),
        ]
    )
    say()
    show_sizes(model.size, certificate.theorem_size, theory)
    say()
    show_pairs(
        [
            ("label bits", count(numbers.label_bits)),
            *density_lines(model),
            *entropy_lines(model),
            ("on disk", describe_files(output)),
        ]
    )
