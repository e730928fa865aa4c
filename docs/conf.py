"""The site: Sphinx with MyST Markdown. Everything that code can say, code says at build time."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import docstrings  # noqa: E402  (these live beside this file)
import generate  # noqa: E402  (as above)

project = "byheart"
version = release = installed_version("byheart")
copyright = "the byheart authors, Apache License 2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "_generated"]  # _generated holds parts that pages include
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"byheart {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app: Any) -> None:
    """Write the generated parts before the pages that include them are read."""
    app.connect("builder-inited", lambda _: generate.write_all(DOCS / "_generated"))
    app.connect("autodoc-process-docstring", docstrings.to_restructured_text)
