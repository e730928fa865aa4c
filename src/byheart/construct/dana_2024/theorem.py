"""DPC24 Theorem 1 and Corollary 1 as a construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from byheart.bounds.dana_2024 import AttentionOnlyShape, corollary_1_parameters, theorem_1_parameters
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.dana_2024.compact import CompactFit, fit_compact
from byheart.construct.dana_2024.encoders import SequenceEncoder, association_encoder, encoder_of_logits
from byheart.construct.dana_2024.head_solver import interpolate
from byheart.construct.dana_2024.size import (
    NAME,
    DanaOptions,
    heads_needed,
    require_dimensions,
    require_rank,
)
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.memoriser import Memoriser
from byheart.process.progress import Progress
from byheart.program.construction import Construction, report_attempts, size_of_bound
from byheart.program.fewest import find_fewest
from byheart.program.linear_solve import ordered_sums
from byheart.program.targets import ALLOWED_DIVERGENCE, LOGIT_MARGIN, NextTokenTargets, targets_of

ATTEMPTS = 4


@ordered_sums()
def plan(
    data: Dataset, options: DanaOptions, rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile sequences, and the tokens that follow them, into a single attention layer.

    Source:     DPC24 Theorem 1 with ε = 0, Corollary 1 (d = 2, associations) and Proposition 2 (d = N - 1, distributions).
    Assumes:    distinct sequences of tokens.
    Guarantee:  for associations, the right token of every sequence has the largest logit in the native forward pass, which is
                checked. For distributions, the certificate states the divergence. Mode `compact` guarantees nothing beyond what is
                verified.
    Size:       `size_of`: d(S + 2N + 4 d_h H) parameters with H·d_h + d >= T, for T sequences of length S over N tokens, and H
                heads of size d_h in dimension d.
    Departs:    see `interpolate`. Sequences may have different lengths; positions are counted from the end.
    """
    targets = targets_of(data)
    contexts = targets.contexts
    ragged = bool(contexts.lengths.min() < contexts.max_len)
    encoded = contexts.pad(contexts.n_vocab, contexts.max_len)
    if options.mode == "compact":
        if data.task != "next-token" or ragged:
            raise UsageError(
                "mode=compact accepts only next-token data in which all sequences have the same length.\n  Use mode=theorem."
            )
        network, notes = _compact(targets, encoded, options, rng, progress)
    else:
        network, notes = _theorem(targets, encoded, options, data, ragged, rng)
    if data.task == "distribution":
        notes |= {"allowed_divergence": ALLOWED_DIVERGENCE}
    n_sequences, n_last = len(targets), DataShape.of(data).n_last_tokens
    sizes = (network.n_outputs, network.seq_len, network.dim, int(network.value.shape[1]), network.n_heads)
    shape = AttentionOnlyShape(*sizes, n_last)
    theorem = "DPC24 Corollary 1" if data.task == "next-token" else "DPC24 Theorem 1"
    if options.mode == "compact":
        theorem = (
            f"the network of {theorem}, but all weights are fitted (no theorem of the papers covers this)"
        )
    return Construction(
        Memoriser.of(network, data, ordered=True),
        NAME,
        theorem,
        assumptions=(
            Assumption(
                "distinct sequences", True, f"sequences: {n_sequences}, maximum length: {network.seq_len}"
            ),
            Assumption(
                "H·min(d, d_h) + min(d, L) >= T, for H heads of size d_h, dimension d, and T sequences with L distinct last tokens",
                shape.rank >= n_sequences,
                f"rank: {shape.rank}, sequences: {n_sequences}",
            ),
        ),
        theorem_size=None if options.mode == "compact" else _theorem_size(data, network, n_sequences, n_last),
        notes={**notes, "n_contexts": n_sequences},
    )


def _theorem(
    targets: NextTokenTargets,
    encoded: np.ndarray,
    options: DanaOptions,
    data: Dataset,
    ragged: bool,
    rng: np.random.Generator,
) -> tuple[AttentionOnly, dict[str, Any]]:
    """Call `interpolate`, at most `ATTEMPTS` times, until the native forward pass answers every sequence correctly. Return the
    network, and notes on how it was found.
    """
    dim, head_dim = options.sizes(data.task, targets.n_outputs, len(targets))
    require_dimensions(dim, head_dim)
    require_rank(encoded.shape[1], len(targets), dim)
    encoder = _encoder(targets, data, dim, options.precision)
    for _attempt in range(ATTEMPTS):
        found = interpolate(
            encoded,
            targets.contexts.n_vocab,
            encoder,
            rng,
            head_dim=head_dim,
            precision=options.precision,
            ragged=ragged,
            key_dim=options.key_dim,
        )
        logits = found.network.compute_logits(encoded)
        if data.task == "distribution":
            is_right = bool((targets.divergences(logits.astype(np.float64)) <= ALLOWED_DIVERGENCE).all())
        else:
            is_right = bool((logits.argmax(axis=1) == targets.next_tokens).all())
        if is_right:
            return found.network, {"mode": "theorem", **found.to_notes()}
    finer = ", or use float64" if options.precision == "float32" else ""
    raise AssumptionViolated(
        f"heads of dimension {head_dim} in dimension {dim} cannot distinguish these {len(targets)} sequences in "
        f"{options.precision} (condition number {found.condition:.2g}).\n  Increase dim{finer}.",
        condition=found.condition,
    )


def _encoder(targets: NextTokenTargets, data: Dataset, dim: int, precision: str) -> SequenceEncoder:
    """Return the encoder, which assigns a vector of dimension `dim` to every sequence. For labels, the vectors are points on a
    circle. For distributions, they encode the logits, which needs a dimension of at least min(N - 1, T), for T sequences and N
    tokens (DPC24 Proposition 2).
    """
    if data.task == "next-token":
        return association_encoder(targets.next_tokens, targets.n_outputs, dim)
    n_outputs = targets.n_outputs
    needed = min(n_outputs - 1, len(targets))
    if dim < needed:
        raise UsageError(
            f"distributions over {n_outputs} tokens after {len(targets)} contexts need dim >= {needed} (DPC24 Proposition 2); "
            f"dim is {dim}.\n"
            "  For a smaller dimension, search for the encoder of least divergence with "
            "byheart.construct.dana_2024.encoders.best_encoder.",
            n_outputs=n_outputs,
            n_targets=len(targets),
            needed=needed,
            dim=dim,
        )
    return encoder_of_logits(targets.logits(LOGIT_MARGIN[precision]), dim)


def _compact(
    targets: NextTokenTargets,
    encoded: np.ndarray,
    options: DanaOptions,
    rng: np.random.Generator,
    progress: Progress | None,
) -> tuple[AttentionOnly, dict[str, Any]]:
    dim, head_dim = options.sizes("next-token", targets.n_outputs, len(targets))
    seed = int(rng.integers(2**63))
    begin = report_attempts(progress)

    def fit(n_heads: int) -> CompactFit:
        begin()
        sizes = (targets.contexts.n_vocab, encoded.shape[1], dim, n_heads, head_dim, head_dim, dim)
        spec = AttentionOnlySpec(options.precision, *sizes, targets.n_outputs)
        made = fit_compact(encoded, targets.next_tokens, spec, np.random.default_rng(seed))
        tried.append((n_heads, made.accuracy))
        return made

    tried: list[tuple[int, float]] = []
    if options.n_heads is not None:
        found: CompactFit | None = fit(options.n_heads)
    else:
        most = max(1, heads_needed(len(targets), dim, head_dim))
        search = find_fewest(fit, lambda each: each.accuracy == 1, most, most=most)
        found = None if search is None else search.fit
    if found is None or found.accuracy < 1:
        n_heads, reached = max(tried, key=lambda each: each[1])
        raise AssumptionViolated(
            f"the fitted network with n_heads = {n_heads} is right on only {reached:.2%} of the sequences.\n"
            "  Use more heads, a larger dim or mode=theorem.",
            n_heads=n_heads,
            accuracy=reached,
        )
    return found.network, {"mode": "compact", "evaluations": found.evaluations, "tried": tuple(tried)}


def _theorem_size(data: Dataset, network: AttentionOnly, n_sequences: int, n_last: int | None) -> TheoremSize:
    """Return the size that the theorem gives. The theorem has one vocabulary for input tokens and answers. Here these can be two
    vocabularies, and the size is computed for the larger one.
    """
    n_tokens = max(data.vocab or 0, network.n_outputs)
    sizes = (n_sequences, n_tokens, network.seq_len)
    if data.task == "next-token":
        bound = corollary_1_parameters(*sizes, n_last)
    else:
        bound = theorem_1_parameters(*sizes, network.dim, n_last)
    return size_of_bound(bound, width=max(network.dim, n_sequences - network.dim), depth=1)
