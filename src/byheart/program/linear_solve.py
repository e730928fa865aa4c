"""Linear systems A X = Y with at least as many unknowns as equations, solved with iterative refinement and a condition
estimate."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float

from byheart.network.protocol import Network

N = TypeVar("N", bound=Network)


@dataclass(frozen=True, eq=False)
class SolvedNetwork(Generic[N]):
    """A network in which one matrix is the solution of a linear system, with the condition number and the residual of this
    system.
    """

    network: N
    condition: float  # estimated, in the 1-norm
    residual: float  # the largest entry, computed with the weights as they are stored
    scale: Mapping[str, float]  # scales of random or fitted weights, by name

    def to_notes(self) -> dict[str, float]:
        """Return the notes for a `Construction`: condition number, residual, and the scales of random or fitted weights."""
        return {"condition": self.condition, "residual": self.residual, **self.scale}


def solve_least_norm(
    matrix: Float[np.ndarray, "n_equations n_unknowns"],
    wanted: Float[np.ndarray, "n_equations n_columns"],
    refinements: int,
) -> tuple[Float[np.ndarray, "n_unknowns n_columns"], float]:
    """Return the solution X of A X = Y with the least norm, and the estimated condition number of A in the 1-norm.

    A is `matrix`, and Y is `wanted`. Square systems are solved by LU, wide ones by QR of Aᵀ. The condition number of a wide system
    is that of the factor R. `refinements` is the number of steps of iterative refinement.

    If the estimated condition number is infinite, return zeros and infinity. Rounding errors may hide that A is singular. X is then
    meaningless, and the condition number is very large.
    """
    from scipy.linalg import (  # importing it takes a second
        LinAlgWarning,
        lapack,
        lu_factor,
        lu_solve,
        qr,
        solve_triangular,
    )

    n_equations, n_unknowns = matrix.shape
    if n_unknowns == n_equations:
        with warnings.catch_warnings():
            # singular matrices are recognised by their condition number
            warnings.simplefilter("ignore", LinAlgWarning)
            factors = lu_factor(matrix, check_finite=False)
        reciprocal, _ = lapack.dgecon(factors[0], float(np.abs(matrix).sum(axis=0).max(initial=0.0)))

        def solve(right: np.ndarray) -> np.ndarray:
            return np.asarray(lu_solve(factors, right, check_finite=False))
    else:
        q, r = qr(matrix.T, mode="economic", check_finite=False)
        reciprocal, _ = lapack.dtrcon(r)

        def solve(right: np.ndarray) -> np.ndarray:
            return np.asarray(q @ solve_triangular(r, right, trans="T", check_finite=False))

    if not reciprocal > 0:
        return np.zeros((n_unknowns, wanted.shape[1])), float("inf")
    solution = solve(wanted)
    for _ in range(refinements):
        solution += solve(wanted - matrix @ solution)
    return solution, float(1 / reciprocal)


@contextmanager
def ordered_sums() -> Iterator[None]:
    """Run the linear algebra of numpy and scipy on one thread. Works as a context manager and as a decorator.

    Several threads would add in a different order, which changes the last bits of the weights.
    """
    import scipy.linalg  # noqa: F401  (a library that is loaded later would not be bounded)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
