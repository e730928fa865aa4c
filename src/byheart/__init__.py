"""byheart compiles a data set into the weights of a Transformer that provably memorises it.

    import byheart as bh
    data = bh.Dataset.from_csv("capitals.csv")
    model = bh.compile(data)
    model.predict(["capital of France"])

Lower and upper bounds from theory are in `byheart.bounds`. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from byheart import bounds, graft, measure
    from byheart.compare import compare
    from byheart.data.dataset import Dataset
    from byheart.model import Model
    from byheart.pipeline import compile, load
    from byheart.storage.signature import sign
    from byheart.verify.certificate import Certificate
    from byheart.verify.verifier import verify_model as verify

    __version__: str

__all__ = [
    "Certificate",
    "Dataset",
    "Model",
    "__version__",
    "bounds",
    "compare",
    "compile",
    "graft",
    "load",
    "measure",
    "sign",
    "verify",
]

_HOMES = {
    "Certificate": "byheart.verify.certificate",
    "Dataset": "byheart.data.dataset",
    "Model": "byheart.model",
    "compile": "byheart.pipeline",
    "load": "byheart.pipeline",
    "sign": "byheart.storage.signature",
}
_PACKAGES = ("bounds", "compare", "graft", "measure", "verify")
"""The public names that are modules. All except `bounds` can also be called as functions."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import byheart` is fast."""
    value: Any
    if name == "__version__":
        from byheart.verify.versions import package_version

        value = package_version("byheart")
    elif name in _PACKAGES:
        value = import_module(f"byheart.{name}")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'byheart' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, imported or not, for completion in a shell."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
