"""Sizes of networks of floats before they are built: shapes follow from the data and a few choices."""

from __future__ import annotations

from byheart.network.protocol import NetworkSpec
from byheart.network.size import Size, size_of_spec


def full_size(spec: NetworkSpec) -> Size:
    """The size of a network of this shape none of whose weights happens to be zero."""
    return size_of_spec(spec, spec.parameters_dense)
