"""What the closed forms' benchmark needs a GPU for, on a machine with torch and numpy alone; prints one JSON line a result.

    python benchmarks/closed_forms_on_device.py --prepare            # cut the stories into out/closed_forms_device
    python benchmarks/closed_forms_on_device.py --device cuda [--seconds 90] [SECTION ...]

Sections: associations (100,000 by convex regression), steps (10⁶ contexts, every one through the native forward pass),
training (steps that the paper's Adam takes to a gap of 1%), compact (10,000 bigrams), each within its share of --seconds.
`--small` shrinks all of them, to try the script on a CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from bare_machine import ROOT

from byheart.construct.dana_2024.compact import fit_compact
from byheart.construct.madden_2024.associations import associate
from byheart.construct.madden_2024.context_vectors import (
    draw_mixing,
    mixed_contexts,
    with_neurons,
    with_outputs,
)
from byheart.construct.madden_2024.random_features import draw_neurons, features_of
from byheart.construct.madden_2024.step_solution import solve_by_steps
from byheart.data.sequences import TokenSequences
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnlySpec
from byheart.network.batches import run_in_batches
from byheart.network.decoder.module import DecoderModule
from byheart.program.targets import NextTokenTargets

FILE = ROOT / "out" / "closed_forms_device" / "stories.npz"
Row = dict[str, Any]


def prepare() -> None:
    """Write contexts of 1,000 stories and what follows them, as arrays."""
    from byheart.data.generators import story_openings
    from byheart.program.targets import targets_of

    lines = (ROOT.parent / "shared" / "data" / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    targets = targets_of(story_openings([json.loads(line)["text"] for line in lines], 1000))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        FILE,
        contexts=targets.contexts.pad(targets.contexts.n_vocab, 9),
        counts=targets.counts,
        rows=targets.rows,
        next_tokens=targets.next_tokens,
        probabilities=targets.probabilities,
        n_outputs=targets.n_outputs,
    )
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.2f} MB")


def associations(device: str, small: bool, seconds: float) -> Iterator[Row]:
    """100,000 random associations over 1,000 tokens by convex regression."""
    n_contexts = 2_000 if small else 100_000
    for n_neurons in (128,) if small else (1024, 1536, 2048):
        rng = np.random.default_rng(0)
        rows = np.unique(rng.integers(0, 1000, (int(1.01 * n_contexts), 3)), axis=0)[:n_contexts]
        labels = rng.integers(0, 1000, n_contexts)
        front = draw_mixing("attention", 1000, 3, 16, 1000, rng, precision="float32")
        neurons = draw_neurons(front, mixed_contexts(front, rows), n_neurons, rng)
        start = time.perf_counter()
        features = features_of(neurons, rows)
        drawing = time.perf_counter() - start
        fit = associate(features, labels, rng, n_outputs=1000, device=device, max_passes=60)
        decoder = with_outputs(neurons, fit.coefficients)
        right = decoder.compute_logits(rows, device=device).argmax(axis=1) == labels
        yield {
            "associations": n_contexts,
            "neurons": n_neurons,
            "accuracy": float(right.mean()),
            "passes": fit.passes,
            "fit_seconds": fit.seconds,
            "features_seconds": drawing,
        }
        seconds -= fit.seconds + drawing
        if right.all() or seconds < 0:
            return


def steps(device: str, small: bool, seconds: float) -> Iterator[Row]:
    """The step solution on random contexts: each of them through the native forward pass."""
    n_contexts = 3_000 if small else 1_000_000
    for kind in ("attention", "averaging"):
        rng = np.random.default_rng(0)
        rows = np.unique(rng.integers(0, 64, (int(n_contexts * 1.05) + 10, 6)), axis=0)
        rows = rows[rng.permutation(len(rows))[:n_contexts]]
        labels = rng.integers(0, 16, n_contexts)
        ones = np.ones(n_contexts)
        targets = NextTokenTargets(
            TokenSequences(rows.reshape(-1), 6 * np.arange(n_contexts + 1), 64),
            ones.astype(np.int64),
            np.arange(n_contexts),
            labels,
            ones,
            16,
        )
        start = time.perf_counter()
        for _ in range(8):
            front = draw_mixing(kind, 64, 6, 1, 16, rng)
            try:
                found = solve_by_steps(front, rows, targets.logits(40.0))
                break
            except AssumptionViolated:
                continue
        built = time.perf_counter() - start
        module = DecoderModule(found.decoder).to(device).eval()
        start = time.perf_counter()
        # 2^30 activations at once, 8 GB: a batch of the usual size would leave a GPU idle
        logits = run_in_batches(
            module, rows, max(1, n_contexts // (64 if device == "cuda" else 1)), device=device
        )
        checking = time.perf_counter() - start
        yield {
            "contexts": n_contexts,
            "kind": kind,
            "build_seconds": built,
            "native_seconds": checking,
            "checked": len(logits),
            "equal_to_targets": int((logits == found.targets).all(axis=1).sum()),
            "max_kl": float(targets.divergences(logits).max()),
        }
        seconds -= checking + built
        if seconds < checking:
            return


def training(device: str, small: bool, seconds: float) -> Iterator[Row]:
    """Steps of full-batch Adam to a gap of 1% of the entropy: the paper's rate, constant, and a tuned one."""
    arrays = np.load(FILE)
    ids = torch.from_numpy(arrays["contexts"]).to(device)
    n_vocab = n_outputs = int(arrays["n_outputs"])
    mass = torch.from_numpy(arrays["counts"][arrays["rows"]] * arrays["probabilities"]).to(device).float()
    entropy = float(
        -(arrays["counts"][arrays["rows"]] * arrays["probabilities"] * np.log(arrays["probabilities"])).sum()
    )
    flat = torch.from_numpy(arrays["rows"] * n_outputs + arrays["next_tokens"]).to(device)
    most, every = (200, 50) if small else (50_000, 250)
    ends = time.perf_counter() + seconds
    for n_neurons in (64,) if small else (64, 256):
        for rate in (1e-4, 1e-2):
            torch.manual_seed(0)
            rng = np.random.default_rng(0)
            front = draw_mixing(
                "attention", n_vocab, 9, 16, n_outputs, rng, activation="gelu", precision="float32"
            )
            # the paper's framework default: uniform within 1/√fan_in
            hidden = rng.uniform(-0.25, 0.25, (16, n_neurons))
            outputs = rng.uniform(-1, 1, (n_neurons, n_outputs)) / np.sqrt(n_neurons)
            decoder = with_neurons(front, hidden, rng.uniform(-0.25, 0.25, n_neurons), outputs)
            module = DecoderModule(decoder).to(device)
            step = _stepper(module, ids, flat, mass, rate)
            reached, done, gap, start = None, 0, float("inf"), time.perf_counter()
            while done < most and time.perf_counter() < ends and reached is None:
                for _ in range(every):
                    loss = step()
                done += every
                gap = float(loss) / entropy - 1
                if gap < 0.01:
                    reached = done
            yield {
                "neurons": n_neurons,
                "rate": rate,
                "steps_to_1%": reached,
                "steps": done,
                "gap": gap,
                "seconds": time.perf_counter() - start,
            }


def _stepper(
    module: torch.nn.Module, ids: torch.Tensor, flat: torch.Tensor, mass: torch.Tensor, rate: float
) -> Callable[[], torch.Tensor]:
    """One Adam step on the sum of cross-entropies, recorded as a CUDA graph where there is a GPU."""
    on_gpu = ids.is_cuda
    optimiser = torch.optim.Adam(module.parameters(), lr=rate, capturable=on_gpu)

    def step() -> torch.Tensor:
        optimiser.zero_grad(set_to_none=False)
        loss = -(mass * torch.log_softmax(module(ids), dim=1).view(-1)[flat]).sum()
        loss.backward()
        optimiser.step()
        return loss.detach()

    if not on_gpu:
        return step
    before = {name: value.clone() for name, value in module.state_dict().items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():  # warming up has moved weights and moments: begin anew
        module.load_state_dict(before)
        for state in optimiser.state.values():
            for value in state.values():
                value.zero_()

    def replay() -> torch.Tensor:
        graph.replay()
        return loss

    return replay


def compact(device: str, small: bool, seconds: float) -> Iterator[Row]:
    """All bigrams of N tokens by fitting every weight: fewer heads each time, until a fit falls short."""
    n_tokens, dim = (10, 4) if small else (100, 14)
    ids = np.stack(np.meshgrid(range(n_tokens), range(n_tokens), indexing="ij"), -1).reshape(-1, 2)
    ends = time.perf_counter() + seconds
    for n_heads in (8, 4) if small else (100, 90, 80, 75, 70, 65):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, n_tokens, len(ids))
        spec = AttentionOnlySpec("float32", n_tokens, ids.shape[1], dim, n_heads, dim, dim, dim, n_tokens)
        fit = fit_compact(ids, labels, spec, rng, max_evaluations=4000, n_starts=1, device=device)
        yield {
            "N": n_tokens,
            "d": dim,
            "H": n_heads,
            "parameters": sum(weights.size for _, weights in fit.network.parameters()),
            "accuracy": fit.accuracy,
            "evaluations": fit.evaluations,
            "seconds": fit.seconds,
        }
        if fit.accuracy < 1 or time.perf_counter() + fit.seconds > ends:
            return


SECTIONS = {function.__name__: function for function in (associations, steps, training, compact)}
SHARE = {"associations": 0.1, "steps": 0.3, "training": 0.25, "compact": 0.35}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS])
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=90.0)
    options = parser.parse_args()
    if options.prepare:
        prepare()
        return
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(json.dumps({"torch": torch.__version__, "device": name}), flush=True)
    for section in options.sections or list(SECTIONS):
        try:
            for row in SECTIONS[section](options.device, options.small, SHARE[section] * options.seconds):
                print(json.dumps({"section": section, **row}), flush=True)
        except Exception as error:  # the other sections are worth their device time all the same
            print(json.dumps({"section": section, "failed": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
