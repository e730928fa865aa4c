"""The engine Hugging Face transformers, run in the common ways: with and without a cache, in padded batches, and so on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from byheart.errors import UsageError, import_extra
from byheart.golden.case import Case
from byheart.golden.engines.engine import LONG_TEXT, Prompts, Session
from byheart.golden.reference import BEAM_SEARCH, N_BEAMS
from byheart.golden.shape import EOS, Shape
from byheart.network.llama.foreign_checkpoint import NO_PICKLES, opened_by_transformers
from byheart.process.devices import choose_device
from byheart.records.vocabulary import NumberType

CHUNK, REUSED, LOOKED_UP = 5, 7, 3


class TransformersEngine:
    """Standard models in float32 or bfloat16, on one device, with one of the attention implementations of transformers."""

    name = "transformers"

    def __init__(
        self,
        number_type: NumberType = "float32",
        device: str = "cpu",
        attention: str = "sdpa",
        change: Callable[[Any], None] = lambda model: None,
    ) -> None:
        """Store the settings. `change` is called on each loaded model, so that tests can insert a fault."""
        if number_type == "float16":
            raise UsageError(
                "transformers cannot be checked in float16, because the checkpoints are made for float32 "
                "and bfloat16.\n"
                "  Use number_type='float32' or 'bfloat16' (--number-type float32 or bfloat16)."
            )
        import_extra("transformers", "huggingface", "the engine transformers")
        self.number_type: NumberType = number_type
        self.device, self.attention, self.change = str(choose_device(device)), attention, change

    def open(self, shape: Shape, folder: Path) -> Session:
        transformers = import_extra("transformers", "huggingface", "the engine transformers")
        transformers.utils.logging.disable_progress_bar()
        dtype = getattr(torch, self.number_type)
        with opened_by_transformers(folder):
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation=self.attention, **NO_PICKLES
            )
        model = model.to(self.device).eval()
        model.generation_config.eos_token_id = None
        self.change(model)
        return TransformersSession(model, self.device, has_beams=self.number_type == "float32")


class TransformersSession:
    """One loaded model."""

    def __init__(self, model: Any, device: str, has_beams: bool = False) -> None:
        """Store the model. `has_beams` adds beam search, whose correct answers are known for float32 only."""
        self.model, self.device = model, device
        self._ways: dict[str, Callable[[Prompts, int], list[list[int]]]] = {
            "one by one": self._one_by_one,
            "no cache": self._no_cache,
            "left padding": lambda prompts, n: self._left(prompts, n, 8),
            "batch of 64": lambda prompts, n: self._left(prompts, n, 64),
            "right padding": self._right,
            "chunked prefill": self._chunked,
            "prefix reuse": self._prefix,
            "static cache": self._static,
            "speculative": self._speculative,
        }
        if has_beams:
            self._ways[BEAM_SEARCH] = self._beams

    def ways(self) -> Sequence[str]:
        return tuple(self._ways)

    def why_not(self, way: str, case: Case) -> str | None:
        if len(case.prompt) > LONG_TEXT and way != "one by one":
            return "long texts are run only in the way `one by one`"
        return None

    @torch.no_grad()
    def logits(self, prompts: Prompts) -> list[list[float]]:
        rows = [self.model(self._ids([prompt])).logits[0, -1] for prompt in prompts]
        return [[float(value) for value in row] for row in rows]

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        with torch.no_grad():
            return self._ways[way](prompts, n_new)

    def close(self) -> None:
        del self.model

    def _call(self, ids: Tensor, n_new: int, **options: Any) -> list[list[int]]:
        options.setdefault("attention_mask", torch.ones_like(ids))
        made = self.model.generate(
            ids, max_new_tokens=n_new, min_new_tokens=n_new, do_sample=False, pad_token_id=EOS, **options
        )
        return [[int(token) for token in row] for row in made[:, ids.shape[1] : ids.shape[1] + n_new]]

    def _ids(self, rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([list(row) for row in rows], device=self.device)

    def _one_by_one(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        return [self._call(self._ids([prompt]), n_new)[0] for prompt in prompts]

    def _no_cache(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        """Generate without the cache. Prompts of the same length run together."""
        answers: dict[int, list[int]] = {}
        for length in {len(prompt) for prompt in prompts}:
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            ids = self._ids([prompts[row] for row in rows])
            answers |= dict(zip(rows, self._call(ids, n_new, use_cache=False), strict=True))
        return [answers[row] for row in range(len(prompts))]

    def _left(self, prompts: Prompts, n_new: int, size: int) -> list[list[int]]:
        answers: list[list[int]] = []
        for first in range(0, len(prompts), size):
            block = prompts[first : first + size]
            longest = max(map(len, block))
            ids = self._ids([[EOS] * (longest - len(p)) + list(p) for p in block])
            mask = self._ids([[0] * (longest - len(p)) + [1] * len(p) for p in block])
            answers += self._call(ids, n_new, attention_mask=mask)
        return answers

    def _right(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        """Generate by running the whole text again for each token, in batches padded on the right."""
        texts = [list(prompt) for prompt in prompts]
        for _ in range(n_new):
            for first in range(0, len(texts), 16):
                block = texts[first : first + 16]
                longest = max(map(len, block))
                ids = self._ids([t + [EOS] * (longest - len(t)) for t in block])
                mask = self._ids([[1] * len(t) + [0] * (longest - len(t)) for t in block])
                hidden = self.model.model(ids, attention_mask=mask, use_cache=False).last_hidden_state
                last = hidden[torch.arange(len(block)), [len(text) - 1 for text in block]]
                for text, token in zip(block, self.model.lm_head(last).argmax(-1), strict=True):
                    text.append(int(token))
        return [text[-n_new:] for text in texts]

    def _chunked(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        return [
            self._after(prompt, n_new, list(range(CHUNK, len(prompt), CHUNK)), None) for prompt in prompts
        ]

    def _prefix(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        """Run each prompt with a cache that another prompt filled.

        Both prompts begin with the same tokens. The cache is cropped to these tokens, and only the rest of the prompt is run.
        """
        return [self._after(prompt, n_new, [], min(REUSED, len(prompt) - 1)) for prompt in prompts]

    def _after(self, prompt: Sequence[int], n_new: int, cuts: list[int], n_reused: int | None) -> list[int]:
        from transformers import DynamicCache

        # without a configuration, every layer keeps all tokens, and windows are masked instead of cropped
        cache = DynamicCache()
        first = 0
        if n_reused is not None:
            other = [
                *prompt[:n_reused],
                *[(token + 7) % self.model.config.vocab_size for token in prompt[n_reused:]],
            ]
            self.model(self._ids([other]), past_key_values=cache, use_cache=True)
            cache.crop(n_reused - len(prompt))  # a negative number removes this many tokens from the end
            first = n_reused
        pieces = [first, *cuts, len(prompt)]
        answer: list[int] = []
        feed: list[Sequence[int]] = [prompt[a:b] for a, b in itertools.pairwise(pieces)]
        while len(answer) < n_new:
            for piece in feed:
                logits = self.model(self._ids([piece]), past_key_values=cache, use_cache=True).logits
            answer.append(int(logits[0, -1].argmax()))
            feed = [[answer[-1]]]
        return answer

    def _static(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        longest = max(map(len, prompts))
        ids = self._ids([[EOS] * (longest - len(p)) + list(p) for p in prompts])
        mask = self._ids([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        return self._call(
            ids, n_new, attention_mask=mask, cache_implementation="static", disable_compile=True
        )

    def _beams(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        return [self._call(self._ids([prompt]), n_new, num_beams=N_BEAMS)[0] for prompt in prompts]

    def _speculative(self, prompts: Prompts, n_new: int) -> list[list[int]]:
        options = {"prompt_lookup_num_tokens": LOOKED_UP, "max_matching_ngram_size": 1}
        return [self._call(self._ids([prompt]), n_new, **options)[0] for prompt in prompts]
