"""Measure what training achieves: many small models at once, capacity by search, and a store that loses nothing.

`training_set`, `families`, `layout`, `draws`, `objective`, `optimisers`, `lbfgs` and `training` are the engine: they import
only torch, numpy and the standard library, so they run on a bare GPU machine. Everything else builds on them.

`byheart.measure(spec)` carries out a specification; the package holds the parts.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A name cannot be both a package and a function of `byheart`, so the package answers calls itself."""

    def __call__(self, spec: Any, **options: Any) -> Any:
        """Train what `spec` asks for; see `byheart.measure.workflow.measure`."""
        from byheart.measure.workflow import measure

        return measure(spec, **options)


sys.modules[__name__].__class__ = _CallablePackage
