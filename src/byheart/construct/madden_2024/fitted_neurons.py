"""Neurons fitted to the data: the hidden layer is trained together with the output matrix, so that few neurons suffice.

If two tokens each follow some three hundred contexts, a hyperplane in the space of the neurons' outputs must separate the contexts
that only the first token follows from those that only the second one follows. Random neurons are not adapted to the tokens: on
1,880 contexts of TinyStories, with 64 random neurons, the gap between loss and entropy is half of the entropy even with the best
output matrix. Fitting the neurons to the data helps more than adding neurons, and takes only d + 1 parameters for each neuron in
dimension d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from byheart.construct.madden_2024.context_vectors import mixed_contexts, with_neurons, with_outputs
from byheart.construct.madden_2024.convex import Regression, regress
from byheart.construct.madden_2024.random_features import draw_neurons, features_of
from byheart.network.decoder.architecture import Decoder
from byheart.network.decoder.module import ACTIVATIONS
from byheart.program.descent import Descent, with_gradient
from byheart.program.targets import EncodedContexts, NextTokenTargets

SPREAD = 3.0
"""Standard deviation of pre-activations at the start. Neurons that are nearly step functions have no gradient to follow."""

ROUND = 50
HISTORY = 40
SHAPING_EVALUATIONS = 3000
FINISHING_EVALUATIONS = 1000
SAFETY = 0.8
"""Fitting in float32 stops when the gap between loss and entropy is this share of the allowed gap. The convex fit that follows
measures the gap in float64, and fails if it exceeds the allowed gap."""


@dataclass(frozen=True, eq=False)
class ShapedFit:
    """A decoder whose neurons and output matrix were fitted. `fit.reached` says whether the goal was met."""

    decoder: Decoder
    fit: Regression
    evaluations: int


def fit_shaped(
    front: Decoder,
    encoded: EncodedContexts,
    targets: NextTokenTargets,
    n_neurons: int,
    rng: np.random.Generator,
    *,
    goal_nats: float,
    max_evaluations: int = SHAPING_EVALUATIONS,
) -> ShapedFit:
    """Draw neurons, fit them, and then solve the convex problem of the output matrix for the fitted neurons.

    The goal is a loss that exceeds the entropy by at most `goal_nats`, summed over all predictions. Embeddings and
    attention keep their random values. The fit is not convex: if a width fails, another random draw or more evaluations may still
    succeed. After half of the evaluations, the fit is abandoned if the loss, at its current rate of decrease, would miss the goal.
    """
    mixed = mixed_contexts(front, encoded)
    neurons = draw_neurons(front, mixed, n_neurons, rng, spread=SPREAD)
    shaping = _Shaping(mixed, targets, neurons)
    spent, left = shaping.run(SAFETY * goal_nats, max_evaluations)
    hidden, bias, output = shaping.weights()
    shaped = with_neurons(front, hidden, bias, np.zeros_like(output))
    is_near = left <= 2 * goal_nats  # otherwise the convex fit will not halve the gap
    fit = regress(
        features_of(shaped, encoded),
        targets,
        goal_nats=goal_nats,
        max_evaluations=FINISHING_EVALUATIONS if is_near else ROUND,
        start_from=output,
    )
    return ShapedFit(with_outputs(shaped, fit.coefficients), fit, spent + fit.evaluations)


class _Shaping:
    """Fit hidden weights W, bias b and output matrix V together, by L-BFGS in float32 on all contexts at once."""

    def __init__(self, mixed: np.ndarray, targets: NextTokenTargets, neurons: Decoder) -> None:
        def single(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.array(array, dtype=np.float32))

        self.mixed, self.activation = single(mixed), ACTIVATIONS[neurons.activation]
        self.total = float(targets.counts.sum())
        mass = targets.counts[targets.rows] * targets.probabilities / self.total
        self.mass = single(mass)
        self.entropy = float(-(mass * np.log(targets.probabilities)).sum())
        self.flat = torch.from_numpy(targets.rows * targets.n_outputs + targets.next_tokens)
        hidden, bias, output = single(neurons.hidden), single(neurons.bias), single(neurons.logits)
        features = self.activation(torch.addmm(bias, self.mixed, hidden))
        # scaled so that one unit of V moves logits by one; otherwise V and the hidden layer would have different scales
        self.scale = float(1 / features.square().mean().sqrt().clamp(min=1e-12))
        self.parameters = [part.requires_grad_(True) for part in (hidden, bias, output)]

    def run(self, goal_nats: float, max_evaluations: int) -> tuple[int, float]:
        """Minimise until the loss exceeds the entropy by at most `goal_nats`, or until it seems that this cannot be reached.

        Return the evaluations used and the remaining gap between loss and entropy.
        """
        goal = goal_nats / self.total
        descent = Descent(
            self.parameters,
            with_gradient(self.parameters, self._gap),
            per_round=ROUND,
            history=HISTORY,
            n_operations=self.mixed.shape[0] * self.parameters[2].numel(),
        )
        values = [float("inf")]
        while descent.spent < max_evaluations and values[-1] > goal:
            descent.run_round()
            with torch.no_grad():
                values.append(float(self._gap()))
            left = max_evaluations - descent.spent
            if left < descent.spent and is_hopeless(values, goal, left / ROUND):
                break
        return descent.spent, values[-1] * self.total

    def _gap(self) -> torch.Tensor:
        hidden, bias, output = self.parameters
        features = self.activation(torch.addmm(bias, self.mixed, hidden)) * self.scale
        log_q = torch.log_softmax(features @ output, dim=1)
        gap: torch.Tensor = -(self.mass * log_q.view(-1)[self.flat]).sum() - self.entropy
        return gap

    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return W, b and V."""
        hidden, bias, output = (part.detach().double() for part in self.parameters)
        return hidden.numpy(), bias.numpy(), (output * self.scale).numpy()


WINDOW = 10


def is_hopeless(values: list[float], goal: float, rounds_left: float) -> bool:
    """Predict whether a loss will still be above `goal` after `rounds_left` more rounds.

    The loss is assumed to keep decreasing by the mean factor of its last few rounds.
    """
    if len(values) <= WINDOW + 1 or values[-1] <= goal:
        return False
    factor = values[-1] / values[-1 - WINDOW]
    if not factor < 1:
        return True
    return float(values[-1] * factor ** (rounds_left / WINDOW)) > goal
