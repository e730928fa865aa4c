"""Write one HTML page with every stored figure: first the verdicts, then each figure with its numbers.

The page works without a network connection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from byheart.errors import UsageError
from byheart.files.whole_file import write_whole
from byheart.reproduce.dana_2024.curves import agreement_in_words
from byheart.reproduce.figure import FigureRecord
from byheart.reproduce.figure_files import blaming, read_record, run_sentence
from byheart.reproduce.plots import as_svg
from byheart.reproduce.registry import FIGURES
from byheart.reproduce.wall_clock import FILE, Pass, in_words, read

PAPERS = {
    "DPC24": "DPC24: Dana, Pydi & Chevaleyre 2024, Memorization in Attention-only Transformers",
    "MFT24": "MFT24: Madden, Fox & Thrampoulidis 2024, Upper and lower memory capacity bounds of transformers",
    "KS25": "KS25: Kajitsuka & Sato 2025, On the Optimal Memorization Capacity of Transformers",
    "beyond": "Beyond the papers",
}
INTRODUCTION = (
    "byheart trained all models. A verdict says whether their results support the paper's claim. Each claim "
    "is decided by a rule of its own, applied under the paper's own condition. Variations do not affect the"
    " verdict. Nor do other checks, such as a comparison with the points that the authors stored. "
    "Bands are 95% Student's t intervals over seeds. "
    "<code>byheart report --recompute</code> computes every number again from the values of each seed in the "
    "records."
)
CLASSES = {"holds": "yes", "does not hold as the paper has it": "no", "not settled": "open"}


def read_results(folder: Path) -> list[FigureRecord]:
    """Return every record in `folder`, in the order of `FIGURES`. Raise `UsageError` if there is none."""
    paths = {name: folder / f"{name}.json" for name in FIGURES}
    found = [read_record(path) for path in paths.values() if path.is_file()]
    if not found:
        raise UsageError(
            f"{folder} holds no record of a figure.\n  Make some with `byheart reproduce --all -o {folder}`.",
            folder=str(folder),
        )
    return found


def read_passes(folder: Path) -> list[Pass]:
    """Return the training sessions that are recorded in the folder of the figures, if any."""
    return read(folder / FILE)


def write_page(records: Sequence[FigureRecord], folder: Path, passes: Sequence[Pass] = ()) -> Path:
    """Write index.html to `folder`, atomically."""
    path, text = folder / "index.html", page(records, passes)
    write_whole(path, lambda file: file.write(text.encode()))
    return path


def page(records: Sequence[FigureRecord], passes: Sequence[Pass] = ()) -> str:
    body = [
        "<header><h1>The papers' figures, reproduced with new runs</h1>",
        f"<p>{INTRODUCTION}</p></header>",
        "<main>",
        _overview(sorted(records, key=lambda record: (list(PAPERS).index(record.paper), record.figure))),
        f"<p>{escape(agreement_in_words(records))}</p>",
    ]
    for paper, citation in PAPERS.items():
        mine = sorted((r for r in records if r.paper == paper), key=lambda record: record.figure)
        if mine:
            body.append(f"<h2>{escape(citation)}</h2>")
            body += [_section(record) for record in mine]
    body += [_environment(records, passes), "</main>"]
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>byheart: reproductions</title><style>\n{style}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _badge(record: FigureRecord) -> str:
    outcome = record.verdict.outcome
    return f'<span class="badge {CLASSES[outcome]}">{escape(outcome)}</span>'


def _overview(records: Sequence[FigureRecord]) -> str:
    rows = [
        (
            f'<a href="#{escape(record.figure)}">{escape(record.title)}</a>',
            *map(_text, (record.claim, record.own)),
            f"{_badge(record)}<small>{escape(_details(record))}</small>",
            _text(record.counter),
        )
        for record in records
    ]
    heads = ("result", "claim", "the paper's own condition", "verdict", "best counter-argument")
    return _table(heads, rows, "overview")


def _text(words: str) -> str:
    """Convert text to HTML, with names in backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def _details(record: FigureRecord) -> str:
    """Return the details of a verdict.

    For a claim that fails, these are the variations under which it holds; for an undecided claim, the reason. For a claim that
    holds, return an empty text.
    """
    verdict = record.verdict
    if verdict.outcome == "not settled":
        return verdict.summary
    return verdict.headline.removeprefix(verdict.outcome).strip()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Return an HTML table. `rows` must be HTML already; `heads` are plain text. `kind` is the CSS class of the table."""
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{escape(word)}">{cell}</td>' for word, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="scroll"><table '
        f'class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _mark(holds: bool | None) -> str:
    word = {True: "yes", False: "no", None: "open"}[holds]
    return f'<span class="mark {word}">{ {True: "✓", False: "✗", None: "?"}[holds] }</span>'


def _section(record: FigureRecord) -> str:
    verdict = record.verdict
    with blaming(record):
        drawn = as_svg(record)
    trials = [
        (_mark(one.holds), escape(one.name), "" if one.is_own else "variation", escape(one.found))
        for one in verdict.trials
    ]
    checks = [(_mark(one.holds), *map(escape, (one.name, one.found, one.wanted))) for one in record.checks]
    beside = (
        f"<h4>Other checks</h4>{_table(('', 'check', 'found', 'expected'), checks, 'checks')}"
        if checks
        else ""
    )
    tables = "".join(
        f"<h4>{escape(table.title)}</h4>{_table(table.heads, [[escape(cell) for cell in row] for row in table.rows])}"
        for table in record.tables
    )
    choices = "".join(f"<li>{escape(choice)}</li>" for choice in record.choices)
    numbers = escape(json.dumps(record.numbers, indent=1, ensure_ascii=False))
    counter = f"<p>Best counter-argument: {_text(record.counter)}</p>" if record.counter else ""
    return (
        f'<section id="{escape(record.figure)}"><h3>{escape(record.title)} {_badge(record)}</h3>'
        f'<p class="claim">{_text(record.claim)}</p><p>The paper&#x27;s own condition: '
        f"{_text(record.own)}</p>"
        f"<p>Rule: {_text(record.rule)}</p>"
        f'<div class="figure{" wide" if len(record.panels) > 1 else ""}">{drawn}</div>'
        f"<p>{escape(verdict.summary)}</p>{counter}"
        f"{_table(('', 'condition', '', 'found'), trials, 'checks')}{beside}"
        f"<details><summary>Tables</summary>{tables}</details>"
        f"<details><summary>Choices and numbers</summary><ul>{choices}</ul>"
        f"<p>{escape(run_sentence(record))}</p><pre>{numbers}</pre></details></section>"
    )


def _environment(records: Sequence[FigureRecord], passes: Sequence[Pass]) -> str:
    rows = [
        [
            escape(str(cell))
            for cell in (
                record.figure,
                record.scale,
                f"{record.runs['count']:,}",
                ", ".join(map(str, record.seeds)),
                ", ".join(record.runs["devices"]),
                f"{record.runs['seconds']:,.0f}",
                _versions(record),
            )
        ]
        for record in records
    ]
    heads = ("figure", "scale", "runs", "seeds", "device", "seconds", "versions")
    return f"<h2>Environment</h2><p>{escape(in_words(passes))}</p>{_table(heads, rows)}"


def _versions(record: FigureRecord) -> str:
    found = [", ".join(f"{name} {value}" for name, value in row.items()) for row in record.runs["versions"]]
    return "; ".join(found)
