"""DPC24 Theorem 1 and Corollary 1 as a construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from byheart.bounds.dana_2024 import AttentionOnlyShape, corollary_1_parameters, theorem_1_parameters
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.dana_2024.compact import CompactFit, fewest_heads, fit_compact
from byheart.construct.dana_2024.encoders import SequenceEncoder, association_encoder
from byheart.construct.dana_2024.head_solver import interpolate
from byheart.construct.dana_2024.size import HEAD_DIM, NAME, default_dim, heads_needed
from byheart.construct.registry import require_known
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.attention_only.module import attention_only_logits
from byheart.network.memory import Memory, Progress
from byheart.program.construction import Assumption, Construction, statistics_of
from byheart.program.float_sizes import measured
from byheart.program.targets import ALLOWED_DIVERGENCE, LOGIT_MARGIN, NextTokenTargets, targets_of
from byheart.theorems import realises

ATTEMPTS = 4


@dataclass(frozen=True)
class Choices:
    """The options, checked.

    mode      `theorem`: H·d_h + d >= T, one solve; `compact`: the whole model fitted, the fewest heads by bisection
    dim       d; by default 2 for associations (Corollary 1) and N - 1 for distributions (Proposition 2)
    head_dim  d_h; by default d up to 4, and d for compact
    n_heads   compact: heads to fit; None for the fewest found
    """

    precision: Literal["float64", "float32"] = "float64"
    mode: Literal["theorem", "compact"] = "theorem"
    dim: int | None = None
    head_dim: int | None = None
    n_heads: int | None = None

    @staticmethod
    def of(options: Mapping[str, object]) -> Choices:
        """Read options; `UsageError` names what is wrong with one."""
        require_known(NAME, options, Choices.__dataclass_fields__)
        given: dict[str, Any] = dict(options)
        choices = Choices(**given)
        if choices.mode not in ("theorem", "compact"):
            raise UsageError(f"mode is {choices.mode!r}; choose theorem or compact.")
        return choices


@realises("DPC24-T1")
def likeliest_sequences(
    weights: Float[np.ndarray, " n_sequences"], epsilon: float
) -> Int[np.ndarray, " n_kept"]:
    """The T_ε likeliest sequences: the fewest whose weights add up to more than 1 - ε (all with weight for ε = 0)."""
    order = np.argsort(-weights, kind="stable")
    if epsilon <= 0:
        return order[weights[order] > 0]
    reached = np.cumsum(weights[order]) / weights.sum()
    return order[: int(np.searchsorted(reached, 1 - epsilon, side="right")) + 1]


def memorise(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile sequences and what follows them into one layer of attention alone.

    Source:     DPC24 Theorem 1 with ε = 0, Corollary 1 (d = 2, associations) and Proposition 2 (d = N - 1, distributions).
    Assumes:    distinct sequences of tokens.
    Guarantee:  associations: the largest logit is the right one, by a margin far above the residual; distributions: the
                divergence stands in the certificate. Mode `compact` has no guarantee but its verification.
    Size:       `size_of`: d(S + 2N + 4 d_h H) parameters with H·d_h + d >= T.
    Departs:    see `interpolate`. Shorter sequences are allowed: positions count from the end.
    """
    choices = Choices.of(options)
    targets = targets_of(data)
    contexts = targets.contexts
    ragged = bool(contexts.lengths.min() < contexts.max_len)
    encoded = contexts.padded(contexts.n_vocab, contexts.max_len)
    if choices.mode == "compact":
        network, notes = _compact(targets, encoded, choices, data, ragged, rng, progress)
    else:
        network, notes = _theorem(targets, encoded, choices, data, ragged, rng)
    if data.task == "distribution":
        notes |= {"allowed_divergence": ALLOWED_DIVERGENCE}
    if progress is not None:
        progress(1, 1)
    n_sequences = len(targets)
    shape = AttentionOnlyShape(
        network.n_outputs, network.seq_len, network.dim, int(network.value.shape[1]), network.n_heads
    )
    return Construction(
        memory=Memory(network, data.task, data.label_names, data.tokenizer, True),
        method=NAME,
        theorem="DPC24 Corollary 1" if data.task == "next-token" else "DPC24 Theorem 1",
        assumptions=(
            Assumption(
                "distinct sequences", True, f"{n_sequences} sequences of at most {network.seq_len} tokens"
            ),
            Assumption(
                "H·d_h + d >= T", shape.rank >= n_sequences, f"{shape.rank} against {n_sequences} sequences"
            ),
        ),
        theorem_size=_theorem_size(data, network, n_sequences),
        notes={**notes, "n_contexts": n_sequences},
        statistics=measured(
            replace(statistics_of(data), n_contexts=n_sequences),
            network,
            dim=network.dim,
            head_dim=network.head_dim,
            heads=network.n_heads,
        ),
    )


def _theorem(
    targets: NextTokenTargets,
    encoded: np.ndarray,
    choices: Choices,
    data: Dataset,
    ragged: bool,
    rng: np.random.Generator,
) -> tuple[AttentionOnly, dict[str, Any]]:
    """Draw heads until the native forward pass is right on every sequence."""
    dim = choices.dim or default_dim(data.task, targets.n_outputs)
    head_dim = choices.head_dim or min(dim, HEAD_DIM)
    if dim < 2 or not 1 <= head_dim <= dim:
        raise UsageError(
            f"dim is {dim} and head_dim {head_dim}; needed are dim >= 2 and 1 <= head_dim <= dim."
        )
    encoder = _encoder(targets, data, dim, choices.precision)
    n_vocab = targets.contexts.n_vocab
    for _attempt in range(ATTEMPTS):
        found = interpolate(
            encoded, n_vocab, encoder, rng, head_dim=head_dim, precision=choices.precision, ragged=ragged
        )
        logits = attention_only_logits(found.network, encoded)
        if data.task == "distribution":
            is_right = bool((targets.divergences(logits.astype(np.float64)) <= ALLOWED_DIVERGENCE).all())
        else:
            is_right = bool((logits.argmax(axis=1) == targets.next_tokens).all())
        if is_right:
            notes = {
                "mode": "theorem",
                "condition": found.condition,
                "residual": found.residual,
                "score_spread": found.score_spread,
            }
            return found.network, notes
    raise AssumptionViolated(
        f"heads of dimension {head_dim} in dimension {dim} do not tell these {len(targets)} sequences apart in "
        f"{choices.precision} (condition {found.condition:.2g}).\n  Give a larger dim, or float64.",
        condition=found.condition,
    )


def _encoder(targets: NextTokenTargets, data: Dataset, dim: int, precision: str) -> SequenceEncoder:
    """Circle points for associations; for distributions the logits themselves, in dimension N - 1 (Proposition 2)."""
    if data.task == "next-token":
        return association_encoder(targets.next_tokens, targets.n_outputs, dim)
    n_outputs = targets.n_outputs
    if dim < n_outputs - 1:
        raise UsageError(
            f"distributions over {n_outputs} tokens need dim >= {n_outputs - 1} (DPC24 Proposition 2); dim is {dim}.\n"
            "  The best encoder of a smaller dimension is byheart.construct.dana_2024.encoders.best_encoder."
        )
    logits = targets.logits(LOGIT_MARGIN[precision])
    shifted = logits - logits[:, -1:]
    embeddings = np.zeros((len(targets), dim))
    embeddings[:, : n_outputs - 1] = shifted[:, : n_outputs - 1]
    return SequenceEncoder(np.eye(n_outputs, dim), embeddings)


def _compact(
    targets: NextTokenTargets,
    encoded: np.ndarray,
    choices: Choices,
    data: Dataset,
    ragged: bool,
    rng: np.random.Generator,
    progress: Progress | None,
) -> tuple[AttentionOnly, dict[str, Any]]:
    if data.task != "next-token" or ragged:
        raise UsageError("mode compact is for next-token sequences of one length.")
    dim = choices.dim or 10
    head_dim = choices.head_dim or dim
    seed = int(rng.integers(2**63))
    done = 0

    def fit(n_heads: int) -> CompactFit:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, done + 1)
        return fit_compact(
            encoded,
            targets.next_tokens,
            targets.contexts.n_vocab,
            targets.n_outputs,
            np.random.default_rng(seed),
            dim=dim,
            head_dim=head_dim,
            n_heads=n_heads,
            precision=choices.precision,
        )

    if choices.n_heads is not None:
        found: CompactFit | None = fit(choices.n_heads)
        tried: tuple[tuple[int, float], ...] = ()
    else:
        found, tried = fewest_heads(fit, 0, max(1, heads_needed(len(targets), dim, head_dim)))
    if found is None or found.accuracy < 1:
        reached = 0.0 if found is None else found.accuracy
        raise AssumptionViolated(
            f"the fit is right on {reached:.2%} of the sequences.\n  Give more heads, a larger dim or mode=theorem.",
            accuracy=reached,
        )
    return found.network, {"mode": "compact", "evaluations": found.evaluations, "tried": tried}


def _theorem_size(data: Dataset, network: AttentionOnly, n_sequences: int) -> TheoremSize:
    if data.task == "next-token":
        bound = corollary_1_parameters(n_sequences, network.n_outputs, network.seq_len)
    else:
        bound = theorem_1_parameters(n_sequences, network.n_outputs, network.seq_len, network.dim)
    assert isinstance(bound.value, int)
    return TheoremSize(
        name=bound.name,
        statement=bound.statement,
        width=max(network.dim, n_sequences - network.dim),
        depth=1,
        parameters=bound.value,
        weight_bits=0,
        assumptions=bound.assumptions,
        source=bound.source,
    )
