"""Other ways to put facts into a checkpoint, written from the papers' descriptions: no code of theirs is used.

    fine-tuning   AdamW on every weight, loss on the answer's tokens
    LoRA          Hu et al. 2021: low-rank changes of every projection of every layer, merged afterwards
    GRACE         Hartvigsen et al. 2023: a codebook beside one layer; a state within a radius of a key is replaced by its value

MEMIT and AlphaEdit are in `graft_locate_and_edit.py`. GRACE's radii are set once, to at most half the distance to the nearest other
key. Gradients pass through bfloat16 on a GPU; weights and everything that is judged are float32. Settings are chosen on facts of
another seed (`graft_editing.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from graft_locate_and_edit import Contexts, Example, Optimisation, optimised_states
from torch import nn


def gradients_in_bfloat16(device: str) -> AbstractContextManager[Any]:
    """Where gradients are computed on a GPU; a CPU computes them in float32."""
    return torch.autocast("cuda", torch.bfloat16) if device.startswith("cuda") else nullcontext()


def padded(examples: Sequence[Example], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, padded on the right where no causal model looks, and labels (-100 where nothing is to be predicted)."""
    longest = max(len(each.prompt) + len(each.answer) for each in examples)
    tokens = torch.zeros(len(examples), longest, dtype=torch.long)
    labels = torch.full_like(tokens, -100)
    for row, each in enumerate(examples):
        n = len(each.prompt) + len(each.answer)
        tokens[row, :n] = torch.tensor([*each.prompt, *each.answer])
        labels[row, len(each.prompt) : n] = torch.tensor(each.answer)
    return tokens.to(device), labels.to(device)


def answer_loss(model: Any, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean over examples of the negative log-probability of the whole answer."""
    return loss_at_answers(model, model.model(tokens, use_cache=False).last_hidden_state, labels)


def loss_at_answers(model: Any, states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The same from the states before the head; logits are computed where a label is alone."""
    wanted = labels[:, 1:]
    asked = wanted != -100
    logits = model.lm_head(states[:, :-1][asked]).float()
    return nn.functional.cross_entropy(logits, wanted[asked], reduction="sum") / len(labels)


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
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0, fused=device.startswith("cuda"))
    generator = torch.Generator().manual_seed(seed)
    tokens, labels = padded(examples, device)
    size = max(8, min(512, len(examples) // 8))
    epochs = max(epochs, 200 // -(-len(examples) // size))
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - epoch / epochs)
        order, total = torch.randperm(len(examples), generator=generator).to(device), 0.0
        for batch in order.split(size):
            with gradients_in_bfloat16(device):
                loss = answer_loss(model, tokens[batch], labels[batch])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(batch)
        if float(total) / len(order) < 0.01:
            return


def fine_tuned(host: Any, examples: Sequence[Example], seed: int, rate: float, epochs: int) -> Any:
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


def lora(host: Any, examples: Sequence[Example], seed: int, rate: float, epochs: int, rank: int) -> Any:
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


def grace(host: Any, examples: Sequence[Example], layer: int, radius: float, rate: float, steps: int) -> Any:
    """A host with a codebook beside one layer: in the buffers `grace_keys` and `grace_values`, read by a hook."""
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    places = [len(each.prompt) - 1 for each in examples]
    how = Optimisation(rate, steps, clamp=4.0)
    keys, change = optimised_states(model, layer, examples, places, how, Contexts((), ()))
    nearest = torch.full((len(keys),), float("inf"), device=keys.device)
    for start in range(0, len(keys), 2000):
        apart = torch.cdist(keys[start : start + 2000], keys)
        apart[torch.arange(len(apart)), torch.arange(start, start + len(apart))] = float("inf")
        nearest[start : start + 2000] = apart.min(1).values
    radii = torch.minimum(nearest / 2, torch.full_like(nearest, radius))
    model.register_buffer("grace_keys", keys, persistent=False)
    model.register_buffer("grace_values", keys + change, persistent=False)

    def replace(_: nn.Module, __: Any, output: Any) -> Any:
        state = output[0] if isinstance(output, tuple) else output
        flat = state.reshape(-1, state.shape[-1])
        moved = flat.clone()
        for start in range(0, len(flat), 4096):
            near, which = torch.cdist(flat[start : start + 4096], model.grace_keys).min(1)
            fires = near < radii[which]
            moved[start : start + 4096][fires] = model.grace_values[which[fires]]
        moved = moved.reshape(state.shape)
        return (moved, *output[1:]) if isinstance(output, tuple) else moved

    model.model.layers[layer].register_forward_hook(replace)
    return model.eval()
