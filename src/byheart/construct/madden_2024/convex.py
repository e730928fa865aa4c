"""With fewer neurons than contexts: keep random features fixed, and find the output matrix by convex softmax regression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from byheart.construct.madden_2024.context_vectors import Features
from byheart.network.batches import single_thread
from byheart.process.progress import Progress
from byheart.program.construction import report_attempts
from byheart.program.descent import Descent
from byheart.program.fewest import FewestFound, find_fewest
from byheart.program.targets import NextTokenTargets
from byheart.theorems import realises

HISTORY = 20
EVALUATIONS_A_ROUND = 25
DEFAULT_EVALUATIONS = 3000
EXCLUDED = 2.0
MARGIN = 12.0
"""The least-squares start of the fit approximates logits in which the tokens that follow a context exceed all others by about
this."""

SCALES = (0.7, 1.0, 1.4, 2.0, 2.8)


@dataclass(frozen=True, eq=False)
class Regression:
    """The state in which the regression stopped.

    coefficients  the output matrix V for the given features
    whitened      the output matrix for features made orthonormal, with each context weighted by how often it occurs; a fit with
                  more neurons can start from it
    gap_nats      loss minus entropy, summed over all predictions
    reached       whether the goal was met
    norm          Frobenius norm of `whitened`; it equals the root mean square length of the logits over all predictions
    excluded_norm a lower bound: it is proved, up to rounding, that no value of `whitened` with a smaller norm meets the goal; 0 if
                  the goal was met
    """

    coefficients: Float[np.ndarray, "n_neurons n_outputs"]
    whitened: Float[np.ndarray, "n_orthonormal n_outputs"]
    gap_nats: float
    evaluations: int
    reached: bool
    norm: float
    excluded_norm: float


class _Loss:
    """The loss Σ_i c_i KL(π̂_i ‖ softmax(Q_i V)) / Σ c_i and its gradient in V, computed without an autograd graph.

    Context i occurs c_i times, its next tokens have the frequencies π̂_i, and Q_i is its row of `features`.
    """

    def __init__(self, features: torch.Tensor, targets: NextTokenTargets) -> None:
        device, dtype = features.device, features.dtype
        self.features = features
        counts = torch.from_numpy(np.array(targets.counts)).to(device, dtype)
        self.total = float(targets.counts.sum())
        self.weights = counts / self.total
        self.rows = torch.from_numpy(np.array(targets.rows)).to(device)
        self.columns = torch.from_numpy(np.array(targets.next_tokens)).to(device)
        probabilities = torch.from_numpy(np.array(targets.probabilities)).to(device, dtype)
        self.mass = self.weights[self.rows] * probabilities
        self.entropy = float(-(self.mass * probabilities.log()).sum())
        self.flat = self.rows * targets.n_outputs + self.columns

    def __call__(self, coefficients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.features @ coefficients
        chosen = logits.view(-1)[self.flat]
        largest = logits.amax(dim=1, keepdim=True)
        logits -= largest
        logits.exp_()
        sums = logits.sum(dim=1, keepdim=True)
        loss = (self.weights * (sums.log() + largest).squeeze(1)).sum() - (self.mass * chosen).sum()
        logits *= (self.weights / sums.squeeze(1)).unsqueeze(1)
        logits.view(-1).index_add_(0, self.flat, -self.mass)
        return loss - self.entropy, self.features.T @ logits


@realises("MFT24-L2")
def regress(
    features: Features,
    targets: NextTokenTargets,
    *,
    goal_nats: float,
    max_evaluations: int = DEFAULT_EVALUATIONS,
    start: Float[np.ndarray, "n_started n_outputs"] | None = None,
    start_from: Float[np.ndarray, "n_neurons n_outputs"] | None = None,
    device: str = "cpu",
) -> Regression:
    """Minimise the loss over the output matrix until the loss is within `goal_nats` of the entropy (MFT24 Lemma 2).

    Loss and entropy are sums over all predictions. The problem is convex, so every local minimum is a global one. It is solved by
    L-BFGS in float32 and, if that is not precise enough, in float64. Each context is weighted by how often it occurs. Features are
    made orthonormal (QR) with these weights, so that the curvature is the same in all feature directions wherever the model gives
    all tokens the same probability.

    `start` is the matrix `Regression.whitened` of an earlier fit to the first few of these features. `start_from` is an output
    matrix for all features. If neither is given, L-BFGS starts from a least-squares solution for logits in which the tokens that
    follow a context exceed all others. The fit ends early once it is proved
    that every output matrix that reaches the goal has a norm of more than `EXCLUDED` times the current norm.
    """
    counts = torch.from_numpy(np.array(targets.counts)).to(device, torch.float64)
    heavy = (counts / counts.mean()).sqrt().unsqueeze(1)
    q, r = torch.linalg.qr(heavy * torch.from_numpy(features).to(device))
    scale = float(len(features)) ** 0.5
    q, r = scale * q / heavy, r / scale
    # directions that the features do not span (a dead or repeated neuron) are removed by the pseudo-inverse below
    loss = _Loss(q, targets)
    if start is not None:
        point = torch.zeros(q.shape[1], targets.n_outputs, device=device, dtype=torch.float64)
        point[: len(start)] = torch.from_numpy(start).to(device)
    elif start_from is not None:
        point = r @ torch.from_numpy(start_from).to(device)
    else:
        point = _least_squares(loss, targets)
    goal, spent = goal_nats / loss.total, 0
    with single_thread(loss.features.numel() * point.shape[1]):
        for each in (_Loss(q.float(), targets), loss):
            before = spent
            for current, evaluations in _descend(
                each, point.to(each.features.dtype), max_evaluations - before, goal
            ):
                point, spent = current.double(), before + evaluations
                if _excluded_norm(each, current, goal) > EXCLUDED * float(current.norm()):
                    break
            value = float(loss(point)[0])
            excluded = 0.0 if value <= goal else _excluded_norm(loss, point, goal)
            norm = float(point.norm())
            if value <= goal or excluded > EXCLUDED * norm:
                break
    whitened = point.cpu()
    coefficients = torch.linalg.lstsq(r.cpu(), whitened, driver="gelsd").solution
    return Regression(
        coefficients.numpy(),
        whitened.numpy(),
        value * loss.total,
        spent,
        value <= goal,
        norm,
        max(excluded, 0.0),
    )


def _least_squares(loss: _Loss, targets: NextTokenTargets) -> torch.Tensor:
    """Return the output matrix V that minimises Σ_i c_i |Q_i V - L_i|², multiplied by the best of a few scales.

    Context i has the share c_i of all predictions, the features Q_i and the target logits L_i. The columns of Q are orthonormal
    with the weights c_i, so V is simply Σ_i c_i Q_iᵀ L_i.
    """
    logits = torch.from_numpy(targets.logits(MARGIN)).to(loss.features)
    point = loss.features.T @ (loss.weights.unsqueeze(1) * logits)
    return min((scale * point for scale in SCALES), key=lambda each: float(loss(each)[0]))


def _excluded_norm(loss: _Loss, point: torch.Tensor, goal: float) -> float:
    """Return a norm below which no output matrix meets the goal.

    The loss f is convex. With its gradient g at the point V, f(V') >= f(V) + ⟨g, V' - V⟩ >= f(V) - ⟨g, V⟩ - |g||V'| for every V'.
    So if f(V') is at most the goal, |V'| is at least (f(V) - ⟨g, V⟩ - goal) / |g|, which is the number that is returned.
    """
    value, gradient = loss(point)
    size = float(gradient.norm())
    return (float(value) - float((gradient * point).sum()) - goal) / size if size else float("inf")


class _Reached(Exception):
    """Raised to stop the minimisation when the loss is at most the goal."""


def _descend(
    loss: _Loss, point: torch.Tensor, max_evaluations: int, goal: float
) -> Iterator[tuple[torch.Tensor, int]]:
    """Minimise the loss by L-BFGS, starting from `point`. Every few evaluations, and when the goal is met, yield the current point
    and the number of evaluations so far.
    """
    variable = point.clone().requires_grad_(True)
    last = float("inf")

    def evaluate() -> torch.Tensor:
        with torch.no_grad():
            value, gradient = loss(variable)
            variable.grad = gradient
        if float(value) <= goal:
            raise _Reached
        return value

    n_operations = loss.features.numel() * point.shape[1]
    descent = Descent(
        [variable], evaluate, per_round=EVALUATIONS_A_ROUND, history=HISTORY, n_operations=n_operations
    )
    while descent.spent < max_evaluations:
        try:
            descent.run_round()
        except _Reached:
            yield variable.detach().clone(), descent.spent
            return
        current = variable.detach().clone()
        value = float(loss(current)[0])
        yield current, descent.spent
        if not value < last:  # no more progress is possible in floats
            return
        last = value


def smallest_width(
    features: Features,
    targets: NextTokenTargets,
    goal_nats: float,
    *,
    max_evaluations: int = DEFAULT_EVALUATIONS,
    progress: Progress | None = None,
) -> FewestFound[Regression] | None:
    """Find by bisection how many features, taken in order, suffice for the goal. Return None if even all features do not suffice.

    More features never make the minimum worse, so bisection is correct, except for the limit on evaluations. A width counts as too
    small if the goal is proved to be out of reach (`Regression.excluded_norm`), but also if the fit uses up `max_evaluations` or
    makes no more progress. A wider fit starts from the best narrower one.
    """
    start: np.ndarray | None = None
    begin = report_attempts(progress)

    def fit(width: int) -> Regression:
        nonlocal start
        begin()
        some = features[:, :width]
        found = regress(some, targets, goal_nats=goal_nats, max_evaluations=max_evaluations, start=start)
        start = start if found.reached or width == features.shape[1] else found.whitened
        return found

    return find_fewest(fit, lambda found: found.reached, features.shape[1], most=features.shape[1])
