"""Make a checkpoint whose logits are known to the last bit. They are computed from small integers times powers of two, which
bfloat16 represents exactly. Only the queries, keys and scores are rounded, and the attention weights are one-hot nevertheless.

The code of a token is 8 numbers, each +1 or -1, in 8 columns of the residual stream. Four other columns hold the constant 2^40.
Their squares add up to 4 * 2^80, and all other squares are too small to change this sum. The root mean square over 64 columns is
therefore 2^38, and RMSNorm is a multiplication by a power of two.

1. The heads of layer 1 copy the codes of earlier tokens, each from one distance (`DISTANCES`). Their queries and keys
   are constant. Each of five RoPE pairs contributes up to 256 to a score. The score at the right distance exceeds that at any other
   distance up to 512 by more than 120, so the softmax is one-hot in float32 and bfloat16. The copied entries are added up, which
   gives 8 sums y and 8 sums z. Each of these sums has nine terms of +1 or -1, so it is odd.
2. The feed-forward part of layer 1 computes products max(n, 0) c. Each n is y, -y, z or -z, and each c is an entry of the code.
   The product is silu(128 n) c / 128, because silu(128 n) is 128 n for n > 0 and 0 otherwise. R is the difference of two such
   products, an integer from -18 to 18.
3. The heads of layer 2 copy the R of seven earlier tokens, each with its own sign. T is one entry of a code, with a sign, plus
   twice the sum of these seven numbers. T is odd and at most 253 in magnitude, so it is never 0. If T is 1 or -1, a change by one
   unit towards 0 changes the result.
4. The feed-forward part of layer 2 computes the sign of T as max(T + 1, 0) - max(T - 1, 0) - 1. The output head
   selects the token whose code has these 8 signs. The logit of a token is 8 minus twice the number of signs in which
   its code differs.

All sums are sums of integers. Some of them also contain two large terms, from weights of 512 and -512 on two of the constant
columns. In float32, the two terms cancel in any order of summation. If an engine sums in bfloat16, the small numbers that are added
between the two terms are lost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from byheart.golden.case import N_NEW, Case, text_of
from byheart.golden.reference import ReferenceEngine
from byheart.golden.shape import BOS, EMBEDDING, FINAL_NORM, HEAD, N_SPECIAL, Shape
from byheart.process.progress import Progress, report

PINS = (0, 20, 41, 63)
PIN = 2.0**40
CODE, Y, Z, R, T, SIGN = (slice(a, a + 8) for a in (1, 9, 22, 30, 42, 50))
DISTANCES = ((1, 2, 3, 5, 8, 13, 21, 4), (0, 1, 2, 4, 7, 11, 16, 6))
N_PAIRS, QUERY, KEY = 5, 64.0, 16.0
CANCEL = 512.0
EXACT_MARGIN = 1e6
"""The margin of every case (its gap divided by the error bound). It is large because rounding does not change the logits."""


def draw_exact_weights(shape: Shape) -> dict[str, Tensor]:
    """Return the tensors of the checkpoint, in bfloat16."""
    assert (shape.hidden, shape.n_heads, shape.head_dim, shape.n_layers) == (64, 8, 16, 2), (
        "an exact checkpoint needs width 64, 8 heads of 16 entries, and 2 layers"
    )
    rng = np.random.default_rng(shape.seed)
    weights = {name: torch.zeros(size, dtype=torch.float64) for name, size in _sizes(shape).items()}
    norm = torch.full((shape.hidden,), 2.0**38, dtype=torch.float64)
    norm[list(PINS)] = 0.25  # after the norm, a constant column is 2^40 / 2^38 / 4 = 1
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] = norm.clone()
    codes = torch.tensor(
        [[1.0 - 2 * ((token >> bit) & 1) for bit in range(8)] for token in range(shape.vocab)]
    )
    weights[f"{EMBEDDING}.weight"][:, list(PINS)] = PIN
    weights[f"{EMBEDDING}.weight"][:, CODE] = codes.double()
    weights[f"{HEAD}.weight"][:, SIGN] = codes.double()
    for layer in range(2):
        _write_attention(shape, weights, layer, rng)
    _write_products(weights, rng)
    _write_signs(weights)
    _drop_unread_norms(weights)
    return {name: value.to(torch.bfloat16) for name, value in weights.items()}


def _sizes(shape: Shape) -> dict[str, tuple[int, ...]]:
    layers: dict[str, tuple[int, ...]] = {
        f"model.layers.{layer}.{name}.weight": size
        for layer in range(2)
        for name, size in shape.linears().items()
    }
    norms = [
        f"model.layers.{at}.{name}"
        for at in range(2)
        for name in ("input_layernorm", "post_attention_layernorm")
    ]
    whole = (shape.vocab, shape.hidden)
    return (
        layers
        | {f"{name}.weight": (shape.hidden,) for name in (*norms, FINAL_NORM)}
        | {f"{EMBEDDING}.weight": whole, f"{HEAD}.weight": whole}
    )


def _columns(part: slice) -> list[int]:
    return list(range(part.start, part.stop))


def _write_attention(shape: Shape, weights: dict[str, Tensor], layer: int, rng: np.random.Generator) -> None:
    """Write heads whose attention is one-hot.

    Each entry of a head's value vector copies at most one column of the residual stream, with a random sign. The column depends on
    the key-value head. The entry also reads two constant columns, with the weights 512 and -512, which cancel.
    """
    at, size, half = f"model.layers.{layer}.self_attn", shape.head_dim, shape.head_dim // 2
    angles = shape.frequencies()[:N_PAIRS]
    for head, distance in enumerate(DISTANCES[layer]):
        # the query is rotated back, so that it matches the key `distance` tokens before
        rows = weights[f"{at}.q_proj.weight"][head * size : (head + 1) * size]
        rows[:N_PAIRS, PINS[0]] = QUERY * torch.cos(angles * -distance)
        rows[half : half + N_PAIRS, PINS[0]] = QUERY * torch.sin(angles * -distance)
    source = _columns(CODE if layer == 0 else R)
    for group in range(shape.n_kv_heads):
        first = group * size
        weights[f"{at}.k_proj.weight"][first : first + N_PAIRS, PINS[0]] = KEY
        for place in range(size):
            row = weights[f"{at}.v_proj.weight"][first + place]
            is_code = layer == 1 and place >= 8
            if is_code and group:  # only the first head of layer 2 reads a code
                continue
            row[(_columns(CODE) if is_code else source)[(3 * place + 5 * group + place // 8) % 8]] = (
                rng.choice((-1.0, 1.0))
            )
            row[PINS[1]], row[PINS[3]] = CANCEL, -CANCEL
    out = weights[f"{at}.o_proj.weight"]
    signs = torch.from_numpy(rng.choice((-1.0, 1.0), (2, 8, 9)))
    for bit in range(8):
        for head in range(8):
            value = head * size + (bit + head) % 8
            if layer == 0:
                out[Y.start + bit, value] = signs[0, bit, head]
                out[Z.start + bit, value + 8] = signs[1, bit, head]
            elif head:
                out[T.start + bit, value] = 2 * signs[0, bit, head]
        extra = (bit + 3) % 8  # the ninth term, which makes every sum odd and so never 0
        if layer == 0:
            out[Y.start + bit, extra + 8] = signs[0, bit, 8]
            out[Z.start + bit, size + extra] = signs[1, bit, 8]
        else:
            out[T.start + bit, 8 + extra] = signs[0, bit, 8]


def _unit(
    weights: dict[str, Tensor], layer: int, unit: int, gate: dict[int, float], up: dict[int, float]
) -> None:
    at = f"model.layers.{layer}.mlp"
    for name, entries in (("gate_proj", gate), ("up_proj", up)):
        row = weights[f"{at}.{name}.weight"][unit]
        for column, value in entries.items():
            row[column] = value
    weights[f"{at}.up_proj.weight"][unit, PINS[1]] = CANCEL
    weights[f"{at}.up_proj.weight"][unit, PINS[3]] = -CANCEL


def _write_products(weights: dict[str, Tensor], rng: np.random.Generator) -> None:
    down = weights["model.layers.0.mlp.down_proj.weight"]
    for bit in range(8):
        for unit, part, sign, shift in ((bit, Y, 1.0, 1), (8 + bit, Z, -1.0, 5)):
            side = float(rng.choice((-128.0, 128.0)))
            _unit(weights, 0, unit, {part.start + bit: side}, {CODE.start + (bit + shift) % 8: 1.0})
            down[R.start + bit, unit] = sign / 128


def _write_signs(weights: dict[str, Tensor]) -> None:
    down = weights["model.layers.1.mlp.down_proj.weight"]
    for bit in range(8):
        for unit, shift, sign in ((bit, 128.0, 1.0), (8 + bit, -128.0, -1.0)):
            _unit(weights, 1, unit, {T.start + bit: 128.0, PINS[2]: shift}, {PINS[0]: 1.0})
            down[SIGN.start + bit, unit] = sign / 128
        down[SIGN.start + bit, 16] = -1 / 128
    _unit(weights, 1, 16, {PINS[2]: 128.0}, {PINS[0]: 1.0})


def _drop_unread_norms(weights: dict[str, Tensor]) -> None:
    """Set a norm weight to zero if no matrix reads its column, because it then affects no answer."""
    readers = {FINAL_NORM: [HEAD]}
    for layer in range(2):
        at = f"model.layers.{layer}"
        readers[f"{at}.input_layernorm"] = [f"{at}.self_attn.{name}_proj" for name in "qkv"]
        readers[f"{at}.post_attention_layernorm"] = [f"{at}.mlp.{name}_proj" for name in ("gate", "up")]
    for norm, names in readers.items():
        is_read = sum(weights[f"{name}.weight"].abs().sum(0) for name in names) > 0
        weights[f"{norm}.weight"] *= is_read


LENGTHS = (40, 41, 43, 46, 50, 64, 90)
"""The lengths of the prompts, in tokens. Each is at least the sum of the largest distances of the two layers (see `DISTANCES`)
plus 2, so no head that affects the answer would have to read before the beginning of the prompt.
"""

N_DRAWN, N_KEPT = 400, 12
"""How many prompts of each length are drawn, and how many of them are chosen. A chosen prompt is dropped if its answer holds a
special token.
"""


def find_exact_cases(
    shape: Shape,
    weights: dict[str, Tensor],
    n_drawn: int = N_DRAWN,
    n_kept: int = N_KEPT,
    progress: Progress | None = None,
) -> list[Case]:
    """Find random prompts with their answers and the exact logits of the first token of each answer.

    The sign of each sum T (see the docstring of the module) is one bit of an answer. If T is 1 or -1, even a small change of any
    of its terms changes the logits, so T tests the entries of token codes from which it is computed. A prompt covers an entry if
    the logit of the right token rises or falls with this entry. Rising and falling count separately.

    For each length, random prompts are drawn, and some of them are chosen one after the other. The next prompt is always the one
    that covers the most that no chosen prompt covers yet.
    """
    rng = np.random.default_rng([shape.seed, 79])
    engine = ReferenceEngine(shape, weights)
    found: list[Case] = []
    covered: set[int] = set()
    for number, length in enumerate(LENGTHS, start=1):
        prompts = torch.from_numpy(rng.integers(N_SPECIAL, shape.vocab, (n_drawn, length)))
        prompts[:, 0] = BOS
        parts = _deciding_codes(engine, prompts)
        for _ in range(n_kept):
            best = max(range(n_drawn), key=lambda row: len(parts[row] - covered))
            case = _exact_case(engine, prompts[best].tolist())
            covered |= parts[best]
            parts[best] = set()
            if case is not None:
                found.append(replace(case, name=f"{shape.name}/exact-{len(found):02}"))
        report(progress, number, len(LENGTHS))
    return found


def _deciding_codes(engine: ReferenceEngine, prompts: Tensor) -> list[set[int]]:
    """For each prompt, return the entries of token codes on which the logit of the right token depends.

    Entry and sign are combined into one number. The sign says whether the logit rises or falls as the entry increases.
    """
    held: list[Tensor] = []
    table = engine.weight(f"{EMBEDDING}.weight")

    def embed(ids: Tensor) -> Tensor:
        held[:] = [table[ids].requires_grad_()]
        return held[0]

    probe = ReferenceEngine(engine.shape, engine.weights)
    probe.embed = embed  # type: ignore[method-assign] # remembers what was read, for its gradient
    valid = torch.ones_like(prompts, dtype=torch.bool)
    logits = probe.forward(prompts, valid, probe.empty_cache(len(prompts)), n_last=1)[:, 0]
    (slope,) = torch.autograd.grad(logits.max(1).values.sum(), held)
    found: list[set[int]] = []
    for row, tokens in zip(slope[:, :, CODE], prompts, strict=True):
        places = 16 * tokens[:, None] + 2 * torch.arange(8) + (row > 0)
        found.append(set(places[row.abs() > 1e-3].tolist()))
    return found


@torch.no_grad()
def _exact_case(engine: ReferenceEngine, prompt: list[int]) -> Case | None:
    """Return the prompt as a case, or None if its answer contains a special token."""
    (answer,) = engine.generate([prompt], N_NEW)
    if min(answer) < N_SPECIAL:
        return None
    ids = torch.tensor([prompt])
    logits = engine.forward(ids, torch.ones_like(ids, dtype=torch.bool), engine.empty_cache(1), n_last=1)
    row = [float(value) for value in logits[0, 0]]
    vocab = engine.shape.vocab
    margins = dict.fromkeys(("float32", "float16", "bfloat16"), EXACT_MARGIN)
    texts = text_of(vocab, prompt), text_of(vocab, answer)
    exact = tuple(int(value) for value in row)
    assert [float(value) for value in exact] == row, "a logit is not an integer"
    return Case(
        "", engine.shape.name, tuple(prompt), tuple(answer), *texts, gap=2.0, margins=margins, logits=exact
    )
