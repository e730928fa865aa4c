"""Find the output matrix of a decoder by stochastic softmax regression, for data with exactly one right token per context.

Far fewer neurons than contexts can suffice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from byheart.construct.madden_2024.context_vectors import Features
from byheart.process.progress import Progress, report


@dataclass(frozen=True, eq=False)
class Associations:
    """The output matrix that was found.

    unsettled  the number of contexts whose label has a probability below `SETTLED`. Up to a thousandth of the contexts, they are
               counted with the final matrix; more than that are counted during the last full pass, before its later steps
    passes     evaluations of the loss on all contexts; an evaluation on some of them counts as a fraction
    """

    coefficients: Float[np.ndarray, "n_neurons n_outputs"]
    unsettled: int
    passes: float
    seconds: float


BATCH = 250
RATE = 4.0
"""Step length in units of 1/|φ|², where φ holds the features of a context after whitening (a linear map that makes them
uncorrelated). In these units, a step of length s on a context changes its logits by s times the difference between the one-hot
label and the predicted probabilities."""

SETTLED = 0.6
"""A context is settled when its label has at least this probability. The label's logit then exceeds every other logit by at least
log(0.6/0.4)."""

HARD = 0.9
ROUNDS_ON_HARD = 6


def associate(
    features: Features,
    labels: Int[np.ndarray, " n_contexts"],
    rng: np.random.Generator,
    *,
    n_outputs: int,
    max_passes: float = 100.0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Associations:
    """Minimise the convex loss Σ -log softmax(φ_i V)[label_i] in float32, until every label has a probability of at least
    `SETTLED` or about `max_passes` passes over the contexts are used up.

    φ_i are the features of context i, and V is the output matrix.

    If all contexts can be right at once, all their gradients vanish together, so stochastic steps need not become smaller. On
    whitened features, small batches make more progress in one pass than a full gradient. Contexts whose label already has a
    probability of at least `HARD` are left out of most passes. There is no guarantee in advance: contexts that are still
    `unsettled` are counted, and the forward pass of the final network shows which labels are right.
    """
    start = time.perf_counter()
    phi = torch.from_numpy(np.array(features, dtype=np.float32)).to(device)
    n_contexts, n_neurons = phi.shape
    whitening = _whitening(phi)
    phi = phi @ whitening
    wanted = torch.from_numpy(np.array(labels)).to(device)
    matrix = torch.zeros(n_neurons, n_outputs, device=device)
    everyone = torch.arange(n_contexts, device=device)
    passes, unsettled = 0.0, n_contexts
    while unsettled and passes < max_passes:
        shares = _sweep(phi, wanted, matrix, _shuffle(everyone, rng), RATE)
        hard = torch.nonzero(shares < HARD).squeeze(1)
        passes += 1
        for _ in range(ROUNDS_ON_HARD if len(hard) <= n_contexts / 2 else 0):
            after = _sweep(phi, wanted, matrix, _shuffle(hard, rng), RATE)
            passes += len(hard) / n_contexts
            if bool((after[hard] >= SETTLED).all()):
                break
        unsettled = int((shares < SETTLED).sum())
        if unsettled <= len(everyone) // 1000:  # probably finished: count again with the matrix unchanged
            unsettled = int((_sweep(phi, wanted, matrix, everyone, 0.0) < SETTLED).sum())
            passes += 1
        report(progress, n_contexts - unsettled, n_contexts)
    coefficients = (whitening @ matrix).cpu().double().numpy()
    return Associations(coefficients, unsettled, passes, time.perf_counter() - start)


def _whitening(phi: torch.Tensor) -> torch.Tensor:
    """Return a matrix T with (φ T)ᵀ(φ T) ≈ n·I for φ = `phi` with n rows, from a Cholesky factor.

    First, a small multiple of the identity is added to φᵀφ / n. Without it, two equal neurons would lead to a division by zero.
    """
    gram = (phi.T @ phi).double().cpu() / len(phi)
    identity = torch.eye(len(gram), dtype=torch.float64)
    # with more neurons than contexts, float32 rounding exceeds the smallest ridge
    for power in range(-9, 1):
        factor, is_singular = torch.linalg.cholesky_ex(gram + 10.0**power * gram.diagonal().mean() * identity)
        if not is_singular:
            break
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    whitening: torch.Tensor = inverse.T.to(phi.device, phi.dtype).contiguous()
    return whitening


def _shuffle(rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    return rows[torch.from_numpy(rng.permutation(len(rows))).to(rows.device)]


def _sweep(
    phi: torch.Tensor, wanted: torch.Tensor, matrix: torch.Tensor, rows: torch.Tensor, rate: float
) -> torch.Tensor:
    """Make one pass over the contexts `rows` in batches. Unless `rate` is 0, each batch changes `matrix` in place.

    Return one number for each context: for a context in `rows`, the probability of its label just before its own batch changed
    `matrix`; for all other contexts 1.
    """
    shares = torch.ones(len(phi), device=phi.device)
    for batch in torch.split(rows, BATCH if rate else 16 * BATCH):
        x, labels = phi[batch], wanted[batch].unsqueeze(1)
        error = torch.softmax(x @ matrix, dim=1)
        shares[batch] = error.gather(1, labels).squeeze(1)
        if rate:
            error.scatter_add_(1, labels, torch.full_like(labels, -1, dtype=error.dtype))
            matrix.addmm_(x.T, error, alpha=-rate / phi.shape[1])
    return shares
