from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import Dataset, grid_vectors, random_tokens
from byheart.data.consistency import label_places
from byheart.data.kept_rows import Known
from byheart.errors import ConflictingLabels, ExitStatus, UsageError
from tests.data.strategies import datasets, naive_contexts
from tests.effort import at_most_calls
from tests.examples import examples
from tests.refusal import refused

RULES = ("first", "last", "majority", "drop")


@examples(300)
@given(datasets())
def test_contexts_are_those_of_the_definition(data: Dataset) -> None:
    numbers: dict[object, int] = {}
    expected = [numbers.setdefault(context, len(numbers)) for context in naive_contexts(data)]
    assert data.context_ids.tolist() == expected


@examples(300)
@given(datasets())
def test_conflicts_are_all_found_and_real(data: Dataset) -> None:
    contexts = naive_contexts(data)
    labels = data.labels.tolist()
    seen: dict[object, list[int]] = defaultdict(list)  # places of the first label of each kind, by context
    expected = []
    for k, context in enumerate(contexts):
        if all(labels[other] != labels[k] for other in seen[context]):
            seen[context].append(k)
            if len(seen[context]) > 1:
                expected.append((seen[context][0], k))
    samples, positions = label_places(data.inputs, data.task)
    found = data.conflicts
    assert found.samples.tolist() == [[samples[a], samples[b]] for a, b in expected]
    assert found.positions.tolist() == [[positions[a], positions[b]] for a, b in expected]
    assert found.labels.tolist() == [[labels[a], labels[b]] for a, b in expected]
    assert data.check().is_memorisable == (not expected)


@examples(300)
@given(datasets(), st.sampled_from(RULES))
def test_a_rule_leaves_the_samples_it_says_and_no_conflict(data: Dataset, rule: str) -> None:
    by_context: dict[object, list[int]] = defaultdict(list)
    for context, label in zip(naive_contexts(data), data.labels.tolist(), strict=True):
        by_context[context].append(label)
    winner: dict[object, int | None] = {}
    for context, labels in by_context.items():
        counts = Counter(labels)  # keeps the order of first appearance, and max takes the first of equals
        winner[context] = {
            "first": labels[0],
            "last": labels[-1],
            "majority": max(counts, key=counts.__getitem__),
            "drop": labels[0] if len(counts) == 1 else None,
        }[rule]
    samples, _ = label_places(data.inputs, data.task)
    wrong = {
        int(sample)
        for sample, context, label in zip(samples, naive_contexts(data), data.labels.tolist(), strict=True)
        if winner[context] != label
    }
    kept = [i for i in range(data.n_samples) if i not in wrong]
    if not kept:
        with pytest.raises(ConflictingLabels):
            data.resolved(rule)
        return
    resolved = data.resolved(rule)
    assert [resolved.row(i) for i in range(resolved.n_samples)] == [i + 1 for i in kept]
    assert len(resolved.conflicts) == 0
    every_name = data.resolved(rule, Known(data.label_names, has_vocabulary=True))
    assert every_name.digest == data.subset(kept).digest
    lost = {data.label_names[c] for c in data.labels} - {resolved.label_names[c] for c in resolved.labels}
    assert set(resolved.label_names) == set(data.label_names) - lost


@examples(200)
@given(datasets())
def test_duplicates_are_pairs_of_equal_samples(data: Dataset) -> None:
    contexts, labels = naive_contexts(data), data.labels.tolist()
    samples, _ = label_places(data.inputs, data.task)
    content: dict[int, list[object]] = defaultdict(list)
    for sample, context, label in zip(samples.tolist(), contexts, labels, strict=True):
        content[sample].append((context, label))
    first: dict[object, int] = {}
    expected = []
    for sample in range(data.n_samples):
        earlier = first.setdefault(tuple(content[sample]), sample)
        if earlier != sample:
            expected.append([earlier, sample])
    assert data.check().duplicates.tolist() == expected


def test_a_conflict_names_rows_texts_labels_and_the_way_out() -> None:
    pairs = [("ab", "x"), ("b", "y"), ("ab", "z"), ("ab", "w")]
    with pytest.raises(ConflictingLabels) as raised:
        Dataset.from_pairs(pairs)
    assert str(raised.value) == (
        "rows 1 and 3 are equal ('ab') but labelled 'x' and 'z'; in all, the label of 2 rows differs from that of the "
        "first equal input.\n"
        "  No function can return both, so nothing can memorise this data set.\n"
        '  Drop one of them, or choose a rule: on_conflict="first" in Python, --on-conflict first\n'
        "  on the command line (or last, majority, drop)."
    )
    assert raised.value.facts["rows"] == (1, 3)
    assert raised.value.facts["labels"] == ("x", "z")
    assert raised.value.exit_status == ExitStatus.OUTSIDE


def test_a_conflict_of_multisets_shows_both_inputs() -> None:
    with refused(ConflictingLabels, "rows", "samples", "labels", n_conflicts=1):
        Dataset.from_pairs([("abc", "x"), ("bac", "y")], ordered=False)
    Dataset.from_pairs([("abc", "x"), ("acb", "y")], ordered=False)  # another last token, another context


def test_a_conflict_of_tokens_names_positions() -> None:
    with refused(ConflictingLabels, "rows", "samples", "labels", n_conflicts=1):
        Dataset.from_pairs([("ab", "xy"[0:1] + " y"), ("ba", "y z")], task="seq-to-seq", ordered=False)


def test_the_report_reads_well() -> None:
    data = Dataset.from_pairs([("ab", "x"), ("b", "y"), ("ab", "z"), ("b", "y")], on_conflict="keep")
    assert str(data.check()) == (
        "4 samples, 4 labels of 3 classes (next-token, positions matter)\n"
        "  inputs       tokens per sample: 1 to 2; size of the vocabulary: 2\n"
        "  label bits   3\n"
        "  duplicates   1\n"
        "  conflicts    1\n"
        "    rows 1 and 3 are equal ('ab') but labelled 'x' and 'z'\n"
        "  not finite   0\n"
        "  separation   largest norm r = 1.41421, smallest distance δ = 1 (3 distinct tokens)"
    )
    assert data.check().duplicates.tolist() == [[1, 3]]


def test_the_report_copes_with_nan_and_with_one_token() -> None:
    values = np.zeros((2, 1, 1))
    single = Dataset.from_arrays(values, [0, 0]).check()
    assert str(single).endswith(
        "separation   largest norm r = 0; only one distinct token, so there is no smallest distance δ"
    )
    values[1] = np.nan
    spoilt = Dataset.from_arrays(values, [0, 1]).check()
    assert spoilt.non_finite.tolist() == [[1, 0, 0]]
    assert spoilt.separation is None
    assert not spoilt.is_memorisable
    assert str(spoilt).endswith("undefined, because some values are not finite")


def test_documents_have_duplicates_and_no_conflicts() -> None:
    data = Dataset.from_documents(["a b", "a c", "a b"])
    assert data.check().duplicates.tolist() == [[0, 2]]
    assert data.check().is_memorisable
    with pytest.raises(UsageError):
        _ = data.context_ids


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grid", "tokens", "multisets"])
def test_a_million_samples_are_checked_in_seconds(kind: str) -> None:
    make = {
        "grid": lambda: grid_vectors(10**6, seed=0),
        "tokens": lambda: random_tokens(10**6, seed=0),
        "multisets": lambda: random_tokens(10**6, seed=0, ordered=False),
    }[kind]
    data = make()
    with at_most_calls(1_000_000):
        assert data.check().is_memorisable
