"""Shatter a set of inputs: build and verify a network of one architecture for every labelling of the inputs.

An architecture shatters a set of K inputs if, for each of the 2^K labellings, some weights compute the labels. The VC
dimension is the size of the largest set that is shattered. A shattered set therefore proves a lower bound on the VC
dimension, which can be checked by evaluating the networks. Counting sign patterns gives an upper bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from byheart.bounds.vc_dimension import depth_limited_vc_dimension
from byheart.construct.registry import get
from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.errors import DoesNotHold, UsageError
from byheart.network.size import Size, size_of_network
from byheart.network.transformer.architecture import Attention, FeedForward, Transformer
from byheart.process.progress import Progress
from byheart.verify.verifier import verify

MOST_POINTS = 20
"""The largest number of points. For 20 points, 2^20 networks are built and verified, which takes hours. Each further point
doubles this number.
"""


@dataclass(frozen=True)
class Shattering:
    """The result of `shatter`: a network was built and verified for `n_realised` of the `n_labellings` labellings.

    All these networks have the same architecture.
    size        size of the networks; if they differ in their number of bits, the size of the largest
    vc_at_most  upper bound on the VC dimension of the architecture; None if no bound applies, and `no_bound` then says why
    """

    method: str
    n_points: int
    seq_len: int
    n_labellings: int
    n_realised: int
    size: Size
    vc_at_most: int | None
    seconds: float
    no_bound: str | None = None

    @property
    def holds(self) -> bool:
        return self.n_realised == self.n_labellings


def shatter(
    n_points: int,
    *,
    method: str = "kajitsuka-sato-2025",
    seq_len: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> Shattering:
    """Build and verify a network of the same architecture for each of the 2^n_points labellings of `n_points` random sequences.

    Every network comes from the construction `method` in exact arithmetic and is evaluated exactly on every point.
    Raise `DoesNotHold` if two labellings get different architectures, because these networks then do not show that a single
    architecture shatters the points.
    """
    if not 1 <= n_points <= MOST_POINTS:
        raise UsageError(
            f"the number of points must be from 1 to {MOST_POINTS}, because each point doubles the number "
            f"of networks; got {n_points}.",
            n_points=n_points,
        )
    construction = get(method)
    if "exact" not in construction.precisions or "next-token" not in construction.tasks:
        raise UsageError(
            f"shatter needs networks in exact arithmetic for the task next-token, which {method} does not build.\n"
            "  Choose another construction; `byheart methods --task next-token --precision exact` lists them.",
            method=method,
        )
    began = time.perf_counter()
    points = _distinct_sequences(n_points, seq_len, 4 * n_points, seed)
    data = Dataset(
        points, np.zeros(n_points, dtype=np.int64), "next-token", ("0", "1"), None, ordered=seq_len > 1
    )
    options = construction.read_options({}, "exact")
    n_labellings, n_realised = 1 << n_points, 0
    architecture, size, network = None, None, None
    for number in range(n_labellings):
        bits = np.array([number >> place & 1 for place in range(n_points)])
        labelled = replace(data, labels=bits)
        memoriser = (
            construction.plan(labelled, options, np.random.default_rng(seed), None).emit(None).memoriser
        )
        network = memoriser.network
        if architecture is None:
            architecture = network.spec
        elif network.spec != architecture:
            raise DoesNotHold(
                f"{method} builds different architectures for labellings 0 and {number} of the points, so these networks do not "
                "show that a single architecture shatters the points.\n  Try another construction.",
                method=method,
                number=number,
            )
        found = size_of_network(network)
        size = found if size is None or found.total_bits > size.total_bits else size
        n_realised += verify(memoriser, labelled, n_rechecked=0).holds
        if progress is not None:
            progress(number + 1, n_labellings)
    assert isinstance(network, Transformer)
    assert size is not None
    most, no_bound = None, None
    try:
        most = vc_dimension_at_most(network)
    except UsageError as reason:  # the lower bound holds even without an upper bound
        no_bound = str(reason)
    seconds = time.perf_counter() - began
    return Shattering(method, n_points, seq_len, n_labellings, n_realised, size, most, seconds, no_bound)


def _distinct_sequences(n_samples: int, seq_len: int, n_vocab: int, seed: int) -> TokenSequences:
    """Draw random sequences of tokens until all of them are distinct."""
    rng = np.random.default_rng(seed)
    while True:
        ids = rng.integers(0, n_vocab, size=(n_samples, seq_len))
        if len(np.unique(ids, axis=0)) == n_samples:
            return TokenSequences.of(ids, n_vocab)


def vc_dimension_at_most(network: Transformer) -> int:
    """Return an upper bound on the VC dimension of the architecture of `network`. All weights of the architecture may be chosen
    freely.

    The bound depends on the number of linear maps: two in every feed-forward block, two in every attention layer, and one each for
    the embedding E_in and the output map E_out. Raise `UsageError` if any attention is not uniform, because such attention is
    not linear.
    """
    if any(isinstance(layer, Attention) and layer.kind != "uniform" for layer in network.layers):
        raise UsageError(
            "the bound on the VC dimension needs uniform attention, which is linear; this network has another kind of attention."
        )
    n_maps = 2 + 2 * sum(isinstance(layer, FeedForward | Attention) for layer in network.layers)
    return depth_limited_vc_dimension(
        size_of_network(network).parameters_dense, n_maps, n_tokens=network.seq_len
    )
