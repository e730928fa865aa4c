"""What a certificate says in words and in a file, and which files are refused because they contradict themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from byheart.errors import CorruptModel, DoesNotHold
from byheart.verify import Certificate, verify
from byheart.verify.certificate import Distributional, WrongSample
from byheart.verify.digest import model_digest, require_certified, weights_digest
from byheart.verify.versions import versions
from tests.refusal import refused

from .lookup import capitals, lookup


def of_capitals(**changed: Any) -> Certificate:
    """The certificate of a right model."""
    data = capitals()
    return replace(verify(lookup(data), data), **changed)


def judged(**changed: Any) -> Distributional:
    """An entropy of 1000 nats and a gap of 10, with a per cent allowed."""
    numbers: dict[str, Any] = {
        "n_contexts": 5,
        "max_divergence": 2.0,
        "mean_divergence": 0.1,
        "loss_nats": 1010.0,
        "entropy_nats": 1000.0,
        "gap_nats": 10.0,
        "gap_percent": 1.0,
        "allowed_divergence": 0.001,
        "allowed_gap_percent": 1.0,
        "wrong_tokens": 1,
    }
    return Distributional(**{**numbers, **changed})


# --- distributions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "allowed", "is_within"),
    [(10.0, 1.0, True), (10.05, 1.0, False), (9.95, 1.0, True), (0.0, None, True), (0.5, None, False)],
)
def test_the_gap_may_be_as_large_as_is_allowed(gap: float, allowed: float | None, is_within: bool) -> None:
    found = judged(gap_nats=gap, allowed_gap_percent=allowed)
    assert found.is_within_gap is is_within
    assert found.rule == ("contexts" if allowed is None else "total-gap")


def test_a_share_of_the_entropy_is_told_where_there_is_one() -> None:
    assert "%" in str(judged())
    assert "%" not in str(judged(gap_percent=None))


def test_one_context_is_singular() -> None:
    assert str(judged(n_contexts=1)).startswith("1 context: ")


# --- the headline -----------------------------------------------------------------------------------------


def test_the_headline_counts_rows_or_contexts_and_names_columns_and_rule() -> None:
    by_contexts, by_gap = judged(allowed_gap_percent=None), judged(gap_percent=0.5)
    context: Any = {"unit": "context"}
    wrong = of_capitals(holds=False, wrong=2, distribution=by_contexts, **context)
    for certificate, told, untold in (
        (of_capitals(), ["holds", "5 of 5", "row"], ["context", "->", "nats", "left out"]),
        (of_capitals(columns=("key", "value")), ["'key' -> 'value'", "row"], ["context"]),
        (of_capitals(columns=("line", "next token"), **context), ["context", "'next token'"], ["row"]),
        (of_capitals(distribution=by_contexts, **context), ["holds", "context", "0.001"], ["row", "%"]),
        (of_capitals(distribution=judged(allowed_divergence=None), **context), ["context"], ["row", "0.001"]),
        (wrong, ["DOES NOT HOLD", "3 of 5", "context", "0.001"], ["row", "%"]),
        (replace(wrong, fitted=True, distribution=by_gap), ["fitted", "3 of 5", "0.5%", "1%"], ["0.001"]),
        (replace(wrong, fitted=True, distribution=None), ["fitted", "3 of 5"], ["%"]),
        (of_capitals(checked=1), ["1 of 1 row"], ["rows"]),
        (of_capitals(rows_left_out=1, on_conflict="drop"), ["5 of 5", "1 more row", "drop"], []),
    ):
        assert all(each in certificate.headline for each in told), certificate.headline
        assert not any(each in certificate.headline for each in untold), certificate.headline


def test_a_wrong_sample_says_what_was_answered_or_why_nothing_was() -> None:
    answered, silent = WrongSample(2, "'x'", "a", "b"), WrongSample(2, "'x'", "a", None)
    assert "'b'" in str(answered)
    assert "'b'" not in str(silent)
    assert "None" not in str(silent)
    assert "too long" in str(replace(silent, reason="too long"))


def test_what_is_neither_right_nor_fitted_is_raised_with_the_options_to_change() -> None:
    bad = of_capitals(holds=False, problems=("5 of 5 are wrong.",))
    for options, remedy, told, untold in (
        ({"hidden_width": 1, "precision": "float64", "shards": 2}, "", ["hidden_width=1"], ["precision", "shards"]),
        ({"hidden_width": 1}, "Widen it.", ["Widen it."], ["hidden_width=1"]),
        ({"precision": "float64"}, "", [], ["precision", "options"]),
    ):  # fmt: skip
        with pytest.raises(DoesNotHold) as caught:
            bad.require_fitted("by-hand", options, remedy)
        message = str(caught.value)
        assert caught.value.facts["certificate"] == bad
        assert all(each in message for each in (*told, "by-hand", "5 of 5 are wrong."))
        assert not any(each in message for each in untold)
        # the problem; what to do, if anything is known; whom to tell, if that does not help
        assert len(message.splitlines()) == (4 if told else 3)
    replace(bad, fitted=True).require_fitted("by-hand", {})


# --- the file ---------------------------------------------------------------------------------------------

LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "schema zero": lambda d: d.update(schema=0),
    "schema two": lambda d: d.update(schema=2),
    "backend": lambda d: d.update(backend="magic"),
    "sample of none": lambda d: d.update(sampled=0, checked=0),
    "sample of more than were checked": lambda d: d.update(sampled=4),
    "one column": lambda d: d.update(columns=["key"]),
    "unit": lambda d: d.update(unit="token"),
    "three columns": lambda d: d.update(columns=["key", "value", "more"]),
    "fewer checked": lambda d: d.update(checked=4),
    "holds with a problem": lambda d: d.update(problems=["something"]),
    "holds with a wrong sample": lambda d: d.update(wrong=1),
    "a sample of all": lambda d: d.update(sampled=5),
    "more wrong than checked": lambda d: d.update(holds=False, wrong=6),
    "more rechecked than checked": lambda d: d.update(rechecked_by_interpreter=6),
    "another number left out": lambda d: d.update(rows_left_out=2, left_out={"on_conflict=first": 1}),
    "more samples than labels": lambda d: (d.update(checked=50), d["dataset"].update(n_samples=50)),
    "more labels than tokens": lambda d: d["dataset"].update(task="seq-to-seq", n_labels=10**9),
    "fitted without a distribution": lambda d: d.update(fitted=True),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_contradicts_itself_is_refused(lie: str) -> None:
    document = of_capitals().to_json()
    LIES[lie](document)
    with refused(CorruptModel, "problem", file="here"):
        Certificate.from_json(document, "here")


@pytest.mark.parametrize(
    "certificate",
    [
        of_capitals(),
        of_capitals(sampled=1, checked=1, rechecked_by_interpreter=1),
        of_capitals(columns=("key", "value")),
        of_capitals(rows_left_out=1, on_conflict="first"),
        of_capitals(holds=False, wrong=1, problems=("1 of 5",)),
        of_capitals(checked=3, distribution=judged(allowed_gap_percent=None)),
        of_capitals(distribution=judged(), fitted=True),
        of_capitals(holds=False, wrong=1, problems=("1 of 5",), distribution=judged(gap_nats=99.0), fitted=False),
    ],
)  # fmt: skip
def test_what_is_written_is_what_is_read(certificate: Certificate) -> None:
    document = json.loads(json.dumps(certificate.to_json()))
    again = Certificate.from_json(document)
    assert again == certificate
    assert (again.columns, again.unit) == (certificate.columns, certificate.unit)
    assert document["schema"] == 1
    told = {"sampled", "fitted", "columns", "rows_left_out", "on_conflict"} & set(document)
    assert told == {name for name in told if getattr(certificate, name)} | (
        {"fitted"} if certificate.fitted is not None else set()
    )


def test_an_older_file_does_not_say_what_was_counted_and_is_written_again_unchanged() -> None:
    of_today = of_capitals(columns=("line", "next token")).to_json()
    assert of_today["unit"] == "row"
    older = {name: value for name, value in of_today.items() if name != "unit"}
    read = Certificate.from_json(older)
    assert read.unit == "sample"
    assert list(read.to_json()) == list(older)
    assert "5 of 5 samples, 'line' -> 'next token'" in read.headline


@pytest.mark.parametrize("lie", [{"gap_nats": 10.5}, {"gap_percent": None}, {"allowed_gap_percent": None}])
def test_a_fitted_file_must_lie_within_the_gap(lie: dict[str, float | None]) -> None:
    fitted = of_capitals(distribution=judged(), fitted=True).to_json()
    assert Certificate.from_json(fitted).fitted
    fitted["distribution"].update(lie)
    with refused(CorruptModel, "problem"):
        Certificate.from_json(fitted)


@pytest.mark.parametrize(
    ("holds", "wrong", "gap", "expected"),
    [(True, 0, 10.0, (True, True)), (True, 2, 10.0, (False, True)), (True, 0, 10.5, (True, False)),
     (False, 0, 10.0, (False, False)), (False, 2, 10.5, (False, False))],
)  # fmt: skip
def test_holds_by_the_total_gap_is_fitted_in_older_files(
    holds: bool, wrong: int, gap: float, expected: tuple[bool, bool]
) -> None:
    document = of_capitals(holds=holds, wrong=wrong, distribution=judged(gap_nats=gap)).to_json()
    assert "fitted" not in document
    read = Certificate.from_json(document)
    assert (read.holds, read.fitted) == expected


def test_certificates_are_equal_whatever_time_and_columns() -> None:
    assert of_capitals(columns=("a", "b"), seconds=1.0) == of_capitals(seconds=2.0)
    assert of_capitals(wrong=1) != of_capitals()


# --- digests ----------------------------------------------------------------------------------------------


def test_the_digest_of_a_model_is_pinned() -> None:
    """Over JSON with its keys in order and in ASCII: a certificate of today is compared by every later version."""
    memoriser = replace(lookup(capitals()), label_names=("á", "b", "c", "d", "e"), tokenizer=None)
    architecture = json.dumps(memoriser.network.spec.to_json(), sort_keys=True, separators=(",", ":"))
    text = (
        f'{{"architecture":{architecture},"files":{{}},"labels":["\\u00e1","b","c","d","e"],'
        '"ordered":true,"task":"next-token","tokenizer":null}'
    )
    assert model_digest(memoriser) == hashlib.sha256(f"byheart model 1\n{text}".encode()).hexdigest()


def test_a_model_is_certified_where_both_digests_are_its_own() -> None:
    memoriser, certificate = lookup(capitals()), of_capitals()
    require_certified(memoriser, certificate, "here")
    require_certified(memoriser, replace(certificate, model_digest=None), "here")  # of an older version
    for name in ("weights_digest", "model_digest"):
        with refused(CorruptModel, path="here", certified="0" * 64):
            require_certified(memoriser, replace(certificate, **{name: "0" * 64}), "here")
    assert (certificate.weights_digest, certificate.model_digest) == (
        weights_digest(memoriser.network),
        model_digest(memoriser),
    )


def test_a_package_that_is_not_installed_has_no_version() -> None:
    found = versions("numpy", "no-such-package")
    assert found["no-such-package"] == "unknown"
    assert found["numpy"] != "unknown"


def test_the_tokenizer_is_under_the_digest_of_a_model() -> None:
    memoriser = lookup(capitals())
    assert model_digest(memoriser) != model_digest(replace(memoriser, tokenizer=None))
