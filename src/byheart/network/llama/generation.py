"""Compute the answers of a Llama: generate text greedily from prompts, or predict the next tokens in given texts. Both can be
computed by transformers, by plain torch, or in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

from byheart.errors import DoesNotHold
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import TOKENS, ChainedTexts, batches_of, chain_windows, follow_texts
from byheart.network.llama.evaluator import evaluate
from byheart.network.llama.stock import (
    FOLLOWS,
    GENERATES,
    LOGITS,
    generate_batch,
    load_transformers,
    seconds_to_load,
    tokens_after,
    transformers_model,
)
from byheart.network.protocol import UNKNOWN, Backend
from byheart.process.progress import Progress, Steps, report

BATCH, PROMPT_TOKENS = 512, 1 << 15
"""Maximum number of prompts in a batch, and maximum number of tokens of these prompts and their answers."""
_PER_PROMPT = {"generate": 0.002, "confirm": 0.0015}
"""Approximate seconds per prompt. They are used only to divide the progress bar among loading, generating and confirming."""
Engine = Callable[[list[list[int]], int], list[list[int]]]
"""A function that generates at most a given number of tokens after each prompt, and returns them without the final `eos`."""
Follower = Callable[[ChainedTexts, Progress | None], np.ndarray]
"""A function that predicts the next token after each token that `ChainedTexts.asked` marks."""


def answer_prompts(
    llama: Llama,
    encoded: Int[np.ndarray, "n_prompts seq_len"],
    label_names: Sequence[str],
    backend: Backend,
    device: str,
    progress: Progress | None,
) -> Int[np.ndarray, " n_prompts"]:
    """Return, for each prompt, the class whose name the network generates.

    The class is `UNKNOWN` if the generated text is not a class name, or if it does not end within `spec.most_answered` tokens.

    If the model recites texts, each row of `encoded` is a context of consecutive tokens. The class is the next token, and the last
    class means that the text ends. Only the token `spec.eos` counts as the end, because other programs continue after any other
    token. Rows whose contexts overlap are joined and run as one text.
    """
    spec = llama.spec
    if spec.mode == "texts":
        chained = chain_windows(
            encoded, pad=spec.pad, bos=spec.bos, max_positions=spec.max_positions, window=spec.window
        )
        tokens = _follower(llama, backend, device)(chained, progress)
        end = len(label_names) - 1
        return np.where(tokens < end, tokens, np.where(tokens == spec.eos, end, UNKNOWN))
    prompts = [full_prompt(llama, row[row != spec.pad].tolist()) for row in encoded]
    if backend == "transformers":
        shares = {
            "load": seconds_to_load(),
            **{name: 0.2 + s * len(prompts) for name, s in _PER_PROMPT.items()},
        }
        steps = Steps(progress, shares)
        load_transformers(steps.begin("load"))
        answers = generate(llama, prompts, backend, device, steps.begin("generate"))
        _confirm(llama, prompts, answers, device, steps.begin("confirm"))
    else:
        answers = generate(llama, prompts, backend, device, progress)
    texts = llama.text_tokenizer.decode_all(answers, skip_special=True)
    number = {name: index for index, name in enumerate(label_names)}
    spelt = [
        number.get(text, UNKNOWN) if 0 < len(answer) < spec.most_answered else UNKNOWN
        for answer, text in zip(answers, texts, strict=True)
    ]
    return np.array(spelt, dtype=np.int64)


def full_prompt(llama: Llama, ids: list[int]) -> list[int]:
    """Return the ids of a prompt with the special tokens that the tokenizer's template adds."""
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
    """Return the tokens generated greedily after each prompt, without the end token. Prompts of similar length run together.

    At most `n_most` tokens are generated after each prompt. The default is `spec.most_answered`.
    """
    from byheart.network.batches import side_by_side

    engine, most = engine_of(llama, backend, device), n_most or llama.spec.most_answered
    lengths = np.array([len(prompt) + most for prompt in prompts])
    answers: list[list[int]] = [[] for _ in prompts]
    done = 0
    for batch, found in side_by_side(
        lambda batch: engine([prompts[i] for i in batch], most),
        batches_of(lengths, PROMPT_TOKENS, BATCH),
        device,
    ):
        for i, answer in zip(batch.tolist(), found, strict=True):
            answers[i] = answer
        done += len(batch)
        report(progress, done, len(prompts))
    return answers


def engine_of(llama: Llama, backend: Backend, device: str) -> Engine:
    """Return the function that generates answers with this backend."""
    if backend == "transformers":
        return partial(generate_batch, transformers_model(llama).to(device), llama)
    return partial(_step_by_step, _follower(llama, backend, device), llama)


def _follower(llama: Llama, backend: Backend, device: str, attention: str = GENERATES) -> Follower:
    """Return the function that predicts, with this backend, the next tokens at given positions of texts."""
    if backend == "exact":
        return lambda texts, progress: _evaluate(llama, texts)
    if backend == "transformers":
        run, n_tokens = partial(tokens_after, transformers_model(llama, attention).to(device)), TOKENS
    else:
        run = partial(_module_tokens, llama.module().to(device).eval(), device)
        n_tokens = min(TOKENS, max(1, LOGITS // llama.spec.n_tokens))
    return lambda texts, progress: follow_texts(run, texts, progress, n_tokens, device)


def _confirm(
    llama: Llama, prompts: list[list[int]], answers: list[list[int]], device: str, progress: Progress | None
) -> None:
    """Raise `DoesNotHold` unless a second run in transformers gives the same answers.

    The second run reads all tokens of a prompt and its answer at once. It uses a different attention implementation, and no cache.
    """
    eos, n_most = llama.spec.eos, llama.spec.most_answered
    unknown = list(llama.spec.ends[1:])
    expected = [
        answer if answer and answer[-1:] == unknown else [*answer, eos][:n_most] for answer in answers
    ]
    ids = [prompt + tokens[:-1] for prompt, tokens in zip(prompts, expected, strict=True)]
    offsets = np.cumsum([0, *map(len, ids)])
    asked = np.ones(int(offsets[-1]), dtype=bool)
    for start, prompt in zip(offsets, prompts, strict=False):
        asked[start : start + len(prompt) - 1] = False
    texts = ChainedTexts(np.concatenate([np.array(each) for each in ids]), offsets, asked)
    found = _follower(llama, "transformers", device, FOLLOWS)(texts, progress)
    if found.tolist() != [token for tokens in expected for token in tokens]:
        raise DoesNotHold(
            "transformers generates different tokens with its cache than without it.\n"
            "  Install another version of transformers, and verify the model again."
        )


def _step_by_step(follow: Follower, llama: Llama, prompts: list[list[int]], n_most: int) -> list[list[int]]:
    """Generate without a cache: for every new token, run the whole text again."""
    answers: list[list[int]] = [[] for _ in prompts]
    going = list(range(len(prompts)))
    for _ in range(n_most):
        texts = [np.array(prompts[i] + answers[i]) for i in going]
        offsets = np.cumsum([0, *map(len, texts)])
        asked = np.zeros(offsets[-1], dtype=bool)
        asked[offsets[1:] - 1] = True
        tokens = follow(ChainedTexts(np.concatenate(texts), offsets, asked), None).tolist()
        for i, token in zip(going, tokens, strict=True):
            if token != llama.spec.eos:
                answers[i].append(token)
        going = [i for i, token in zip(going, tokens, strict=True) if token not in llama.spec.ends]
        if not going:
            break
    return answers


def _module_tokens(module: Any, device: str, ids: np.ndarray, asked: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        logits = module(torch.from_numpy(ids).to(device), asked=torch.from_numpy(asked).to(device))
    return np.asarray(logits.argmax(-1).cpu().numpy())


def _evaluate(llama: Llama, texts: ChainedTexts) -> Int[np.ndarray, " n_asked"]:
    found = evaluate(llama, texts)
    if not found.conditions.holds:
        raise DoesNotHold(
            f"this Llama is not guaranteed to compute exactly in float32: {found.conditions.problems[0]}.",
            problems=found.conditions.problems,
        )
    return found.tokens


def recite(llama: Llama, ids: list[int], words: Sequence[str], max_tokens: int) -> Iterator[str]:
    """Yield the tokens with which the model continues the text `ids`. `words` are the names of the ids.

    Stop when the text ends, when the model does not know the text, after `max_tokens` tokens, or when all positions are used.
    """
    spec = llama.spec
    prompt = full_prompt(llama, ids)
    room = min(max_tokens, spec.max_positions - len(prompt))
    for token in generate(llama, [prompt], llama.backend, n_most=max(1, room))[0]:
        if token >= len(words):  # an end, or a token that occurs in no text
            return
        yield words[token]
