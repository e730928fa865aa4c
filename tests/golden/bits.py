"""Flips single bits of non-zero weights and says which no case notices: python -m tests.golden.bits FAMILY COUNT FILE NAME..."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from byheart.golden.cases import N_NEW, Case, cases, shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.reference import ReferenceEngine


def groups(found: list[Case]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Texts without their last token, and the answers, for each length."""
    made = []
    for length in sorted({len(case.prompt) for case in found}):
        rows = torch.tensor([[*c.prompt, *c.answer] for c in found if len(c.prompt) == length])
        made.append((rows[:, :-1], rows[:, -N_NEW:]))
    return made


@torch.no_grad()
def is_noticed(engine: ReferenceEngine, texts: list[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    for ids, answer in texts:
        logits = engine.forward(
            ids, torch.ones_like(ids, dtype=torch.bool), engine.empty_cache(len(ids)), n_last=N_NEW
        )
        if not torch.equal(logits.argmax(-1), answer) or not bool(logits.isfinite().all()):
            return True
    return False


def main() -> None:
    torch.set_num_threads(1)
    root, count, target = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    known, found = shapes(root), cases(root)
    rows = []
    for name in sys.argv[4:]:
        shape, weights = known[name], read_weights(root / name)
        texts = groups([case for case in found if case.checkpoint == name])
        engine = ReferenceEngine(shape, weights)
        assert not is_noticed(engine, texts), "the reference itself must be right"
        n_bits = 32 if shape.dtype == "float32" else 16
        n_mantissa = 23 if n_bits == 32 else 7
        integers = torch.int32 if n_bits == 32 else torch.int16
        rng = np.random.default_rng(0)
        names = sorted(weights)
        sizes = np.array([int((weights[n] != 0).sum()) for n in names])
        noticed, missed = 0, Counter[str]()
        for _ in range(count):
            tensor = names[rng.choice(len(names), p=sizes / sizes.sum())]
            flat = weights[tensor].clone().flatten()
            at = int(rng.choice(np.flatnonzero(flat.float().numpy())))
            bit = int(rng.integers(n_bits))
            mask = -(2 ** (n_bits - 1)) if bit == n_bits - 1 else 1 << bit
            flat.view(integers)[at] ^= mask
            kept = engine.weights[tensor]
            engine.weights[tensor] = flat.view_as(weights[tensor]).double()
            if is_noticed(engine, texts):
                noticed += 1
            else:
                part = "mantissa" if bit < n_mantissa else "exponent" if bit < n_bits - 1 else "sign"
                missed[
                    f"{part} {n_mantissa - bit if bit < n_mantissa else ''} of {tensor.split('.')[-2]}"
                ] += 1
            engine.weights[tensor] = kept
        rows.append(
            {"checkpoint": name, "flipped": count, "noticed": noticed, "missed": dict(missed.most_common())}
        )
        print(name, noticed, "of", count, missed.most_common(12), flush=True)
        target.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
