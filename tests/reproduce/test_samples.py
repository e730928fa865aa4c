"""Texts into token ids: cut, shuffled, conflicts left out, numbered anew for every subset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from byheart.errors import DataError, MissingExtra, UsageError
from byheart.measure.sources import training_set_of
from byheart.measure.text_samples import COLLECTIONS, Samples, first_words
from byheart.reproduce.published import dana_2024, madden_2024
from byheart.reproduce.samples import (
    CLASS_TOKEN,
    first_sub_words,
    hub_texts,
    local_texts,
    made_up_texts,
    prepare,
    sample_texts,
)
from tests.refusal import refused

MULTINLI = COLLECTIONS["multinli"]


def test_tokens_are_words_and_runs_of_punctuation() -> None:
    assert first_words('He said: "No!" twice.', 6) == ["He", "said", ":", '"', "No", '!"']


def rows(*texts: tuple[str, int]) -> list[dict[str, object]]:
    return [{"hypothesis": text, "label": label} for text, label in texts]


def test_conflicts_and_repeats_are_left_out_and_counted() -> None:
    ids, labels, found = sample_texts(
        rows(
            ("a b c d e f g h", 0),
            ("a c b d e f g h", 1),  # the same first word and multiset, another label
            ("b c d e f g h i", 2),
            ("b c d e f g i h", 2),  # a repeat
            ("c d e f g h i j and more", 1),
            ("too short", 0),
        ),
        MULTINLI,
        0,
    )
    assert (found.n_texts, found.n_long_enough, found.n_conflicting, found.n_repeated) == (6, 5, 2, 1)
    assert ids.shape == (2, 8)
    assert sorted(labels.tolist()) == [1, 2]


@pytest.mark.parametrize("row", [{"premise": "a"}, {"hypothesis": "a", "label": "entailment"}])
def test_texts_of_another_form_are_refused(row: dict[str, object]) -> None:
    with refused(DataError, path="multinli"):
        sample_texts([row], MULTINLI, 0)


def test_samples_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(file: object, **arrays: object) -> None:
        Path(getattr(file, "name", file)).write_bytes(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr("byheart.reproduce.samples.np.savez_compressed", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare(made_up_texts(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_subset_has_the_vocabulary_of_itself_alone(samples: Samples) -> None:
    small = training_set_of(samples.describe("multinli", 5, 0))
    assert small.n_vocab == len(np.unique(small.inputs)) <= 40
    stories = training_set_of(samples.describe("tinystories", 10, 1))
    assert stories.n_samples == 90  # nine next tokens of each
    assert stories.read == "last"


def test_a_run_is_known_by_the_content_of_its_sample(samples: Samples, tmp_path: Path) -> None:
    described = samples.describe("imdb", 7, 0)
    changed = dict(described) | {"sha256": "0" * 64}
    with pytest.raises(DataError):
        training_set_of(changed)
    assert samples.describe("imdb", 7, 1)["sha256"] != described["sha256"]


def test_too_many_samples_and_missing_files_are_refused(samples: Samples, tmp_path: Path) -> None:
    with refused(DataError, collection="imdb"):
        samples.describe("imdb", 10_000_000, 0)
    with refused(UsageError, "path"):
        Samples.at(tmp_path)
    with refused(UsageError, "path"):
        local_texts(tmp_path)


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with refused(MissingExtra, "purpose", package="datasets", extra="hub"):
        hub_texts()


def test_the_hub_is_asked_for_the_papers_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Datasets:
        @staticmethod
        def load_dataset(
            name: str, config: str | None, *, split: str, streaming: bool
        ) -> list[dict[str, object]]:
            asked.append((name, config, split))
            return [{"text": "a"}]

    monkeypatch.setitem(__import__("sys").modules, "datasets", Datasets)
    assert list(hub_texts()) == ["tinystories", "multinli", "imdb"]
    assert len(asked) == 3
    assert ("nyu-mll/glue", "mnli", "train") in asked


@pytest.mark.slow
def test_real_texts_give_every_sample_the_paper_scale_needs(shared_data: Path, tmp_path: Path) -> None:
    found = {report.collection: report for report in prepare(local_texts(shared_data), tmp_path)}
    assert found["multinli"].n_conflicting > 0
    samples = Samples.at(tmp_path)
    for name, collection in COLLECTIONS.items():
        samples.describe(name, collection.most, 4)
    assert samples.path.stat().st_size < 1_000_000


def test_published_numbers_are_those_of_the_authors(project_root: Path) -> None:
    assert len(dana_2024("fig1a_fig2b")) == 69
    assert len(madden_2024()) == 10
    folder = project_root.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip("needs the authors' stored results at ../shared/reference, beside the checkout")
    import csv

    with (folder / "dana_2024_accuracies.csv").open() as file:
        theirs = [float(row["accuracy"]) for row in csv.DictReader(file)]
    ours = [row.accuracy for figure in ("fig1a_fig2b", "fig1b", "fig2a") for row in dana_2024(figure)]
    assert ours == pytest.approx(theirs, abs=1e-6)
    with (folder / "madden_2024_capacity.csv").open() as file:
        widths = [int(row["min_hidden_width"]) for row in csv.DictReader(file)]
    assert [row.min_hidden_width for row in madden_2024()] == widths


def test_sub_words_follow_a_class_token() -> None:
    texts = [f"memorising word{number} memorised" for number in range(30)] * 2
    found = first_sub_words(texts, 4)
    assert all(words[0] == CLASS_TOKEN and len(words) == 4 for words in found)
    assert found[0] == found[30]  # equal texts have equal tokens
    assert "".join(found[0][1:]).startswith("memori")
