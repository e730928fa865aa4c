"""Run a grafted checkpoint in transformers: on every fact, alone and after other text, and on ordinary text.

On ordinary text, the logits of the graft are compared with those of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from byheart.errors import import_extra
from byheart.graft.contexts import Fact
from byheart.graft.host import EMBEDDING, HEAD, Host, tensor_shapes
from byheart.graft.texts import encode
from byheart.network.llama.foreign_checkpoint import NO_PICKLES, opened_by_transformers
from byheart.process.progress import Progress

BATCH, BLOCK = 32, 256


@dataclass(frozen=True)
class TextComparison:
    """A comparison of the logits of graft and host on ordinary text.

    positions           number of compared positions
    equal_bits          number of positions at which all logits are exactly equal
    other_argmax        number of positions at which the most likely token differs
    beyond_noise        number of positions in `other_argmax` that the host's own noise does not explain (see `compare_text`)
    largest_difference  largest difference between a logit of the graft and the same logit of the host
    host_noise          the host's own noise: the largest difference of its logits between runs with and without a cache, and
                        between runs in the graft's number type and in float32
    """

    positions: int
    equal_bits: int
    other_argmax: int
    beyond_noise: int
    largest_difference: float
    host_noise: float


@dataclass(frozen=True)
class WrongAnswer:
    """A prompt that a graft answered wrongly.

    row       the row of the data, from 0
    prompt    the prompt, without the text before it
    expected  the answer in the data, up to its end token if there is one
    said      what the graft said, cut to the number of tokens of `expected`
    before    the text before the prompt
    """

    row: int
    prompt: str
    expected: str
    said: str
    before: str


def load_network(folder: Path, device: str) -> Any:
    """Load the checkpoint with transformers, as any user would."""
    transformers = import_extra("transformers", "huggingface", "running a checkpoint")
    with opened_by_transformers(folder):
        network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", **NO_PICKLES)
    return network.to(device).eval()


def host_network(host: Host, dtype: torch.dtype, device: str) -> Any:
    """Load the host with transformers, with weights of type `dtype`."""
    transformers = import_extra("transformers", "huggingface", "running a host")
    if host.path.is_dir():
        with opened_by_transformers(host.path):
            opened = transformers.AutoModelForCausalLM.from_pretrained(host.path, dtype=dtype, **NO_PICKLES)
        return opened.to(device).eval()
    values = {key: value for key, value in host.config.items() if key not in ("model_type", "dtype")}
    config = transformers.AutoConfig.for_model(host.config["model_type"], **values)
    # `.to(dtype)` would also round the rotary frequencies
    network = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    weights = {name: host.tensor(name) for name in tensor_shapes(host.shape)}
    if host.shape.tied:
        weights[HEAD] = weights[EMBEDDING]
    network.load_state_dict(weights)
    return network.to(device).eval()


@torch.no_grad()
def wrong_answers(
    network: Any, tokenizer: Any, facts: Sequence[Fact], before: str, progress: Progress
) -> list[WrongAnswer]:
    """Return the prompts that greedy decoding answers wrongly when they follow the text `before`. They are sorted by row.

    Batches are padded on the left.
    """
    wrong, ordered = [], sorted(facts, key=lambda fact: len(fact.tokens))
    first = encode(tokenizer, before)
    for start in range(0, len(ordered), BATCH):
        progress(start, len(ordered), "ask")
        batch = ordered[start : start + BATCH]
        prompts = [[*first, *fact.tokens[: fact.n_key]] for fact in batch]
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        said = network.generate(
            ids.to(network.device),
            attention_mask=mask.to(network.device),
            max_new_tokens=max(len(fact.tokens) - fact.n_key for fact in batch),
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )[:, longest:].tolist()
        for fact, answer in zip(batch, said, strict=True):
            key, want = list(fact.tokens[: fact.n_key]), list(fact.tokens[fact.n_key :])
            if answer[: len(want)] != want:
                prompt, expected, found = map(tokenizer.decode, (key, want, answer[: len(want)]))
                wrong.append(WrongAnswer(fact.row, prompt, expected, found, before))
    return sorted(wrong, key=lambda each: each.row)


@torch.no_grad()
def compare_text(
    network: Any, host: Any, wide: Any, tokens: Sequence[int], progress: Progress
) -> TextComparison:
    """Compare the logits of a graft (`network`) and of its `host` on a text, block by block. `wide` is the host in float32.

    The text has at least two tokens. If it is longer than a block, the tokens after the last whole block are left out.
    `beyond_noise` counts positions at which graft and host have different most likely tokens. A position counts only if the host's
    largest logit exceeds its second largest by more than twice the host's own noise (see `TextComparison`).
    """
    usable = len(tokens) // BLOCK * BLOCK or len(tokens)
    blocks = torch.tensor(tokens[:usable]).view(-1, min(BLOCK, usable)).to(network.device)
    equal, largest, noise = 0, 0.0, 0.0
    leads: list[float] = []  # of the host, where the graft has another likeliest token
    for number, block in enumerate(blocks):
        progress(number, len(blocks), "compare text")
        row = block[None]
        old, new = host(row).logits[0].float(), network(row).logits[0].float()
        half = row.shape[1] // 2
        first = host(row[:, :half], use_cache=True)
        rest = host(row[:, half:], past_key_values=first.past_key_values)
        own = (torch.cat([first.logits, rest.logits], 1)[0].float() - old).abs().amax(-1)
        own = torch.maximum(own, (wide(row).logits[0].float() - old).abs().amax(-1))
        apart = (new - old).abs().amax(-1)
        best = old.topk(2).values
        differs = new.argmax(-1) != old.argmax(-1)
        noise, largest = max(noise, own.max().item()), max(largest, apart.max().item())
        equal += int((new == old).all(-1).sum())
        leads += (best[:, 0] - best[:, 1])[differs].tolist()
    beyond = sum(lead > 2 * max(noise, 1e-6) for lead in leads)
    return TextComparison(usable, equal, len(leads), beyond, largest, noise)
