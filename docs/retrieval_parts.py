"""The generated parts of the page on `retrieval`: its sizes, as measured and as foretold, and the figure of word sizes."""

from __future__ import annotations

import json
from pathlib import Path

from byheart.construct.registry import get
from byheart.data.shape import DataShape
from byheart.report.word_length import draw_words, read_points

RESULTS = Path(__file__).with_name("retrieval-words.json")
MEASURED = Path(__file__).parents[1] / "benchmarks" / "records" / "retrieval_two_cores.json"
SAMPLES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**9)


def write(folder: Path) -> None:
    """Write the parts into `folder`."""
    (folder / "retrieval-measured.md").write_text(measured(), encoding="utf-8")
    (folder / "retrieval-sizes.md").write_text(sizes(), encoding="utf-8")
    draw_words(read_points(RESULTS), folder / "word-size.svg")


def measured() -> str:
    """The stored rows of `benchmarks/retrieval.py`: built, then every sample answered by PyTorch."""
    document = json.loads(MEASURED.read_text(encoding="utf-8"))
    rows = document["rows"]
    lines = [
        "| facts | data | classes | precision | parameters | bits per parameter | compiled in | right |",
        "| --- " * 8 + "|",
    ]
    lines += [
        f"| {row['n_samples']:,} | {row['data']}{', seed ' + str(row['seed']) if row['seed'] else ''} | {row['n_classes']:,} "
        f"| {row['precision']} | {row['parameters']:,} | {row['bits_per_parameter']:.2f} | {row['compile_s']:.2f} s "
        f"| {row['checked'] - row['wrong']:,} of {row['checked']:,} |"
        for row in rows
    ]
    most = max(row["compile_gb"] for row in rows)
    growth = (
        f"From 10⁴ to 10⁶ facts the time to compile grows as N^{document['compile_growth']:.2f} (float64, grid, 16 classes);"
        f" it took at most {most:.1f} GB, Python and torch included."
    )
    return "\n".join(lines) + f"\n\n{growth}\n"


def sizes() -> str:
    """Parameters and bits per parameter, for grid vectors and for token ids."""
    estimate = get("retrieval").estimate
    lines = [
        "| facts | data | classes | float64 | bits per parameter | bits per stored bit |",
        "| --- " * 6 + "|",
    ]
    for n_samples in SAMPLES:
        for name, options in (("grid", {"dim": 4}), ("tokens", {"vocab": 1000, "ordered": True})):
            for n_classes in (16, 1024):
                size = estimate(DataShape(n_samples, 8, n_classes, **options))
                bits = n_samples * (n_classes.bit_length() - 1)
                lines.append(
                    f"| {n_samples:,} | {name} | {n_classes:,} | {size.parameters_dense:,} "
                    f"| {bits / size.parameters_dense:.2f} | {bits / size.total_bits:.3f} |"
                )
    return "\n".join(lines) + "\n"
