"""A compiled model: the network, the record of how it was made, and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from byheart.data.assemble import numbers_as_texts
from byheart.data.frames import cells_or_none, column_like, is_column, is_frame, is_missing, question_column
from byheart.data.label_types import Label, reader_of
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, as_vectors
from byheart.data.tokenizers import IdTokenizer
from byheart.errors import CorruptModel, UnknownToken, UsageError
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import UNKNOWN, Network
from byheart.network.size import Size, size_of_network
from byheart.storage.folder import save_folder
from byheart.verify.certificate import Certificate
from byheart.verify.encoded_inputs import encode_inputs

if TYPE_CHECKING:
    import torch
    from torch import nn

    from byheart.inspect.location import Locations
    from byheart.inspect.trace import Trace

Answer: TypeAlias = Label | list[Label | None] | None
"""A label in its original type, or None for "unknown". For seq-to-seq, a list with a label or None for every token."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A compiled model, as `compile` and `load` return it.

    `record` describes how it was made. `certificate` is None if nothing was verified.
    """

    memoriser: Memoriser
    record: Mapping[str, Any]
    certificate: Certificate | None

    @overload
    def predict(self, inputs: str) -> Answer: ...
    @overload
    def predict(self, inputs: Any) -> Any: ...
    def predict(self, inputs: Any) -> Any:
        """Run the network on one or many inputs. Return the label, or None for "unknown"; for many inputs, a list of these.

        Labels have the type that they were compiled with: text, int, float or bool.

        inputs: many inputs or one.
            Many: a list of texts, a list of lists of token ids, an array of token ids (n_samples, seq_len), or an array
            of vectors (n_samples, seq_len, dim). For one vector per sample, the shape may be (n_samples, dim).
            One: a text, a list of token ids, or one sample of vectors (seq_len, dim), or (dim,) if seq_len is 1.
            From a data frame, the column that the model was compiled from is used; from a Series, its cells. In both
            cases the answers are a Series with the same index.
            A model that takes texts also accepts a list or column of numbers. Each number is one input, and is converted to
            text in the same way as when numbers are compiled.

        The answer to an input that is None or that the network does not know, such as a text with an unknown token, is None.
        An array of the wrong shape raises `UsageError`, which names the right shape.
        """
        return self._asked(inputs, reader_of(self.memoriser.label_type))

    def predict_names(self, inputs: Any) -> Any:
        """Answer inputs as `predict` does, but return the names of classes, as text. The command line prints these names."""
        return self._asked(inputs, str)

    def _asked(self, inputs: Any, label_of: Callable[[str], Label]) -> Any:
        if isinstance(inputs, str):
            return self._answer([inputs], label_of)[0]
        if is_frame(inputs) or is_column(inputs):
            return self._answer_column(inputs, label_of)
        if isinstance(inputs, Iterator | KeysView | ValuesView):
            inputs = list(inputs)
        is_scalar = getattr(inputs, "ndim", 1) == 0
        if not hasattr(inputs, "__len__") or isinstance(inputs, bytes | Mapping | Set) or is_scalar:
            raise UsageError(f"predict needs a text or a list of inputs, not {inputs!r}.", inputs=inputs)
        if self._is_one_sample(inputs):
            return self._answer([inputs], label_of)[0]
        return self._answer_each(inputs, label_of)

    def _answer_column(self, given: Any, label_of: Callable[[str], Label]) -> Any:
        """Answer the inputs in `given`, a data frame or one of its columns. Return the answers as a column with the same index.

        `label_of` converts the name of a class to the label to return.
        """
        reading = self.record.get("reading") or {}
        column = question_column(given, reading.get("input")) if is_frame(given) else given
        answers = self._answer_each(cells_or_none(column), label_of)
        return column_like(column, answers, reading.get("label"))

    def _answer_each(
        self, inputs: Sequence[Any] | np.ndarray, label_of: Callable[[str], Label]
    ) -> list[Answer]:
        """Return one answer per input. The answer to a missing input is None. For texts, NaN counts as missing too."""
        missing = [one is None or (self._takes_texts and is_missing(one)) for one in inputs]
        if not any(missing):
            return self._answer(inputs, label_of)
        asked = [one for one, is_none in zip(inputs, missing, strict=True) if not is_none]
        answers = iter(self._answer(asked, label_of))
        return [None if is_none else next(answers) for is_none in missing]

    def _is_one_sample(self, inputs: Any) -> bool:
        """Return whether `inputs` is a single sequence of token ids or a single sample of vectors."""
        array = None if any(isinstance(item, str) for item in inputs) else _as_array(inputs)
        if array is None or array.dtype.kind not in "iuf" or not array.size:
            return False
        network = self.network
        if network.takes_ids:
            return array.ndim == 1 and not self._takes_texts
        return array.ndim == 1 if network.seq_len == 1 else array.shape == (network.seq_len, network.dim)

    def _answer(self, inputs: Sequence[Any] | np.ndarray, label_of: Callable[[str], Label]) -> list[Answer]:
        """Return one answer per input. The answer is None if the input cannot be encoded or if the network gives it no label.

        `label_of` converts the name of a class to the label to return.
        """
        answers: list[Answer] = [None] * len(inputs)
        positions, sequences = self._sequences(inputs)
        if not positions:
            return answers
        memoriser = self.memoriser
        asked = encode_inputs(memoriser, sequences, memoriser.tokenizer)
        if not len(asked.asked):
            return answers
        found = memoriser.answer(asked.encoded)
        for sample, classes in zip(asked.asked.tolist(), found.tolist(), strict=True):
            if memoriser.answers_last_token_only:
                answers[positions[sample]] = self._label(classes, label_of)
            else:
                n_tokens = int(sequences.lengths[sample])  # padded on the left
                answers[positions[sample]] = [self._label(number, label_of) for number in classes[-n_tokens:]]
        return answers

    def encode(self, inputs: Sequence[Any] | np.ndarray) -> torch.Tensor:
        """Convert inputs to the form that `module` takes: ids (n_samples, seq_len), padded on the left, or vectors.

        For a Llama, these are ids without special tokens, padded to the longest input; its module takes ids padded on the right.
        Raise `UsageError` if an input cannot be encoded. If inputs have unknown tokens, the message names the first of them.
        """
        import torch

        asked = [inputs] if isinstance(inputs, str) else inputs
        positions, sequences = self._sequences(asked)
        unknown = sorted(set(range(len(asked))) - set(positions))
        if unknown:
            error = self._encoding_error(asked[unknown[0]])
            token = error.facts.get("token")
            problem = str(error) if token is None else f"the model does not know the token {token!r}."
            raise UsageError(f"input {unknown[0]}: {problem}", **{**error.facts, "input": unknown[0]})
        fitted = encode_inputs(self.memoriser, sequences, self.memoriser.tokenizer)
        if fitted.refused:
            position, reason = next(iter(sorted(fitted.refused.items())))
            raise UsageError(f"input {positions[position]}: {reason}.", input=positions[position])
        return torch.from_numpy(np.array(fitted.encoded))

    def decode(self, outputs: torch.Tensor) -> list[Answer]:
        """Convert outputs of `module` to labels in their original type, one answer per sample; None means "unknown"."""
        if not hasattr(outputs, "detach"):
            raise UsageError(
                f"decode needs the outputs of `module`, a tensor, not {type(outputs).__name__}.",
                given_type=type(outputs).__name__,
            )
        array = outputs.detach().cpu().numpy()
        classes = self.network.classes_of(array, len(self.memoriser.label_names)).tolist()
        label_of = reader_of(self.memoriser.label_type)
        if self.memoriser.answers_last_token_only:
            return [self._label(row[-1], label_of) for row in classes]
        return [[self._label(number, label_of) for number in row] for row in classes]

    def locate(self, facts: str | Sequence[Any] | np.ndarray, *, among: Sequence[Any] = ()) -> Locations:
        """Find the weights that hold the answer of each fact, and the other facts that share these weights.

        facts: one text, or many inputs as for `predict`. If the model does not know one of them, `UsageError` names it.
        among: a list of further inputs. Those that share a weight with one of `facts` are named in the result. Inputs that the
            model does not know are ignored.

        The result is a sequence of `Location`; its method `frame()` returns it as a pandas DataFrame. This works for
        models of the methods `retrieval`, `llama`, `kajitsuka-sato-2025` and its variants `kajitsuka-sato-2025-...`.
        """
        from byheart.inspect.locate import locate

        asked = [facts] if isinstance(facts, str) else _listed(facts, "facts")
        inputs = {_input_name(given): given for given in asked}
        n_asked = len(inputs)
        inputs |= {
            name: given for given in _listed(among, "among") if (name := _input_name(given)) not in inputs
        }
        names = list(inputs)
        positions, sequences = self._sequences(list(inputs.values()))
        unknown = sorted(set(range(n_asked)) - set(positions))
        if unknown:
            raise UsageError(f"this model does not know {names[unknown[0]]!r}.", facts=[names[unknown[0]]])
        return locate(self.memoriser, self.record, sequences, [names[at] for at in positions], n_asked)

    def trace(self, text: str) -> Trace:
        """Trace a question through the network: return the residual stream before the first layer and after every layer.

        The compiled program has registers (named variables), each of which is stored in a part of the residual stream.
        `trace.values("x")` and `trace.state(layer)` show the registers by name. This works for two
        families of networks: `transformer`, which methods such as `retrieval` and `kajitsuka-sato-2025` compile, and `llama`.
        For `llama`, the generated answer is traced too.
        """
        from byheart.inspect.trace import trace

        return trace(self.memoriser, self.record, text)

    def _label(self, number: int, label_of: Callable[[str], Label]) -> Label | None:
        return None if number == UNKNOWN else label_of(self.memoriser.label_names[number])

    def _sequences(self, inputs: Sequence[Any] | np.ndarray) -> tuple[list[int], Sequences]:
        """Return the positions of the inputs that can be encoded as ids or vectors, and these inputs in encoded form."""
        if len(inputs) and self._takes_texts:
            inputs = numbers_as_texts(inputs)
        if len(inputs) and all(isinstance(item, str) for item in inputs):
            return self._texts(inputs)
        if any(isinstance(item, str) for item in inputs):
            raise UsageError("predict needs texts, token ids or vectors, but not a mixture of them.")
        positions = list(range(len(inputs)))
        array = _as_array(inputs)
        vectors = None if array is None else as_vectors(array)
        if array is not None and vectors is not None and not (array.ndim == 2 and self.network.takes_ids):
            if self.network.takes_ids or vectors.shape[1:] != (self.network.seq_len, self.network.dim):
                raise UsageError(
                    f"these inputs are vectors of shape {array.shape}; this model takes {self._takes}.",
                    shape=array.shape,
                )
            return positions, VectorSequences(vectors)
        rows: Iterable[Any] = inputs if array is None else array
        tokens = [np.asarray(row) for row in rows]
        if any(row.ndim != 1 or (row.size and row.dtype.kind not in "iu") for row in tokens):
            raise UsageError(
                "predict needs a list of texts, token ids (n_samples, seq_len) or vectors "
                f"(n_samples, seq_len, dim); this model takes {self._takes}.",
                takes=self._takes,
            )
        tokenizer = self.memoriser.tokenizer
        if not isinstance(tokenizer, IdTokenizer):
            return positions, TokenSequences.of([row.tolist() for row in tokens])
        numbered = {at: tokenizer.positions_of(row).tolist() for at, row in enumerate(tokens)}
        known = {at: row for at, row in numbered.items() if min(row, default=0) >= 0}
        return list(known), TokenSequences.of(list(known.values()), len(tokenizer.words))

    def _texts(self, texts: Sequence[str] | np.ndarray) -> tuple[list[int], TokenSequences]:
        tokenizer = self.memoriser.tokenizer
        if tokenizer is None:
            raise UsageError(
                f"this model has no tokenizer: it takes {self._takes}, not text.", takes=self._takes
            )
        rows: dict[int, list[int]] = {}
        for position, text in enumerate(texts):
            try:
                rows[position] = tokenizer.encode(text)
            except UnknownToken:
                continue
        return list(rows), TokenSequences.of(list(rows.values()), len(tokenizer.vocabulary))

    def _encoding_error(self, given: Any) -> UnknownToken:
        """Return the error of the tokenizer for an input with an unknown token."""
        tokenizer = self.memoriser.tokenizer
        assert tokenizer is not None
        (item,) = numbers_as_texts([given]) if self._takes_texts else [given]
        text = item if isinstance(item, str) else " ".join(map(str, np.asarray(item).tolist()))
        try:
            tokenizer.encode(text)
        except UnknownToken as error:
            return error
        raise AssertionError(f"the tokenizer knows all tokens of {text!r}")

    @property
    def _takes_texts(self) -> bool:
        tokenizer = self.memoriser.tokenizer
        return tokenizer is not None and not isinstance(tokenizer, IdTokenizer)

    @property
    def _takes(self) -> str:
        network = self.network
        if not network.takes_ids:
            shape = (network.seq_len, network.dim)
            return f"vectors of shape (n_samples, {shape[0]}, {shape[1]}), or one sample of shape {shape}"
        return (
            "texts"
            if self.memoriser.tokenizer is not None
            else f"token ids, at most {network.seq_len} for each sample"
        )

    @property
    def network(self) -> Network:
        """The network, which holds the weights."""
        return self.memoriser.network

    @property
    def precision(self) -> str:
        """The number type of the weights, such as `exact`, `float64` or `float32`."""
        return self.network.precision

    @cached_property
    def size(self) -> Size:
        """The size of the network: its parameters, depth, width and bits."""
        return size_of_network(self.network)

    @cached_property
    def module(self) -> nn.Module:
        """The network as a `torch.nn.Module` with ordinary parameters. It is made at the first access.

        It is a copy: changing it does not affect `predict`, `save` or the certificate, which use the compiled weights.
        Its parameters are frozen, because an optimiser would change them, for example by weight decay.
        `module.requires_grad_(True)` makes them trainable, but the certificate does not cover weights that were
        trained further. Raise `InexactWeights` if a weight has no exact value in floats, since rounding would
        change what the network computes.
        """
        from byheart.network.compiled_module import freeze  # imports torch

        return freeze(self.network.module())

    @property
    def label_bits(self) -> float | None:
        """Bits of information in the labels if they are arbitrary: the number of distinct contexts times log2(n_classes).

        A context is everything that the network can use to predict one label. None if this number is not recorded.
        """
        return self._recorded("label_bits")

    @property
    def label_entropy(self) -> float | None:
        """Entropy of the labels in bits, at most `label_bits`; None if it is not recorded."""
        return self._recorded("label_entropy")

    @property
    def entropy_per_parameter(self) -> float | None:
        """Bits of label entropy per parameter, including parameters that are zero.

        None if the entropy is not recorded or exceeds the number of stored bits.
        """
        return None if self.label_entropy is None else self.size.bits_per_parameter(self.label_entropy)

    @property
    def bits_per_parameter(self) -> float | None:
        """`label_bits` per parameter, including parameters that are zero. None if `bits_per_stored_bit` is None."""
        return None if self.label_bits is None else self.size.bits_per_parameter(self.label_bits)

    @property
    def bits_per_stored_bit(self) -> float | None:
        """`label_bits` per stored bit of the weights, never above 1. None if `label_bits` is not recorded.

        Also None if there are more label bits than stored bits. This is possible only if the labels follow a rule, or if some of
        them are far more frequent than others.
        """
        return None if self.label_bits is None else self.size.bits_per_stored_bit(self.label_bits)

    def _recorded(self, name: str) -> float | None:
        """Return a number about the data set from the model's record, or None if it is not recorded."""
        dataset = self.record.get("dataset")
        number = dataset.get(name) if isinstance(dataset, Mapping) else None
        if number is None or (isinstance(number, int | float) and abs(number) < 2.0**1000):
            return None if number is None else float(number)
        raise CorruptModel(
            f"the field {name} in the model's record is {str(number)[:40]!r}, which is not a valid number.",
            name=name,
        )

    def save(self, path: str | Path) -> None:
        """Write the model folder at `path` atomically. A model folder that exists there is replaced."""
        save_folder(path, self.memoriser, self.record, self.certificate)

    def __repr__(self) -> str:
        """Show the method, the size and what was verified."""
        size = self.size
        checked = "not verified"
        if self.certificate is not None:
            n_right = self.certificate.checked - self.certificate.wrong
            checked = f"{n_right:,} of {self.certificate.checked:,} samples verified"
        return (
            f"<byheart.Model {self.record.get('method', 'of unknown origin')}, {self.memoriser.task}, "
            f"{self.precision}: {size.parameters_dense:,} parameters, depth {size.depth:,}, "
            f"width {size.width:,}; {checked}>"
        )


def _listed(given: Any, name: str) -> list[Any]:
    """Return the inputs given as the argument `name` as a list. Raise `UsageError` for a text or anything else that is no list."""
    try:
        if not isinstance(given, str | bytes):
            return list(given)
    except TypeError:  # such as None or a Dataset
        pass
    raise UsageError(
        f"{name} must be a list of inputs, such as texts, not {type(given).__name__}.",
        argument=name,
        given_type=type(given).__name__,
    )


def _input_name(given: Any) -> str:
    """Return how messages show an input: a text as it is, and token ids or vectors as a list of numbers."""
    return given if isinstance(given, str) else str(np.asarray(given).tolist())


def _as_array(inputs: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """Return the inputs as one array, or None if they are ragged."""
    if isinstance(inputs, np.ndarray):
        return inputs
    try:
        return np.array(inputs)
    except ValueError:
        return None
    # for example, a tensor that requires a gradient or has no data
    except (TypeError, RuntimeError) as error:
        raise UsageError(
            f"predict cannot read this {type(inputs).__name__}: {error}",
            given_type=type(inputs).__name__,
            error=error,
        ) from None
