"""Lines about data, checks and sizes that more than one command prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from byheart.cli.output import count, one_line, ratio, say, show_pairs, show_table
from byheart.errors import amount

if TYPE_CHECKING:
    from byheart.bounds import Bound, BoundTable, NotApplicable
    from byheart.bounds.bound import Scope
    from byheart.data.shape import DataShape
    from byheart.model import Model
    from byheart.network.size import Size
    from byheart.verify.certificate import Certificate


SAID = "claimed by the model, not checked"


def describe_data(numbers: DataShape) -> str:
    """Describe the sizes of a data set in one line."""
    kind = (
        f"{amount(numbers.seq_len, 'vector')} of dimension {numbers.dim}"
        if numbers.vocab is None
        else f"{amount(numbers.seq_len, 'token')} (vocabulary {numbers.vocab:,})"
    )
    samples = f"{amount(numbers.n_samples, 'sample')} of up to {kind}"
    labels = f"{amount(numbers.label_count, 'label')}, " if numbers.label_count != numbers.n_samples else ""
    return f"{samples}; {labels}{amount(numbers.n_classes, 'class')}"


def describe_check(certificate: Certificate) -> str:
    how = {
        "exact": "in exact arithmetic",
        "interpreter": "by the slow interpreter",
        "equations": "computed with NumPy from the equations of the network",
        "module": "natively in PyTorch",
        "transformers": "in Hugging Face transformers",
    }[certificate.backend]
    again = certificate.rechecked_by_interpreter
    seconds = {"equations": "NumPy from the equations of the network", "exact": "exact arithmetic"}
    second = seconds.get(certificate.rechecked_by or "", "the slow interpreter")
    twice = f"; {again} checked again by {second}" if again else ""
    n_right, sample = certificate.checked - certificate.wrong, certificate.on_sample
    return f"{n_right:,} of {amount(certificate.checked, certificate.unit)} right{sample}, {how}{twice}"


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Describe how many rows each rule left out."""
    return ", ".join(f"{amount(n_rows, 'row')} by {rule}" for rule, n_rows in left_out.items())


def describe_files(folder: Path) -> str:
    """List the files of a model with their sizes, the largest first.

    For all models except Llamas, say that model.json holds the text of the labels.
    """
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    largest_first = sorted(files, key=lambda name: -files[name])
    labels = "" if "config.json" in files else " with the text of the labels"
    each = [f"{name}{labels if name == 'model.json' else ''} {files[name]:,}" for name in largest_first]
    return f"{sum(files.values()):,} bytes: {', '.join(each)}"


def turns_away(model: Model) -> bool:
    """Return whether the model has reject bits. With F reject bits, about one in 2^F unknown inputs gets an answer."""
    return bool((model.record.get("notes") or {}).get("reject_bits"))


def density_lines(model: Model) -> list[tuple[str, str]]:
    """Return one line with the label bits per parameter and one with the label bits per stored bit.

    If the weights take fewer bits than a list of the labels, the labels are not arbitrary. A single line then says so instead.
    """
    bits = model.label_bits
    if bits is not None and model.bits_per_stored_bit is None:
        stored, listed = count(model.size.stored_bits), count(bits)
        said = (
            f"not computed: the weights take {stored} bits, fewer than a list of the labels ({listed} bits). "
            "So the labels are not arbitrary: they follow a rule, or some are far more frequent than others"
        )
        return [("bits per stored bit", said)]
    return [
        ("bits per parameter", ratio(model.bits_per_parameter)),
        ("bits per stored bit", ratio(model.bits_per_stored_bit)),
    ]


def entropy_lines(model: Model) -> list[tuple[str, str]]:
    """Return a line with the entropy of the labels if it is at least 0.5% less than the label bits, otherwise nothing."""
    entropy, bits = model.label_entropy, model.label_bits
    if entropy is None or bits is None or entropy > 0.995 * bits or model.entropy_per_parameter is None:
        return []
    return [("label entropy", f"{count(entropy)} bits, {ratio(model.entropy_per_parameter)} per parameter")]


def distribution_lines(certificate: Certificate) -> list[tuple[str, str]]:
    """Return a line about the next-token distributions of a certificate, if it has any."""
    return [] if certificate.distribution is None else [("distributions", str(certificate.distribution))]


def show_sizes(
    size: Size, theorem: Mapping[str, int] | None, theory: BoundTable | None, *, is_said: bool = False
) -> None:
    """Print the actual size, the size that the theorem promises, and the lower bound for these data.

    Worst-case bounds for data of this shape are printed separately, because these data may need far less.

    is_said: True if the numbers of the theorem come from a model folder. They are then shown as claimed, not checked.
    """
    # 0 means that the theorem promises nothing
    promised = {name: value for name, value in (theorem or {}).items() if value}
    if {"parameters", "weight_bits"} <= set(promised):
        promised["total_bits"] = promised["parameters"] * promised["weight_bits"]
    rows = [
        ("depth", size.depth, "depth", None),
        ("width", size.width, "width", None),
        ("parameters, dense", size.parameters_dense, "parameters", "parameters"),
        ("parameters, non-zero", size.parameters_nonzero, None, None),
        ("largest weight, bits", size.weight_bits, "weight_bits", None),
        ("bits of weights", size.total_bits, "total_bits", None),
        ("bits to store them", size.stored_bits, None, "bits"),
    ]
    columns = [("", [name for name, *_ in rows]), ("this model", [count(value) for _, value, *_ in rows])]
    if promised:
        header = f"theorem ({SAID})" if is_said else "theorem"
        columns.append((header, [count(promised[key]) if key in promised else "" for *_, key, _ in rows]))
    if theory is not None:
        values, names = zip(*(_floor(theory, quantity) for *_, quantity in rows), strict=True)
        if any(values):
            columns += [("at least", list(values)), ("by", list(names))]
    headers = [header for header, _ in columns]
    numbers = [place for place, header in enumerate(headers) if header not in ("", "by")]
    show_table(headers, list(zip(*(cells for _, cells in columns), strict=True)), numbers=numbers)
    if theory is not None:
        from byheart.bounds.bound import for_networks

        found = [(q, _largest(theory, q, "some data of this shape")) for q in ("parameters", "bits")]
        show_worst_case(
            [
                (quantity, bound.value, for_networks(bound.name, bound.networks))
                for quantity, bound in found
                if bound is not None
            ]
        )


def show_worst_case(needs: Iterable[tuple[str, int | Fraction, str]]) -> None:
    """Print worst-case bounds for data of the same shape as these data. Each bound is given as quantity, value and source."""
    parameters_first = sorted(needs, key=lambda need: need[0] == "bits")
    said = "; ".join(
        f"{_need(quantity, value)} ({by})" for quantity, value, by in parameters_first if value > 0
    )
    if said:
        say()
        show_pairs(
            [("worst case", f"some data of this shape need at least {said}; these data may need less")]
        )


def _need(quantity: str, value: int | Fraction) -> str:
    """Format a worst-case bound, such as 1,137 bits in all, or 18 parameters of 64 bits."""
    noun, space, rest = quantity.partition(" ")
    noun = noun.removesuffix("s") if value == 1 else noun
    return f"{count(value)} {noun}{space}{rest}{' in all' if quantity == 'bits' else ''}"


def show_refused(entries: Iterable[NotApplicable]) -> None:
    """Print the bounds and constructions that do not apply, one line per reason."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        reason = first_sentence(entry.reason).removeprefix(f"{entry.name} ")
        reasons.setdefault(reason, []).append(entry.name)
    if reasons:
        say()
        rows = [(", ".join(who), why) for why, who in reasons.items()]
        show_table(("does not apply", "because"), rows, first_width=28)


def first_sentence(text: str) -> str:
    """Return the first sentence of a message, without the advice that follows. With --json, the whole message is printed."""
    return re.split(r"(?<=[.!?]) +(?=[A-Z])", one_line(text), maxsplit=1)[0]


def _floor(theory: BoundTable, quantity: str | None) -> tuple[str, str]:
    """Return the largest lower bound on a quantity for these data, and the name of its theorem. Without a bound, both are empty."""
    largest = None if quantity is None else _largest(theory, quantity, "these data")
    return ("", "") if largest is None else (count(largest.value), largest.name)


def _largest(theory: BoundTable, quantity: str, speaks_of: Scope) -> Bound | None:
    return max(theory.of(quantity, "lower", speaks_of), key=lambda bound: bound.value, default=None)
