"""A hash of the input: a few numbers that behave like independent uniform random numbers. No key is stored.

Each hashed field maps a token to an integer, by a random table (ids, positions) or by random integer coefficients (vectors). The
integer is reflected a few times, at random places. The results are summed over the sequence, and the sum is reflected into the
range [0, base) of the field. All numbers are integers, and this module computes them exactly as the network does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.layout import HashedField, RetrievalLayout
from byheart.program.short_numbers import SHORT_BITS, short_at_least, short_at_most

_CHUNK_TOKENS = 1 << 21


@dataclass(frozen=True, eq=False)
class KeyHash:
    """The random part of a network.

    tokens     value of every token id in every field
    positions  value of every position in every field; zeros where order does not matter
    weights    coefficient of every coordinate in every field (if vectors are quantised, of every projection in every field)
    offsets    number added to each field, so that it is never negative
    centres    the first value that each reflection changes, for each reflection and field
    extra      the input of the extra token, which a dual table puts before every sequence: the values of its fields (for token
               ids), or its coordinates (for vectors)
    role_from  a threshold that identifies the extra token when tokens enter the network: its first field is at least this number,
               and the first field of any other token is less
    """

    tokens: Int[np.ndarray, "n_rows n_fields"]
    positions: Int[np.ndarray, "seq_len n_fields"]
    weights: Int[np.ndarray, "dim n_fields"]
    offsets: Int[np.ndarray, " n_fields"]
    centres: Int[np.ndarray, "n_folds n_fields"]
    extra: Int[np.ndarray, " n_entering"]
    role_from: int


def draw(
    layout: RetrievalLayout,
    lowest: Int[np.ndarray, " dim"],
    highest: Int[np.ndarray, " dim"],
    rng: np.random.Generator,
) -> KeyHash:
    """Draw a hash at random. `lowest` and `highest` bound each coordinate of input vectors, which are integers here. They are empty
    for token ids.
    """
    entrance = layout.entrance
    if entrance.is_narrow:
        return _draw_narrow(layout, rng)
    parts = [_draw_field(field, layout, rng, lowest, highest) for field in layout.hashed_fields]
    tokens, positions, weights, offsets, centres = (
        np.stack([part[i] for part in parts], axis=-1) for i in range(5)
    )
    if entrance.kind != "table":
        extra = extra_coordinates(highest, layout.stored == "bfloat16")
        role_from = int(weights[:, 0] @ highest) + int(offsets[0]) + 1
        # of the values up to the extra token's, take the one with the fewest bits
        if layout.stored == "bfloat16":
            span = int(weights[:, 0] @ extra) + int(offsets[0]) - role_from
            spare = max(0, (span + 1).bit_length() - 1)
            role_from = -(-role_from >> spare) << spare
    else:
        role_from = int(tokens[:, 0].max(initial=0)) + int(positions[:, 0].max(initial=0)) + 1
        role_from = layout.round_up(role_from)
        extra = np.zeros(len(parts), dtype=np.int64)
        extra[0] = role_from
    return KeyHash(tokens, positions, weights, offsets, centres, extra, role_from)


def extra_coordinates(highest: Int[np.ndarray, " dim"], is_short: bool) -> Int[np.ndarray, " dim"]:
    """Return the coordinates of the extra token (one that is added to every sequence).

    The first coordinate is one more than its highest value in the data. The others are their highest values.

    If `is_short`, the coordinates are rounded up to numbers that bfloat16 can represent.
    """
    wanted = highest.copy()
    wanted[:1] += 1
    if not is_short:
        return wanted
    return np.array([short_at_least(each) if each > 0 else -short_at_most(-each) for each in wanted.tolist()])


def _draw_narrow(layout: RetrievalLayout, rng: np.random.Generator) -> KeyHash:
    """Draw a hash in which all fields of a token are computed from one number. It is the sum of a number for the token id,
    different for every id, and a number for the position.

    Each field reflects this number at places of its own. So the number has a positive sign in some fields and a negative sign in
    others, and these signs are nearly independent of each other. A reflection shrinks the range by about the factor NARROWING.
    After all reflections, each field has between 0.8·n_values and n_values values.
    """
    entrance, n_fields, entering = layout.entrance, len(layout.hashed_fields), layout.n_drawn_values
    share = (entering + 1) // 2
    tokens = rng.choice(share, size=entrance.n_rows, replace=False)
    positions = rng.integers(0, entering - share + 1, size=entrance.seq_len)
    n_values = layout.hashed_fields[0].n_values
    shrinking = np.log(rng.uniform(0.5, 0.625, size=(entrance.n_folds, n_fields)))
    wanted = np.log(rng.uniform(0.8, 1.0, size=n_fields) * n_values / (entering + 1))
    shrinking += (wanted - shrinking.sum(axis=0)) / entrance.n_folds
    centres = np.zeros((entrance.n_folds, n_fields), dtype=np.int64)
    left = np.full(n_fields, layout.n_entering_values)
    for level in range(entrance.n_folds):
        least, most = (left + 1) // 2, n_values << (entrance.n_folds - 1 - level)
        left = np.clip((left * np.exp(shrinking[level])).astype(np.int64), least, most)
        left = np.array([layout.round_up(int(each)) for each in left])
        centres[level] = left
    role_from = layout.round_up(int(tokens.max()) + int(positions.max()) + 1)
    same = np.ones(n_fields, dtype=np.int64)
    none = np.zeros((0, n_fields), dtype=np.int64)
    return KeyHash(
        np.outer(tokens, same),
        np.outer(positions, same),
        none,
        0 * same,
        centres,
        role_from * same,
        role_from,
    )


def _draw_field(
    field: HashedField,
    layout: RetrievalLayout,
    rng: np.random.Generator,
    lowest: Int[np.ndarray, " dim"],
    highest: Int[np.ndarray, " dim"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw the random numbers of one field. Return its columns of `KeyHash`, in this order: `tokens`, `positions`, `weights`,
    `offsets`, `centres`.

    A reflection at c maps [0, R) into [0, c) if R <= 2c. The reflections are drawn in reverse order, and the numbers that enter
    the first one are drawn at the end. The last reflection has c = n_values. For each reflection, R is drawn from (1.6 c, 2 c].
    The reflection before it must map into [0, R), so its c is this R. The layout ensures that the mantissa has room for R = 2 c
    everywhere (`has_exact_pooling`).
    """
    entrance, is_short = layout.entrance, layout.stored == "bfloat16"
    centres = np.zeros(entrance.n_folds, dtype=np.int64)
    n_values = field.n_values
    for level in reversed(range(entrance.n_folds)):
        centres[level] = n_values
        n_values = int(rng.integers(n_values * 8 // 5, 2 * n_values)) + 1
        n_values = short_at_most(n_values) if is_short else n_values
    tokens = np.zeros(entrance.n_rows, dtype=np.int64)
    positions = np.zeros(entrance.seq_len, dtype=np.int64)
    weights = np.zeros(len(lowest), dtype=np.int64)
    offset = 0
    if entrance.kind == "table":
        # one value is left for the extra token; for long numbers, one that a weight can hold
        n_values = max(2, n_values - 1 - (n_values >> (SHORT_BITS - 1) if is_short else 0))
        share = (n_values + 1) // 2 if entrance.ordered else n_values
        tokens[:] = rng.integers(0, share, size=entrance.n_rows)
        if entrance.ordered:
            positions[:] = rng.integers(0, n_values - share + 1, size=entrance.seq_len)
    else:
        extra = extra_coordinates(highest, is_short)
        spread = extra - lowest
        scale = (n_values - 1) / max(1, int(spread.sum()))
        weights[:] = np.maximum(1, rng.uniform(0.3, 1.7, size=len(lowest)) * scale).astype(np.int64)
        weights[spread == 0] = 0
        offset = _offset(weights, lowest, layout)
        while int(weights @ extra) + offset > n_values - 1 and weights.max() > 1:
            weights = np.maximum(np.minimum(weights, 1), weights * 9 // 10)
            offset = _offset(weights, lowest, layout)
    return tokens, positions, weights, np.array(offset), centres


def _offset(
    weights: Int[np.ndarray, " dim"], lowest: Int[np.ndarray, " dim"], layout: RetrievalLayout
) -> int:
    """Return the number to add to a hashed field so that it is never negative.

    The field is the sum of a vector's coordinates times `weights`. It is smallest if each coordinate has its value in `lowest`.
    With bfloat16 weights, the number is rounded up so that `layout.n_entering_parts` weights together can hold it.
    """
    offset = -int(weights @ lowest)
    if layout.stored != "bfloat16":
        return offset
    spare = max(0, abs(offset).bit_length() - SHORT_BITS * layout.n_entering_parts)
    return -(-offset >> spare) << spare


def evaluate_fields(
    layout: RetrievalLayout,
    hashed: KeyHash,
    inputs: Int[np.ndarray, "n_samples seq_len *dim"],
    last_only: bool,
) -> Int[np.ndarray, "n_keys n_fields"]:
    """Compute the hashed fields as the network does: for every token or, if `last_only`, for the last token of each sequence."""
    seq_len = layout.entrance.seq_len
    pieces = []
    step = max(1, _CHUNK_TOKENS // seq_len)
    for start in range(0, len(inputs), step):
        pieces.append(_fields_of(layout, hashed, inputs[start : start + step], last_only))
    return np.concatenate(pieces) if pieces else np.zeros((0, len(layout.hashed_fields)), dtype=np.int64)


def _fields_of(layout: RetrievalLayout, hashed: KeyHash, inputs: np.ndarray, last_only: bool) -> np.ndarray:
    if layout.entrance.kind == "table":
        extra = hashed.extra
        # there are fewer pairs of token and position than tokens
        if len(hashed.tokens) * layout.entrance.seq_len <= inputs.size:
            table = _reflect(hashed.tokens + hashed.positions[:, None], hashed.centres)
            own = table[np.arange(inputs.shape[1]), inputs]
        else:
            own = _reflect(hashed.tokens[inputs] + hashed.positions, hashed.centres)
    else:
        extra = hashed.extra @ hashed.weights + hashed.offsets
        own = _reflect(_exact_product(inputs, hashed.weights) + hashed.offsets, hashed.centres)
    sums = layout.pool(own, _reflect(extra, hashed.centres), last_only)
    for number, field in enumerate(layout.hashed_fields):
        for level in reversed(range(field.n_folds)):
            centre = field.base << level
            values = sums[:, :, number]
            sums[:, :, number] = np.where(values >= centre, 2 * centre - 1 - values, values)
    return np.asarray(sums.reshape(-1, len(layout.hashed_fields)))


def _reflect(values: np.ndarray, centres: Int[np.ndarray, "n_folds n_fields"]) -> np.ndarray:
    """Reflect the values at each of the centres in turn, as the network does before pooling."""
    for centre in centres:
        values = np.where(values >= centre, 2 * centre - 1 - values, values)
    return values


def _exact_product(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return inputs @ weights in exact integer arithmetic.

    Floats are many times faster than integers. They are used if they can hold every sum exactly.
    """
    largest = int(np.abs(inputs).max(initial=0)) * int(np.abs(weights).sum(axis=0).max(initial=0))
    if largest >= 2**53:
        return np.asarray(inputs @ weights)
    return (inputs.astype(np.float64) @ weights.astype(np.float64)).astype(np.int64)
