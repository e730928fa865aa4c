"""Small hostile inputs: every format, and every command that reads one. Each is made, and what it takes is measured.

    python -m tests.attacks.hostile_inputs -o record.json

`case` is the list, which the modules named after formats fill; `measurement` runs one.
"""

from tests.attacks.hostile_inputs import (  # noqa: F401 - each enters its cases
    data_files,
    foreign_checkpoints,
    model_folders,
    page_requests,
    records_and_stores,
    servers,
)
