"""The reproductions of the site, drawn from the records under results/. Alone: `python docs/reproduced.py DIR`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from byheart.report.page import PAPERS, read_passes, read_results
from byheart.reproduce.dana_2024.curves import agreement_in_words
from byheart.reproduce.figure import FigureRecord
from byheart.reproduce.figure_files import run_sentence
from byheart.reproduce.plots import draw
from byheart.reproduce.wall_clock import Pass, in_words

RESULTS = Path(__file__).resolve().parents[1] / "results"
WORDS = {True: "yes", False: "no", None: "open"}
LONGEST = 40  # rows of a table on the site; the records have them all


def write(folder: Path) -> None:
    """Write the table of verdicts, the sections and the pictures they show into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    records = sorted(
        read_results(RESULTS), key=lambda record: (list(PAPERS).index(record.paper), record.figure)
    )
    for record in records:
        draw(record, folder)
    passes = read_passes(RESULTS)
    (folder / "verdicts.md").write_text(verdicts(records, passes), encoding="utf-8")
    sections = "\n".join(line for record in records for line in ["", *section(record)])
    (folder / "reproductions.md").write_text(sections + "\n", encoding="utf-8")


def verdicts(records: Sequence[FigureRecord], passes: Sequence[Pass]) -> str:
    """Claim, the paper's own condition, verdict and best counter-argument of every figure, a line each."""
    rows = [(r.title, r.claim, r.own, f"**{r.verdict.headline}**", r.counter) for r in records]
    heads = ("result", "claim", "the paper's own condition", "verdict", "best counter-argument")
    return "\n".join([*table(heads, rows), "", agreement_in_words(records), "", in_words(passes)]) + "\n"


def section(record: FigureRecord) -> list[str]:
    """A figure: what the paper says, the picture, what was found."""
    verdict = record.verdict
    lines = [
        f"## {record.title}",
        "",
        f"Claim: {record.claim} **Verdict: {verdict.outcome}.** {verdict.summary}",
        "",
        f"The paper's own condition: {record.own}",
        "",
        f"```{{image}} _generated/{record.figure}.svg",
        f":alt: {record.title}",
        "```",
        "",
        f"Rule: {record.rule}",
        "",
        *table(
            ("condition", "", "found", ""),
            [(t.name, "own" if t.is_own else "variation", t.found, WORDS[t.holds]) for t in verdict.trials],
        ),
        "",
        f"Best counter-argument: {record.counter}",
    ]
    if record.checks:
        rows = [(check.name, check.found, check.wanted, WORDS[check.holds]) for check in record.checks]
        lines += [
            "",
            "Other checks, which do not affect the verdict:",
            "",
            *table(("check", "found", "expected", ""), rows),
        ]
    for one in record.tables:
        if 0 < len(one.rows) <= LONGEST:
            lines += ["", f"{one.title}:", "", *table(one.heads, one.rows)]
    return [*lines, "", run_sentence(record)]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    body = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    return ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |", *body]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
