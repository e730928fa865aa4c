"""Ten million facts and more: data made in pieces, and a model of them asked every one, on a CPU or a GPU.

    python benchmarks/large.py make 1e7 facts.npz
    byheart compile facts.npz -o model --method retrieval --reject-bits 0 --shards 8 --work unfinished --workers 2 --sample 20000
    python benchmarks/large.py pack model packed.npz                  # needs all of byheart
    python benchmarks/large.py check packed.npz 1e7 --device cuda     # needs torch and numpy alone; makes the same facts again

Sequences of 8 tokens from a vocabulary of 1,000 and 16 labels, all uniform; with --data grid, 8 vectors of dimension 4 on a grid of
16 levels. Each piece of 2^20 rows has random numbers of its own.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from bare_machine import ROOT
from numpy.lib import format as npy

SEQ_LEN, VOCABULARY, DIM, LEVELS, N_CLASSES = 8, 1000, 4, 16, 16
STEP = 1 << 20


def piece(data: str, number: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of one piece of at most `STEP` rows."""
    rng = np.random.default_rng([0, number])
    if data == "grid":
        inputs = rng.integers(0, LEVELS, size=(n_rows, SEQ_LEN, DIM), dtype=np.uint8).astype(np.float16)
    else:
        inputs = rng.integers(0, VOCABULARY, size=(n_rows, SEQ_LEN), dtype=np.uint16)
    labels = np.random.default_rng([1, number]).integers(0, N_CLASSES, size=n_rows, dtype=np.uint8)
    return inputs, labels


def sizes(n_samples: int) -> list[int]:
    """Rows of each piece."""
    return [min(STEP, n_samples - start) for start in range(0, n_samples, STEP)]


def make(data: str, n_samples: int, target: Path) -> None:
    """Write the facts as an NPZ, never more than a piece in memory."""
    inputs = ((n_samples, SEQ_LEN, DIM), "<f2") if data == "grid" else ((n_samples, SEQ_LEN), "<u2")
    shapes = {"inputs": inputs, "labels": ((n_samples,), "|u1")}
    with zipfile.ZipFile(target, "w") as archive:
        for which, (name, (shape, descr)) in enumerate(shapes.items()):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(file, header)
                for number, n_rows in enumerate(sizes(n_samples)):
                    file.write(piece(data, number, n_rows)[which].tobytes())


def pack(folder: Path, target: Path) -> None:
    """The weights and the architecture of a model, for a machine without byheart's dependencies.

    Table words are whole multiples of a power of two; columns of large matrices are kept in as many bytes as their numbers have.
    """
    import byheart as bh

    network = bh.load(folder).memoriser.network
    arrays: dict[str, np.ndarray] = {"spec": np.array(json.dumps(asdict(network.spec)))}
    for number, (_, weights) in enumerate(network.parameters()):
        dense = np.asarray(weights, dtype=np.float64)
        if dense.ndim == 2 and dense.size > 1 << 16:
            lines = dense if dense.shape[0] < dense.shape[1] else dense.T
            for at, line in enumerate(lines):
                arrays |= {f"{number}.{at}.{name}": part for name, part in shorten(line).items()}
            arrays[f"{number}.shape"] = np.array(dense.shape)
        else:
            arrays[f"{number}.whole"] = dense
    np.savez(target, **arrays)
    print(f"{target}: {target.stat().st_size:,} bytes")


def shorten(line: np.ndarray) -> dict[str, np.ndarray]:
    """A line of floats as whole numbers of few bytes, times a power of two."""
    _, exponents = np.frexp(line)
    unit = int(exponents[line != 0].min(initial=0)) - 53
    while unit < 64 and (np.ldexp(line, -unit - 1) == np.rint(np.ldexp(line, -unit - 1))).all():
        unit += 1
    whole = np.ldexp(line, -unit).astype(np.int64)
    n_bytes = max(1, (int(np.abs(whole).max(initial=0)).bit_length() + 8) // 8)
    raw = whole.view(np.uint8).reshape(-1, 8)[:, :n_bytes]
    assert (lengthen(raw, unit) == line).all()
    return {"bytes": raw, "unit": np.array(unit)}


def lengthen(raw: np.ndarray, unit: int) -> np.ndarray:
    """What `shorten` shortened."""
    sign = np.where(raw[:, -1:] >= 128, 255, 0).astype(np.uint8)
    full = np.concatenate([raw, np.repeat(sign, 8 - raw.shape[1], axis=1)], axis=1)
    return np.ldexp(np.ascontiguousarray(full).view(np.int64)[:, 0].astype(np.float64), unit)


def unpack(source: Path) -> object:
    """The network of a packed model, or of a model folder."""
    if source.is_dir():
        import byheart as bh

        return bh.load(source).memoriser.network
    from byheart.network.transformer.spec import LayerRun, TransformerSpec

    stored = np.load(source)
    numbers = sorted({int(name.partition(".")[0]) for name in stored.files if name != "spec"})
    weights = []
    for number in numbers:
        if f"{number}.whole" in stored:
            weights.append(stored[f"{number}.whole"])
            continue
        shape = tuple(stored[f"{number}.shape"].tolist())
        lines = [
            lengthen(stored[f"{number}.{at}.bytes"], int(stored[f"{number}.{at}.unit"]))
            for at in range(min(shape))
        ]
        weights.append(np.stack(lines) if shape[0] < shape[1] else np.ascontiguousarray(np.stack(lines).T))
    shape = json.loads(str(stored["spec"]))  # packed by this script: a bare machine has no reader
    runs = (LayerRun(**{**run, "sizes": tuple(run["sizes"])}) for run in shape["runs"])
    return TransformerSpec(**{**shape, "runs": tuple(runs)}).build(iter(weights), {})


def check(
    data: str,
    source: Path,
    n_samples: int,
    device: str,
    seconds: float,
    batch_size: int | None,
    target: Path,
    first: int,
) -> None:
    """Ask every fact from piece `first` on until the time is over; say how many were asked and how many were wrong."""
    import torch

    from byheart.network.transformer.architecture import Transformer
    from byheart.network.transformer.module import run_module

    network = unpack(source)
    assert isinstance(network, Transformer)
    start, asked, wrong = time.monotonic(), 0, 0
    for number, n_rows in list(enumerate(sizes(n_samples)))[first:]:
        inputs, labels = piece(data, number, n_rows)
        encoded = inputs.astype(np.int64 if data == "tokens" else np.float32)
        outputs = run_module(network, encoded, last_only=True, device=device, batch_size=batch_size).reshape(
            -1
        )
        asked += n_rows
        wrong += int((outputs != labels.astype(np.float64) + 1).sum())
        found = {
            "device": torch.cuda.get_device_name() if device == "cuda" else device,
            "torch": torch.__version__,
            "facts": n_samples,
            "first_piece": first,
            "data": data,
            "precision": network.precision,
            "parameters": network.spec.parameters_dense,
            "stored_bits": network.stored_bits,
            "bits_per_stored_bit": round(n_samples * np.log2(N_CLASSES) / network.stored_bits, 4),
            "asked": asked,
            "wrong": wrong,
            "seconds": round(time.monotonic() - start, 1),
        }
        print(json.dumps(found), flush=True)
        target.write_text(json.dumps(found, indent=1) + "\n")
        if time.monotonic() - start > seconds:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "pack", "check"))
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--data", choices=("tokens", "grid"), default="tokens")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--first", dest="first_piece", type=int, default=0, metavar="PIECE")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "records" / "large.json")
    given = parser.parse_args()
    if given.what == "make":
        make(given.data, int(float(given.first)), Path(given.second))
    elif given.what == "pack":
        pack(Path(given.first), Path(given.second))
    else:
        n_samples = int(float(given.second))
        settings = (given.device, given.seconds, given.batch, given.output, given.first_piece)
        check(given.data, Path(given.first), n_samples, *settings)


if __name__ == "__main__":
    main()
