"""Join overlapping windows (contexts of consecutive tokens) into longer texts, so that a network need not read a token again for
every window that contains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from byheart.process.progress import Progress, report

TOKENS = 5 << 10
"""Maximum number of tokens in a batch of texts, unless it is one longer text."""


@dataclass(frozen=True, eq=False)
class ChainedTexts:
    """Texts of token ids, concatenated. Text i is `ids[offsets[i] : offsets[i + 1]]` and starts with the begin token.

    `asked` marks the tokens after which the network must predict. In a result of `chain_windows`, the i-th marked token is the
    last token of window i.
    """

    ids: Int[np.ndarray, " n_tokens"]
    offsets: Int[np.ndarray, " n_texts_plus_1"]
    asked: Bool[np.ndarray, " n_tokens"]


def chain_windows(
    windows: Int[np.ndarray, "n_windows width"],
    *,
    pad: int,
    bos: int,
    max_positions: int,
    window: int | None,
) -> ChainedTexts:
    """Join windows (contexts of consecutive tokens, padded on the left) into texts.

    In two cases, only the last token of a window is appended to the current text. In the first, the window is the previous window
    plus one more token. In the second, it has also dropped the first token of the previous window, and both windows have at least
    `window` tokens. `window` is the number of tokens that the network reads, or None if it is unknown; then the second case does
    not occur. Any other window starts a new text, and so does a window with which the current text could exceed `max_positions`
    tokens.
    """
    is_token = windows != pad
    n_windows, width = len(windows), int(is_token.sum(1).max(initial=1))
    windows, is_token = windows[:, -width:], is_token[:, -width:]
    continues = np.zeros(n_windows, dtype=bool)
    continues[1:] = (windows[1:, :-1] == windows[:-1, 1:]).all(1)
    if window is None or width < window:
        continues[1:] &= ~is_token[:-1, 0]
    here = np.arange(n_windows)
    since = here - np.maximum.accumulate(np.where(continues, 0, here))
    begins = ~continues | (since % max(1, max_positions - width - 1) == 0)
    n_added = np.where(begins, 1 + is_token.sum(1), 1)
    ends = np.cumsum(n_added)
    ids = np.full(int(ends[-1]) if n_windows else 0, bos, dtype=np.int64)
    asked = np.zeros(ids.size, dtype=bool)
    asked[ends - 1] = True
    ids[ends[~begins] - 1] = windows[~begins, -1]
    starts = (ends - n_added)[begins]
    whole = np.repeat(begins, n_added)
    whole[starts] = False  # the position of `bos`
    ids[whole] = windows[begins][is_token[begins]]
    return ChainedTexts(ids, np.append(starts, ids.size), asked)


def follow_texts(
    run: Callable[[np.ndarray, np.ndarray], np.ndarray],
    texts: ChainedTexts,
    progress: Progress | None = None,
    n_tokens: int = TOKENS,
    device: str = "cpu",
) -> Int[np.ndarray, " n_asked"]:
    """Return the tokens that `run` predicts at the positions that `texts.asked` marks. Texts of similar length run together.

    run: called with ids (batch, seq), padded on the right, and a mask of the tokens after which to predict.
    """
    from byheart.network.batches import side_by_side

    lengths = np.diff(texts.offsets)
    found, done = np.zeros(texts.ids.size, dtype=np.int64), 0

    def follow(batch: np.ndarray) -> None:
        inside = np.arange(int(lengths[batch[-1]])) < lengths[batch, None]
        at = np.concatenate([np.arange(texts.offsets[i], texts.offsets[i + 1]) for i in batch])
        ids, asked = np.zeros(inside.shape, dtype=np.int64), np.zeros(inside.shape, dtype=bool)
        ids[inside], asked[inside] = texts.ids[at], texts.asked[at]
        found[at[texts.asked[at]]] = run(ids, asked)

    for batch, _ in side_by_side(follow, batches_of(lengths, n_tokens), device):
        done += len(batch)
        report(progress, done, len(lengths))
    return np.asarray(found[texts.asked])


def batches_of(
    lengths: Int[np.ndarray, " n_texts"], n_tokens: int, most_rows: int | None = None
) -> list[Int[np.ndarray, " n_rows"]]:
    """Group texts of similar length into batches, shortest first. Return the indices of the texts of each batch.

    A batch has at most `most_rows` texts. It has at most `n_tokens` tokens including padding, or consists of one longer text.
    """
    order, batches, done = np.argsort(lengths, kind="stable"), [], 0
    while done < len(order):
        batch = order[done : done + max(1, n_tokens // int(lengths[order[done]]))][:most_rows]
        batch = batch[: max(1, n_tokens // int(lengths[batch[-1]]))]
        batches.append(batch)
        done += len(batch)
    return batches
