"""Remove a graft: restore the host's files, byte for byte, from the grafted weights and from the copies that the graft keeps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from byheart.errors import ByheartError, CorruptModel, UsageError
from byheart.files.atomic_folder import replaced_folder
from byheart.files.digest import digest_of_file
from byheart.graft.contents import KEPT, NORMS
from byheart.graft.folder import read_record, require_plain_name
from byheart.graft.host import DTYPES, FolderHost
from byheart.records.fields import Fields
from byheart.records.refusals import corrupt
from byheart.storage.target import GRAFT_RECORD

HEADER = ".header"
REMEDY = "Restore the folder from a copy you trust, or use your own copy of the host."


def remove_graft(folder: Path, target: Path) -> list[str]:
    """Write the host's files to `target` and return their names.

    Raise `CorruptModel` unless each file has its original digest.
    """
    record = read_record(folder)
    digests = record.child("host").values
    grafted = FolderHost(folder)
    layers = record.integers("layers", 0, 2**16)
    n_added = grafted.shape.n_layers - (layers or (0,))[0]
    for name in digests:
        require_plain_name(name, folder)
    stored = {file.name.removesuffix(HEADER) for file in (folder / KEPT).glob("*")} - {NORMS}
    if left_out := sorted(stored - set(digests)):
        raise corrupt(folder / GRAFT_RECORD, f"it does not name the host file {left_out[0]}", REMEDY)
    with replaced_folder(target, check_empty) as fresh:
        for name, digest in digests.items():
            header = folder / KEPT / f"{name}{HEADER}"
            if header.is_file():
                try:
                    _rebuild(grafted, n_added, folder, header, fresh / name)
                except (ByheartError, MemoryError):
                    raise
                except Exception as error:  # safetensors and torch raise many types of exceptions
                    problem = (
                        "the stored parts of the host do not match the graft "
                        f"({error or type(error).__name__})"
                    )
                    raise corrupt(header, problem, REMEDY) from error
            elif (folder / KEPT / name).is_file():
                shutil.copyfile(folder / KEPT / name, fresh / name)
            else:
                raise corrupt(folder / KEPT / name, "the stored copy of this host file is missing", REMEDY)
            if digest_of_file(fresh / name) != digest:
                raise CorruptModel(
                    f"{name} cannot be restored: the graft's data for this file were changed.\n"
                    "  Nothing was written. Use your own copy of the host.",
                    file=name,
                )
    return sorted(digests)


def check_empty(path: Path) -> None:
    """Raise an error unless `path` is new or an empty folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            f"{path} exists and is not an empty folder.\n  Nothing was written. Choose another folder.",
            path=str(path),
        )


def _rebuild(grafted: FolderHost, n_added: int, folder: Path, header: Path, target: Path) -> None:
    """Rebuild a safetensors file of the host in `target`: write its original header, then each tensor.

    If `folder`, which holds the graft, keeps a copy of the host's tensor, this copy is written. Otherwise, the tensor is a slice of
    the grafted one. `n_added` is the number of layers that the graft adds.
    """
    from safetensors import safe_open

    raw = header.read_bytes()
    entries: Mapping[str, Any] = Fields.parse(raw[8:], header, REMEDY).values
    places = sorted(
        ((name, entry) for name, entry in entries.items() if name != "__metadata__"),
        key=lambda item: item[1]["data_offsets"][0],
    )
    kept = folder / KEPT / NORMS
    with target.open("wb") as file, safe_open(kept, "pt") as norms:
        file.write(raw)
        names = set(norms.keys())
        for name, entry in places:
            if name in names:
                tensor = norms.get_tensor(name)
            else:
                moved = name
                if name.startswith("model.layers."):
                    number, rest = name.removeprefix("model.layers.").split(".", 1)
                    moved = f"model.layers.{int(number) + n_added}.{rest}"
                wide = grafted.stored(moved)
                tensor = wide[tuple(slice(n) for n in entry["shape"])].to(DTYPES[entry["dtype"]])
            file.write(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
