"""From token contexts to a Llama that continues each as it should: draw a hash, solve the tables, emit."""

from __future__ import annotations

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
from byheart.construct.llama.tables import factor
from byheart.construct.llama.window_hash import LIMB, N_LIMBS, draw_hash, spread
from byheart.errors import AssumptionViolated
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.process.progress import Progress, report
from byheart.records.reader import within

MOST_DRAWS = 60


@dataclass(frozen=True, eq=False)
class TokenTexts(ChainedTexts):
    """Texts of token ids laid end to end, each beginning with `bos`, and what is to follow each token that is asked."""

    following: Int[np.ndarray, " n_asked"]
    n_vocab: int
    bos: int
    eos: int
    labels: Int[np.ndarray, " n_labels"] | None = None  # tokens that may follow, where more than do

    @property
    def starts(self) -> Int[np.ndarray, " n_tokens"]:
        """Where the text of each token begins."""
        return np.repeat(self.offsets[:-1], np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class CompiledTexts:
    """The network, and how it was arrived at."""

    llama: Llama
    layout: Layout
    n_stored: int
    n_draws: int


MOST_POSITIONS = 1 << 15
"""Beyond, float32 angles of rotation lose what tells distances apart."""


@dataclass(frozen=True)
class LlamaOptions:
    """reject_bits    unknown prompts are answered with the end at once, but for one in 2^reject_bits
    max_positions  tokens of prompt and answer together; as the data need by default
    hidden         width of the stream, a power of two; by default the one of fewest parameters
    unknown        a token such as <unknown> that answers unknown prompts, in place of the end; the ends are stored then
    room, rows, first_draw
                   contexts to size the network for, rows of its tables and hashes to skip, as in the notes of another model: the
                   same shape and hash for fewer facts (`byheart forget`)
    """

    reject_bits: int = 16
    max_positions: Annotated[int, within(2, MOST_POSITIONS)] | None = None
    hidden: int | None = None
    unknown: str | None = None
    room: Annotated[int, within(0, 1 << 53)] = 0
    rows: Annotated[int, within(1, 1 << 53)] | None = None
    first_draw: Annotated[int, within(0, 1 << 31)] = 0


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
    """Compile texts whose contexts of `window` tokens decide what follows.

    unknown: the token that answers an unknown context, `eos` by default. What `unknown` follows need not be stored.
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
                f"tables of {options.rows} rows do not fit this network.", rows=options.rows
            )
    for draw in range(options.first_draw, options.first_draw + MOST_DRAWS):
        rng = np.random.default_rng([seed, draw])
        found = _draw(texts, layout, numbers, stored, rng, progress)
        if isinstance(found, CompiledTexts):
            return replace(found, n_draws=draw + 1)
        layout = found
    raise AssumptionViolated(
        f"no hash of {MOST_DRAWS} drawn gave tables that can be solved.", n_draws=MOST_DRAWS
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
    rng: np.random.Generator,
    progress: Progress | None,
) -> CompiledTexts | Layout:
    """One try; or the layout to try next, with a row more in each table."""
    window_hash = draw_hash(
        texts.n_vocab, layout.shape.window, layout.n_heads, layout.inner, layout.last_folds, rng
    )
    limbs = window_hash.limbs(texts.ids, texts.starts, texts.asked)
    key = (limbs * (LIMB + 1) ** np.arange(N_LIMBS)).sum(1)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if (texts.following[first][group] != texts.following).any():
        return layout  # two contexts share all their limbs
    kept = first[stored[first]]
    rows = spread(limbs[kept, :3], layout.n_rows)
    channel = spread(limbs[kept, 3], layout.n_channels)  # folding in two steps is folding once
    fullest = int(np.bincount(channel, minlength=layout.n_channels).max(initial=0))
    labels = numbers[texts.following[kept]] - 1
    wanted = labels + (limbs[kept, 4] << FINGERPRINT_SHIFT)
    bigger = replace(layout, n_rows=layout.n_rows + max(1, layout.n_rows // 128))
    if fullest > 0.93 * 3 * layout.n_rows:
        return bigger
    tables = _solve_tables(layout, rows, channel, wanted, rng, progress)
    if tables is None:
        return bigger
    others = limbs[first[~stored[first]]]
    if find_known(layout, tables, others).any():
        return layout  # an end would not be seen: one context in 2^reject_bits looks like a known one
    llama = emit(layout, window_hash, tables, numbers, texts.bos, texts.eos)
    return CompiledTexts(llama, layout, len(kept), 0)


def _solve_tables(
    layout: Layout,
    rows: np.ndarray,
    channel: np.ndarray,
    wanted: np.ndarray,
    rng: np.random.Generator,
    progress: Progress | None,
) -> np.ndarray | None:
    """Words (3, n_rows, n_words), or None. Words that no equation fixes are random, as an unknown context should find them."""
    n_cells, half = 3 * layout.n_rows, 1 << (WORD_BITS - 1)
    words = np.empty((n_cells, layout.n_words), dtype=np.int64)
    words[:, : layout.n_channels] = rng.integers(0, 1 << WORD_BITS, (n_cells, layout.n_channels))
    words[:, layout.n_channels :] = rng.integers(
        0, 1 << (N_FIELDS * FIELD_BITS), (n_cells, layout.n_side_columns)
    )
    for p in range(layout.n_channels):  # in the order of fields, since carries run upwards
        mine = np.flatnonzero(channel == p)
        cells = rows[mine] + layout.n_rows * np.arange(3)
        equations = factor(cells, n_cells)
        if equations is None:
            return None
        table = words[:, p].copy()
        table[equations.pivots] = 0
        equations.solve(wanted[mine], table, 0, WORD_BITS)
        words[:, p] = (table + half) % (2 * half) - half
        for side in range(layout.shape.n_side):
            column = layout.side_word(side, p)
            low = layout.field(p) * FIELD_BITS
            table = words[:, column].copy()
            table[equations.pivots] &= ~(((1 << FIELD_BITS) - 1) << low)
            # what lower fields leave: the field itself shall be 0
            below = table[cells].sum(1) & ((1 << low) - 1)
            equations.solve(below, table, low, low + FIELD_BITS)
            words[:, column] = table
        report(progress, p + 1, layout.n_channels)
    return words.reshape(3, layout.n_rows, -1)


def find_known(layout: Layout, tables: np.ndarray, limbs: np.ndarray) -> np.ndarray:
    """Which contexts, by their limbs, the network would continue."""
    rows = spread(limbs[:, :3], layout.n_rows)
    channel = spread(limbs[:, 3], layout.n_channels)

    def read(column: np.ndarray) -> np.ndarray:
        """The three words of each context in its column, added up."""
        return np.asarray(sum(tables[s, rows[:, s], column] for s in range(3)))

    known = (read(channel) - (limbs[:, 4] << FINGERPRINT_SHIFT)) % (1 << WORD_BITS) < layout.shape.n_labels
    for side in range(layout.shape.n_side):
        fields = read(layout.side_word(side, 0) + channel % layout.group) >> (
            channel // layout.group * FIELD_BITS
        )
        known &= fields % (1 << FIELD_BITS) == 0
    return np.asarray(known)
