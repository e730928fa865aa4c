"""Linear systems A X = Y with at least as many unknowns as equations: factored once, refined, with a condition number."""

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
    """A network with a matrix that solves a linear system, and what is known about that system."""

    network: N
    condition: float  # estimated, in the 1-norm
    residual: float  # the largest, of the weights as they are kept
    scale: Mapping[str, float]  # of what was drawn or found, by name

    def to_notes(self) -> dict[str, float]:
        """In the form of the notes of a construction."""
        return {"condition": self.condition, "residual": self.residual, **self.scale}


def solve_least_norm(
    matrix: Float[np.ndarray, "n_equations n_unknowns"],
    wanted: Float[np.ndarray, "n_equations n_columns"],
    refinements: int,
) -> tuple[Float[np.ndarray, "n_unknowns n_columns"], float]:
    """The solution of least norm and the estimated condition number (1-norm); zeros and infinity where A is singular.

    Square systems by LU, wide ones by QR of Aᵀ.
    """
    from scipy.linalg import (  # a second to import
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
            warnings.simplefilter(
                "ignore", LinAlgWarning
            )  # a singular matrix is told by its condition number
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
    """Run the linear algebra of numpy and scipy on one thread, in a block or (as a decorator) in a function.

    More than one thread would add in another order and give weights other bits.
    """
    import scipy.linalg  # noqa: F401  (a library that is loaded later would not be bounded)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
