"""The reproductions of the site, drawn from the records under results/. Alone: `python docs/reproduced.py DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from byheart.report.page import PAPERS, read_passes, read_results
from byheart.reproduce.figure import FigureRecord
from byheart.reproduce.figure_files import run_sentence
from byheart.reproduce.plots import draw
from byheart.reproduce.wall_clock import Pass, in_words

RESULTS = Path(__file__).resolve().parents[1] / "results"


def write(folder: Path) -> None:
    """Write reproductions.md and the pictures it shows into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    records = read_results(RESULTS)
    for record in records:
        draw(record, folder)
    (folder / "reproductions.md").write_text(page(records, read_passes(RESULTS)), encoding="utf-8")


def page(records: list[FigureRecord], passes: list[Pass]) -> str:
    """Verdicts in a table, then a section for each figure."""
    lines = ["| figure | conclusion | runs |", "| --- | --- | --- |"]
    ordered = sorted(records, key=lambda record: (list(PAPERS).index(record.paper), record.figure))
    lines += [f"| {cell(r.title)} | **{r.verdict.outcome}** | {r.runs['count']:,} |" for r in ordered]
    lines += ["", in_words(passes)]
    for record in ordered:
        lines += ["", *section(record)]
    return "\n".join(lines) + "\n"


def section(record: FigureRecord) -> list[str]:
    """A figure: what the paper says, the picture, what was found."""
    lines = [
        f"## {record.title}",
        "",
        f"Claim: {record.claim} **Verdict: {record.verdict.outcome}.**",
        "",
        f"```{{image}} _generated/{record.figure}.svg",
        f":alt: {record.title}",
        "```",
        "",
        record.verdict.because,
        "",
    ]
    if record.verdict.checks:
        lines += ["| asked | found | wanted | |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {cell(check.name)} | {cell(check.found)} | {cell(check.wanted)} | {'yes' if check.holds else 'no'} |"
            for check in record.verdict.checks
        ]
        lines.append("")
    return [*lines, run_sentence(record)]


def cell(text: str) -> str:
    """Text that does not end a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
