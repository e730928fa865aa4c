"""What `byheart inspect` prints, for people and for programs."""

from __future__ import annotations

import json
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
        "verdict       holds",
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


def test_inspect_vouches_for_nothing_in_the_certificate_but_the_digests(
    byheart: Byheart, folder: Path
) -> None:
    """A forged certificate was shown as a fact: 1,000,000 of 1,000,000 rows right, in exact arithmetic."""
    path = folder / "certificate.json"
    document = json.loads(path.read_bytes())
    forged = {**document["dataset"], "n_samples": 10**6, "n_labels": 10**6}
    path.write_text(
        json.dumps({**document, "checked": 10**6, "rechecked_by_interpreter": 150, "dataset": forged})
    )
    lines = byheart("inspect", folder).out.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("  certificate"))
    assert "claimed by the model, not checked" in lines[start]
    claims = [line for line in lines[start + 1 :] if line.startswith("    ")]
    for word in ("verdict", "data", "checked", "assumption", "data digest"):
        assert any(line.split("  ")[2].startswith(word) for line in claims), word
    assert any("1,000,000" in line for line in claims)
    assert not any("1,000,000" in line for line in lines if line not in claims)
    found = byheart("inspect", folder, "--json").document["certificate"]
    assert set(found) - set(found["unchecked"]) == {"schema", "weights_digest", "model_digest", "unchecked"}


def test_a_certificate_that_no_check_of_this_model_issues_is_refused(byheart: Byheart, folder: Path) -> None:
    path = folder / "certificate.json"
    document = json.loads(path.read_bytes())
    data = document["dataset"]
    for lie in (
        {"backend": "transformers"},
        {"rechecked_by": "transformers"},
        {"dataset": {**data, "task": "set"}},
        {"dataset": {**data, "n_samples": 10**6}, "checked": 10**6},
        {"sampled": document["checked"]},
    ):
        path.write_text(json.dumps({**document, **lie}))
        done = byheart("inspect", folder, "--json")
        assert (done.status, done.document["error"]) == (3, "CorruptModel"), lie
    path.write_text(json.dumps(document))
    assert byheart("inspect", folder).status == 0


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


def test_a_file_of_other_facts_is_not_taken_for_the_model_s(
    byheart: Byheart, folder: Path, table: Path, tmp_path: Path
) -> None:
    """Whatever the file was, the fact was said to share its weights with no other fact."""
    other = tmp_path / "other.csv"
    other.write_text("key,value\ncapital of Mars,Y\n", encoding="utf-8")
    asked = ("inspect", folder, "--fact", "capital of France", "--data")
    own, strange = byheart(*asked, table, "--json").document, byheart(*asked, other, "--json").document
    assert (own["data"]["is_model_data"], own["facts"][0]["in_data"]) == (True, "same answer")
    assert strange["data"] == {"n_facts": 1, "n_answered": 0, "is_model_data": False}
    assert strange["facts"][0]["in_data"] == "missing"
    assert len(byheart(*asked, other).out) > len(byheart(*asked, table).out)


def test_long_weights_of_floats_are_shown_with_all_digits(byheart: Byheart, tmp_path: Path) -> None:
    """A weight of 16 digits was shown with two."""
    table = tmp_path / "squares.csv"
    table.write_text("key,value\n" + "".join(f"square of {n},{n * n % 200}\n" for n in range(300)))
    folder = tmp_path / "m"
    chosen = ("--method", "retrieval", "--precision", "float64", "--reject-bits", 18)
    assert byheart("compile", table, "-o", folder, *chosen).status == 0
    found = byheart("inspect", folder, "--data", table, "--json").document["facts"]
    fact, value = max(
        ((fact["fact"], each["value"]) for fact in found for each in fact["locations"]),
        key=lambda pair: abs(pair[1]),
    )
    assert abs(value) >= 10**15
    assert f"{int(value):,}" in byheart("inspect", folder, "--fact", fact).out


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
