"""Texts by heart, unknown inputs turned away, and the weights that hold a fact, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from byheart.pipeline import load

from .conftest import Byheart, write_table

TEXTS = (
    "the cat sat on the mat and the dog sat on the log .",
    "once upon a time there was a fox who lived in a box .",
    "a fox is no dog and a box is no log .",
)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_texts_are_recited_from_their_first_word(byheart: Byheart, texts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    assert byheart("compile", texts, "-o", folder, "--method", "retrieval", "--recite").status == 0
    for text in TEXTS:
        first, *rest = text.split()
        if first == "a":
            continue  # two texts go on after "a"; nothing could tell which is meant
        done = byheart("recite", folder, first, "--json")
        assert done.document["tokens"] == rest
    assert byheart("recite", folder, "the cat").out.startswith("the cat sat on the mat and the dog")
    done = byheart("verify", folder, texts)
    assert done.status == 0
    assert " contexts, 'line' -> 'next token'" in " ".join(done.out.split())
    assert byheart("verify", folder, texts, "--label", "x", "--json").document["facts"] == {"option": "label"}
    changed = tmp_path / "changed.txt"
    changed.write_text(texts.read_text().replace("log", "fog"))
    assert byheart("verify", folder, changed).status == 3
    assert byheart("verify", folder, texts, "--malformed-rows", "drop").status == 2


def test_a_prompt_with_an_unknown_word_says_so(byheart: Byheart, texts: Path, tmp_path: Path) -> None:
    byheart("compile", texts, "-o", tmp_path / "model", "--method", "retrieval", "--recite")
    done = byheart("recite", tmp_path / "model", "the zebra")
    assert (done.status, done.out) == (4, "")
    assert "zebra" in done.err
    done = byheart("recite", tmp_path / "model", TEXTS[0])
    assert (done.status, done.out) == (2, "")
    done = byheart("recite", tmp_path / "model", TEXTS[0], "--json")
    assert (done.status, done.document["facts"]) == (2, {"prompt": TEXTS[0]})


def test_a_model_of_answers_says_that_it_cannot_recite(byheart: Byheart, folder: Path) -> None:
    done = byheart("recite", folder, "capital of Peru", "--json")
    assert (done.status, done.document["facts"]) == (2, {"path": str(folder)})


def test_what_does_not_go_with_recite(byheart: Byheart, texts: Path, tmp_path: Path) -> None:
    done = byheart("compile", texts, "-o", tmp_path / "model", "--recite", "--label", "x")
    assert done.status == 2
    assert not (tmp_path / "model").exists()


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    return write_table(tmp_path / "squares.csv", {f"the square of {n}": str(n * n) for n in range(120)})


def test_reject_bits_turn_strangers_away(byheart: Byheart, facts: Path, tmp_path: Path) -> None:
    rejecting = ("--method", "retrieval", "--reject-bits", "16")
    assert byheart("compile", facts, "-o", tmp_path / "model", *rejecting).status == 0
    asked = [f"the square of {n}" for n in range(110, 115)]
    strangers = [f"the square of {n}" for n in range(130, 137)]
    done = byheart("predict", tmp_path / "model", *asked, *strangers)
    answers = done.out.splitlines()
    assert answers[: len(asked)] == [str(n * n) for n in range(110, 115)]
    # 7 strangers, each answered with probability 2^-16: the false-alarm rate of this test is about 1e-4
    assert answers[len(asked) :] == ["unknown"] * len(strangers)


def test_inspect_names_the_weights_of_a_fact(byheart: Byheart, facts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    assert byheart("compile", facts, "-o", folder, "--method", "retrieval").status == 0
    done = byheart("inspect", folder, "--fact", "the square of 12", "--data", facts, "--json")
    (found,) = done.document["facts"]
    assert found["answer"] == "144"
    parameters = dict(load(folder).network.parameters())
    for each in found["locations"]:
        assert parameters[each["tensor"]][tuple(each["index"])] == each["value"]
        assert "the square of 12" not in each["sharing"]
    shown = byheart("inspect", folder, "--fact", "the square of 12")
    assert shown.out.startswith("the square of 12: 144\n")
    everything = byheart("inspect", folder, "--data", facts, "--json").document["facts"]
    assert len(everything) > 1
    assert found in everything
    two = byheart("inspect", folder, "--fact", "the square of 12", "--fact", "the square of 13", "--json")
    assert [each["answer"] for each in two.document["facts"]] == ["144", "169"]
