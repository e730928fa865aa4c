"""Other ways to put facts into a checkpoint, written from the papers' descriptions: no code of theirs is used.

    fine-tuning   AdamW on every weight, loss on the answer's tokens
    LoRA          Hu et al. 2021: low-rank changes of every projection of every layer, merged afterwards
    MEMIT         Meng et al. 2023: optimised states at the subject's last token, spread over five down-projections by least
                  squares against the second moments of ordinary text
    AlphaEdit     Fang et al. 2024: the same in sequential batches, updates projected onto the null space of those moments
    GRACE         Hartvigsen et al. 2023: a codebook beside one layer; a state within a radius of a key is replaced by its value

What differs from the papers: states are optimised without the "essence" term, in turn on the bare prompt and after two openings
of other text; the keys of these contexts may each be a row of the least squares instead of their mean (`averaged`); GRACE's radii
are set once, to at most half the distance to the nearest other key. Gradients pass through bfloat16 on a GPU; weights, solutions
and everything that is judged are float32. Settings are chosen on facts of another seed (`graft_editing.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CHUNK = 1000
Prefixes = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Example:
    """A prompt with its answer as tokens; `subject` is the place of the subject's last token."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    subject: int

    def after(self, prefix: tuple[int, ...]) -> Example:
        return Example((*prefix, *self.prompt), self.answer, self.subject + len(prefix))


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


def layers_after(model: Any, layer: int) -> Any:
    """The network from the states after `layer` to those before the head: the same weights, fewer layers."""
    rest = copy.copy(model.model)
    rest._modules = dict(model.model._modules)
    rest.layers = nn.ModuleList(list(model.model.layers)[layer + 1 :])
    return rest


def optimised_changes(
    model: Any,
    layer: int,
    examples: Sequence[Example],
    places: Sequence[int],
    rate: float,
    steps: int,
    prefixes: Prefixes = (),
    clamp: float = 4.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """States after `layer` at `places` of the bare prompts, and what must be added for the model to say the answers.

    Each step looks at one context: the bare prompt, or the prompt after one of `prefixes`.
    """
    device, rest = str(model.device), layers_after(model, layer)
    states, changes = [], []
    for start in range(0, len(examples), CHUNK):
        batch = examples[start : start + CHUNK]
        rows = torch.arange(len(batch), device=device)
        at = torch.tensor(places[start : start + CHUNK], device=device)
        contexts = []
        for prefix in ((), *prefixes):
            tokens, labels = padded([each.after(prefix) for each in batch], device)
            contexts.append((outputs(model, layer, tokens), labels, at + len(prefix)))
        bare = contexts[0][0][rows, at]
        limit = clamp * bare.norm(dim=1, keepdim=True)
        delta = torch.zeros_like(bare, requires_grad=True)
        optimiser = torch.optim.Adam([delta], lr=rate)
        for step in range(steps):
            given, labels, where = contexts[step % len(contexts)]
            moved = given.clone()
            moved[rows, where] = given[rows, where] + delta
            with gradients_in_bfloat16(device):
                said = rest(inputs_embeds=moved, use_cache=False).last_hidden_state
                loss = loss_at_answers(model, said, labels) * len(batch)
            optimiser.zero_grad(set_to_none=True)
            loss.backward(inputs=[delta])
            optimiser.step()
            with torch.no_grad():
                delta.mul_((limit / delta.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0))
        states.append(bare)
        changes.append(delta.detach())
    return torch.cat(states), torch.cat(changes)


@torch.no_grad()
def outputs(model: Any, layer: int, tokens: torch.Tensor) -> torch.Tensor:
    """States after a layer."""
    held: list[torch.Tensor] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        held.append(output[0] if isinstance(output, tuple) else output)

    handle = model.model.layers[layer].register_forward_hook(keep)
    model.model(tokens, use_cache=False)
    handle.remove()
    return held[0]


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
        model.model(padded(batch, device)[0])
        handle.remove()
        at = torch.tensor(places[start : start + CHUNK], device=device)
        found.append(held[0][torch.arange(len(batch), device=device), at])
    return torch.cat(found)


@torch.no_grad()
def second_moments(model: Any, texts: torch.Tensor, layers: Sequence[int]) -> dict[int, torch.Tensor]:
    """E[k·kᵀ] of the inputs of each of these layers' down-projections over ordinary text."""
    moments: dict[int, torch.Tensor] = {}
    handles = []
    for layer in layers:

        def add(_: nn.Module, given: Any, __: Any, layer: int = layer) -> None:
            flat = given[0].flatten(0, 1).double()
            moments[layer] = moments.get(layer, 0) + flat.T @ flat / texts.numel()

        handles.append(model.model.layers[layer].mlp.down_proj.register_forward_hook(add))
    for batch in texts.split(16):
        model.model(batch)
    for handle in handles:
        handle.remove()
    return moments


@dataclass(frozen=True)
class Subjects:
    """Where facts are read and written: the subjects' last tokens, bare and after other text.

    `averaged` takes the mean of the contexts' keys, as the papers do; else each context is a row of its own.
    """

    examples: Sequence[Example]
    prefixes: Prefixes
    averaged: bool

    def seen(self, model: Any, module: nn.Module, inputs: bool) -> torch.Tensor:
        """One row per context and example, the bare prompts first."""
        found = []
        for prefix in ((), *self.prefixes):
            moved = [each.after(prefix) for each in self.examples]
            found.append(seen_at(model, module, moved, [each.subject for each in moved], inputs))
        return torch.stack(found).double()

    def keys(self, model: Any, layer: int) -> torch.Tensor:
        found = self.seen(model, model.model.layers[layer].mlp.down_proj, True)
        return found.mean(0) if self.averaged else found.flatten(0, 1)

    def missing(self, model: Any, layer: int, wanted: torch.Tensor) -> torch.Tensor:
        """What the states after `layer` still lack."""
        rest = wanted - self.seen(model, model.model.layers[layer], False)
        return rest[0] if self.averaged else rest.flatten(0, 1)


def wanted_states(
    model: Any, subjects: Subjects, layer: int, rate: float, steps: int, known: dict[Any, torch.Tensor] | None
) -> torch.Tensor:
    """The states after `layer` that say the answers, of every context; of an unchanged host `known` remembers the last ones."""
    examples = subjects.examples
    name = (layer, rate, steps, tuple(examples))
    if known is not None and name in known:
        return known[name]
    places = [each.subject for each in examples]
    _, change = optimised_changes(model, layer, examples, places, rate, steps, subjects.prefixes)
    wanted = subjects.seen(model, model.model.layers[layer], False) + change.double()
    if known is not None:
        known.clear()
        known[name] = wanted
    return wanted


def memit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, torch.Tensor],
    prefixes: Prefixes,
    known: dict[Any, torch.Tensor],
    layers: Sequence[int],
    averaged: bool,
    weight: float,
    rate: float,
    steps: int,
) -> Any:
    """`weight` is that of ordinary text against the facts."""
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    subjects = Subjects(examples, prefixes, averaged)
    wanted = wanted_states(model, subjects, layers[-1], rate, steps, known)
    for number, layer in enumerate(layers):
        keys = subjects.keys(model, layer)
        rest = subjects.missing(model, layers[-1], wanted) / (len(layers) - number)
        solved = torch.linalg.solve(weight * moments[layer] + keys.T @ keys, keys.T @ rest)
        with torch.no_grad():
            model.model.layers[layer].mlp.down_proj.weight += solved.T.float()
    return model.eval()


def alpha_edit(
    host: Any,
    examples: Sequence[Example],
    moments: dict[int, torch.Tensor],
    prefixes: Prefixes,
    known: dict[Any, torch.Tensor],
    layers: Sequence[int],
    averaged: bool,
    share: float,
    ridge: float,
    rate: float,
    steps: int,
) -> Any:
    """`share` of the directions of each key space, those that ordinary text uses least, may change."""
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    projectors, before = {}, {}
    for layer in layers:
        vectors = torch.linalg.eigh(moments[layer]).eigenvectors
        free = vectors[:, : int(share * vectors.shape[1])]
        projectors[layer], before[layer] = free @ free.T, torch.zeros_like(moments[layer])
    size = max(100, len(examples) // 10)
    for start in range(0, len(examples), size):
        subjects = Subjects(examples[start : start + size], prefixes, averaged)
        wanted = wanted_states(model, subjects, layers[-1], rate, steps, None if start else known)
        for number, layer in enumerate(layers):
            keys, project = subjects.keys(model, layer), projectors[layer]
            rest = subjects.missing(model, layers[-1], wanted) / (len(layers) - number)
            unit = torch.eye(len(project), device=project.device, dtype=project.dtype)
            system = project @ (before[layer] + keys.T @ keys) + ridge * unit
            with torch.no_grad():
                update = torch.linalg.solve(system, project @ (keys.T @ rest))
                model.model.layers[layer].mlp.down_proj.weight += update.T.float()
            before[layer] += keys.T @ keys
    return model.eval()


def grace(host: Any, examples: Sequence[Example], layer: int, radius: float, rate: float, steps: int) -> Any:
    """A host with a codebook beside one layer: in the buffers `grace_keys` and `grace_values`, read by a hook."""
    model = copy.deepcopy(host)
    model.requires_grad_(False)
    places = [len(each.prompt) - 1 for each in examples]
    keys, change = optimised_changes(model, layer, examples, places, rate, steps)
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
