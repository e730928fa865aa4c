"""MEMIT and AlphaEdit, written from the papers' descriptions: no code of theirs is used.

    MEMIT         Meng et al. 2023: for each fact a state at the subject's last token is optimised so that the host says the answer;
                  it is spread over several layers' down-projections by least squares against the second moments of ordinary text
    AlphaEdit     Fang et al. 2024: the same in sequential batches, updates projected onto the null space of those moments

As in the papers: the change of a state begins at zero, is optimised by Adam on the bare prompt and on the prompt after openings of
other text at once, is kept within `clamp` times the state's length, and pays for the divergence after "... is a" (`essence`); keys
are averaged over these contexts; layers share what is left evenly. What differs: the openings are of reviews, not the host's own;
the papers' small weight decay and early stop are left out; AlphaEdit's null space is a share of the directions, not a
threshold, and its batches are a tenth of the facts, at least 100.

What makes it fast: tokens before the subject's last one never change while a state is optimised, so their keys and values are
computed once, and all facts of a batch are optimised together. On a GPU the matrix products of the optimisation are TF32; keys and
states are float32, solutions (by Cholesky) float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

TOKENS_AT_ONCE = 24_000
Tokens = tuple[int, ...]
KeysValues = tuple[torch.Tensor, torch.Tensor]
Solver = Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Example:
    """A prompt with its answer as tokens; the subject is the prompt's tokens from `start` to `subject`."""

    prompt: Tokens
    answer: Tokens
    start: int
    subject: int


@dataclass(frozen=True)
class Optimisation:
    """How the states that say the answers are found."""

    rate: float
    steps: int
    clamp: float
    essence: float = 0.0


class Contexts(NamedTuple):
    """What surrounds the facts: openings of other text, and the tokens of " is a"."""

    openings: Sequence[Tokens]
    essence: Tokens


class Rows(NamedTuple):
    """Tokens of many texts with one column in common: those before it are padded on the left, those after it on the right."""

    tokens: torch.Tensor
    positions: torch.Tensor
    real: torch.Tensor  # False where there is padding on the left
    column: int


def aligned(texts: Sequence[tuple[Tokens, Tokens]], device: str) -> Rows:
    """The second half of each text begins in the common column."""
    column = max(len(before) for before, _ in texts)
    width = column + max(len(after) for _, after in texts)
    tokens, first = (
        torch.zeros(len(texts), width, dtype=torch.long),
        torch.zeros(len(texts), 1, dtype=torch.long),
    )
    for row, (before, after) in enumerate(texts):
        first[row] = column - len(before)
        tokens[row, column - len(before) : column + len(after)] = torch.tensor([*before, *after])
    places = torch.arange(width)
    return Rows(
        tokens.to(device), (places - first).clamp(min=0).to(device), (places >= first).to(device), column
    )


class LayerState(NamedTuple):
    """What one layer computes: keys and values, inputs of the down-projection, and states after it."""

    layer: int
    keys_values: KeysValues
    inner: torch.Tensor
    states: torch.Tensor


def forward(
    model: Any, layers: range, states: torch.Tensor, rows: Rows, start: int, past: Sequence[KeysValues] = ()
) -> Iterator[LayerState]:
    """Layers of a Llama over the columns from `start` on; `past` holds the same layers over the columns before."""
    shape, stop = model.config, start + states.shape[1]
    places = torch.arange(stop, device=states.device)
    seen = rows.real[:, None, :stop] & (places[None, :] <= places[start:, None])
    mask = (seen | (places[None, :] == places[start:, None]))[:, None]
    rotary = model.model.rotary_emb(states, rows.positions[:, start:stop])
    group = shape.num_attention_heads // shape.num_key_value_heads
    for number, layer in enumerate(layers):
        block = model.model.layers[layer]
        normed, attention = block.input_layernorm(states), block.self_attn
        queries, keys, values = (
            part(normed).unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        queries, keys = apply_rotary_pos_emb(queries, keys, *rotary)
        own = keys, values
        if past:
            keys, values = (torch.cat(pair, 2) for pair in zip(past[number], own, strict=True))
        mixed = nn.functional.scaled_dot_product_attention(
            queries, keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1), attn_mask=mask
        )
        states = states + attention.o_proj(mixed.transpose(1, 2).flatten(2))
        normed, mlp = block.post_attention_layernorm(states), block.mlp
        inner = mlp.act_fn(mlp.gate_proj(normed)) * mlp.up_proj(normed)
        states = states + mlp.down_proj(inner)
        yield LayerState(layer, own, inner, states)


@contextmanager
def tensor_float32() -> Iterator[None]:
    """Let a GPU multiply matrices with 10 bits of the mantissa."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def optimised_states(
    model: Any,
    layer: int,
    examples: Sequence[Example],
    places: Sequence[int],
    how: Optimisation,
    contexts: Contexts,
) -> tuple[torch.Tensor, torch.Tensor]:
    """States after `layer` at `places` of the bare prompts, and what must be added there for the model to say the answers."""
    moving = max(
        len(each.prompt) - place + len(each.answer) for each, place in zip(examples, places, strict=True)
    )
    size = max(1, TOKENS_AT_ONCE // (moving * (2 + len(contexts.openings))))
    found = []
    with tensor_float32():
        for start in range(0, len(examples), size):
            part = slice(start, start + size)
            found.append(_optimised(model, layer, examples[part], places[part], how, contexts))
    return torch.cat([bare for bare, _ in found]), torch.cat([change for _, change in found])


def _optimised(
    model: Any,
    layer: int,
    examples: Sequence[Example],
    places: Sequence[int],
    how: Optimisation,
    contexts: Contexts,
) -> tuple[torch.Tensor, torch.Tensor]:
    device, n, network = str(model.device), len(examples), model.model
    texts = [
        ((*opening, *each.prompt[:place]), (*each.prompt[place:], *each.answer[:-1]))
        for opening in ((), *contexts.openings)
        for each, place in zip(examples, places, strict=True)
    ]
    n_saying = len(texts)
    if how.essence:
        texts += [
            (each.prompt[each.start : each.subject], (each.prompt[each.subject], *contexts.essence))
            for each in examples
        ]
    rows = aligned(texts, device)
    asked = [
        (row, len(after) - len(example.answer) + i, token, 1 / (len(example.answer) * (n_saying // n)))
        for row, (_, after) in enumerate(texts[:n_saying])
        for example in [examples[row % n]]
        for i, token in enumerate(example.answer)
    ]
    at_row, at_place, wanted, weights = (
        torch.tensor(each, device=device) for each in zip(*asked, strict=True)
    )
    below, above = range(layer + 1), range(layer + 1, len(network.layers))
    with torch.no_grad():
        *_, last = forward(model, below, network.embed_tokens(rows.tokens), rows, 0)
        given = last.states[:, rows.column :]
        past = [step.keys_values for step in forward(model, above, last.states[:, : rows.column], rows, 0)]
    bare = given[:n, 0].clone()
    limit = how.clamp * bare.norm(dim=1, keepdim=True)
    delta = torch.zeros_like(bare, requires_grad=True)
    optimiser = torch.optim.Adam([delta], lr=how.rate)
    before: torch.Tensor | None = None
    for _ in range(how.steps):
        moved = given.clone()
        moved[:, 0] += delta.repeat(len(texts) // n, 1)
        *_, last = forward(model, above, moved, rows, rows.column, past)
        said = network.norm(last.states)
        logits = model.lm_head(said[at_row, at_place])
        loss = (nn.functional.cross_entropy(logits, wanted, reduction="none") * weights).sum()
        if how.essence:
            after = model.lm_head(said[n_saying:, len(contexts.essence)]).log_softmax(-1)
            before = after.detach() if before is None else before
            loss = loss + how.essence * (before.exp() * (before - after)).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward(inputs=[delta])
        optimiser.step()
        with torch.no_grad():
            delta.mul_((limit / delta.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0))
    return bare, delta.detach()


class Moments(NamedTuple):
    """E[k·kᵀ] of the inputs of a down-projection over ordinary text, and its eigenvectors, least used directions first."""

    matrix: torch.Tensor
    vectors: torch.Tensor


@torch.no_grad()
def second_moments(model: Any, texts: torch.Tensor, layers: Sequence[int]) -> dict[int, Moments]:
    """Those of these layers."""
    moments: dict[int, torch.Tensor] = {}
    for batch in texts.split(16):
        rows = aligned([((), tuple(text)) for text in batch.tolist()], str(model.device))
        for step in forward(model, range(max(layers) + 1), model.model.embed_tokens(rows.tokens), rows, 0):
            if step.layer in layers:
                flat = step.inner.flatten(0, 1).double()
                moments[step.layer] = moments.get(step.layer, 0) + flat.T @ flat / texts.numel()
    return {
        layer: Moments(matrix, torch.linalg.eigh(matrix).eigenvectors) for layer, matrix in moments.items()
    }


@torch.no_grad()
def edit(
    model: Any,
    examples: Sequence[Example],
    layers: Sequence[int],
    how: Optimisation,
    contexts: Contexts,
    known: dict[Any, torch.Tensor] | None,
    solve: Solver,
) -> None:
    """Change these layers' down-projections so that the subjects' states become the optimised ones, one layer after the other.

    `solve` gives the change of a layer from the sums of key·keyᵀ and of key·missingᵀ. `known` keeps states of an unchanged host.
    """
    name = (layers[-1], how, tuple(examples))
    if known is None or name not in known:
        with torch.enable_grad():
            bare, change = optimised_states(
                model, layers[-1], examples, [each.subject for each in examples], how, contexts
            )
        if known is not None:
            known[name] = bare + change
        wanted = bare + change
    else:
        wanted = known[name]
    parts = []  # rows of some examples in all contexts, with their states before the layer that is next
    n_contexts = 1 + len(contexts.openings)
    size = max(1, TOKENS_AT_ONCE // (n_contexts * 24))
    for start in range(0, len(examples), size):
        few = examples[start : start + size]
        texts = [
            ((*opening, *each.prompt[: each.subject]), (each.prompt[each.subject],))
            for opening in ((), *contexts.openings)
            for each in few
        ]
        rows = aligned(texts, str(model.device))
        embedded = model.model.embed_tokens(rows.tokens)
        parts.append([rows, _last(forward(model, range(layers[0]), embedded, rows, 0), embedded)])
    for number, layer in enumerate(layers):
        keys, states = [], []
        for rows, before in parts:
            steps = forward(model, range(layer, layers[-1] + 1), before, rows, 0)
            here = next(steps)
            inner = here.inner[:, -1].unflatten(0, (n_contexts, -1))
            keys.append(inner[0] if n_contexts == 1 else (inner[0] + inner[1:].mean(0)) / 2)
            states.append(_last(steps, here.states)[: inner.shape[1], -1])
        key, missing = torch.cat(keys).double(), (wanted - torch.cat(states)).double()
        solved = solve(layer, key.T @ key, key.T @ missing / (len(layers) - number))
        model.model.layers[layer].mlp.down_proj.weight += solved.T.float()
        if layer != layers[-1]:
            for part in parts:
                following = layers[number + 1]
                part[1] = _last(forward(model, range(layer, following), part[1], part[0], 0), part[1])


def _last(steps: Iterator[LayerState], states: torch.Tensor) -> torch.Tensor:
    """The states after the last of these layers; `states` if there is none."""
    for step in steps:
        states = step.states
    return states


def solved(system: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_solve(right, torch.linalg.cholesky(system))


def memit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, Moments],
    contexts: Contexts,
    known: dict[Any, torch.Tensor],
    layers: Sequence[int],
    weight: float,
    **how: Any,
) -> Any:
    """`weight` is that of ordinary text against the facts."""
    model = copy.deepcopy(host).requires_grad_(False)
    edit(
        model,
        examples,
        layers,
        Optimisation(**how),
        contexts,
        known,
        lambda layer, keys, right: solved(weight * moments[layer].matrix + keys, right),
    )
    return model.eval()


def alpha_edit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, Moments],
    contexts: Contexts,
    known: dict[Any, torch.Tensor],
    layers: Sequence[int],
    share: float,
    ridge: float,
    **how: Any,
) -> Any:
    """`share` of the directions of each key space, those that ordinary text uses least, may change.

    With these directions as the columns of U, and P = UUᵀ, the paper's (P(K₀ + KKᵀ) + ridge)⁻¹·P·K·Rᵀ is
    U(Uᵀ(K₀ + KKᵀ)U + ridge)⁻¹·Uᵀ·K·Rᵀ.
    """
    model = copy.deepcopy(host).requires_grad_(False)
    before: dict[int, torch.Tensor] = {}

    def solve(layer: int, keys: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        vectors = moments[layer].vectors
        basis = vectors[:, : int(share * vectors.shape[1])]
        before[layer] = before.get(layer, 0) + keys
        system = basis.T @ before[layer] @ basis
        system.diagonal().add_(ridge)
        return basis @ solved(system, basis.T @ right)

    size = max(100, len(examples) // 10)
    for start in range(0, len(examples), size):
        few = examples[start : start + size]
        edit(model, few, layers, Optimisation(**how), contexts, None if start else known, solve)
    return model.eval()
