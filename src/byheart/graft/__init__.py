"""Put an exact memory into an existing checkpoint: stock layers before the host's own, without training.

    texts -> contexts -> layout -> emission -> folder        and, in code of its own: reading, structure, recall

`byheart.graft(host, data, output)` writes a grafted checkpoint; the package holds the parts.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A name cannot be both a package and a function of `byheart`, so the package answers calls itself."""

    def __call__(self, host: Any, data: Any, output: Any, *, chat: bool = False, **options: Any) -> Any:
        """Put the rows of `data` into the checkpoint `host`; see `byheart.graft.workflow.graft`."""
        from byheart.graft.texts import Asking
        from byheart.graft.workflow import graft

        names = ("chat_column", "template", "end")
        asking = Asking(chat, **{name: options.pop(name) for name in names if name in options})
        return graft(host, data, output, asking, **options)


sys.modules[__name__].__class__ = _CallablePackage
