"""The generated parts of the page on `retrieval`: its sizes, as `size_of` tells them, and the figure of word sizes."""

from __future__ import annotations

from pathlib import Path

from byheart.construct.registry import Statistics, get
from byheart.report.words import draw_words, read_points

RESULTS = Path(__file__).with_name("retrieval-words.json")
SAMPLES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**9)


def write(folder: Path) -> None:
    """Write both parts into `folder`."""
    (folder / "retrieval-sizes.md").write_text(sizes(), encoding="utf-8")
    draw_words(read_points(RESULTS), folder / "word-size.svg")


def sizes() -> str:
    """Parameters and bits per parameter, for grid vectors and for token ids."""
    size_of = get("retrieval").size_of
    lines = [
        "| facts | data | classes | float64 | bits per parameter | bits per stored bit |",
        "| --- " * 6 + "|",
    ]
    for n_samples in SAMPLES:
        for name, options in (("grid", {"dim": 4}), ("tokens", {"vocab": 1000, "ordered": True})):
            for n_classes in (16, 1024):
                size = size_of(Statistics(n_samples, 8, n_classes, **options))  # type: ignore[arg-type]
                bits = n_samples * (n_classes.bit_length() - 1)
                lines.append(
                    f"| {n_samples:,} | {name} | {n_classes:,} | {size.parameters_dense:,} "
                    f"| {bits / size.parameters_dense:.2f} | {bits / size.total_bits:.3f} |"
                )
    return "\n".join(lines) + "\n"
