"""Other ways to put facts into a checkpoint, written from the papers' descriptions: no code of theirs is used.

    fine-tuning   AdamW on every weight, loss on the answer's tokens
    LoRA          Hu et al. 2021: rank 16 on every projection of every layer, merged afterwards
    MEMIT         Meng et al. 2023: optimised states at the subject's last token, spread over five down-projections by least
                  squares against the second moments of ordinary text
    AlphaEdit     Fang et al. 2024: the same in sequential batches, updates projected onto the null space of those moments
    GRACE         Hartvigsen et al. 2023: a codebook beside one layer; a state within a radius of a key is replaced by its value

What differs from the papers: states are optimised on the bare prompt (25 steps of Adam), without the "essence" term; GRACE's
radii are set once, to at most half the distance to the nearest other key. Settings are chosen on 100 facts of
another seed (`graft_editing.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

LAYERS = (6, 7, 8, 9, 10)  # of MEMIT and AlphaEdit, of 30
GRACE_LAYER = 18
CHUNK = 500


@dataclass(frozen=True)
class Example:
    """A prompt with its answer as tokens; `subject` is the place of the subject's last token."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    subject: int


def padded(examples: Sequence[Example], device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens (padded on the right), attention mask and labels (-100 where nothing is to be predicted)."""
    longest = max(len(each.prompt) + len(each.answer) for each in examples)
    tokens = torch.zeros(len(examples), longest, dtype=torch.long)
    mask, labels = torch.zeros_like(tokens), torch.full_like(tokens, -100)
    for row, each in enumerate(examples):
        n = len(each.prompt) + len(each.answer)
        tokens[row, :n] = torch.tensor([*each.prompt, *each.answer])
        mask[row, :n] = 1
        labels[row, len(each.prompt) : n] = torch.tensor(each.answer)
    return tokens.to(device), mask.to(device), labels.to(device)


def answer_loss(model: Any, examples: Sequence[Example], device: str) -> torch.Tensor:
    """Mean over examples of the negative log-probability of the whole answer."""
    tokens, mask, labels = padded(examples, device)
    logits = model(tokens, attention_mask=mask).logits[:, :-1]
    losses = nn.functional.cross_entropy(
        logits.transpose(1, 2), labels[:, 1:], reduction="none", ignore_index=-100
    )
    return losses.sum(1).mean()


def train(
    model: Any,
    parameters: list[torch.Tensor],
    examples: Sequence[Example],
    rate: float,
    epochs: int,
    seed: int,
) -> None:
    """AdamW with a linear decay; stops when the mean loss of an epoch is below 0.01."""
    device = str(parameters[0].device)
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    size = max(8, min(256, len(examples) // 8))
    epochs = max(epochs, 200 // -(-len(examples) // size))
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - epoch / epochs)
        order, total = torch.randperm(len(examples), generator=generator).tolist(), 0.0
        for start in range(0, len(order), size):
            batch = [examples[i] for i in order[start : start + size]]
            loss = answer_loss(model, batch, device)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
        if total / len(order) < 0.01:
            return


def fine_tuned(host: Any, examples: Sequence[Example], seed: int, rate: float, epochs: int = 20) -> Any:
    model = copy.deepcopy(host).train()
    train(model, list(model.parameters()), examples, rate, epochs, seed)
    return model.eval()


class LowRank(nn.Module):
    """A linear map plus a trained one of rank r."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(
            torch.randn(rank, base.in_features, device=base.weight.device) / base.in_features**0.5
        )
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2.0 * (x @ self.down.T) @ self.up.T


def lora(
    host: Any, examples: Sequence[Example], seed: int, rate: float, epochs: int = 20, rank: int = 16
) -> Any:
    torch.manual_seed(seed)
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    added = []
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    added.append((part, name, LowRank(child, rank)))
                    setattr(part, name, added[-1][2])
    train(model, [p for _, _, each in added for p in (each.down, each.up)], examples, rate, epochs, seed)
    with torch.no_grad():
        for part, name, each in added:
            each.base.weight += 2.0 * each.up @ each.down
            setattr(part, name, each.base)
    return model.eval()


@contextmanager
def hooked(module: nn.Module, change: Any) -> Iterator[None]:
    """Within the block `change` maps the output of `module`, a tensor or a tuple that begins with one."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def optimised_states(
    model: Any,
    layer: int,
    examples: Sequence[Example],
    places: Sequence[int],
    rate: float,
    clamp: float,
    steps: int = 25,
) -> tuple[torch.Tensor, torch.Tensor]:
    """States after `layer` at `places` before, and the ones that make the model say the answers."""
    device = str(model.device)
    befores, afters = [], []
    for start in range(0, len(examples), CHUNK):
        batch = examples[start : start + CHUNK]
        at = torch.tensor(places[start : start + CHUNK], device=device)
        rows = torch.arange(len(batch), device=device)
        found: list[torch.Tensor] = []
        delta = torch.zeros(len(batch), model.config.hidden_size, device=device, requires_grad=True)
        optimiser = torch.optim.Adam([delta], lr=rate)

        def change(
            state: torch.Tensor, at: Any = at, rows: Any = rows, delta: Any = delta, found: Any = found
        ) -> torch.Tensor:
            if not found:
                found.append(state[rows, at].detach())
            moved = state.clone()
            moved[rows, at] = state[rows, at] + delta
            return moved

        with hooked(model.model.layers[layer], change):
            for _ in range(steps):
                loss = answer_loss(model, batch, device) * len(batch)
                optimiser.zero_grad(set_to_none=True)
                loss.backward(inputs=[delta])
                optimiser.step()
                with torch.no_grad():
                    limit = clamp * found[0].norm(dim=1, keepdim=True)
                    delta.mul_((limit / delta.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0))
        befores.append(found[0])
        afters.append(found[0] + delta.detach())
    return torch.cat(befores), torch.cat(afters)


@torch.no_grad()
def seen_at(
    model: Any, module: nn.Module, examples: Sequence[Example], places: Sequence[int], inputs: bool
) -> torch.Tensor:
    """Inputs (or outputs) of a module at one place of each prompt."""
    device, found = str(model.device), []
    for start in range(0, len(examples), CHUNK):
        batch, held = examples[start : start + CHUNK], []

        def keep(_: nn.Module, given: Any, output: Any, held: Any = held) -> None:
            held.append(given[0] if inputs else output[0] if isinstance(output, tuple) else output)

        handle = module.register_forward_hook(keep)
        tokens, mask, _ = padded(batch, device)
        model.model(tokens, attention_mask=mask)
        handle.remove()
        at = torch.tensor(places[start : start + CHUNK], device=device)
        found.append(held[0][torch.arange(len(batch), device=device), at])
    return torch.cat(found)


@torch.no_grad()
def second_moments(model: Any, texts: torch.Tensor) -> dict[int, torch.Tensor]:
    """E[k·kᵀ] of the inputs of each edited down-projection over ordinary text."""
    moments: dict[int, torch.Tensor] = {}
    handles = []
    for layer in LAYERS:

        def add(_: nn.Module, given: Any, __: Any, layer: int = layer) -> None:
            flat = given[0].flatten(0, 1).double()
            moments[layer] = moments.get(layer, 0) + flat.T @ flat / texts.numel()

        handles.append(model.model.layers[layer].mlp.down_proj.register_forward_hook(add))
    for batch in texts.split(16):
        model.model(batch)
    for handle in handles:
        handle.remove()
    return moments


def edited_keys(
    model: Any, layer: int, examples: Sequence[Example], prefixes: Sequence[tuple[int, ...]]
) -> torch.Tensor:
    """Inputs of a down-projection at the subjects' last tokens, averaged over the bare prompt and after other text."""
    total: Any = 0
    for prefix in ((), *prefixes):
        moved = [
            Example((*prefix, *each.prompt), each.answer, each.subject + len(prefix)) for each in examples
        ]
        total = total + seen_at(
            model, model.model.layers[layer].mlp.down_proj, moved, [each.subject for each in moved], True
        )
    return (total / (1 + len(prefixes))).double()


def memit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, torch.Tensor],
    prefixes: Sequence[tuple[int, ...]],
    weight: float,
    rate: float,
) -> Any:
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    places = [each.subject for each in examples]
    _, wanted = optimised_states(model, LAYERS[-1], examples, places, rate, 4.0)
    for number, layer in enumerate(LAYERS):
        keys = edited_keys(model, layer, examples, prefixes)
        now = seen_at(model, model.model.layers[LAYERS[-1]], examples, places, False)
        rest = (wanted - now).double() / (len(LAYERS) - number)
        solved = torch.linalg.solve(weight * moments[layer] + keys.T @ keys, keys.T @ rest)
        with torch.no_grad():
            model.model.layers[layer].mlp.down_proj.weight += solved.T.float()
    return model.eval()


def alpha_edit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, torch.Tensor],
    prefixes: Sequence[tuple[int, ...]],
    share: float,
    rate: float,
    ridge: float = 10.0,
) -> Any:
    """`share` of the directions of each key space, those that ordinary text uses least, may change."""
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    projectors, before = {}, {}
    for layer in LAYERS:
        vectors = torch.linalg.eigh(moments[layer]).eigenvectors
        free = vectors[:, : int(share * vectors.shape[1])]
        projectors[layer], before[layer] = free @ free.T, torch.zeros_like(moments[layer])
    size = max(100, len(examples) // 10)
    for start in range(0, len(examples), size):
        batch = examples[start : start + size]
        places = [each.subject for each in batch]
        _, wanted = optimised_states(model, LAYERS[-1], batch, places, rate, 4.0)
        for number, layer in enumerate(LAYERS):
            keys, project = edited_keys(model, layer, batch, prefixes), projectors[layer]
            now = seen_at(model, model.model.layers[LAYERS[-1]], batch, places, False)
            rest = (wanted - now).double() / (len(LAYERS) - number)
            system = project @ (before[layer] + keys.T @ keys) + ridge * torch.eye(
                len(project), device=project.device
            )
            with torch.no_grad():
                update = torch.linalg.solve(system, project @ (keys.T @ rest))
                model.model.layers[layer].mlp.down_proj.weight += update.T.float()
            before[layer] += keys.T @ keys
    return model.eval()


class Grace:
    """A host with a codebook beside one layer; not a checkpoint."""

    def __init__(self, host: Any, examples: Sequence[Example], radius: float, rate: float) -> None:
        self.model = copy.deepcopy(host)
        self.model.requires_grad_(False)
        places = [len(each.prompt) - 1 for each in examples]
        self.keys, self.values = optimised_states(
            self.model, GRACE_LAYER, examples, places, rate, 4.0, steps=50
        )
        nearest = torch.full((len(self.keys),), float("inf"), device=self.keys.device)
        for start in range(0, len(self.keys), 2000):
            apart = torch.cdist(self.keys[start : start + 2000], self.keys)
            apart[torch.arange(len(apart)), torch.arange(start, start + len(apart))] = float("inf")
            nearest[start : start + 2000] = apart.min(1).values
        self.radius = torch.minimum(nearest / 2, torch.full_like(nearest, radius))
        self.model.model.layers[GRACE_LAYER].register_forward_hook(self._hook)

    def _hook(self, _: nn.Module, __: Any, output: Any) -> Any:
        state = output[0] if isinstance(output, tuple) else output
        flat = state.reshape(-1, state.shape[-1])
        moved = flat.clone()
        for start in range(0, len(flat), 4096):
            apart = torch.cdist(flat[start : start + 4096], self.keys)
            near, which = apart.min(1)
            fires = near < self.radius[which]
            moved[start : start + 4096][fires] = self.values[which[fires]]
        moved = moved.reshape(state.shape)
        return (moved, *output[1:]) if isinstance(output, tuple) else moved
