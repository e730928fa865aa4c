"""What `byheart bounds` prints, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import METHOD, Byheart, write_table


def test_bounds_of_a_file_of_sizes_and_of_an_architecture(
    byheart: Byheart, table: Path, tmp_path: Path
) -> None:
    done = byheart("bounds", "--data", table)
    assert done.status == 0
    assert "KS25 Theorem 4.1" in done.out
    before, planned = done.out.split("Planned for these data")
    assert METHOD not in before  # what we build is no bound
    assert METHOD in planned
    assert "does not apply" in done.out
    sizes = (
        "--samples",
        1000,
        "--seq-len",
        8,
        "--classes",
        16,
        "--dim",
        4,
        "--radius",
        1,
        "--separation",
        0.5,
    )
    found = byheart("bounds", *sizes, "--json").document
    assert {"KS25-T4.1", "KS25-T4.2"} <= {bound["statement"] for bound in found["bounds"]}
    assert found["problem"]["n_samples"] == 1000
    assert all(entry["reason"] for entry in found["not_applicable"])
    config = tmp_path / "config.json"
    gpt2 = {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
    }
    config.write_text(json.dumps(gpt2))
    assert "124,439,808 parameters" in byheart("bounds", "--config", config).out
    counted = byheart("bounds", "--config", config, "--json").document["architecture"]
    assert (counted["parameters"], counted["counted_class"]) == (124_439_808, "GPT2LMHeadModel")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ((), {"options": ["data", "config", "samples"]}),
        (("--samples", "5", "--data", "x.csv"), {"options": ["data", "config", "samples"]}),
        (("--vocab", "5"), {"options": ["samples"]}),
        (("--samples", "5"), {"options": ["vocab", "dim"]}),
        (("--samples", "none"), {"command": "byheart bounds"}),
        (("--config", "nowhere.json"), {"path": "nowhere.json"}),
    ],
)
def test_bounds_wants_one_problem(
    byheart: Byheart, arguments: tuple[str, ...], facts: dict[str, object]
) -> None:
    done = byheart("bounds", *arguments, "--json")
    assert (done.status, done.document["facts"]) == (2, facts)


def test_a_broken_architecture_file_is_outside_the_assumptions(byheart: Byheart, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    done = byheart("bounds", "--config", tmp_path / "config.json", "--json")
    assert (done.status, done.document["error"]) == (4, "MalformedFile")


@pytest.mark.parametrize("written", ["1e3", "1,000", "1_000", "1000"])
def test_numbers_may_be_written_as_people_do(byheart: Byheart, written: str) -> None:
    sizes = ("--samples", written, "--seq-len", "1e1", "--vocab", "1e2", "--json")
    assert byheart("bounds", *sizes).document["problem"]["n_samples"] == 1000


def test_estimates_say_when_sizes_are_exact(byheart: Byheart, tmp_path: Path) -> None:
    many = write_table(tmp_path / "many.csv", {f"person {i}": f"city {i % 6}" for i in range(301)})
    estimated = byheart("bounds", "--data", many).out.partition("Estimates")[2].partition("does not apply")[0]
    assert " 301" in estimated
    assert "--data" not in estimated  # they gave it
    sizes = byheart("bounds", "--samples", 301, "--seq-len", 10, "--vocab", 20).out
    assert "--data" in sizes.partition("Estimates")[2]
