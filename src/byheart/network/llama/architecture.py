"""A standard Llama: its shape, its float32 weights under the names that Hugging Face checkpoints use, and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from byheart.data.sequences import Sequences, TokenSequences
from byheart.data.tokenizers import FileTokenizer, Tokenizer
from byheart.network.arrays import expect_arrays
from byheart.network.llama.spec import LlamaSpec, weight_name
from byheart.network.protocol import Backend, Evaluation, Network
from byheart.records.refusals import corrupt

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class Llama(Network):
    """A standard Llama: every tensor in `spec.shapes()`, and the text of its tokenizer.json (empty if inputs are token ids)."""

    spec: LlamaSpec
    weights: Mapping[str, np.ndarray]
    tokenizer_json: str = ""

    why_no_logits = "a Llama answers with text; its logits are over tokens, not over labels."
    backends = ("transformers", "module", "exact")
    generates_text = True

    def __post_init__(self) -> None:
        expect_arrays(self)

    @cached_property
    def text_tokenizer(self) -> FileTokenizer:
        """The tokenizer that decodes generated ids to text. It runs in a separate process."""
        return FileTokenizer(self.tokenizer_json)

    def weight(self, layer: int, part: str) -> np.ndarray:
        return self.weights[weight_name(layer, part)]

    @property
    def seq_len(self) -> int:
        return self.spec.seq_len

    @property
    def pad(self) -> int:
        return self.spec.pad

    @property
    def backend(self) -> Backend:
        """The default evaluator: transformers if it is installed, otherwise plain torch."""
        return "transformers" if find_spec("transformers") else "module"

    @property
    def second_backend(self) -> Backend:
        """The second evaluator: exact arithmetic, which also checks that float32 rounds no sum."""
        return "exact"

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield every tensor with its name in the checkpoint."""
        for name, _ in self.spec.shapes():
            yield name, self.weights[name]

    def traits(self) -> list[str]:
        """Return the properties in which networks with the same weights may differ, as texts.

        They are the mode (`facts` or `texts`), some numbers of the configuration, such as the ids of special tokens, and the
        tokenizer's hash.
        """
        spec = self.spec
        special = [str(value) for value in (spec.bos, spec.eos, spec.sep, spec.rope_theta, spec.norm_eps)]
        return ["llama", spec.mode, *special, str(spec.max_positions), spec.tokenizer_hash]

    def module(self) -> nn.Module:
        """Return the plain torch module with the same weights."""
        from byheart.network.llama.module import LlamaModule

        return LlamaModule(self)

    def answer(self, encoded: np.ndarray, label_names: Sequence[str], how: Evaluation) -> np.ndarray:
        """Answer every prompt, and return the class numbers of the answers, (n_prompts, 1)."""
        from byheart.network.llama.generation import answer_prompts

        return answer_prompts(self, encoded, label_names, how.backend, how.device, how.progress)[:, None]

    def require_words(self, tokenizer: Tokenizer | None, labels: tuple[str, ...]) -> None:
        """Raise `CorruptModel` unless tokenizer.json is the file that byheart writes for `tokenizer`.

        If the model continues texts, the labels must be all tokens of `tokenizer`, in order, followed by an empty text.
        """
        from byheart.network.llama.vocabulary import require_vocabulary

        require_vocabulary(self.tokenizer_json, tokenizer, self.spec)
        words = () if tokenizer is None else tokenizer.vocabulary
        if self.spec.mode == "texts" and tokenizer is not None and labels != (*words, ""):
            raise corrupt(
                "model.json",
                "the model continues texts, so its labels must be the tokens of its tokenizer and, as the last one, an empty text",
            )

    def find_misread(
        self, inputs: Sequences, asked: np.ndarray, encoded: np.ndarray, tokenizer: Tokenizer | None
    ) -> list[int]:
        """Find inputs that tokenizer.json converts to wrong ids. `asked` holds the indices of the inputs to check, and `encoded`
        the right ids of each. Return the positions in `asked` of the wrong ones.
        """
        from byheart.network.llama.generation import full_prompt
        from byheart.network.llama.prompts import find_misread

        if not self.tokenizer_json or not isinstance(inputs, TokenSequences):
            return []
        assert tokenizer is not None
        return find_misread(
            self.tokenizer_json,
            tokenizer,
            inputs.take(asked),
            lambda i: full_prompt(self, encoded[i][encoded[i] != self.pad].tolist()),
            skip_fragments=self.spec.mode == "texts",
        )

    def settings(self, backend: Backend) -> Mapping[str, str]:
        """Return the attention implementations that verification with transformers uses; for other backends, an empty mapping."""
        from byheart.network.llama.stock import attention_run

        return {"attention": attention_run(self)} if backend == "transformers" else {}

    def files(self) -> Mapping[str, bytes]:
        """Return the other files of the checkpoint: configuration, tokenizer and model card."""
        from byheart.network.llama.checkpoint import checkpoint_files

        return checkpoint_files(self.spec, self.tokenizer_json)
