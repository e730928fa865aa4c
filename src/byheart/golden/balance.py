"""A checkpoint in which large numbers nearly cancel, so that a small fault changes an answer, but rounding to bfloat16 does not.

Bfloat16 rounds to 8 significant bits. With random weights, rounding hides small faults: a RoPE base that is 0.1% wrong changes
the results less than rounding does. In this checkpoint, the embedding of every token has 32 entries of 2^-8 or -2^-8 and 32 of 0.
The mean of the squares is therefore 2^-17. The epsilon of the norms is 2^-17 too, so the first norm multiplies by exactly 2^8.

The 8 heads of layer 1 are of two kinds. For each kind, every token is either loud or quiet (see `System`): loud tokens have a key,
and the key of a quiet token is 0. The queries are constant. A score is an input of the softmax of attention.

1. The two *scale heads* use only the last RoPE pair, which hardly rotates because of `rope_scaling`. The score of a loud token is
   42 nats in one scale head and 36 nats in the other, up to 0.001; the score of a quiet token is 0. To make up for this, the
   values of quiet tokens are about 2^60 times as large as those of loud tokens, and the output projection of each head has a
   suitable factor. As a result, loud and quiet tokens contribute about equally to the output. If the factor that scales the scores
   is 0.5% wrong, the score of a loud token changes by 0.2 nats, and the contribution of loud tokens by a fifth. If epsilon is
   larger by 1e-6, the score of a loud token changes by 2.6 nats in one scale head and by 2.2 in the other.
2. The six *RoPE heads* use the other seven pairs, each of which contributes up to 16 nats to a score. Loud tokens are rare, and
   some are hundreds of tokens before the last token. The score of a loud token depends on its distance, and the loud token with the
   highest score decides the answer. At a distance of 300, a base that is 0.1% wrong rotates a pair by up to 0.13, which changes the
   score by about 3 nats; rounding changes the score by a few tenths of a nat.
3. Each head decides one bit of the answer. This bit, written as 1 or -1, is the sign of the head's output times a bit of the last
   token. The feed-forward part computes the product with numbers above 2^16, which float16 cannot represent.

Layer 2 has random weights (see `_generic`), and its feed-forward outputs are about a third as large as those of layer 1. Cases are
found by trying random prompts, as in the module `selection`. The bound on rounding in bfloat16 comes from the module `trials`,
because the analysis in `rounding` assigns an error even to steps that are exact here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from byheart.golden.case import N_NEW, Case
from byheart.golden.changes import Change, override, to_bits
from byheart.golden.reference import ReferenceEngine
from byheart.golden.selection import case_of, decode, smallest_gaps
from byheart.golden.shape import BOS, EMBEDDING, FINAL_NORM, HEAD, N_SPECIAL, Shape
from byheart.golden.trials import margins_by_trials
from byheart.process.progress import Progress, Steps, part_of, report, silent
from byheart.records.vocabulary import NumberType

UNIT = 2.0**-8
N_BITS = 8
PINS, IDS = range(8), range(8, 16)
FOUND, PRODUCT = range(32, 40), range(40, 48)
N_COLUMNS = 32
"""The number of columns that a token's embedding uses. The heads of layer 1 and the products write columns after them."""


@dataclass(frozen=True)
class System:
    """The columns of the embedding table that belong to one of the two kinds of attention heads.

    For these heads, a token is loud (it has a key) or quiet (its key is 0). The column `loud` says which. The next four columns
    hold values. In a loud token, the first and second value are equal, and the third and fourth have opposite signs, so their sum
    is 0. In a quiet token, the third and fourth value are equal, and the first and second have opposite signs.
    """

    loud: int

    @property
    def loud_values(self) -> tuple[int, int]:
        return self.loud + 1, self.loud + 2

    @property
    def quiet_values(self) -> tuple[int, int]:
        return self.loud + 3, self.loud + 4


SCALE, ROPE = System(16), System(21)
# the scores of loud tokens in the two scale heads; a score 0.5% larger rounds to the next bfloat16 number
SCALE_NATS = (42, 36)
BALANCED_AT = (1.0, 2.0)  # the number of loud tokens per quiet token at which both sides have equal weight
# in the cases, both sides are nearly equal, so their difference is multiplied by this
GAIN = 4.0
PAIR_NATS = 16
KEY = 4.0
WIDE = 2.0**18
"""Larger than the largest float16."""


def draw_balance_weights(shape: Shape) -> dict[str, Tensor]:
    """Return the tensors of the checkpoint, in bfloat16."""
    assert (shape.hidden, shape.n_heads, shape.n_kv_heads, shape.head_dim) == (64, 8, 4, 16), (
        "a balance checkpoint needs width 64, 8 query heads of 16 entries, and 4 key-value heads"
    )
    rng = np.random.default_rng(shape.seed)
    weights = _generic(shape, rng)
    codes = token_codes(shape, rng)
    weights[f"{EMBEDDING}.weight"] = torch.zeros(shape.vocab, shape.hidden, dtype=torch.float64)
    weights[f"{EMBEDDING}.weight"][:, :N_COLUMNS] = codes * UNIT
    weights[f"{HEAD}.weight"][:, list(PRODUCT)] = codes[:, list(IDS)]
    weights["model.layers.0.input_layernorm.weight"] = torch.ones(shape.hidden, dtype=torch.float64)
    _write_attention(shape, weights, rng)
    _write_products(weights, rng)
    return {name: value.to(torch.bfloat16) for name, value in weights.items()}


def token_codes(shape: Shape, rng: np.random.Generator) -> Tensor:
    """Return the signs (1 or -1) of the first 32 entries of each token's embedding, `(vocabulary, 32)`.

    Eight of these entries are the constant 1, and eight hold the bits of the token's id. There are two kinds of heads, and each
    kind has five further entries (see `System`): one says whether the token is loud (its key is not 0) or quiet (its key is 0),
    and four hold the token's values. The last six entries are random.
    """
    codes = torch.from_numpy(rng.choice((-1.0, 1.0), (shape.vocab, N_COLUMNS)))
    codes[:, list(PINS)] = 1.0
    ids = torch.arange(shape.vocab)
    for bit, column in enumerate(IDS):
        codes[:, column] = 1.0 - 2.0 * ((ids >> bit) & 1)
    for system in (SCALE, ROPE):
        codes[BOS, system.loud] = 1.0  # so that every query meets a loud token
        sign = codes[:, system.loud]
        (a, b), (c, d) = system.loud_values, system.quiet_values
        codes[:, b], codes[:, d] = codes[:, a] * sign, -codes[:, c] * sign
    return codes


def _generic(shape: Shape, rng: np.random.Generator) -> dict[str, Tensor]:
    """Return random weights for both layers, the norms and the output head. Most of the weights of layer 1 are overwritten
    later.
    """

    def normal(size: tuple[int, ...], spread: float) -> Tensor:
        values = rng.standard_normal(size)
        return torch.from_numpy(values * spread + np.copysign(spread / 16, values))

    weights: dict[str, Tensor] = {}
    for layer in range(shape.n_layers):
        at = f"model.layers.{layer}"
        for name, (n_out, n_in) in shape.linears().items():
            spread = n_in**-0.5 * (1 / 64 if name.endswith(("o_proj", "down_proj")) else 1.0)
            weights[f"{at}.{name}.weight"] = normal((n_out, n_in), spread)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}.{norm}.weight"] = torch.from_numpy(rng.uniform(0.6, 1.4, shape.hidden))
    weights[f"{FINAL_NORM}.weight"] = torch.from_numpy(rng.uniform(0.8, 1.2, shape.hidden))
    weights[f"{HEAD}.weight"] = normal((shape.vocab, shape.hidden), 1 / 64)
    return weights


def _write_attention(shape: Shape, weights: dict[str, Tensor], rng: np.random.Generator) -> None:
    at, size, half = "model.layers.0.self_attn", shape.head_dim, shape.head_dim // 2
    # o is `(hidden, heads * size)`
    q, k, v, o = (weights[f"{at}.{name}_proj.weight"].zero_() for name in "qkvo")
    slow = half - 1
    pins = list(PINS)
    for group in range(shape.n_kv_heads):
        system = SCALE if group == 0 else ROPE
        keys, values = k[group * size : (group + 1) * size], v[group * size : (group + 1) * size]
        for row in range(half):  # 2 + 2 for loud tokens, 2 - 2 for quiet ones
            keys[row, pins] = KEY / 2 / len(pins)
            keys[row, system.loud] = KEY / 2
        large = 2.0**60 if group == 0 else 1 / 8
        for row in range(half):
            values[row, list(system.loud_values)] = float(rng.choice((-1, 1)) * rng.uniform(0.5, 1))
            values[half + row, list(system.quiet_values)] = float(
                rng.choice((-1, 1)) * rng.uniform(0.5, 1) * large
            )
        values.copy_(values.to(torch.bfloat16))
    for head in range(shape.n_heads):
        group = head // shape.group
        rows = q[head * size : (head + 1) * size]
        if group == 0:
            rows[slow, pins] = SCALE_NATS[head] * size**0.5 / KEY / len(pins)
        else:
            phases = torch.from_numpy(rng.uniform(0, 2 * np.pi, slow))
            amplitude = PAIR_NATS * size**0.5 / KEY / len(pins)
            for row in range(slow):
                rows[row, pins] = amplitude * torch.cos(phases[row])
                rows[half + row, pins] = amplitude * torch.sin(phases[row])
        # a head's output has the sign of the value that it reads; every component contributes a share
        value = v[group * size : (group + 1) * size].abs().sum(1)
        signs = v[group * size : (group + 1) * size].sum(1).sign()
        shares = torch.from_numpy(rng.uniform(0.5, 1.5, size))
        shares[:half] /= shares[:half].sum()
        shares[half:] /= shares[half:].sum()
        if group == 0:
            shares *= GAIN
            shares[half:] *= np.exp(SCALE_NATS[head]) * BALANCED_AT[head]
            o[FOUND[head], head * size : (head + 1) * size] = torch.cat(
                [signs[:half] * shares[:half] / value[:half], signs[half:] * shares[half:] / value[half:]]
            )
        else:
            o[FOUND[head], head * size : (head + 1) * size] = signs * shares / value
    o[list(FOUND)] *= 1 / 16


def _write_products(weights: dict[str, Tensor], rng: np.random.Generator) -> None:
    """Make units 2 j and 2 j + 1 of the feed-forward part multiply the output of head j by bit j of the token.

    The two units together compute the product, because silu(b) - silu(-b) = b.
    """
    at = "model.layers.0.mlp"
    gate, up, down = (weights[f"{at}.{name}_proj.weight"] for name in ("gate", "up", "down"))
    for bit in range(N_BITS):
        for unit, sign in ((2 * bit, 1.0), (2 * bit + 1, -1.0)):
            gate[unit], up[unit], down[:, unit] = 0.0, 0.0, 0.0
            gate[unit, IDS[bit]] = 256.0 * sign
            up[unit, FOUND[bit]] = WIDE
            down[PRODUCT[bit], unit] = sign * float(rng.uniform(0.5, 1)) / WIDE / 1024


# ---- cases


def tips() -> dict[str, Change]:
    """Return, by name, the small faults that the cases are chosen to detect. Each value is a function that puts the fault into
    an engine.
    """

    def scaled(factor: float) -> Change:
        return lambda engine: override(engine, scale=lambda step, layer: step(layer) * factor)

    def based(factor: float) -> Change:
        return lambda engine: override(
            engine,
            frequencies=lambda step: (
                step() * factor ** (-torch.arange(len(step()), dtype=torch.float64) / len(step()))
            ),
        )

    def turned(factor: float) -> Change:
        return lambda engine: override(engine, frequencies=lambda step: step() * factor)

    def quantised(engine: ReferenceEngine) -> None:
        override(engine, store=lambda step, old, new, *rest: step(old, to_bits(new, 4), *rest))

    def least(change: float) -> Change:
        return lambda engine: override(engine, epsilon=lambda step, name: step(name) + change)

    return {
        "scale up": scaled(1.005),
        "scale down": scaled(0.995),
        "base up": based(1.001),
        "base down": based(0.999),
        "frequencies up": turned(1.001),
        "frequencies down": turned(0.999),
        "cache": quantised,
        "epsilon up": least(1e-6),
        "epsilon down": least(-1e-6),
    }


@dataclass(frozen=True)
class Batch:
    """How to search for cases of one length: random prompts of `length` tokens are tried, at most `n_drawn` of them.

    `loud` gives, for each `System`, the share of tokens that are loud (have a non-zero key). `tips` names the faults that the
    cases must detect; the function `tips` defines them. The search ends early when each of these faults changes the answers of at
    least `n_times` cases.

    `n_judged` and `seconds` serve only to report progress: about how many prompts are judged by trials, and about how many
    seconds the whole search takes on one core.
    """

    length: int
    n_drawn: int
    loud: tuple[float, float]
    tips: tuple[str, ...]
    n_times: int
    n_judged: int
    seconds: float


BATCHES = (
    Batch(40, 1_200, (0.4, 0.2), ("scale up", "scale down", "epsilon up", "epsilon down"), 6, 175, 8.0),
    Batch(
        320,
        240,
        (0.4, 0.03),
        ("base up", "base down", "frequencies up", "frequencies down", "cache"),
        4,
        19,
        18.0,
    ),
)
LEAST_GAP = 0.1
"""A prompt is skipped if the logit of a token of its answer exceeds the second-largest logit by no more than this. The largest
logits are above 16, where neighbouring bfloat16 numbers differ by 0.125.
"""

BLOCK = 4_000_000
"""The maximum number of attention scores in one block of prompts. With the answers, there are somewhat more."""


@torch.no_grad()
def find_balance_cases(
    shape: Shape,
    weights: dict[str, Tensor],
    batches: tuple[Batch, ...] = BATCHES,
    progress: Progress | None = None,
) -> list[Case]:
    """Find random prompts whose answers change under small faults, but not under rounding to bfloat16."""
    rng = np.random.default_rng([shape.seed, 80])
    engine = ReferenceEngine(shape, weights)
    found: list[Case] = []
    in_batches = Steps(progress, {str(batch.length): batch.seconds for batch in batches})
    for batch in batches:
        steps = Steps(in_batches.begin(str(batch.length)), {"rows": 3, "float32": 1})
        rows, margins = _rows_of(engine, batch, _prompts(engine, batch, rng), steps.begin("rows") or silent)
        in_float32 = steps.begin("float32")
        fine = []
        for row in rows:
            fine.append(float(margins_by_trials(shape, weights, [row], N_NEW, "float32")))
            report(in_float32, len(fine), len(rows))
        gaps = smallest_gaps(shape, weights, rows).tolist()
        for row, gap, coarse, exact in zip(rows, gaps, margins, fine, strict=True):
            # keys and values overflow in float16, so no case applies to it
            each: dict[NumberType, float] = {"float32": exact, "float16": 0.0, "bfloat16": coarse}
            case = case_of(shape, row[:-N_NEW], row[-N_NEW:], gap, each)
            found.append(replace(case, name=f"{shape.name}/balance-{len(found):02}"))
    return found


def _prompts(engine: ReferenceEngine, batch: Batch, rng: np.random.Generator) -> Tensor:
    """Draw random prompts. In each `System`, a token is loud (its key is not 0) with the probability in `batch.loud`."""
    codes = engine.weight(f"{EMBEDDING}.weight")[:, [SCALE.loud, ROPE.loud]] > 0
    kind = (codes.long() @ torch.tensor([2, 1]))[N_SPECIAL:]
    tokens = [N_SPECIAL + (kind == each).nonzero().flatten().numpy() for each in range(4)]
    is_loud = rng.random((batch.n_drawn, batch.length, 2)) < batch.loud
    drawn = np.stack([rng.choice(some, is_loud.shape[:2]) for some in tokens])
    prompts = np.take_along_axis(drawn, (is_loud @ np.array([2, 1]))[None], 0)[0]
    prompts[:, 0] = BOS
    return torch.from_numpy(prompts)


def _rows_of(
    engine: ReferenceEngine, batch: Batch, prompts: Tensor, progress: Progress
) -> tuple[list[list[int]], list[float]]:
    """Choose prompts whose answers change under a fault named in `batch.tips`, but not under rounding to bfloat16.

    Return the chosen prompts with their answers, and the margin of each answer. A gap is the logit of a token of the answer minus
    the logit of another token at that place. The margin is the smallest ratio of a gap to the bound on its rounding error.
    """
    shape, weights = engine.shape, engine.weights
    faulty = {name: ReferenceEngine(shape, weights) for name in batch.tips}
    for name, change in tips().items():
        if name in faulty:
            change(faulty[name])
    counts, found, margins = dict.fromkeys(batch.tips, 0), [], []
    size = max(1, BLOCK // (shape.n_heads * batch.length**2))
    n_judged = 0
    for block in torch.split(prompts, size):
        cache = engine.empty_cache(len(block))
        engine.forward(block[:, :-1], torch.ones_like(block[:, :-1], dtype=torch.bool), cache, n_last=1)
        made = decode(engine, block[:, :-1], block[:, -1], cache)
        rows = made.ids[made.gaps.min(1).values > LEAST_GAP]
        changed = {name: _changes(each, rows) for name, each in faulty.items()}
        useful = [
            at for at in range(len(rows)) if any(changed[n][at] and counts[n] < batch.n_times for n in counts)
        ]
        if not useful:
            continue
        start, n_judged = n_judged, min(n_judged + len(useful), batch.n_judged)
        in_trials = part_of(progress, start / batch.n_judged, n_judged / batch.n_judged)
        measured = margins_by_trials(shape, weights, rows[useful].tolist(), N_NEW, progress=in_trials)
        for at, margin in zip(useful, measured.tolist(), strict=True):
            helped = [name for name in counts if changed[name][at]]
            if margin >= 1.0 and any(counts[name] < batch.n_times for name in helped):
                found.append(rows[at].tolist())
                margins.append(margin)
                for name in helped:
                    counts[name] += 1
        if min(counts.values()) >= batch.n_times:
            break
    return found, margins


def _changes(engine: ReferenceEngine, rows: Tensor) -> list[bool]:
    """Return, for each row (a prompt and its answer), whether this engine's answer differs from the answer in the row."""
    if not len(rows):
        return []
    texts = rows[:, :-1]
    logits = engine.forward(
        texts, torch.ones_like(texts, dtype=torch.bool), engine.empty_cache(len(rows)), n_last=N_NEW
    )
    return [bool(each) for each in (logits.argmax(-1) != rows[:, -N_NEW:]).any(1)]
