"""The generated parts of the page on `retrieval`: its sizes, as measured and as estimated, and the figure of word sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from word_length import draw_words, read_points

from byheart.construct.registry import get
from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.size import RetrievalOptions, layout_of
from byheart.data.shape import DataShape
from byheart.program.count import count_dense

RESULTS = Path(__file__).with_name("retrieval-words.json")
MEASURED = Path(__file__).parents[1] / "benchmarks" / "records" / "retrieval_two_cores.json"
SHORT = [
    Path(__file__).parents[1] / "benchmarks" / "records" / name
    for name in ("short_weights_two_cores.json", "short_weights_ten_million.json")
]
REJECTED = Path(__file__).parents[1] / "benchmarks" / "records" / "reject_rates.jsonl"
ACCOUNTED = (10**4, 10**5, 10**6, 10**7)
SAMPLES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**9)


def write(folder: Path) -> None:
    """Write the parts into `folder`."""
    (folder / "retrieval-measured.md").write_text(measured(), encoding="utf-8")
    (folder / "retrieval-short.md").write_text(short_weights(), encoding="utf-8")
    (folder / "retrieval-speed.md").write_text(short_speeds(), encoding="utf-8")
    (folder / "retrieval-sizes.md").write_text(sizes(), encoding="utf-8")
    for precision in ("float64", "float32"):
        (folder / f"retrieval-account-{precision}.md").write_text(account(precision), encoding="utf-8")
    (folder / "reject-rates.md").write_text(rejected(), encoding="utf-8")
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


def short_weights() -> str:
    """The stored rows of `benchmarks/short_weights.py`, and those of ten million facts."""
    rows = [row for path in SHORT for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    named = "facts | precision | parameters | bits per parameter | per stored bit | bytes of weights"
    named += " | bytes of the file | bytes of labels | floor of BuRR | right"
    lines = [f"| {named} |", "| ---: | --- |" + " ---: |" * 8]
    for row in sorted(rows, key=lambda row: (row["n_samples"], row["stored_bits"])):
        sizes = (row["stored_bits"] // 8, row["file_bytes"], row["payload_bytes"], row["burr_bytes"])
        lines.append(
            f"| {row['n_samples']:,} | {row['precision']} | {row['parameters']:,} | {row['bits_per_parameter']:.2f} "
            f"| {row['bits_per_stored_bit']:.3f} | {' | '.join(f'{size:,}' for size in sizes)} "
            f"| {row['checked'] - row['wrong']:,} of {row['checked']:,} |"
        )
    return "\n".join(lines) + "\n"


def short_speeds() -> str:
    """Answers per second by precision, of the same benchmark."""
    speeds = json.loads(SHORT[0].read_text(encoding="utf-8"))["speeds"]
    names = list(speeds[0]["answers_per_second"])
    lines = [f"| facts | threads | {' | '.join(names)} |", "| ---: | ---: |" + " ---: |" * len(names)]
    lines += [
        f"| {row['n_samples']:,} | {row['threads']} | "
        + " | ".join(f"{row['answers_per_second'][name]:,}" for name in names)
        + " |"
        for row in speeds
    ]
    return "\n".join(lines) + "\n"


def rejected() -> str:
    """What `benchmarks/reject_rates.py` counted: answers to unknown inputs of every kind, and their share over 2^-f."""
    counts: dict[str, dict[str, list[int]]] = {}
    models: dict[str, int] = {}
    bits: dict[str, int] = {}
    for line in REJECTED.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        data = "" if run["data"] == "facts.csv" else f", {run['keys']:,} random keys"
        name = f"{run['method']} {run['precision']}, {run['layout']}".removesuffix(", ") + data
        column = f"{name}, {run['reject_bits']} bits"
        models[column] = models.get(column, 0) + run["seeds"][1] - run["seeds"][0]
        bits[column] = run["reject_bits"]
        for kind, found in run["kinds"].items():
            total = counts.setdefault(kind, {}).setdefault(column, [0, 0])
            total[0], total[1] = total[0] + found["asked"], total[1] + found["answered"]
    counts["all"] = {
        column: [sum(row[column][i] for row in counts.values() if column in row) for i in range(2)]
        for column in models
    }
    lines = [
        f"| unknown input | {' | '.join(f'{column}, {n} models' for column, n in models.items())} |",
        "| --- |" + " ---: |" * len(models),
    ]
    for kind, row in counts.items():
        cells = [
            f"{answered:,} of {asked:,} ({answered / asked * 2 ** bits[column]:.2f})"
            for column, (asked, answered) in ((column, row[column]) for column in models)
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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


def account(precision: Literal["float64", "float32"]) -> str:
    """Where the bits of a float go: what each step leaves of them, down to the label bits of a parameter."""
    n_bits, mantissa_bits = (64, 53) if precision == "float64" else (32, 24)
    named = (
        "mantissa",
        "payload of a word",
        "weights of the table that are words",
        "load",
        "parameters in the table",
    )
    columns = []
    for n_samples in ACCOUNTED:
        layout = layout_of(DataShape(n_samples, 8, 16, dim=4), RetrievalOptions(precision=precision))
        n_dense, width = count_dense(describe(layout)), layout.model_width
        table = layout.n_rows * (2 * width + 1) + width
        shares = [
            mantissa_bits / n_bits,
            layout.word_bits / mantissa_bits,
            2 * layout.n_rows * layout.n_channels / table,
            layout.load,
            table / n_dense,
        ]
        left = [float(n_bits)]
        for share in shares:
            left.append(left[-1] * share)
        assert layout.name == "dual table"
        assert abs(left[-1] - 4 * n_samples / n_dense) < 1e-9 * left[-1]
        columns.append(
            [f"{share:.0%}, leaves {rest:.1f}" for share, rest in zip(shares, left[1:], strict=True)]
        )
    lines = [
        f"| | {' | '.join(f'{n:,} facts' for n in ACCOUNTED)} |",
        "| --- |" + " ---: |" * len(ACCOUNTED),
    ]
    lines += [
        f"| {name} | {' | '.join(cells)} |"
        for name, cells in zip(named, zip(*columns, strict=True), strict=True)
    ]
    return "\n".join(lines) + "\n"
