"""The PyTorch module of an int8 or bfloat16 network that keeps its large matrices in their stored format.

`to_module` converts every weight to float32 once, when the module is created. Here the matrices of feed-forward layers stay in
the stored format and are converted to float32 whenever a layer runs. A matrix stored in 8 or 16 bits then needs only a quarter or
half of the memory, but each batch takes more time. The outputs of both modules are equal, bit for bit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from byheart.errors import UsageError
from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.module import FeedForwardModule, TransformerModule, to_module
from byheart.network.weight_format import WeightFormat


class _Dequantise(nn.Module):
    """Converts stored numbers to float32. Integers are also multiplied by a power of two: that of their array, row or column."""

    def __init__(self, form: WeightFormat, exponents: np.ndarray | None) -> None:
        super().__init__()
        self.scales: torch.Tensor | None
        scales = None
        if exponents is not None:
            scales = torch.from_numpy(np.ldexp(np.float32(1), exponents.astype(np.int32)))
            scales = scales[:, None] if form.scale == "rows" else scales
        self.register_buffer("scales", scales)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        floats = numbers.to(torch.float32)
        return floats if self.scales is None else floats * self.scales


def to_stored_module(network: Transformer) -> TransformerModule:
    """Convert `network` to a module whose feed-forward matrices stay in their stored format, such as int8 or bfloat16.

    A layer converts its matrices to float32 whenever it runs. `network` must have a storage format, so it must be int8 or bfloat16.
    """
    if network.storage is None:
        raise UsageError(
            f"a network of precision {network.precision} has no compact storage format; only bfloat16 and int8 "
            "networks have one. Use model.module.",
            precision=network.precision,
        )
    module = to_module(network)
    stored = network.encoded()
    names = (name for name, _ in network.parameters())
    formats = dict(zip(names, network.storage.formats, strict=True))
    for number, layer in enumerate(module.layers):
        if isinstance(layer, FeedForwardModule):
            for name in ("w1", "w2"):
                numbers, exponents = stored[f"layers.{number}.{name}"]
                tensor = torch.from_numpy(numbers.view(np.int16) if numbers.dtype == np.uint16 else numbers)
                tensor = tensor.view(torch.bfloat16) if numbers.dtype == np.uint16 else tensor
                setattr(layer, name, nn.Parameter(tensor, requires_grad=False))
                dequantise = _Dequantise(formats[f"layers.{number}.{name}"], exponents)
                parametrize.register_parametrization(layer, name, dequantise, unsafe=True)
    return module
