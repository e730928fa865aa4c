"""Three rules for the matrix W of a linear associative memory, argmax_y u_y·W e_x (Cabannes et al. 2024).

e_x is the embedding of input x and u_y the embedding of output y.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int

from byheart.program.descent import Descent

Inputs: TypeAlias = Float[np.ndarray, "n_inputs dim"]
Outputs: TypeAlias = Float[np.ndarray, "n_outputs dim"]
Labels: TypeAlias = Int[np.ndarray, " n_inputs"]
Matrix: TypeAlias = Float[np.ndarray, "dim dim"]

EVALUATIONS = 2000  # a regression ends after about this many evaluations of the loss


def random_embeddings(n_items: int, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "n_items dim"]:
    """Return Gaussian vectors of length about one, the random embeddings that the theory of linear memories assumes."""
    return np.asarray(rng.standard_normal((n_items, dim)) / np.sqrt(dim))


def hebbian(inputs: Inputs, outputs: Outputs, labels: Labels) -> Matrix:
    """Return W = Σ_x u_f(x) e_xᵀ, where e_x is the embedding of input x, and u_f(x) the embedding of its label f(x).

    In dimension d, W answers all of N random pairs correctly if N is large and d² is above about 8 N ln N. This threshold is our
    own derivation; at d² = 8 N ln N, a few of 1,000 pairs are still wrong.
    """
    return np.asarray(outputs[labels].T @ inputs)


def pseudo_inverse(inputs: Inputs, outputs: Outputs, labels: Labels) -> Matrix:
    """Return W = U E⁺, where E⁺ is the pseudo-inverse of E.

    The columns of E are the embeddings e_x of the inputs x. The columns of U are u_f(x), the embeddings of the labels f(x). If the
    e_x are linearly independent (so there are at most d of them, in dimension d), then W e_x = u_f(x).
    """
    return np.asarray(outputs[labels].T @ np.linalg.pinv(inputs).T)


def regression(inputs: Inputs, outputs: Outputs, labels: Labels) -> Matrix:
    """Fit the matrix W by softmax regression, starting from the matrix of `hebbian`, until every answer is right or `EVALUATIONS`
    are used up.

    The problem is convex, and W stores about 7 times as many pairs as `hebbian`.
    """
    e, u = torch.from_numpy(np.array(inputs)), torch.from_numpy(np.array(outputs))
    wanted = torch.from_numpy(np.array(labels))
    matrix = torch.tensor(hebbian(inputs, outputs, labels), requires_grad=True)

    def evaluate() -> torch.Tensor:
        with torch.no_grad():
            log_q = torch.log_softmax(e @ matrix.T @ u.T, dim=1)
            error = log_q.exp()
            error[torch.arange(len(e)), wanted] -= 1
            matrix.grad = (u.T @ error.T @ e) / len(e)
            return torch.nn.functional.nll_loss(log_q, wanted)

    descent = Descent([matrix], evaluate, per_round=50, history=30, least_gradient=1e-7)
    while descent.spent < EVALUATIONS:
        descent.run_round()
        with torch.no_grad():
            if bool(((e @ matrix.T @ u.T).argmax(dim=1) == wanted).all()):
                break
    return matrix.detach().numpy()


RULES = {"pseudo-inverse": pseudo_inverse, "hebbian": hebbian, "regression": regression}
