"""What `byheart inspect` prints, for people and for programs."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import METHOD, Byheart

SIZES = {"parameters_dense", "parameters_nonzero", "depth", "width", "weight_bits", "total_bits"}


def test_inspect_shows_architecture_size_certificate_and_record(byheart: Byheart, folder: Path) -> None:
    done = byheart("inspect", folder)
    assert done.status == 0
    for words in (
        "3 tokens of the word tokenizer",
        "5: Chișinău, Lima, Paris, Tbilisi, ...",
        "feed-forward       hidden width",
        "uniform attention  heads: 1 of size 1",
        "seed                 0",
        "certificate     holds",
        "equal contexts carry equal labels: yes",
        "weights digest",
    ):
        assert words in done.out
    found = byheart("inspect", folder, "--json").document
    assert found["certificate"]["holds"]
    assert found["record"]["method"] == METHOD
    assert found["architecture"]["layers"][0]["kind"] == "feed-forward"
    assert set(found["size"]) == SIZES


def test_inspect_vouches_for_nothing_that_the_model_says(byheart: Byheart, folder: Path) -> None:
    words = " ".join(byheart("inspect", folder).out.split())
    said = r"\(claimed by the model, not checked\)"
    assert re.search(rf"theorem KS25 [^()]*(\([^()]*\))?[^()]* {said}", words)
    assert re.search(rf"this model theorem {said}", words)  # the sizes that the theorem promises


def test_inspect_says_when_nothing_was_checked(byheart: Byheart, folder: Path) -> None:
    (folder / "certificate.json").unlink()
    assert byheart("inspect", folder, "--json").document["certificate"] is None


def test_a_model_of_sets_ignores_all_order(byheart: Byheart, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("key,value\nab,1\nac,2\n", encoding="utf-8")
    assert (
        byheart("compile", table, "-o", tmp_path / "m", "--task", "set", "--method", "retrieval").status == 0
    )
    shown = byheart("inspect", tmp_path / "m").out
    assert "is ignored" in shown
    assert "which token is last" not in shown


def test_a_fact_without_data_is_not_said_to_share_nothing(byheart: Byheart, folder: Path) -> None:
    """Nothing was said of facts that share the weights."""
    asked = ("inspect", folder, "--fact", "capital of France")
    alone = byheart(*asked)
    assert re.search(r"shared with +not known.* --data", alone.out)
    assert {each["n_compared"] for each in byheart(*asked, "--json").document["facts"][0]["locations"]} == {0}


def test_counts_of_zero_are_left_out_of_the_notes(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    """The record of a model that needed one draw was shown as `{'equal addresses': 0, ...}`."""
    folder = tmp_path / "m"
    assert byheart("compile", table, "-o", folder, "--method", "retrieval").status == 0
    failed = byheart("inspect", folder, "--json").document["record"]["notes"]["failed_draws"]
    shown = " ".join(byheart("inspect", folder).out.split())
    assert "{" not in shown
    said = re.search(r"failed draws: ([^,]*)", shown)
    assert said is not None
    assert said[1] == (" and ".join(f"{n} {what}" for what, n in failed.items() if n) or "none")
