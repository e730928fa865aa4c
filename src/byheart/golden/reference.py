"""The reference engine: the forward pass of Llama, Mistral, Qwen2 and Qwen3 in float64, with a cache, padding and batches.

Every step is a method. Faults of engines (see `faults`) are implemented by replacing some of the methods or weights, and the
rounding of number types (see `rounding`) by replacing methods. Float64 has 29 more bits than float32. Its own error of about 1e-14
is negligible compared with the lead of a right token (its logit minus the next largest), which is at least about 1e-6. Besides the
standard library, this module imports only torch and `shape`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from byheart.golden.shape import EMBEDDING, EOS, FINAL_NORM, HEAD, Shape


@dataclass(frozen=True)
class Way:
    """A way of running an engine. Except with beam search, the answer must not depend on the way.

    `batch` prompts are run together, padded to the same length. If `batch` is 0, all prompts of equal length are run together,
    without padding. With `chunk`, a prompt is processed in pieces of this many tokens. The first `reused` tokens of the prompt are
    already in the cache, from an earlier request. If `drafted` is above 0, this many tokens at a time are guessed and then checked
    together. If `beams` is above 1, the answer is the likeliest one that a search with this many beams finds.
    """

    name: str
    batch: int = 1
    padding: str = "left"
    has_cache: bool = True
    chunk: int | None = None
    reused: int = 0
    drafted: int = 0
    beams: int = 1


N_BEAMS = 3
BEAM_SEARCH = "beam search"
PLAIN = Way("one by one", batch=0)
WAYS = (
    PLAIN,
    Way("no cache", batch=0, has_cache=False),
    Way("left padding", batch=8),
    Way("right padding", batch=8, padding="right"),
    Way("chunked prefill", chunk=5),
    Way("prefix reuse", reused=7),
    Way("speculative", drafted=3),
    Way(BEAM_SEARCH, beams=N_BEAMS),
)


@dataclass
class Cache:
    """The keys and values of each layer, `(batch, kv heads, slots, head_dim)`, with one slot for each token. `positions` and
    `valid` tell, for each slot, its position and whether it holds a token rather than padding.
    """

    keys: list[Tensor]
    values: list[Tensor]
    positions: Tensor
    valid: Tensor

    @property
    def n_slots(self) -> int:
        return self.positions.shape[1]

    def crop(self, n_slots: int) -> None:
        """Drop all slots except the first `n_slots`."""
        self.keys = [each[:, :, :n_slots] for each in self.keys]
        self.values = [each[:, :, :n_slots] for each in self.values]
        self.positions, self.valid = self.positions[:, :n_slots], self.valid[:, :n_slots]

    def pick_rows(self, rows: Tensor) -> None:
        """Keep only the given rows of the batch, in the given order."""
        self.keys = [each[rows] for each in self.keys]
        self.values = [each[rows] for each in self.values]
        self.positions, self.valid = self.positions[rows], self.valid[rows]

    def repeat(self, n: int) -> Cache:
        """Repeat each row of the batch `n` times."""
        keys = [each.repeat_interleave(n, 0) for each in self.keys]
        values = [each.repeat_interleave(n, 0) for each in self.values]
        return Cache(keys, values, self.positions.repeat_interleave(n, 0), self.valid.repeat_interleave(n, 0))


class ReferenceEngine:
    """Runs one checkpoint in float64."""

    def __init__(self, shape: Shape, weights: dict[str, Tensor]) -> None:
        self.shape = shape
        self.weights = {name: value.to(torch.float64) for name, value in weights.items()}
        self.is_decoding = False

    # ---- the steps of a forward pass, in their order

    def weight(self, name: str) -> Tensor:
        return self.weights[name]

    def embed(self, ids: Tensor) -> Tensor:
        return self.weight(f"{EMBEDDING}.weight")[ids]

    def linear(self, x: Tensor, name: str) -> Tensor:
        y = x @ self.weight(f"{name}.weight").T
        return y + self.weight(f"{name}.bias") if f"{name}.bias" in self.weights else y

    def epsilon(self, name: str) -> float:
        return self.shape.norm_eps

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon(name))
        return x * scale * self.weight(f"{name}.weight")

    def frequencies(self) -> Tensor:
        return self.shape.frequencies()

    def angles(self, positions: Tensor) -> Tensor:
        """Return the rotary angles, with shape `(batch, 1, tokens, pairs)`."""
        return positions[:, None, :, None].to(torch.float64) * self.frequencies()

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def split_heads(self, x: Tensor, n_heads: int) -> Tensor:
        return x.view(*x.shape[:-1], n_heads, self.shape.head_dim).transpose(1, 2)

    def queries(self, x: Tensor, angles: Tensor, at: str) -> Tensor:
        heads = self.split_heads(self.linear(x, f"{at}.q_proj"), self.shape.n_heads)
        if self.shape.has_qk_norm:
            heads = self.norm(heads, f"{at}.q_norm")
        return self.rotate(heads, angles)

    def keys(self, x: Tensor, angles: Tensor, at: str) -> Tensor:
        heads = self.split_heads(self.linear(x, f"{at}.k_proj"), self.shape.n_kv_heads)
        if self.shape.has_qk_norm:
            heads = self.norm(heads, f"{at}.k_norm")
        return self.rotate(heads, angles)

    def values(self, x: Tensor, at: str) -> Tensor:
        return self.split_heads(self.linear(x, f"{at}.v_proj"), self.shape.n_kv_heads)

    def store(self, old: Tensor, new: Tensor, layer: int, kind: str) -> Tensor:
        """Return the cache of one layer with new keys or values appended."""
        return torch.cat([old, new], 2)

    def kv_heads(self) -> list[int]:
        """Return the key-value head of each query head."""
        return [head // self.shape.group for head in range(self.shape.n_heads)]

    def visible(self, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        """Return which slots of the cache each query may attend to, `(batch, 1, queries, slots)`.

        `queries` and `keys` are positions. `valid` is False for padding, which no query attends to.
        """
        distance = queries[:, :, None] - keys[:, None, :]
        seen = (distance >= 0) & valid[:, None, :]
        if self.shape.window is not None:
            seen = seen & (distance < self.shape.window)
        return seen[:, None]

    def scale(self, layer: int) -> float:
        return 1.0 / math.sqrt(self.shape.head_dim)

    def scores(self, queries: Tensor, keys: Tensor, layer: int) -> Tensor:
        return queries @ keys.transpose(-1, -2) * self.scale(layer)

    def softmax(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -1e300).softmax(-1)

    def mix(self, shares: Tensor, values: Tensor) -> Tensor:
        return shares @ values

    def attention(self, queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor, layer: int) -> Tensor:
        """Return the concatenated outputs of all heads."""
        heads = torch.tensor(self.kv_heads())
        shares = self.softmax(self.scores(queries, keys[:, heads], layer), visible)
        return self.mix(shares, values[:, heads]).transpose(1, 2).flatten(-2)

    def activation(self, x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)

    def gate(self, x: Tensor, up: Tensor) -> Tensor:
        return self.activation(x) * up

    def feed_forward(self, x: Tensor, at: str) -> Tensor:
        gated = self.gate(self.linear(x, f"{at}.gate_proj"), self.linear(x, f"{at}.up_proj"))
        return self.linear(gated, f"{at}.down_proj")

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        return x + change

    def layer(
        self, x: Tensor, angles: Tensor, positions: Tensor, cache: Cache, layer: int, n_last: int
    ) -> Tensor:
        """Run one layer. All tokens are added to the cache; only the outputs of the last `n_last` tokens are returned."""
        at = f"model.layers.{layer}"
        normed = self.norm(x, f"{at}.input_layernorm")
        keys, values = self.keys(normed, angles, f"{at}.self_attn"), self.values(normed, f"{at}.self_attn")
        cache.keys[layer] = self.store(cache.keys[layer], keys, layer, "keys")
        cache.values[layer] = self.store(cache.values[layer], values, layer, "values")
        x = x[:, -n_last:]
        queries = self.queries(normed[:, -n_last:], angles[:, :, -n_last:], f"{at}.self_attn")
        visible = self.visible(positions[:, -n_last:], cache.positions, cache.valid)
        mixed = self.attention(queries, cache.keys[layer], cache.values[layer], visible, layer)
        x = self.add(x, self.linear(mixed, f"{at}.self_attn.o_proj"))
        normed = self.norm(x, f"{at}.post_attention_layernorm")
        return self.add(x, self.feed_forward(normed, f"{at}.mlp"))

    def head(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x, FINAL_NORM), EMBEDDING if self.shape.is_tied else HEAD)

    # ---- generation

    def empty_cache(self, n_rows: int) -> Cache:
        shape = self.shape
        none = torch.zeros(n_rows, shape.n_kv_heads, 0, shape.head_dim, dtype=torch.float64)
        slots = torch.zeros(n_rows, 0, dtype=torch.long)
        return Cache([none] * shape.n_layers, [none] * shape.n_layers, slots, slots.bool())

    def positions(self, valid: Tensor, cache: Cache) -> Tensor:
        """Return the position of each new token, which is the number of tokens before it, not counting padding."""
        before = cache.valid.sum(1, keepdim=True)
        return before + (valid.long().cumsum(1) - 1).clamp(min=0)

    def forward(self, ids: Tensor, valid: Tensor, cache: Cache, n_last: int | None = None) -> Tensor:
        """Return the logits `(batch, tokens, vocabulary)` of new tokens, and add their keys and values to the cache.

        With `n_last`, only the logits of the last `n_last` tokens are computed.
        """
        positions = self.positions(valid, cache)
        cache.positions = torch.cat([cache.positions, positions], 1)
        cache.valid = torch.cat([cache.valid, valid], 1)
        angles = self.angles(positions)
        x = self.embed(ids)
        for layer in range(self.shape.n_layers):
            is_last = layer == self.shape.n_layers - 1
            n_kept = n_last if n_last is not None and is_last else x.shape[1]
            x = self.layer(x, angles, positions, cache, layer, n_kept)
        return self.head(x)

    def pick(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)

    def accept(self, drafted: Tensor, picked: Tensor) -> int:
        """Return how many drafted tokens, counted from the first, agree with those that the model picks."""
        agrees = (drafted == picked[: len(drafted)]).long()
        return int(agrees.cumprod(0).sum())

    def pad(self, prompts: Sequence[Sequence[int]], side: str) -> tuple[Tensor, Tensor]:
        longest = max(map(len, prompts))
        rows = [[EOS] * (longest - len(p)) for p in prompts]
        is_left = side == "left"
        ids = [[*r, *p] if is_left else [*p, *r] for p, r in zip(prompts, rows, strict=True)]
        valid = [
            [*[False] * len(r), *[True] * len(p)] if is_left else [*[True] * len(p), *[False] * len(r)]
            for p, r in zip(prompts, rows, strict=True)
        ]
        return torch.tensor(ids), torch.tensor(valid)

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], n_new: int, way: Way = PLAIN) -> list[list[int]]:
        """Return the continuation of each prompt: the greedy one or, if `way.beams` is above 1, the one that beam search finds."""
        answers: dict[int, list[int]] = {}
        for rows in self.blocks(prompts, way):
            block = [prompts[row] for row in rows]
            if way.drafted:
                made = [self.speculate(block[0], n_new, way)]
            elif way.beams > 1:
                made = [self.search_beams(block[0], n_new, way.beams)[0]]
            else:
                made = self.generate_block(block, n_new, way)
            answers |= dict(zip(rows, made, strict=True))
        return [answers[row] for row in range(len(prompts))]

    def blocks(self, prompts: Sequence[Sequence[int]], way: Way) -> Iterator[list[int]]:
        if way.batch:
            for first in range(0, len(prompts), way.batch):
                yield list(range(first, min(first + way.batch, len(prompts))))
            return
        by_length: dict[int, list[int]] = {}
        for row, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(row)
        yield from by_length.values()

    def generate_block(self, prompts: Sequence[Sequence[int]], n_new: int, way: Way) -> list[list[int]]:
        ids, valid = self.pad(prompts, way.padding)
        cache, first = self.prefill(prompts, ids, way)
        new: list[Tensor] = []
        for step in range(n_new):
            if step == 0 or not way.has_cache:
                self.is_decoding = False
                if not way.has_cache:
                    cache, first = self.empty_cache(len(prompts)), 0
                # with padding on the right, the last token of each row is at a different place
                n_last = None if way.padding == "right" else 1
                for a, b in self.pieces(first, ids.shape[1], way):
                    logits = self.forward(ids[:, a:b], valid[:, a:b], cache, n_last)
                last = valid.long().cumsum(1).argmax(1) if n_last is None else torch.full((len(ids),), -1)
                picked = self.pick(logits[torch.arange(len(ids)), last])
            else:
                self.is_decoding = True
                logits = self.forward(new[-1][:, None], torch.ones(len(prompts), 1, dtype=torch.bool), cache)
                picked = self.pick(logits[:, -1])
            new.append(picked)
            ids = torch.cat([ids, picked[:, None]], 1)
            valid = torch.cat([valid, torch.ones(len(prompts), 1, dtype=torch.bool)], 1)
        self.is_decoding = False
        return torch.stack(new, 1).tolist()

    def pieces(self, first: int, end: int, way: Way) -> list[tuple[int, int]]:
        size = way.chunk or end
        return [(a, min(a + size, end)) for a in range(first, end, size)]

    def prefill(self, prompts: Sequence[Sequence[int]], ids: Tensor, way: Way) -> tuple[Cache, int]:
        """Return the cache that an earlier request left, and the number of tokens in it. This number is `way.reused`, or less for
        short prompts. The tokens in the cache are those at the beginning of each prompt.
        """
        cache = self.empty_cache(len(prompts))
        n_reused = min(way.reused, ids.shape[1] - 1)
        if n_reused <= 0:
            return cache, 0
        other = torch.cat([ids[:, :n_reused], (ids[:, n_reused:] + 7) % self.shape.vocab], 1)
        self.forward(other, torch.ones_like(other, dtype=torch.bool), cache)
        cache.crop(n_reused)
        return cache, n_reused

    def draft(self, ids: Sequence[int], n: int) -> list[int]:
        """Return `n` guessed tokens: those that followed the previous occurrence of the last token. If there are fewer than `n`, or
        no previous occurrence, the rest are arbitrary tokens.
        """
        for at in range(len(ids) - 2, -1, -1):
            if ids[at] == ids[-1]:
                found = list(ids[at + 1 : at + 1 + n])
                return (found + [2] * n)[:n]
        return [2] * n

    def speculate(self, prompt: Sequence[int], n_new: int, way: Way) -> list[int]:
        """Decode greedily, but guess several tokens at a time and keep the guesses that the model confirms (speculative
        decoding). Whenever the text has an odd number of tokens, the first guess is set to the token that the model will pick, so
        that some guesses are right.
        """
        ids, cache = list(prompt), self.empty_cache(1)
        while len(ids) < len(prompt) + n_new:
            guesses = self.draft(ids, way.drafted)
            if len(ids) % 2:  # imitates a draft model that is sometimes right
                peek = Cache(list(cache.keys), list(cache.values), cache.positions, cache.valid)
                known = self.forward_ids(ids[cache.n_slots :], peek)
                guesses = [int(known[-1]), *guesses[1:]]
            picked = self.forward_ids([*ids[cache.n_slots :], *guesses], cache)[-len(guesses) - 1 :]
            n_accepted = self.accept(torch.tensor(guesses), picked)
            ids += [*guesses[:n_accepted], int(picked[n_accepted])]
            cache.crop(self.kept_slots(len(ids) - 1))
        return ids[len(prompt) : len(prompt) + n_new]

    def search_beams(self, prompt: Sequence[int], n_new: int, n_beams: int) -> tuple[list[int], float]:
        """Return the likeliest answer that beam search finds, and the smallest lead of its decisions.

        In each step, the lead is that of the worst kept beam over the best dropped beam. At the end, it is that of the best beam
        over the second best.
        """
        ids = torch.tensor([list(prompt)])
        cache, scores = self.empty_cache(1), torch.zeros(1, dtype=torch.float64)
        texts, gap = ids, float("inf")
        for step in range(n_new):
            new = texts if step == 0 else texts[:, -1:]
            self.is_decoding = step > 0
            logits = self.forward(new, torch.ones_like(new, dtype=torch.bool), cache, n_last=1)[:, 0]
            totals = scores[:, None] + self.log_likelihoods(logits)
            best = totals.flatten().topk(n_beams + 1)
            gap = min(gap, float(best.values[n_beams - 1] - best.values[n_beams]))
            rows, tokens = best.indices[:n_beams] // logits.shape[1], best.indices[:n_beams] % logits.shape[1]
            scores = best.values[:n_beams]
            self.follow_beams(cache, rows)
            texts = torch.cat([texts[rows], tokens[:, None]], 1)
        self.is_decoding = False
        gap = min(gap, float(scores[0] - scores[1]))
        return texts[0, len(prompt) :].tolist(), gap

    def log_likelihoods(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(-1)

    def follow_beams(self, cache: Cache, rows: Tensor) -> None:
        """Reorder the rows of the cache: beam i continues the earlier beam `rows[i]`."""
        cache.pick_rows(rows)

    def kept_slots(self, n_sure: int) -> int:
        """Return how many slots of the cache to keep after guessed tokens were rejected. The first `n_sure` slots hold tokens that
        the model confirmed.
        """
        return n_sure

    def forward_ids(self, ids: Sequence[int], cache: Cache) -> Tensor:
        tokens = torch.tensor([list(ids)])
        return self.pick(self.forward(tokens, torch.ones_like(tokens, dtype=torch.bool), cache)[0])
