"""Add facts to an existing checkpoint (the host) exactly and without training, as standard layers before the host's own.

`byheart.graft(host, data, output)` writes a grafted checkpoint. It uses these modules of the package, in this order:

    texts -> contexts -> layout -> emission -> folder
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that can be called. `byheart.graft` is both a package and a function."""

    def __call__(self, host: Any, data: Any, output: Any, *, chat: bool = False, **options: Any) -> Any:
        """Add the rows of `data` to the checkpoint `host`; see `byheart.graft.workflow.graft`."""
        from byheart.graft.texts import Asking
        from byheart.graft.workflow import graft

        names = ("chat_column", "template", "end")
        asking = Asking(chat, **{name: options.pop(name) for name in names if name in options})
        return graft(host, data, output, asking, **options)


sys.modules[__name__].__class__ = _CallablePackage
