"""Measure what training achieves: train many small models at once, search for capacity, and store every run.

A stack is a group of models that train together, as one batched computation. The training engine consists of `families`, `stack`,
`trainer` and the modules that they import. It needs only torch, numpy and the standard library, so it runs on a bare GPU machine.

The package can be called like a function: `byheart.measure(spec)` carries out a specification.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that can be called. `byheart.measure` is both a package and a function."""

    def __call__(self, spec: Any, **options: Any) -> Any:
        """Train the models of `spec`; see `byheart.measure.workflow.measure`."""
        from byheart.measure.workflow import measure

        return measure(spec, **options)


sys.modules[__name__].__class__ = _CallablePackage
