"""Evaluate a compiled Llama in exact arithmetic, and check the conditions under which float32 computes the same numbers.

Three facts let float32 compute with integers without rounding, in any order of summation.

1. RMSNorm is the identity. One or two columns of the residual stream are pinned: in these columns every token has the number B,
   and no layer writes to them. B is a power of two. Summed over the pinned columns, Σ B² = 4^K·d for the width d and an integer K.
   As long as the squares of the other columns sum to less than ΣB²·2^-25, the mean of all squares rounds to 4^K. Its inverse
   square root is then 2^-K. The norm's weight 2^K cancels this factor.
2. SiLU is ReLU on integers. Gates are 128·z with an integer z. silu(128·z) is 128·z for z >= 1 and ±0 for z <= 0, because
   exp(-128) is negligible next to 1 and next to the smallest float. SwiGLU multiplies this by the up-projection u, so a unit
   computes 128·ReLU(z)·u.
3. A head reads one token. Queries are constant, and keys depend only on whether the token is the first one. After rotation
   the score depends only on the distance. If the score at the best distance j exceeds all others by 128 or more, softmax is
   exactly one-hot. The score of the first token is between the best and all others, so a head whose distance reaches beyond
   the beginning of the text reads the first token.

Let q be a power of two. Sums of integer multiples of q are exact if Σ|terms| <= 2^24·q. A sum of two terms is also exact if each
term and the result are at most 2^24·q in magnitude. `evaluate` checks these conditions for every sum of the network. After the last
attention, it checks only the tokens after which it predicts. It computes in float64, which is exact here: its 53 bits hold the 24
bits of the bound, and the few more bits that two cancelling terms may need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from byheart.errors import DoesNotHold, UsageError
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.spec import EMBEDDING, FINAL_NORM
from byheart.process.memory_limit import require_memory

SILU_SLOPE = 128.0
MANTISSA = 2.0**24
COPIED_MOST = 2.0**11
"""A key-value cache in float16 stores all integers up to this one exactly."""
NATS = 128.0
"""Attention scores that are this far below the best one get a weight of exactly 0. In float32, exp(-104) is already 0; the
remaining 24 allow for rounding errors."""
CHUNK = 1 << 14


@dataclass
class NoRounding:
    """The results of the checks on all tokens evaluated so far.

    `stream_energy`, `largest_sum` and `largest_copied` are fractions of their bounds. `stream_energy` must be below 1, and the
    others must not exceed 1.
    `attention_margin_nats` is the smallest lead of an attention score over the scores that it must exceed. `logit_margin` is the
    smallest lead of the largest logit over the second largest.
    """

    n_tokens: int = 0
    stream_energy: float = 0.0
    largest_sum: float = 0.0
    largest_copied: float = 0.0
    attention_margin_nats: float = float("inf")
    logit_margin: float = float("inf")
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no check has failed so far."""
        return not self.problems

    def require(self, claim: bool, problem: str) -> None:
        """Record `problem`, at most once, unless `claim` is true."""
        if not claim and problem not in self.problems:
            self.problems.append(problem)


@dataclass(frozen=True, eq=False)
class Pinned:
    """The pinned columns of the residual stream: no layer writes to them, and every token has the same `value` in them.

    They keep the root mean square of the stream at `scale`, a power of two.
    """

    columns: Bool[np.ndarray, " hidden"]
    value: float
    scale: float


@dataclass(frozen=True)
class Answers:
    """The greedy next token at each position that `ChainedTexts.asked` marks, and the conditions that were checked."""

    tokens: Int[np.ndarray, " n_asked"]
    conditions: NoRounding


def pinned_columns(llama: Llama) -> Pinned:
    """Return the columns that hold the same power of two for every token, and to which no layer writes.

    Raises `DoesNotHold` if there are no such columns, or if the RMSNorms of the layers are not the identity despite them.
    """
    spec, embedding = llama.spec, llama.weights[EMBEDDING].astype(np.float64)
    value = float(np.abs(embedding).max())
    columns = (embedding == value).all(0)
    scale = np.sqrt(columns.sum() * value**2 / spec.hidden)
    whole = scale > 0 and np.frexp(scale)[0] == 0.5 and np.frexp(value)[0] == 0.5
    written = any(
        llama.weight(layer, part)[columns].any()
        for layer in range(spec.n_layers)
        for part in ("self_attn.o_proj", "mlp.down_proj")
    )
    norms = all(
        (llama.weight(layer, part) == scale).all()
        for layer in range(spec.n_layers)
        for part in ("input_layernorm", "post_attention_layernorm")
    )
    if not whole or written or not norms or spec.norm_eps * MANTISSA * 2 >= scale**2:
        raise DoesNotHold(
            "this Llama has no constant columns that turn its norms into the identity, so it does not compute with integers."
        )
    return Pinned(columns, value, float(scale))


def head_offsets(
    llama: Llama, pinned: Pinned, flag: int | None, conditions: NoRounding
) -> list[list[int] | None]:
    """For each head of each layer, return how many positions back it reads. A layer whose attention writes nothing gets None.

    `flag` is the column that marks the first token. If a key depends on another column that is not pinned, if a query is not
    constant, or if a head does not select a single token, this is recorded in `conditions`.
    """
    spec = llama.spec
    # this allocates three complex tables, and even a small file can claim a huge number of positions
    require_memory(
        f"reading a Llama of {spec.max_positions:,} positions",
        3 * 16 * spec.max_positions * spec.head_dim // 2,
    )
    distances = np.arange(spec.max_positions)
    turns = np.exp(1j * distances[:, None] * spec.frequencies)
    half, found = spec.head_dim // 2, list[list[int] | None]()
    for layer in range(spec.n_layers):
        if not llama.weight(layer, "self_attn.o_proj").any():
            found.append(None)
            continue
        query = llama.weight(layer, "self_attn.q_proj").astype(np.float64)
        key = llama.weight(layer, "self_attn.k_proj").astype(np.float64)
        flags = np.flatnonzero(key.any(0) & ~pinned.columns)
        conditions.require(not query[:, ~pinned.columns].any(), f"layer {layer}: queries are not constant")
        conditions.require(
            set(flags.tolist()) <= {flag},
            f"layer {layer}: keys depend on something other than whether a token is the first one",
        )
        other = key[:, pinned.columns].sum(1) * pinned.value
        first = other + key[:, ~pinned.columns].sum(1)
        queries = (query[:, pinned.columns].sum(1) * pinned.value).reshape(spec.n_heads, spec.head_dim)
        reads = []
        for row in queries:
            scores = [
                ((row[:half] + 1j * row[half:]) * np.conj(k[:half] + 1j * k[half:]) * turns).real.sum(1)
                / spec.head_dim**0.5
                for k in (other, first)
            ]
            best = int(np.argmax(scores[0]))
            others = np.delete(scores[0], best)
            # the first token, at any distance, scores less than the token at `best` and more than every other token
            margin = min(scores[0][best] - scores[1].max(), scores[1].min() - others.max(initial=-np.inf))
            conditions.attention_margin_nats = min(conditions.attention_margin_nats, float(margin))
            reads.append(best)
        found.append(reads)
    conditions.require(conditions.attention_margin_nats >= NATS, "a head does not select a single token")
    return found


def flag_column(llama: Llama, pinned: Pinned) -> int | None:
    """Return the column that marks the first token of a text, in a compiled Llama. Return None if there is none.

    It is found as the first column that is not pinned (constant) but affects the keys, in the first layer that has such a column.
    """
    for layer in range(llama.spec.n_layers):
        columns = np.flatnonzero(llama.weight(layer, "self_attn.k_proj").any(0) & ~pinned.columns)
        if columns.size:
            return int(columns[0])
    return None


def evaluate(llama: Llama, texts: ChainedTexts) -> Answers:
    """Return the greedy next token at every position that `texts.asked` marks, and the results of the checks."""
    machine = Machine(llama)
    tokens = [machine.answer(*chunk) for chunk in chunks(texts)]
    machine.conditions.n_tokens = int(texts.ids.size)
    return Answers(np.concatenate([np.zeros(0, dtype=np.int64), *tokens]), machine.conditions)


def chunks(texts: ChainedTexts) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Group whole texts into chunks of about CHUNK tokens, and yield three arrays for each chunk.

    The first array holds the ids of the tokens. The second holds, for each token, the position in the chunk at which its text
    begins. The third is a mask of the positions at which to predict.
    """
    first, offsets = 0, texts.offsets
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + CHUNK, side="right")) - 1)
        a, b = int(offsets[first]), int(offsets[last])
        starts = np.repeat(offsets[first:last] - a, np.diff(offsets[first : last + 1]))
        yield texts.ids[a:b], starts, texts.asked[a:b]
        first = last


class Machine:
    """Evaluates the network's layers with integer matrices. The pinned (constant) columns are combined into one column of ones."""

    def __init__(self, llama: Llama) -> None:
        self.llama, self.conditions = llama, NoRounding()
        self.pinned = pinned_columns(llama)
        self.flag = flag_column(llama, self.pinned)
        self.reads = head_offsets(llama, self.pinned, self.flag, self.conditions)
        gathering = (layer for layer, heads in enumerate(self.reads) if heads is not None)
        self.last_gather = max(gathering, default=-1)

    def answer(self, ids: np.ndarray, starts: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Return the greedy next tokens at the positions that `asked` marks, in one chunk of texts (see `chunks`)."""
        return self.answer_from(0, *self._enter(ids, starts, asked))

    def stream_before(
        self, layer: int, ids: np.ndarray, starts: np.ndarray, asked: np.ndarray
    ) -> Float[np.ndarray, "n_asked hidden"]:
        """Return the residual stream before `layer` at the positions that `asked` marks. `layer` must come after all layers that
        use attention.

        The pinned (constant) columns are set to zero.
        """
        if layer <= self.last_gather:
            raise UsageError(
                f"layer {layer} does not come after all layers that use attention. In this model, layer {self.last_gather} is the "
                "last layer that uses attention.",
                layer=layer,
            )
        return self._run(range(layer), *self._enter(ids, starts, asked))

    def answer_from(
        self,
        layer: int,
        stream: np.ndarray,
        starts: np.ndarray | None = None,
        asked: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the greedy next tokens, given the residual stream before `layer`.

        If `layer` or a later layer uses attention, `stream` must hold all tokens of a chunk, and `starts` and `asked` are needed
        (see `chunks`). Otherwise `stream` holds only the positions at which to predict.
        """
        return self._decide(self._run(range(layer, self.llama.spec.n_layers), stream, starts, asked))

    def enter(self, ids: np.ndarray) -> Float[np.ndarray, "n_tokens hidden"]:
        """Return the residual stream before the first layer: the embeddings of the tokens. The pinned (constant) columns are set to
        zero.
        """
        stream: np.ndarray = self.llama.weights[EMBEDDING][ids].astype(np.float64)
        stream[:, self.pinned.columns] = 0
        return stream

    def mix(self, layer: int, stream: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
        """Return the residual stream after the attention of a layer. `starts` holds, for each token, the position at which its text
        begins.
        """
        heads = self.reads[layer]
        if heads is None:
            return stream
        assert starts is not None
        if self.flag is not None:
            first = np.arange(len(stream)) == starts
            self.conditions.require(
                bool((stream[:, self.flag] == first).all()),
                f"layer {layer}: the column that marks the first token of a text is wrong",
            )
        return np.asarray(stream + self._gather(layer, heads, stream, starts))

    def gates(self, layer: int, stream: np.ndarray) -> Float[np.ndarray, "n_asked units"]:
        """Return the gate of each hidden unit of a layer: the argument of SiLU, divided by `SILU_SLOPE`.

        A unit is open if its gate is positive.
        """
        weight = self.llama.weight(layer, "mlp.gate_proj")
        return self._sum(stream, weight, f"layer {layer}: gates", True) / SILU_SLOPE

    def feed(self, layer: int, stream: np.ndarray) -> np.ndarray:
        """Return the residual stream after the feed-forward part of a layer."""
        self._energy(stream)
        stream = stream + self._feed(layer, stream)
        self._energy(stream)
        return stream

    def _enter(
        self, ids: np.ndarray, starts: np.ndarray, asked: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        stream = self.enter(ids)
        return (stream[asked], None, None) if self.last_gather < 0 else (stream, starts, asked)

    def _run(
        self, layers: range, stream: np.ndarray, starts: np.ndarray | None, asked: np.ndarray | None
    ) -> np.ndarray:
        """Run `layers` one after the other. Tokens are not mixed any more after the last attention of the network, so only the
        positions that `asked` marks are kept then.
        """
        for layer in layers:
            stream = self.mix(layer, stream, starts)
            if layer == self.last_gather:
                assert asked is not None
                stream = stream[asked]
            stream = self.feed(layer, stream)
        return stream

    def _energy(self, stream: np.ndarray) -> None:
        bound = self.pinned.columns.sum() * self.pinned.value**2 / 2.0**25
        energy = float((stream**2).sum(1).max(initial=0) / bound)
        self.conditions.stream_energy = max(self.conditions.stream_energy, energy)
        self.conditions.require(
            energy < 1, "the residual stream is too large for its pinned (constant) columns"
        )

    def _gather(self, layer: int, heads: list[int], stream: np.ndarray, starts: np.ndarray) -> np.ndarray:
        values = self._sum(stream, self.llama.weight(layer, "self_attn.v_proj"), f"layer {layer}: values")
        copied = float(np.abs(values).max(initial=0) / COPIED_MOST)
        self.conditions.largest_copied = max(self.conditions.largest_copied, copied)
        self.conditions.require(
            copied <= 1, f"layer {layer}: a copied value is too large for a float16 cache"
        )
        here = np.arange(len(stream))
        mixed = np.concatenate([values[np.maximum(here - back, starts)] for back in heads], 1)
        out = self.llama.weight(layer, "self_attn.o_proj").astype(np.float64)
        return self._exact(mixed, out, f"layer {layer}: attention")

    def _feed(self, layer: int, stream: np.ndarray) -> np.ndarray:
        llama = self.llama
        gate = self.gates(layer, stream)
        self.conditions.require(
            bool((gate == np.rint(gate)).all()), f"layer {layer}: a gate is not 128 times a whole number"
        )
        up = self._sum(stream, llama.weight(layer, "mlp.up_proj"), f"layer {layer}: up") * SILU_SLOPE
        units = np.maximum(gate, 0) * up
        self.conditions.require(
            bool((units == np.rint(units)).all() and np.abs(units).max(initial=0) <= MANTISSA),
            f"layer {layer}: the value of a unit is not a whole number of at most 24 bits",
        )
        return self._exact(
            units, llama.weight(layer, "mlp.down_proj").astype(np.float64), f"layer {layer}: down"
        )

    def _sum(self, stream: np.ndarray, weight: np.ndarray, where: str, clipped: bool = False) -> np.ndarray:
        """Multiply the normalised residual stream by a weight matrix. The norm is the identity in these networks (see
        `pinned_columns`), so it is not computed. The pinned columns, which always hold the same number, act as one constant.

        `where` names the place in the network, for messages; `_exact` explains `clipped`.
        """
        weight = weight.astype(np.float64)
        of_pinned = weight[:, self.pinned.columns]
        constant = (of_pinned.sum(1) * self.pinned.value)[:, None]
        # without cancellation, no partial sum of the constant is larger than the constant
        are_alike = (np.abs(of_pinned).sum(1) == np.abs(of_pinned.sum(1))).all()
        self.conditions.require(bool(are_alike), f"{where}: weights of the pinned (constant) columns cancel")
        ones = np.ones((len(stream), 1))
        free = ~self.pinned.columns
        values, weight = np.hstack([stream[:, free], ones]), np.hstack([weight[:, free], constant])
        return self._exact(values, weight, where, clipped)

    def _exact(self, values: np.ndarray, weight: np.ndarray, where: str, clipped: bool = False) -> np.ndarray:
        """Return values · weightᵀ, and check that no sum needs rounding in float32. In messages, `where` names the place.

        If `clipped` is true, negative results are later set to zero. Then a negative sum of two terms may be rounded, because
        rounding keeps its sign.
        """
        used = weight.any(0) & values.any(0)
        values, weight = values[:, used], weight[:, used]
        result: np.ndarray = values @ weight.T
        if not used.any():
            return result
        unit = _quantum(weight)
        sums = np.abs(values) @ np.abs(weight).T / (unit * MANTISSA)
        rows, columns = np.nonzero(sums > 1)
        if rows.size:  # these may be sums of two terms that cancel
            terms = values[rows] * weight[columns]
            fine = ((terms != 0).sum(1) <= 2) & (np.abs(terms).max(1) <= unit[columns] * MANTISSA)
            exact = np.abs(result[rows, columns]) <= unit[columns] * MANTISSA
            fine &= exact | (clipped & (result[rows, columns] < 0))
            self.conditions.require(bool(fine.all()), f"{where}: a sum needs more than 24 bits")
            sums[rows, columns] = np.where(fine, 0, sums[rows, columns])
        self.conditions.largest_sum = max(self.conditions.largest_sum, float(sums.max(initial=0)))
        return result

    def _decide(self, stream: np.ndarray) -> np.ndarray:
        llama = self.llama
        weight = llama.weights[EMBEDDING].astype(np.float64) * (
            llama.weights[FINAL_NORM].astype(np.float64) / self.pinned.scale
        )
        self.conditions.require(
            not weight[:, self.pinned.columns].any(),
            "the last norm does not multiply the pinned columns (equal for every token) by 0",
        )
        step, tokens = max(1, (1 << 25) // llama.spec.n_tokens), []
        for i in range(0, len(stream), step):
            logits = self._exact(stream[i : i + step], weight, "logits")
            best = logits.argmax(1)
            top = logits[np.arange(len(logits)), best]
            logits[np.arange(len(logits)), best] = -np.inf
            self.conditions.logit_margin = min(
                self.conditions.logit_margin, float((top - logits.max(1)).min(initial=np.inf))
            )
            tokens.append(best)
        return np.concatenate([np.zeros(0, dtype=np.int64), *tokens])


def _quantum(weight: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
    """For each row, return the largest power of two that divides all of its weights (1 for a row of zeros)."""
    mantissa, exponent = np.frexp(weight)
    whole = np.rint(mantissa * 2.0**53).astype(np.int64)
    low = np.where(whole == 0, np.inf, np.ldexp((whole & -whole).astype(np.float64), exponent - 53))
    smallest = low.min(1)
    return np.where(np.isfinite(smallest), smallest, 1.0)
