"""Sixty mistakes in verify, digest, storage, counting and bounds: what `make mutants` puts into the code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in `file`, once; `tests` are enough to see it. `survives` says why none can.

    only: a word in the names of those tests, where a file has many
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    survives: str = ""
    only: str = ""


VERIFIER, DISTRIBUTIONS = "tests/verify/test_verifier.py", "tests/verify/test_distributions.py"
DIGEST, GUARDS = "tests/verify/test_digest.py", "tests/attacks/test_guards.py"
HOSTILE, FOLDER = "tests/storage/test_hostile.py", "tests/storage/test_folder.py"
COUNT = "tests/program/test_count.py"
PIGEONHOLE, ENCLOSURES = "tests/bounds/test_pigeonhole.py", "tests/bounds/test_enclosures.py"
LOWER, VC = "tests/bounds/test_kajitsuka_sato_2025_lower.py", "tests/bounds/test_vc_dimension.py"
LOOKUP = "tests/bounds/test_lookup.py"

MUTANTS = (
    # verify
    Mutant("V1", "verify/verifier.py", "holds=not problems,", "holds=True,", VERIFIER),
    Mutant(
        "V2", "verify/verifier.py", "(got != expected) | (expected == UNKNOWN)", "(got != expected)", VERIFIER
    ),
    Mutant("V3", "verify/verifier.py", "if digest != found[name]", "if digest > found[name]", VERIFIER),
    Mutant("V4", "verify/verifier.py", "not np.array_equal(answer, answers[at])", "False", VERIFIER),
    Mutant(
        "V5",
        "verify/verifier.py",
        'origin.assumptions if origin.dataset.digest == digests["dataset"] else ()',
        "origin.assumptions",
        VERIFIER,
    ),
    Mutant("V6", "verify/verifier.py", "(*others, *_wrong_in_words(found))", "others", VERIFIER),
    Mutant(
        "V7",
        "verify/verifier.py",
        "column = width - lengths[owners] +",
        "column = lengths[owners] +",
        VERIFIER,
    ),
    Mutant(
        "V8", "verify/verifier.py", "len(wrong_samples), tuple(shown)", "len(shown), tuple(shown)", VERIFIER
    ),
    Mutant(
        "V9",
        "verify/verifier.py",
        'expected["model"] = earlier.model_digest',
        "pass",
        "tests/attacks/test_forged.py",
    ),
    Mutant(
        "V10", "verify/distributions.py", "allowed_gap = min(allowed_gap, ALLOWED_GAP)", "pass", DISTRIBUTIONS
    ),
    Mutant(
        "V11",
        "verify/verifier.py",
        "        holds=not problems,",
        "        holds=not others,",
        f"{DISTRIBUTIONS}::test_the_record_of_a_model_has_no_say_in_the_rule",
    ),
    Mutant(
        "V12",
        "verify/distributions.py",
        "~(found <= ALLOWED_DIVERGENCE) | is_other_token",
        "is_other_token",
        GUARDS,
    ),
    Mutant(
        "V13",
        "verify/distributions.py",
        "~(found <= ALLOWED_DIVERGENCE) | is_other_token",
        "~(found <= ALLOWED_DIVERGENCE)",
        DISTRIBUTIONS,
        survives="a token that is certain and diverges by at most 1e-3 has a probability above 0.999, so no other is likelier",
    ),
    Mutant(
        "V14",
        "verify/distributions.py",
        "found[~np.isfinite(logits).all(axis=1)] = np.inf",
        "pass",
        "tests/attacks/test_forged.py",
    ),
    Mutant(
        "V15",
        "verify/distributions.py",
        "found[rows[(rows >= 0) & (columns == UNKNOWN)]] = np.inf",
        "pass",
        GUARDS,
    ),
    Mutant(
        "V16",
        "verify/distributions.py",
        "<= 2 * again.radius",
        "<= 2 * again.radius + 1",
        GUARDS,
    ),
    Mutant(
        "V17",
        "verify/certificate.py",
        "return self.gap_nats <= (self.allowed_gap_percent or 0) / 100 * self.entropy_nats",
        "return True",
        GUARDS,
    ),
    Mutant(
        "V18",
        "verify/encoded_inputs.py",
        "(ids >= 0) & (ids < n_known)",
        "(ids >= 0) & (ids <= n_known)",
        GUARDS,
    ),
    Mutant("V19", "verify/encoded_inputs.py", "is_known &= ids != memoriser.network.pad", "pass", VERIFIER),
    Mutant("V20", "verify/encoded_inputs.py", "| (inputs.lengths > network.seq_len)", "", VERIFIER),
    Mutant(
        "V21",
        "verify/encoded_inputs.py",
        "number.get(token, UNKNOWN_TOKEN)",
        "number.get(token, 0)",
        VERIFIER,
    ),
    Mutant(
        "V22",
        "verify/certificate.py",
        "certificate.holds and (certificate.wrong or certificate.problems)",
        "certificate.holds and certificate.problems",
        VERIFIER,
    ),
    Mutant(
        "N3",
        "network/logits.py",
        "np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), UNKNOWN)",
        "logits.argmax(axis=1)",
        GUARDS,
    ),
    Mutant(
        "N4",
        "network/transformer/answers.py",
        "(numbers == np.rint(numbers)) & (numbers >= 1)",
        "(numbers >= 1)",
        "tests/network/test_module.py tests/verify tests/attacks/test_forged.py",
    ),
    # digest
    Mutant(
        "G1",
        "verify/digest.py",
        "digest != certified:",
        "digest < certified:",
        "tests/attacks/test_forged.py",
    ),
    Mutant("G2", "verify/digest.py", "digest.update(_content(weights))", "pass", DIGEST),
    Mutant(
        "G3",
        "verify/digest.py",
        "{network.precision} {network.seq_len} {pad}",
        "{network.precision} {pad}",
        DIGEST,
    ),
    Mutant(
        "G4",
        "verify/digest.py",
        '"labels": list(memoriser.label_names),',
        '"labels": len(memoriser.label_names),',
        VERIFIER,
    ),
    Mutant("G5", "verify/digest.py", '"tokenizer": tokenizer,', "", "tests/attacks/test_forged.py"),
    Mutant("G6", "verify/digest.py", '"ordered": memoriser.ordered,', "", "tests/attacks/test_forged.py"),
    Mutant("G7", "verify/digest.py", "{value.mantissa:x} {value.exponent}", "{value.mantissa:x}", DIGEST),
    Mutant("G8", "verify/digest.py", 'weights.dtype.newbyteorder("<")', "np.float32", GUARDS),
    # storage
    Mutant("S1", "storage/folder.py", "if not np.isfinite(array).all():", "if False:", HOSTILE),
    Mutant("S2", "measure/store.py", "PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF", GUARDS),
    Mutant(
        "S3", "storage/tensor_file.py", "if n_bytes > n_data or offsets[1] > n_data:", "if False:", HOSTILE
    ),
    Mutant("S4", "storage/tensor_file.py", "if offsets[1] - offsets[0] != n_bytes:", "if False:", HOSTILE),
    Mutant("S5", "storage/tensor_file.py", "if tensor.start != end:", "if tensor.start > end:", HOSTILE),
    Mutant("S6", "storage/tensor_file.py", "if end != n_file:", "if end > n_file:", HOSTILE),
    Mutant("S7", "storage/tensor_file.py", "if n_header > n_file - 8:", "if n_header > n_file:", GUARDS),
    Mutant(
        "S8",
        "storage/sparse_weights.py",
        "refuse(same_row & falls,",
        "refuse(same_row & falls & False,",
        HOSTILE,
    ),
    Mutant(
        "S9",
        "storage/sparse_weights.py",
        '> allowed, f"has an exponent',
        '> 2 * allowed, f"has an exponent',
        GUARDS,
    ),
    Mutant(
        "S10",
        "storage/sparse_weights.py",
        'refuse(even, "has an even',
        'refuse(even & False, "has an even',
        HOSTILE,
    ),
    Mutant("S11", "storage/sparse_weights.py", "columns >= widths", "columns > widths", HOSTILE),
    Mutant("S12", "storage/folder.py", "if len(tokenizer.vocabulary) > n_known:", "if False:", HOSTILE),
    Mutant(
        "S13",
        "storage/atomic_folder.py",
        "if foreign or (names and MODEL not in names):",
        "if names and MODEL not in names:",
        FOLDER,
    ),
    Mutant(
        "S14",
        "storage/atomic_folder.py",
        "            if aside is not None and not target.exists():",
        "            if False:",
        FOLDER,
    ),
    Mutant(
        "S15",
        "storage/atomic_folder.py",
        "        if replaces:\n            aside.rename(target)\n        raise",
        "        raise",
        FOLDER,
    ),
    Mutant(
        "S16", "storage/atomic_folder.py", "                _to_disk(entry)", "                pass", FOLDER
    ),
    # counting
    Mutant(
        "C1",
        "network/size.py",
        "sum(bits))",
        "sum(bits) + 1)",
        "tests/network/test_spec.py tests/program/test_count.py",
    ),
    Mutant(
        "C2",
        "program/count.py",
        "Size(_entries_outside(program), 1, 0, program.model_width, 1, 1)",
        "Size(_entries_outside(program), 0, 0, program.model_width, 0, 0)",
        COUNT,
    ),
    Mutant(
        "C3",
        "program/count.py",
        "2 * model_width * step.n_units + step.n_units + model_width",
        "2 * model_width * step.n_units + step.n_units",
        COUNT,
    ),
    Mutant(
        "C4",
        "network/size.py",
        "max(self.weight_bits, other.weight_bits)",
        "min(self.weight_bits, other.weight_bits)",
        COUNT,
    ),
    Mutant(
        "C5",
        "program/count.py",
        "for b in range(longest))",
        "for b in range(longest - 1))",
        COUNT,
    ),
    Mutant(
        "C6",
        "program/count.py",
        "(program.dim + 1) * program.model_width",
        "program.dim * program.model_width",
        COUNT,
    ),
    # bounds
    Mutant(
        "B1",
        "bounds/kajitsuka_sato_2025_lower.py",
        "log2_e_times(48 * seq_len**3 * n_samples).high",
        "log2_e_times(48 * seq_len**3 * n_samples).low",
        GUARDS,
    ),
    Mutant(
        "B2",
        "bounds/pigeonhole.py",
        "largest: int = n_classes**n_labels - 1",
        "largest: int = n_classes**n_labels",
        PIGEONHOLE,
    ),
    Mutant(
        "B3",
        "bounds/pigeonhole.py",
        "log2(n_classes, bits) * n_labels, ceil_fraction",
        "log2(n_classes, bits) * n_labels, int",
        PIGEONHOLE,
    ),
    Mutant(
        "B4",
        "bounds/enclosures.py",
        "return Interval(start, start + Fraction(1, 1 << taken))",
        "return Interval(start, start)",
        ENCLOSURES,
    ),
    Mutant(
        "B5",
        "bounds/vc_dimension.py",
        "low, high = (low, middle) if enough(middle) else (middle, high)",
        "low, high = (low, middle) if enough(middle - 1) else (middle, high)",
        LOWER,
    ),
    Mutant(
        "B6",
        "bounds/vc_dimension.py",
        "reach = sum(i * units for i, units in enumerate(layer_units, start=1))",
        "reach = sum(i * units for i, units in enumerate(layer_units, start=0))",
        VC,
    ),
)
