"""The standard Llama architecture (RMSNorm, rotary attention, SwiGLU, no biases).

It can be evaluated exactly if floats do not round any sum.
"""

from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import LlamaSpec

__all__ = ["Llama", "LlamaSpec"]
