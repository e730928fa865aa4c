"""Estimate how much memory a model takes in training, before it is trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from byheart.measure.draws import draw_places
from byheart.measure.families import ModelConfig, complete_model, family_of
from byheart.measure.objective import Reduction, training_losses, uses_counts
from byheart.measure.recipe import Training
from byheart.measure.stack import Stack, make_stack
from byheart.measure.training_set import TrainingSet
from byheart.process.memory_limit import require_memory

DTYPES = {"float32": torch.float32, "float64": torch.float64}

# With more models than this, training does not get faster at our sizes: the cache of a CPU overflows, and a GPU is fully used.
BEST_STACK = {"cpu": 8, "cuda": 1024}

# Copies of the parameters in memory: weights, gradient, two moments, and temporary copies during an update.
OPTIMISER_COPIES = 7
# Memory for saved activations and their gradients, as a multiple of the activations. Measured peaks stay below this factor.
ACTIVATION_COPIES = 3.0
# A step that reads at most this many numbers of the data is measured without estimating its size first.
FEW_INPUTS = 2**18


def bytes_per_model(
    model: ModelConfig, training_set: TrainingSet, training: Training, device: torch.device | None = None
) -> int:
    """Estimate how many bytes of memory each model of a stack (models that train together) takes during training.

    The estimate is the sum of three parts: the weights with the optimiser's copies of them, the data and other fixed arrays, and
    a multiple of the arrays that one forward pass on the CPU saves for the backward pass.
    """
    dtype = DTYPES[training.dtype]
    family = family_of(model.family)
    shapes = family.shapes(complete_model(family, model), training_set)
    n_weights = sum(math.prod(shape) for shape in shapes.values())
    n_outputs = max(training_set.n_rows, training.batch) * training_set.n_classes
    require_memory("training one model of this size", 8 * (n_weights + n_outputs))
    stack = make_stack([model], [training_set], [0], dtype=dtype)
    flat = stack.initial().requires_grad_()
    counts = device is not None and uses_counts(device, training_set.n_rows, training.batch)
    n_drawn = 0 if counts else training.batch
    _require_step(stack, flat, training.reduction, n_drawn or training_set.n_rows)
    saved = _saved_bytes(stack, flat, training.reduction, n_drawn)
    copies = OPTIMISER_COPIES + (2 * training.history if training.optimiser == "lbfgs" else 0)
    held = flat.numel() * flat.element_size() * copies
    held += sum(table.untyped_storage().nbytes() for table in (*stack.fixed.values(), *stack.tables.values()))
    return int(held + ACTIVATION_COPIES * saved)


def _require_step(stack: Stack, flat: Tensor, reduction: Reduction, n_rows: int) -> None:
    """Raise `OverMemoryLimit` if a forward pass on `n_rows` rows would save more bytes for the backward pass than the memory limit.

    The number of bytes is a constant plus an equal amount for each row. It is therefore computed from two small passes, on one
    row and on two rows. Nothing is checked if the step is small or if random batches cannot be drawn from the data.
    """
    of_a_row = sum(table.numel() for table in stack.tables.values()) // max(
        int(stack.targets.n_rows.max()), 1
    )
    if n_rows * of_a_row > FEW_INPUTS and stack.targets.labels is not None:
        one, two = (_saved_bytes(stack, flat, reduction, n_drawn) for n_drawn in (1, 2))
        require_memory("one training step of one model", one + (n_rows - 1) * (two - one))


def _saved_bytes(stack: Stack, flat: Tensor, reduction: Reduction, n_drawn: int) -> int:
    """Return how many bytes a forward pass on `n_drawn` rows (0: on all rows) saves for the backward pass."""
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return (
            tensor.detach()
        )  # an output with its graph would hold itself, and its memory would never be freed

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        seeds, step = torch.zeros(1, 1, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
        training_losses(stack, flat, seeds, step, draw_places(n_drawn) if n_drawn else None, reduction)
    return sum(saved.values())
