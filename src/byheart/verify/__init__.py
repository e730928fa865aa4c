"""Check a network on a data set and issue a certificate. The check is independent: it shares no code with the constructions.

`byheart.verify(model, data)` does this. The modules of this package contain the parts of the check.
"""

import sys
from types import ModuleType
from typing import Any

from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.verify.certificate import Certificate, WrongSample
from byheart.verify.digest import weights_digest
from byheart.verify.verifier import Checkable, verify, verify_model

__all__ = ["Assumption", "Certificate", "WrongSample", "verify", "weights_digest"]


class _CallablePackage(ModuleType):
    """A module that can be called. `byheart.verify` is both a package and a function, so the package itself handles calls."""

    def __call__(self, model: Checkable, data: Dataset, **options: Any) -> Certificate:
        """Check the answers of `model` to the samples of `data`. The options are those of `byheart.verify.verifier.verify`."""
        return verify_model(model, data, **options)


sys.modules[__name__].__class__ = _CallablePackage
