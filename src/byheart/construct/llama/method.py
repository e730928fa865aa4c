"""The method `llama`: compile a data set of texts into a Llama checkpoint of the standard architecture."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from byheart.construct.llama.compiler import (
    MOST_POSITIONS,
    CompiledTexts,
    LlamaOptions,
    TokenTexts,
    compile_texts,
)
from byheart.construct.llama.layout import TextShape, choose_layout
from byheart.construct.llama.texts import fact_texts, window_texts
from byheart.construct.registry import Example, Method
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, DoesNotHold
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.checkpoint import hash_of
from byheart.network.llama.evaluator import NoRounding, evaluate
from byheart.network.llama.spec import Mode
from byheart.network.llama.vocabulary import vocabulary_for
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size, size_of_spec
from byheart.process.progress import Progress, Steps
from byheart.program.construction import Construction

NAME = "llama"
TOKENS_CHECKED = 60_000
"""Compilation runs some texts chosen at random, about this many tokens in all, and checks every sum. If the data have fewer tokens,
all texts are run, unless the limit below is reached first."""
PRODUCTS_CHECKED, LEAST_CHECKED = 4 * 10**9, 4096
"""A second limit of this check, in contexts: about PRODUCTS_CHECKED / (number of parameters), which take some seconds of exact
arithmetic, or LEAST_CHECKED if that is more. The check ends at the limit that is reached first."""
TEXT_POSITIONS = 2048


def plan(
    data: Dataset, options: LlamaOptions, rng: np.random.Generator, progress: Progress | None
) -> Construction:
    """Compile `data` into a stock Llama.

    Source:     byheart: a static function. A hash of the window of tokens selects three table words, which add up to the label.
    Assumes:    texts, with a tokenizer that can spell every value.
    Guarantee:  greedy decoding from a key alone generates its value, token by token, then the end. From any other prompt it
                generates the end at once (or the token of the option `unknown`), except with a probability of about
                2^-reject_bits, over the random choice of the hash.
    In floats:  `network.llama.evaluator` runs all texts, or a random sample if there are many, and checks that no sum rounds. If
                a sum rounds, or a token is wrong, nothing is emitted.
    Size:       the layout with the fewest parameters, which `size_of` estimates.
    """
    if data.tokenizer is None or not isinstance(data.inputs, TokenSequences) or data.task != "next-token":
        raise AssumptionViolated(
            "the method llama needs texts: keys with values, or documents to recite.\n"
            "  Use a table with the columns key and value, or documents with --recite."
        )
    mode: Mode = "texts" if data.source is not None and data.source.recite else "facts"
    values = () if mode == "texts" else data.label_names
    vocabulary = vocabulary_for(data.tokenizer, values, mode, options.unknown)
    facts = fact_texts(data, vocabulary) if mode == "facts" else None
    longest = data.seq_len + 1 if facts is None else int(np.diff(facts.offsets).max())
    answer_len = 1 if facts is None else int(_count_asked(facts).max())
    # `generate` needs room for the longest answer after each key, between the beginning and the separator
    room = longest if facts is None else max(longest, data.seq_len + 1 + answer_len)
    positions = options.max_positions or _positions_for(room, mode)
    if positions < room + 1 or positions > MOST_POSITIONS:
        lengths = data.inputs.lengths if facts is None else np.diff(facts.offsets)
        row = data.row(int(lengths.argmax()))
        what = f"row {row} has" if room == longest else "the longest key and the longest value together have"
        raise AssumptionViolated(
            f"{what} {room + 1:,} tokens, including special tokens; max_positions is {positions:,}, "
            f"and can be {MOST_POSITIONS:,} at most.\n  Shorten the row, or change max_positions.",
            longest=room,
            row=row,
        )
    steps = Steps(progress, {"solve": 0.6, "check": 0.4})
    texts = window_texts(data, vocabulary, positions) if facts is None else facts
    window = data.seq_len if mode == "texts" else max(longest, options.window)
    compiled = compile_texts(
        texts,
        options,
        window=window,
        max_positions=positions,
        unknown=vocabulary.unknown,
        seed=int(rng.integers(2**32)),
        progress=steps.begin("solve"),
    )
    steps.begin("check")
    spec = replace(
        compiled.llama.spec,
        sep=vocabulary.sep,
        unknown=vocabulary.unknown,
        mode=mode,
        answer_len=answer_len,
        max_new_tokens=positions if mode == "texts" else answer_len,  # the end token ends a text
        tokenizer_hash=hash_of(vocabulary.document.encode()),
        window=window if mode == "texts" else None,
    )
    llama = Llama(spec, compiled.llama.weights, vocabulary.document)
    conditions = check_conditions(llama, texts)
    return Construction(
        Memoriser.of(llama, data),
        NAME,
        "none: a static function in a stock Llama (see docs)",
        _assumptions(compiled, texts, conditions),
        notes=_notes(compiled, window),
    )


def _positions_for(longest: int, mode: Mode) -> int:
    """Return the number of positions of the model, a power of two. If possible, it leaves room for texts longer than `longest`."""
    least = TEXT_POSITIONS if mode == "texts" else 64
    return max(least, 1 << (longest + 8).bit_length() if longest + 8 < MOST_POSITIONS else MOST_POSITIONS)


def _count_asked(texts: TokenTexts) -> np.ndarray:
    """For each text, count the positions at which the model must predict the next token."""
    return np.add.reduceat(texts.asked.astype(np.int64), texts.offsets[:-1])


def check_conditions(llama: Llama, texts: TokenTexts) -> NoRounding:
    """Run all or some of the texts in exact arithmetic. Raise `DoesNotHold` if a token is wrong, or if float arithmetic
    would round a sum.
    """
    chosen = np.random.default_rng(0).permutation(len(texts.offsets) - 1)
    lengths = np.diff(texts.offsets)
    n_asked = _count_asked(texts)
    most_asked = max(LEAST_CHECKED, PRODUCTS_CHECKED // llama.spec.parameters_dense)
    n = 1 + min(
        int(np.searchsorted(lengths[chosen].cumsum(), TOKENS_CHECKED)),
        int(np.searchsorted(n_asked[chosen].cumsum(), most_asked)),
    )
    chosen = np.sort(chosen[:n])
    at = np.concatenate([np.arange(texts.offsets[i], texts.offsets[i + 1]) for i in chosen])
    following = np.zeros(len(texts.ids), dtype=np.int64)
    following[texts.asked] = texts.following
    offsets = np.concatenate([[0], np.cumsum(lengths[chosen])])
    found = evaluate(llama, ChainedTexts(texts.ids[at], offsets, texts.asked[at]))
    n_wrong = int((found.tokens != following[at][texts.asked[at]]).sum())
    if n_wrong or not found.conditions.holds:
        problem = (
            found.conditions.problems[0]
            if found.conditions.problems
            else f"the number of wrong tokens is {n_wrong}"
        )
        raise DoesNotHold(
            f"llama built a network that does not compute exactly: {problem}; nothing was saved.",
            problem=problem,
        )
    return found.conditions


def _assumptions(
    compiled: CompiledTexts, texts: TokenTexts, conditions: NoRounding
) -> tuple[Assumption, ...]:
    return (
        Assumption(
            "equal contexts have equal continuations",
            True,
            f"{compiled.n_stored:,} of {len(texts.following):,} contexts stored; a context need not be stored if it "
            "repeats another one, or if its next token is the answer to unknown prompts",
        ),
        Assumption(
            "no sum rounds in float32",
            True,
            f"{conditions.n_tokens:,} of {len(texts.ids):,} tokens were run in exact arithmetic: the largest sum is "
            f"{conditions.largest_sum:.3f} times the limit up to which float32 adds exactly, and the sum of squares in the "
            f"residual stream is at most {conditions.stream_energy:.1e} times its bound",
        ),
        Assumption(
            "every head reads one token",
            True,
            f"every other token scores at least {conditions.attention_margin_nats:.0f} nats less, at every distance below "
            f"{compiled.layout.shape.max_positions:,}; the largest number that a head copies is "
            f"{conditions.largest_copied:.3f} times 2^11, up to which a float16 cache stores integers exactly",
        ),
        Assumption(
            "greedy decoding is certain", True, f"the right token leads by {conditions.logit_margin:.0f} nats"
        ),
    )


def _notes(compiled: CompiledTexts, window: int) -> dict[str, object]:
    layout = compiled.layout
    n_labels = layout.shape.n_labels
    return {
        "window": window,
        "reject_bits": layout.shape.reject_bits,
        "contexts": compiled.n_stored,
        "hashes drawn": compiled.n_draws,
        "rows": layout.n_rows,
        "load": round(compiled.n_stored / (3 * layout.n_rows * layout.n_channels), 3),
        "reject bits reached": round(23 + 4 * layout.shape.n_side - math.log2(n_labels), 2),
        "channel starts": list(compiled.channel_starts),
        "table layers": [layout.table_layers.start, layout.side_layers.stop],
    }


def size_of(shape: DataShape, options: LlamaOptions | None = None) -> Size:
    """Return the estimated size, assuming that values are just long enough to distinguish the classes of `shape`."""
    chosen = options or LlamaOptions()
    if shape.vocab is None or shape.task != "next-token" or not shape.ordered:
        raise AssumptionViolated(
            "the method llama supports only texts, in which the order of tokens matters."
        )
    per_value = max(1, math.ceil(math.log(max(2, shape.n_classes)) / math.log(max(2, shape.vocab))))
    longest = shape.seq_len + per_value + 2
    if longest + 1 > MOST_POSITIONS:
        raise AssumptionViolated(
            f"these texts have up to {longest:,} tokens; a compiled Llama has at most {MOST_POSITIONS:,} positions, which must "
            "hold a text and one more token.\n  Shorten the texts.",
            longest=longest,
        )
    layout = choose_layout(
        TextShape(
            shape.vocab + 4,
            min(shape.vocab, shape.n_classes),
            shape.n_samples * per_value,
            longest,
            chosen.max_positions or min(MOST_POSITIONS, max(64, 1 << (longest + 8).bit_length())),
            chosen.reject_bits,
        ),
        chosen.hidden,
    )
    return size_of_spec(layout.spec())


def example() -> Example:
    """Return example data: three capitals."""
    pairs = [("capital of France", "Paris"), ("capital of Chad", "N'Djamena"), ("capital of Peru", "Lima")]
    return Example(Dataset.from_pairs(pairs))


METHOD = Method(
    name=NAME,
    source="byheart: a static function in a stock Llama",
    page="llama.md",
    verifying=0.8,
    options=LlamaOptions,
    plan=plan,
    size_of=size_of,
    example=example,
    tasks=("next-token",),
    precisions=("float32",),
)
