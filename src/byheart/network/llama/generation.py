"""Answers of a Llama: greedy text from prompts, by transformers, by plain torch, or in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

from byheart.errors import DoesNotHold, MissingExtra
from byheart.network.llama.architecture import Llama
from byheart.network.llama.evaluator import evaluate
from byheart.network.protocol import UNKNOWN, Backend, Progress

BATCH = 64
ATTENTION = "sdpa"
Engine = Callable[[list[list[int]], int], list[list[int]]]
"""(prompts, most tokens to generate) -> the tokens generated after each prompt, up to `eos`, which is left out."""


def answer_prompts(
    llama: Llama,
    encoded: Int[np.ndarray, "n_prompts seq_len"],
    label_names: Sequence[str],
    backend: Backend,
    device: str,
    progress: Progress | None,
) -> Int[np.ndarray, " n_prompts"]:
    """The class that each prompt's answer spells, `UNKNOWN` where it spells none.

    Of texts, the class is the token that follows; the last class is the end.
    """
    spec = llama.spec
    prompts = [full_prompt(llama, row[row != spec.pad].tolist()) for row in encoded]
    answers = generate(llama, prompts, backend, device, progress)
    if spec.mode == "texts":
        end = len(label_names) - 1
        return np.array([answer[0] if answer and answer[0] < end else end for answer in answers])
    decode = decoder_of(llama)
    number = {name: index for index, name in enumerate(label_names)}
    texts = ["" if not answer else decode(answer) for answer in answers]
    return np.array(
        [
            number.get(text, UNKNOWN) if answer else UNKNOWN
            for text, answer in zip(texts, answers, strict=True)
        ],
        dtype=np.int64,
    )


def full_prompt(llama: Llama, ids: list[int]) -> list[int]:
    """What the tokenizer's template makes of the ids of a prompt."""
    spec = llama.spec
    return [spec.bos, *ids, spec.sep] if spec.mode == "facts" else [spec.bos, *ids]


def generate(
    llama: Llama,
    prompts: list[list[int]],
    backend: Backend,
    device: str = "cpu",
    progress: Progress | None = None,
    n_most: int | None = None,
) -> list[list[int]]:
    """Generate greedily from each prompt, those of one length together."""
    engine = engine_of(llama, backend, device)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    answers: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        for i, answer in zip(
            batch, engine([prompts[i] for i in batch], n_most or llama.spec.answer_len), strict=True
        ):
            answers[i] = answer
        if progress is not None:
            progress(start + len(batch), len(order))
    return answers


def engine_of(llama: Llama, backend: Backend, device: str) -> Engine:
    """What runs the network."""
    if backend == "transformers":
        return partial(_by_transformers, transformers_model(llama).to(device), llama)
    if backend == "module":
        return partial(_step_by_step, partial(_torch_step, llama.module().to(device).eval(), device), llama)
    return partial(_step_by_step, partial(_exact_step, llama), llama)


def transformers_model(llama: Llama, attention: str = ATTENTION) -> Any:
    """The checkpoint as transformers would load it."""
    try:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        raise MissingExtra("transformers", "huggingface", "running a Llama in transformers") from None
    from byheart.network.llama.checkpoint import config_of

    config = LlamaConfig(**config_of(llama.spec), attn_implementation=attention)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    state = {name: torch.from_numpy(array) for name, array in llama.weights.items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = model.to_empty(device="cpu").float()
    model.load_state_dict(state)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def _by_transformers(model: Any, llama: Llama, prompts: list[list[int]], n_most: int) -> list[list[int]]:
    """`generate` in a left-padded batch with its cache; then once more without, every token of the answers at once."""
    import torch

    eos, longest, device = llama.spec.eos, max(map(len, prompts)), model.device
    ids = torch.tensor([[eos] * (longest - len(p)) + p for p in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    with torch.no_grad():
        out = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=n_most,
            do_sample=False,
            pad_token_id=eos,
            eos_token_id=eos,
        )
        answers = [_until(row, eos) for row in out[:, longest:].tolist()]
        mask = torch.cat([mask, torch.ones_like(out[:, longest:])], 1)
        again = (
            model(out, attention_mask=mask, use_cache=False).logits[:, longest - 1 : -1].argmax(-1).tolist()
        )
    for row, answer, found in zip(out[:, longest:].tolist(), answers, again, strict=True):
        seen = min(len(answer) + 1, len(row))
        if found[:seen] != row[:seen]:
            raise DoesNotHold("with and without its cache, transformers gives different tokens.")
    return answers


def _until(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos)] if eos in row else row


def _step_by_step(
    step: Callable[[list[list[int]]], list[int]], llama: Llama, prompts: list[list[int]], n_most: int
) -> list[list[int]]:
    """Generate by running the whole text again for every token."""
    answers: list[list[int]] = [[] for _ in prompts]
    going = list(range(len(prompts)))
    for _ in range(n_most):
        tokens = step([prompts[i] + answers[i] for i in going])
        for i, token in zip(going, tokens, strict=True):
            if token != llama.spec.eos:
                answers[i].append(token)
        going = [i for i, token in zip(going, tokens, strict=True) if token != llama.spec.eos]
        if not going:
            break
    return answers


def _torch_step(module: Any, device: str, texts: list[list[int]]) -> list[int]:
    import torch

    longest = max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts], device=device)
    last = torch.tensor([len(text) - 1 for text in texts], device=device)
    with torch.no_grad():
        tokens: list[int] = module(ids, last=last)[:, 0].argmax(-1).tolist()
    return tokens


def _exact_step(llama: Llama, texts: list[list[int]]) -> list[int]:
    offsets = np.cumsum([0, *map(len, texts)])
    asked = np.zeros(offsets[-1], dtype=bool)
    asked[offsets[1:] - 1] = True
    found = evaluate(llama, np.concatenate([np.array(text) for text in texts]), offsets, asked)
    if not found.conditions.holds:
        raise DoesNotHold(f"this Llama rounds: {found.conditions.problems[0]}.")
    tokens: list[int] = found.tokens.tolist()
    return tokens


def decoder_of(llama: Llama) -> Callable[[list[int]], str]:
    """From generated ids to text, as `AutoTokenizer` would."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("tokenizers", "huggingface", "reading the text of a Llama") from None
    backend = Tokenizer.from_str(llama.tokenizer_json)
    return lambda ids: str(backend.decode(ids, skip_special_tokens=True))


def recite(llama: Llama, ids: list[int], words: Sequence[str], max_tokens: int) -> Iterator[str]:
    """The tokens that follow a text, until it ends, is unknown, is `max_tokens` long or leaves the positions there are."""
    spec = llama.spec
    prompt = full_prompt(llama, ids)
    room = min(max_tokens, spec.max_positions - len(prompt))
    for token in generate(llama, [prompt], llama.backend, n_most=max(1, room))[0]:
        yield words[token]
