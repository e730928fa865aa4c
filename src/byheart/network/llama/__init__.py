"""The standard Llama architecture (RMSNorm, rotary attention, SwiGLU, no biases).

A network of this architecture can be evaluated exactly if float32 rounds none of its sums.
"""

from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import LlamaSpec

__all__ = ["Llama", "LlamaSpec"]
