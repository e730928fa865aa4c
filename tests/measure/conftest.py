"""Small products run on one thread: a second only waits (see byheart.measure.trainer.train)."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
