"""The standard Llama architecture (RMSNorm, rotary attention, SwiGLU, no biases), with exact evaluation if floats round no sum."""

from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import LlamaSpec

__all__ = ["Llama", "LlamaSpec"]
