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
