"""Compile token contexts into a Llama that continues each one correctly: draw a hash, solve the tables, emit the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from jaxtyping import Int

from byheart.construct.llama.emission import emit
from byheart.construct.llama.layout import (
    FIELD_BITS,
    FINGERPRINT_SHIFT,
    N_FIELDS,
    WORD_BITS,
    Layout,
    TextShape,
    choose_layout,
)
from byheart.construct.llama.tables import Tables, factor
from byheart.construct.llama.window_hash import LIMB, N_LIMBS, N_VALUES, draw_hash, spread
from byheart.errors import AssumptionViolated
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.process.progress import Progress, report
from byheart.records.reader import within

MOST_DRAWS = 60
DRAWS_PER_SIZE = 8
"""The number of hashes that are tried before the number of table rows is increased."""


@dataclass(frozen=True, eq=False)
class TokenTexts(ChainedTexts):
    """Texts of token ids, concatenated, each beginning with `bos`.

    `asked` marks tokens: after each of these, the network must predict the next token, which is in `following`.
    """

    following: Int[np.ndarray, " n_asked"]
    n_vocab: int
    bos: int
    eos: int
    labels: Int[np.ndarray, " n_labels"] | None = None  # the only tokens that may follow; None if all may

    @property
    def starts(self) -> Int[np.ndarray, " n_tokens"]:
        """For each token, the position at which its text begins."""
        return np.repeat(self.offsets[:-1], np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class CompiledTexts:
    """The compiled network, and the choices that led to it.

    channel_starts  the hash values at which the channels (the columns of the tables) begin
    n_stored        the number of contexts whose next token is stored in the tables
    n_draws         the number of hashes that were drawn, including those that `first_draw` skipped
    """

    llama: Llama
    layout: Layout
    channel_starts: tuple[int, ...]
    n_stored: int
    n_draws: int


MOST_POSITIONS = 1 << 15
"""The largest number of positions. Beyond it, the rotation angles in float32 cannot distinguish distances."""


@dataclass(frozen=True)
class LlamaOptions:
    """The options of `llama`.

    reject_bits    unknown prompts get an empty answer, except for about one in 2^reject_bits at most
    max_positions  the largest number of tokens in prompt and answer together; by default a power of two that is
                   enough for the data
    hidden         the width of the residual stream, a power of two; by default the one with the fewest parameters
    unknown        a token such as <unknown> that answers unknown prompts instead of the end token; text ends are then stored
                   as well

    `byheart forget` builds a model for fewer facts. It uses the remaining options, with values from the notes of the original
    model, so that the new model has the same shape and hash.

    room            the number of contexts for which the network is sized, if the data have fewer
    window          the number of tokens in the longest row (key, answer, beginning and separator), if no row of the data is so long
    rows            the number of table rows
    first_draw      the number of random hashes to skip before the first one is tried
    channel_starts  the hash values at which the channels (the columns of the tables) begin
    """

    reject_bits: int = 16
    max_positions: Annotated[int, within(2, MOST_POSITIONS)] | None = None
    hidden: int | None = None
    unknown: str | None = None
    room: Annotated[int, within(0, 1 << 53)] = 0
    window: Annotated[int, within(0, MOST_POSITIONS)] = 0
    rows: Annotated[int, within(1, 1 << 53)] | None = None
    first_draw: Annotated[int, within(0, 1 << 31)] = 0
    channel_starts: tuple[Annotated[int, within(0, LIMB)], ...] | None = None


def compile_texts(
    texts: TokenTexts,
    options: LlamaOptions,
    *,
    window: int,
    max_positions: int,
    unknown: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CompiledTexts:
    """Compile texts in which the last `window` tokens always determine the next token.

    unknown: the token to predict after an unknown context, by default the end token of `texts`. Contexts that are followed by
    this token need not be stored.
    """
    unknown = texts.eos if unknown is None else unknown
    stored = texts.following != unknown
    labels = texts.following if texts.labels is None else np.append(texts.labels, texts.following)
    labels = np.setdiff1d(labels, [unknown])
    numbers = _number_tokens(texts.n_vocab, labels, unknown)
    shape = TextShape(
        texts.n_vocab,
        max(1, len(labels)),
        max(1, options.room, int(stored.sum())),
        window,
        max_positions,
        options.reject_bits,
    )
    layout = choose_layout(shape, options.hidden)
    if options.rows is not None:
        layout = replace(layout, n_rows=options.rows)
        if not layout.fits:
            raise AssumptionViolated(
                f"tables with rows={options.rows} do not fit into this network.\n"
                "  Give another value of `rows`, or leave this option out.",
                rows=options.rows,
            )
    starts = options.channel_starts
    if starts is not None and (len(starts) != layout.n_channels or [0, *starts[1:]] != sorted(starts)):
        raise AssumptionViolated(
            f"channel_starts must be {layout.n_channels} numbers in ascending order, the first of them 0.",
            channel_starts=starts,
        )
    for draw in range(options.first_draw, options.first_draw + MOST_DRAWS):
        rng = np.random.default_rng([seed, draw])
        found = _draw(texts, layout, numbers, stored, starts, rng, progress)
        if found is not None:
            return replace(found, n_draws=draw + 1)
        if options.rows is None and draw % DRAWS_PER_SIZE == DRAWS_PER_SIZE - 1:
            layout = replace(layout, n_rows=layout.n_rows + max(1, layout.n_rows // 128))
    raise AssumptionViolated(
        f"the tables could not be filled with any of {MOST_DRAWS} random hashes.\n  Try another seed.",
        n_draws=MOST_DRAWS,
    )


def _number_tokens(n_vocab: int, labels: np.ndarray, unknown: int) -> np.ndarray:
    others = np.setdiff1d(np.arange(n_vocab), np.append(labels, unknown))
    numbers = np.zeros(n_vocab, dtype=np.int64)
    numbers[labels] = 1 + np.arange(len(labels))
    numbers[others] = 1 + len(labels) + np.arange(len(others))
    return numbers


def _draw(
    texts: TokenTexts,
    layout: Layout,
    numbers: np.ndarray,
    stored: np.ndarray,
    starts: Sequence[int] | None,
    rng: np.random.Generator,
    progress: Progress | None,
) -> CompiledTexts | None:
    """Draw one hash and compile the texts with it. Return None if this hash cannot be used.

    A hash cannot be used in three cases: two contexts with different next tokens have the same hash, the equations for the tables
    cannot be solved, or the tables would recognise a context that is not stored.
    """
    window_hash = draw_hash(
        texts.n_vocab, layout.shape.window, layout.n_heads, layout.inner, layout.last_folds, rng
    )
    limbs = window_hash.limbs(texts.ids, texts.starts, texts.asked)
    key = (limbs * N_VALUES ** np.arange(N_LIMBS)).sum(1)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if (texts.following[first][group] != texts.following).any():
        return None  # two contexts have the same hash but different next tokens
    kept = first[stored[first]]
    labels = numbers[texts.following[kept]] - 1
    wanted = labels + (limbs[kept, 4] << FINGERPRINT_SHIFT)
    tables = _random_tables(layout, starts or _even_starts(limbs[kept, 3], layout.n_channels), rng)
    if not _solve_tables(layout, tables, limbs[kept], wanted, progress):
        return None
    others = limbs[first[~stored[first]]]
    if find_known(layout, tables, others).any():
        # one context in 2^reject_bits looks like a known one; here it is the end of a text, which the network would run past
        return None
    llama = emit(layout, window_hash, tables, numbers, texts.bos, texts.eos)
    return CompiledTexts(llama, layout, tuple(tables.starts.tolist()), len(kept), 0)


def _even_starts(limbs: np.ndarray, n_channels: int) -> Sequence[int]:
    """Return the least hash value of each channel (a column of the tables), so that all channels get about equally many contexts.

    `limbs` holds, for each context, the limb (the part of its hash) that selects its channel. If there are fewer than `N_VALUES`
    contexts, evenly spaced values are added to `limbs` until it has `N_VALUES` entries.
    """
    if len(limbs) < N_VALUES:
        limbs = np.concatenate([limbs, np.linspace(0, LIMB, N_VALUES - len(limbs)).astype(np.int64)])
    starts = np.sort(limbs)[np.arange(n_channels) * len(limbs) // n_channels]
    return [0, *starts[1:].tolist()]


def _random_tables(layout: Layout, starts: Sequence[int], rng: np.random.Generator) -> Tables:
    """Return tables whose entries (words) are random.

    Words that no equation determines keep their random values, so unknown contexts read random words.
    """
    side = (layout.shape.n_side, 3, layout.side_rows, layout.n_channels)
    return Tables(
        np.array(starts),
        rng.integers(0, 1 << WORD_BITS, (3, layout.n_rows, layout.n_channels)),
        rng.integers(0, 1 << (N_FIELDS * FIELD_BITS), side),
    )


def _solve_tables(
    layout: Layout, tables: Tables, limbs: np.ndarray, wanted: np.ndarray, progress: Progress | None
) -> bool:
    """Choose the words (table entries) so that every context yields its next token. Return whether that is possible."""
    channels = tables.channels(limbs[:, 3])
    half = 1 << (WORD_BITS - 1)
    for p in range(layout.n_channels):
        mine = np.flatnonzero(channels == p)
        rows = spread(limbs[mine, :3], layout.n_rows)
        cells = rows + layout.n_rows * np.arange(3)
        equations = factor(cells, 3 * layout.n_rows)
        if equations is None:
            return False
        table = tables.words[:, :, p].ravel()
        table[equations.pivots] = 0
        equations.solve(wanted[mine], table, 0, WORD_BITS)
        tables.words[:, :, p] = ((table + half) % (2 * half) - half).reshape(3, -1)
        if layout.shape.n_side and not _solve_side(layout, tables.side_words, p, rows, limbs[mine, 4]):
            return False
        report(progress, p + 1, layout.n_channels)
    return True


def _solve_side(
    layout: Layout, side_words: np.ndarray, channel: int, rows: np.ndarray, fingerprints: np.ndarray
) -> bool:
    """Choose the side words (table entries that detect unknown contexts) of one channel. Return whether that is possible.

    A side word has several fields. In the sum of a context's side words, the field that belongs to the context must be 0.
    """
    fields = fingerprints * N_FIELDS // N_VALUES
    for field in range(N_FIELDS):  # in ascending order, because carries go to higher fields
        mine = np.flatnonzero(fields == field)
        cells = spread(rows[mine], layout.side_rows) + layout.side_rows * np.arange(3)
        equations = factor(cells, 3 * layout.side_rows)
        if equations is None:
            return False
        low = field * FIELD_BITS
        for words in side_words:
            table = words[:, :, channel].ravel()
            table[equations.pivots] &= ~(((1 << FIELD_BITS) - 1) << low)
            below = table[cells].sum(1) & ((1 << low) - 1)  # the sum of the lower fields
            equations.solve(below, table, low, low + FIELD_BITS)
            words[:, :, channel] = table.reshape(3, -1)
    return True


def find_known(layout: Layout, tables: Tables, limbs: np.ndarray) -> np.ndarray:
    """Return which contexts, given by their hash values (`limbs`), the network would answer."""
    rows = spread(limbs[:, :3], layout.n_rows)
    channels = tables.channels(limbs[:, 3])

    def read(words: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return, for each context, the sum of its three table entries, which are at `rows`."""
        return np.asarray(sum(words[s, rows[:, s], channels] for s in range(3)))

    total = read(tables.words, rows) - (limbs[:, 4] << FINGERPRINT_SHIFT)
    known = total % (1 << WORD_BITS) < layout.shape.n_labels
    low = limbs[:, 4] * N_FIELDS // N_VALUES * FIELD_BITS
    for words in tables.side_words:
        known &= (read(words, spread(rows, layout.side_rows)) >> low) % (1 << FIELD_BITS) == 0
    return np.asarray(known)
