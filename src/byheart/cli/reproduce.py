"""`byheart reproduce`: draw a figure of the papers from new runs, beside the published points, and compare the two."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import PATH, device_option, output_options, store_option
from byheart.cli.output import echo_json, is_quiet, say, show_table
from byheart.errors import ByheartError, ExitStatus, UsageError

if TYPE_CHECKING:
    from byheart.measure.store import Store
    from byheart.measure.text_samples import Samples
    from byheart.reproduce.figure import FigureRecord, Scale

HUB = "hub"


class StoppedEarly(ByheartError):
    """The time limit passed before all runs were trained. Finished runs are stored."""

    exit_status = ExitStatus.STOPPED


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Reproduce every figure.")
@click.option("--list", "lists", is_flag=True, help="List the figures and train nothing.")
@click.option(
    "--scale",
    type=click.Choice(["smoke", "laptop", "paper"]),
    default="smoke",
    help="Amount of training: `smoke` (less than a minute, with synthetic texts), `laptop` (minutes), "
    "or `paper` (all variants at all sizes, on a GPU).",
)
@store_option
@click.option("-o", "--output", default="reproductions", type=PATH, help="Folder to write.")
@click.option(
    "--texts",
    metavar="FOLDER",
    help="Folder of JSONL files with the text data sets that the papers use, or `hub` to download these data sets.",
)
@click.option("--samples", "folder", default="samples", type=PATH, help="Folder for the tokenized texts.")
@device_option
@click.option("--minutes", type=click.FloatRange(min=0), help="Start no new runs after this many minutes.")
@click.option("--draw-only", is_flag=True, help="Train nothing; draw the figures from the stored runs.")
@click.option(
    "--add-to",
    "earlier",
    metavar="FOLDER",
    type=PATH,
    help="Folder with records of earlier runs, which are used together with the runs in the store.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Start no run; print the number of runs and their time, estimated from a few training steps of each kind of run.",
)
@output_options
def command(
    names: tuple[str, ...],
    everything: bool,
    lists: bool,
    scale: Scale,
    path: Path,
    output: Path,
    texts: str | None,
    folder: Path,
    device: str,
    minutes: float | None,
    draw_only: bool,
    earlier: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Reproduce figures of the papers from new runs.

    Writes NAME.json (every number in the figure), NAME.png, NAME.svg and NAME.verdict.txt. Each finished run is
    stored at once, so the same command continues after an interruption.
    """
    from byheart.reproduce.registry import FIGURES, figure_of
    from byheart.reproduce.wall_clock import beside

    if lists:
        _list(as_json)
        return
    chosen = list(FIGURES) if everything else list(dict.fromkeys(names))
    if not chosen:
        raise UsageError("give the name of a figure, or --all. `byheart reproduce --list` shows the names.")
    figures = [figure_of(name) for name in chosen]
    samples = _samples(folder, texts, scale) if any(figure.needs_samples for figure in figures) else None
    from byheart.measure.store import Store

    if dry_run:
        _forecast(chosen, scale, samples, path, device, as_json)
        return
    output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with Store(path) as store:
        is_complete = draw_only or _train(chosen, scale, samples, store, device, minutes)
        records = [_make(name, scale, samples, store, output, earlier) for name in chosen]
    seconds = time.monotonic() - began
    trained = _passes(path, output, earlier)
    if as_json:
        echo_json(
            {
                "scale": scale,
                "seconds": seconds,
                "passes": trained,
                "figures": [_summary(record, output) for record in records],
            }
        )
    else:
        rows = [(record.figure, record.verdict.outcome, str(record.runs["count"])) for record in records]
        show_table(("figure", "verdict", "runs"), rows, numbers=(2,))
        times = beside(path)
        kept = f"runs in {path}{f', their training times in {times}' if times.is_file() else ''}"
        say(f"\n{trained}\n{seconds:.0f} s for this command; files in {output}; {kept}")
    if not is_complete:
        raise StoppedEarly(
            f"the limit of --minutes {minutes:g} is reached and some runs are missing.\n"
            f"  Run the same command again to continue from {path}.",
            minutes=minutes,
            path=str(path),
        )


def _list(as_json: bool) -> None:
    from byheart.reproduce.registry import FIGURES, figure_of

    figures = [figure_of(name) for name in FIGURES]
    if as_json:
        echo_json({"figures": [{"name": f.name, "title": f.title, "claim": f.claim} for f in figures]})
        return
    show_table(("name", "figure"), [(figure.name, figure.title) for figure in figures], numbers=())


def _samples(folder: Path, texts: str | None, scale: Scale) -> Samples:
    """Return the tokenized texts in `folder`. If there are none, first tokenize the texts in the folder `texts`.

    If `texts` is `hub`, the texts are downloaded. At smoke scale, if `folder` has no tokenized texts and `texts` is None,
    synthetic texts are used, and kept in a subfolder.
    """
    from byheart.measure.text_samples import FILE, Samples
    from byheart.reproduce.samples import hub_texts, local_texts, made_up_texts, prepare

    if texts is None and scale == "smoke" and not (folder / FILE).is_file():
        # in a separate folder, so that no other scale uses them instead of the texts of the papers
        folder = folder / "made-up"
        if not (folder / FILE).is_file():
            prepare(made_up_texts(), folder)
    elif texts is not None and not (folder / FILE).is_file():
        prepare(hub_texts() if texts == HUB else local_texts(Path(texts)), folder)
    return Samples.at(folder)


def _tell(line: str) -> None:
    """Print a line of progress to standard error, unless the command was given -q."""
    if not is_quiet():
        click.echo(line, err=True)


def _train(
    names: list[str], scale: Scale, samples: Samples | None, store: Store, device: str, minutes: float | None
) -> bool:
    from byheart.process.devices import choose_device, device_name
    from byheart.reproduce.runner import stages_of, work
    from byheart.reproduce.wall_clock import Pass, beside, note

    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    done = work(
        stages_of(names, scale, samples),
        store,
        device=device,
        seconds=None if minutes is None else 60 * minutes,
        say=_tell,
    )
    seconds, n_trained = round(time.monotonic() - clock, 1), sum(part.n_trained for part in done)
    note(beside(store.path), Pass(began, seconds, device_name(choose_device(device)), n_trained))
    return all(part.is_complete for part in done)


def _passes(store: Path, output: Path, earlier: Path | None) -> str:
    """Return a sentence that says how long training took. Also write the times to a file beside the figures.

    The times are those of the training sessions for this store and of those recorded in the folder `earlier`.
    """
    from byheart.reproduce.wall_clock import FILE, beside, in_words, read

    found = [*(read(earlier / FILE) if earlier is not None else []), *read(beside(store))]
    passes = list(dict.fromkeys(found))
    if passes:
        _write(output / FILE, "".join(json.dumps(asdict(one)) + "\n" for one in passes))
    return in_words(passes)


def _forecast(
    names: list[str], scale: Scale, samples: Samples | None, path: Path, device: str, as_json: bool
) -> None:
    from byheart.measure.store import Store
    from byheart.reproduce.cost_estimate import estimates

    with Store(path) if path.exists() else nullcontext() as store:
        found = estimates(
            names,
            scale,
            samples,
            store,
            device=device,
            on_figure=lambda name: _tell(f"timing a few steps of {name}"),
        )
    if as_json:
        echo_json({"scale": scale, "figures": [asdict(one) for one in found]})
        return
    show_table(
        ("figure", "runs", "stored", "minutes"),
        [(one.figure, str(one.n_runs), str(one.n_stored), f"{one.seconds / 60:.1f}") for one in found],
        numbers=(1, 2, 3),
    )
    total, untimed = sum(one.seconds for one in found) / 60, sum(one.n_untimed for one in found)
    rest = f"; runs that are too large to time here are not counted: {untimed}" if untimed else ""
    say(f"\n{total:.1f} minutes in all, estimated from a few training steps on {found[0].device}{rest}")


def _make(
    name: str, scale: Scale, samples: Samples | None, store: Store, output: Path, earlier: Path | None
) -> FigureRecord:
    from byheart.reproduce.figure_files import make_record, to_json, verdict_text
    from byheart.reproduce.plots import draw

    record = make_record(name, scale, samples, store, None if earlier is None else earlier / f"{name}.json")
    _write(output / f"{name}.json", to_json(record))
    _write(output / f"{name}.verdict.txt", verdict_text(record))
    draw(record, output)
    return record


def _write(path: Path, text: str) -> None:
    """Write a file atomically: the old version stays in place until the new one is complete."""
    from byheart.files.whole_file import write_whole

    write_whole(path, lambda file: file.write(text.encode()))


def _summary(record: FigureRecord, output: Path) -> dict[str, Any]:
    return {
        "name": record.figure,
        "outcome": record.verdict.outcome,
        "summary": record.verdict.summary,
        "rule": record.rule,
        "trials": [asdict(trial) for trial in record.verdict.trials],
        "checks": [{"name": check.name, "holds": check.holds} for check in record.checks],
        "record": str(output / f"{record.figure}.json"),
        "runs": record.runs["count"],
    }
