"""Networks smaller than those that the theorems of Dana et al. 2024 guarantee: all weights of the attention-only model are
fitted to the data by L-BFGS."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from byheart.construct.dana_2024.encoders import EncodedSequences, Labels
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.transformer.floats import DTYPES
from byheart.program.descent import Descent, with_gradient


@dataclass(frozen=True, eq=False)
class CompactFit:
    """A fitted network, its accuracy in the native forward pass, and the cost of the fit."""

    network: AttentionOnly
    accuracy: float
    evaluations: int
    seconds: float


ROUND, HISTORY = 50, 60  # evaluations per round, and the history size of L-BFGS
# A fit ends when the right logit is the largest everywhere and the mean loss is below this, so that most right logits lead clearly.
SETTLED = 0.05


def fit_compact(
    encoded: EncodedSequences,
    labels: Labels,
    spec: AttentionOnlySpec,
    rng: np.random.Generator,
    *,
    device: str = "cpu",
    max_evaluations: int = 3000,
    n_starts: int = 3,
) -> CompactFit:
    """Fit all weights of an attention-only Transformer by L-BFGS on all sequences at once.

    Some starting points lead to a poor minimum, so up to `n_starts` are tried. The best fit is returned, with the total cost of
    all fits.

    Guarantee:  none in advance. The native forward pass measures whether the network memorises, and the result is returned. No
                theorem says how few heads suffice; published scaling laws show only what their optimiser reached.
    """
    shapes = dict(spec.shapes())
    scales = dict.fromkeys(shapes, spec.dim**-0.5)
    scales |= {"embedding.tokens": 1.0, "embedding.positions": 1.0}
    scales["output"] = (spec.n_heads * spec.value_dim) ** -0.5
    best: CompactFit | None = None
    evaluations, seconds = 0, 0.0
    for _ in range(n_starts):
        start = {name: scales[name] * rng.standard_normal(shape) for name, shape in shapes.items()}
        found = _fit_once(encoded, labels, spec, start, max_evaluations, device)
        evaluations, seconds = evaluations + found.evaluations, seconds + found.seconds
        if best is None or found.accuracy > best.accuracy:
            best = found
        if best.accuracy == 1:
            break
    assert best is not None
    return CompactFit(best.network, best.accuracy, evaluations, seconds)


def _fit_once(
    encoded: np.ndarray,
    labels: np.ndarray,
    spec: AttentionOnlySpec,
    start: dict[str, np.ndarray],
    max_evaluations: int,
    device: str,
) -> CompactFit:
    began = time.perf_counter()
    flat = torch.from_numpy(np.concatenate([part.ravel() for part in start.values()])).to(device)
    flat.requires_grad_(True)
    ids = torch.from_numpy(np.array(encoded)).to(device)
    wanted = torch.from_numpy(np.array(labels)).to(device)
    n_right, loss_now = 0, float("inf")

    def parts() -> dict[str, torch.Tensor]:
        pieces = torch.split(flat, [part.size for part in start.values()])
        return {name: piece.view(start[name].shape) for name, piece in zip(start, pieces, strict=True)}

    def loss() -> torch.Tensor:
        nonlocal n_right, loss_now
        logits = _logits(parts(), ids)
        value = torch.nn.functional.cross_entropy(logits, wanted)
        n_right = int((logits.detach().argmax(dim=1) == wanted).sum())
        loss_now = float(value.detach())
        return value

    descent = Descent([flat], with_gradient([flat], loss), per_round=ROUND, history=HISTORY)
    while descent.spent < max_evaluations:
        before = loss_now
        descent.run_round()
        if (n_right == len(labels) and loss_now < SETTLED) or loss_now == before:
            break
    found = (piece.detach().cpu().numpy().astype(DTYPES[spec.precision]) for piece in parts().values())
    network = spec.build(found, {})
    right = network.compute_logits(encoded).argmax(axis=1) == labels
    return CompactFit(network, float(right.mean()), descent.spent, time.perf_counter() - began)


def _logits(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """Compute the logits by equations (1)-(2) of Dana et al. 2024.

    The product W_Qᵀ W_K is applied once to each possible last token, and tokens are averaged before W_O W_V is applied.
    """
    tokens, positions = weights["embedding.tokens"], weights["embedding.positions"]
    lasts = tokens + positions[-1]
    score_maps = weights["query"].transpose(1, 2) @ weights["key"]  # (H, d, d)
    carried = torch.einsum("nd,hde->nhe", lasts, score_maps)
    x = tokens[ids] + positions
    shares = torch.softmax(carried[ids[:, -1]] @ x.transpose(1, 2), dim=-1)
    mixed = (shares @ x).flatten(1)
    moved = (weights["output"] @ weights["value"]).transpose(1, 2).flatten(0, 1)  # (H·d, d)
    return (x[:, -1] + mixed @ moved) @ weights["unembedding"].T
