"""Engine faults put into transformers' own forward pass, and into the reference engine where transformers has no such part.

Each has the kind that a diagnosis should name. Some are faults that the diagnosis knows (`byheart.golden.faults`); others differ
from those in size or form.
"""

from tests.golden.catalogue import (
    attention,
    batches,
    cache,
    feed_forward,
    norms,
    number_types,
    positions,
    tensors,
)
from tests.golden.catalogue.fault import EngineFault

CATALOGUE: tuple[EngineFault, ...] = (
    *positions.FAULTS,
    *attention.FAULTS,
    *norms.FAULTS,
    *feed_forward.FAULTS,
    *cache.FAULTS,
    *batches.FAULTS,
    *number_types.FAULTS,
    *tensors.FAULTS,
)
