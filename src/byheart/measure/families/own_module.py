"""Use a user's own `torch.nn.Module` as a family.

The user gives a function that creates the module. The integer parameters of this function are the sizes of the family, except for
`n_vocab`, `n_classes`, `seq_len` and `input_dim`, which byheart sets from the data.

    def make(n_vocab: int, n_classes: int, seq_len: int, width: int, depth: int = 1) -> nn.Module: ...

The module maps token ids (batch, seq_len), or vectors (batch, seq_len, input_dim), to outputs (batch, n_classes), or
to outputs per token (batch, seq_len, n_classes). In the second case, the answer is the output at the last token of an input, or at
the first token if the data say so. For the squared loss, `n_classes` is 1.

Parameters whose `requires_grad` is False keep their initial values and are not counted.

Such a module cannot be stacked, so each model trains alone. The key of a run contains the name of the function and a digest of the
file that defines it. If the file changes, runs are therefore trained again.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from byheart.errors import UsageError, as_byheart_error
from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.family import Family
from byheart.measure.families.inputs import Inputs, Tables, Weights, take_places, take_rows
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet

Factory = Callable[..., nn.Module]
OF_DATA = ("n_vocab", "n_classes", "seq_len", "input_dim")
"""Names of parameters that byheart sets from the data, if the user's function has parameters with these names."""

_BUFFER = "buffer of the module: "


class OwnModuleFamily(Family):
    """The family of the modules that one function creates."""

    takes_vectors = True
    reads = ("last", "first")
    is_stacked = False
    module: nn.Module  # the module of one stack
    takes_lengths: bool
    reads_first: bool
    n_outputs: int

    def __init__(self, factory: Factory) -> None:
        """Read the parameters and the source of `factory`. Raise `UsageError` if this is not possible."""
        self.factory = factory
        module = _module_name(factory)
        self.name = f"{module}:{getattr(factory, '__qualname__', type(factory).__qualname__)}"
        self.source = "a module defined by the user"
        self.size_fields, options = _fields(factory, self.name)
        meaning = "the first half of the SHA-256 of the file that defines the model"
        self.option_fields = (*options, OptionField("source", (_digest(factory, self.name),), meaning))

    def build(self, model: ModelConfig, training_set: TrainingSet) -> nn.Module:
        """Make a new module with these sizes for these data."""
        told = {
            "n_vocab": training_set.n_vocab,
            "n_classes": _n_outputs(training_set),
            "seq_len": training_set.seq_len,
            "input_dim": training_set.dim,
        }
        known = {name: value for name, value in told.items() if name in self._parameters}
        options = {name: value for name, value in model.options.items() if name != "source"}
        try:
            module = self.factory(**known, **model.sizes, **options)
        except Exception as error:
            raise UsageError(
                f"{self.name} cannot make a model with the sizes {dict(model.sizes)}: {type(error).__name__}: {error}",
                family=self.name,
            ) from error
        if not isinstance(module, nn.Module) or not any(each.requires_grad for each in module.parameters()):
            raise UsageError(
                f"{self.name} must return a torch.nn.Module with at least one trainable parameter.",
                family=self.name,
            )
        return module

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.factory).parameters

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shapes of the parameters. A weight that the module uses more than once is listed once."""
        module = self._seeded(model, training_set, 0)
        return {name: tuple(each.shape) for name, each in module.named_parameters()}

    def frozen_names(self, model: ModelConfig, training_set: TrainingSet) -> frozenset[str]:
        """Return the names of the parameters whose `requires_grad` is False."""
        module = self._seeded(model, training_set, 0)
        return frozenset(name for name, each in module.named_parameters() if not each.requires_grad)

    def _seeded(self, model: ModelConfig, training_set: TrainingSet, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build(model, training_set)

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the module's own initial weights, made with the seed of the run."""
        module = self._seeded(model, training_set, generator.initial_seed())
        return {name: each.detach().to(torch.float64) for name, each in module.named_parameters()}

    def for_stack(self, models: Sequence[ModelConfig], inputs: Inputs, seeds: Sequence[int]) -> Family:
        """Return a copy of this family that has a module of its own, made with the seed of the run, so that runs do not share
        buffers.

        Raise `UsageError` if inputs differ in length and the module does not take `lengths`.
        """
        (model,), (training_set,), (seed,) = models, inputs.training_sets, seeds
        bound = copy(self)
        bound.module = self._seeded(model, training_set, seed).to(inputs.device)
        bound.takes_lengths = "lengths" in inspect.signature(bound.module.forward).parameters
        bound.reads_first = training_set.read == "first"
        bound.n_outputs = _n_outputs(training_set)
        if not bound.takes_lengths and bool((inputs.lengths != training_set.seq_len).any()):
            raise UsageError(
                f"these inputs differ in length, so {self.name} must know where each ends.\n"
                "  Add a parameter `lengths` to the module's forward; inputs are padded on the right.",
                family=self.name,
            )
        return bound

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return the inputs, and the buffers of the module in the number type of the run."""
        buffers = {
            _BUFFER + name: each.clone().to(inputs.dtype if each.is_floating_point() else each.dtype)
            for name, each in self.module.named_buffers()
        }
        given = inputs.tokens if inputs.tokens is not None else inputs.vectors
        assert given is not None
        return {"inputs": given, "lengths": inputs.lengths, **buffers}

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Return outputs (1, n_rows, n_outputs). Outside training, the module is in evaluation mode."""
        given, lengths = (take_rows(tables[name], rows)[0] for name in ("inputs", "lengths"))
        state = {name: each[0] for name, each in weights.items()}
        state |= {
            name.removeprefix(_BUFFER): each for name, each in tables.items() if name.startswith(_BUFFER)
        }
        self.module.train(torch.is_grad_enabled())
        extra = {"lengths": lengths} if self.takes_lengths else {}
        try:
            found = torch.func.functional_call(self.module, state, (given,), extra)
        except Exception as error:
            if as_byheart_error(error) is not None:  # such as a lack of memory
                raise
            raise UsageError(
                f"the forward of a module of {self.name} failed on inputs of shape {tuple(given.shape)}: "
                f"{type(error).__name__}: {error}",
                family=self.name,
            ) from error
        outputs = self._require_outputs(found, given)
        if outputs.ndim == 3:
            ends = torch.zeros_like(lengths) if self.reads_first else lengths - 1
            outputs = take_places(outputs[None], ends[None])[0]
        return outputs[None]

    def _require_outputs(self, found: object, given: Tensor) -> Tensor:
        """Return `found`, the output for the inputs `given`. Raise `UsageError` if its shape is wrong or no weight changes it."""
        n_rows, seq_len = given.shape[:2]
        allowed = (n_rows, self.n_outputs), (n_rows, seq_len, self.n_outputs)
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if not isinstance(found, Tensor) or shape not in allowed:
            raise UsageError(
                f"the output of a module of {self.name} has the shape or type {shape}; it must be a tensor of shape "
                f"{allowed[0]}, that is (batch, n_classes), or {allowed[1]}, that is (batch, seq_len, n_classes).",
                family=self.name,
                shape=shape,
                allowed=allowed,
            )
        if torch.is_grad_enabled() and not found.requires_grad:
            raise UsageError(
                f"the output of a module of {self.name} does not depend on its trainable parameters, or its forward "
                "detaches it from them.",
                family=self.name,
            )
        return found


def _n_outputs(training_set: TrainingSet) -> int:
    return 1 if training_set.loss == "squared" else training_set.n_classes


def _module_name(factory: Factory) -> str:
    name = str(getattr(factory, "__module__", "") or "")
    if name == "__main__":  # a script is named by its file
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        return Path(file).stem if file else "notebook"
    return name


def _fields(factory: Factory, name: str) -> tuple[tuple[SizeField, ...], tuple[OptionField, ...]]:
    """Return the sizes and options of a family, read from the parameters of a function.

    Parameters with the type hint int become sizes. So do parameters without a hint if their default is a whole number or missing.
    Parameters whose hint is a Literal of strings become options. All other parameters keep their defaults.
    """
    try:
        parameters = inspect.signature(factory).parameters.values()
        hints = get_type_hints(
            vars(factory).get("__init__", factory) if isinstance(factory, type) else factory
        )
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"the parameters of {name} cannot be read: {error}.", family=name) from error
    sizes, options = [], []
    for each in parameters:
        default = None if each.default is inspect.Parameter.empty else each.default
        hint = hints.get(each.name)
        if each.name in OF_DATA or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if get_origin(hint) is Literal and all(isinstance(choice, str) for choice in get_args(hint)):
            choices = get_args(hint)
            first = (default,) if default in choices else ()
            options.append(OptionField(each.name, tuple(dict.fromkeys((*first, *choices))), "a choice"))
        elif hint is int or (hint is None and (each.default is each.empty or type(default) is int)):
            sizes.append(SizeField(each.name, default, 0, "a parameter of your function"))
        elif each.default is inspect.Parameter.empty:
            raise UsageError(
                f"the parameter `{each.name}` of {name} needs a default, or a type hint that is int or a Literal of strings.\n"
                "  Parameters with these names need neither, because byheart sets them from the data: "
                f"{', '.join(OF_DATA)}.",
                family=name,
                name=each.name,
            )
    return tuple(sizes), tuple(options)


def _digest(factory: Factory, name: str) -> str:
    """Return the digest of the file that defines the model or, in a notebook, of its source code."""
    try:
        text = _source(factory)
    except (OSError, TypeError) as error:
        raise UsageError(
            f"the source of {name} cannot be read, so its runs could not be distinguished from those of "
            "another model.\n"
            "  Define it in a file and import it.",
            family=name,
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _source(factory: Factory) -> str:
    """Return the text of the file that defines the model.

    In a notebook, return the source of the function itself. The source of a class is not available there, so return the source of
    its methods.
    """
    if inspect.isclass(factory) and not hasattr(inspect.getmodule(factory), "__file__"):
        functions = [each for each in vars(factory).values() if inspect.isfunction(each)]
        if not functions:
            raise OSError("a class without functions")
        return "".join(inspect.getsource(each) for each in functions)
    file = inspect.getsourcefile(factory)
    if file and Path(file).is_file():
        return Path(file).read_text(encoding="utf-8")
    return inspect.getsource(factory)
