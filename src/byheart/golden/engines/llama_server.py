"""Run the server of llama.cpp in its own process: python -m byheart.golden.engines.llama_server FILE NAME N_CONTEXT CACHE FLASH

CACHE is float32 or float16. FLASH is "flash" for flash attention or "plain" without it. The process prints its address, and ends
when its standard input closes. The server needs its own process because the thread pools of llama.cpp and PyTorch can deadlock in
one process.
"""

from __future__ import annotations

import sys

import xllamacpp

N_SLOTS = 4


def main() -> None:
    path, name, n_context, cache, flash = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.model_alias = {name}
    params.n_parallel = N_SLOTS
    params.n_ctx = int(n_context) * N_SLOTS
    params.port = 0
    params.warmup = False
    params.verbosity = -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    kinds = xllamacpp.ggml_type
    params.cache_type_k = kinds.GGML_TYPE_F32 if cache == "float32" else kinds.GGML_TYPE_F16
    params.cache_type_v = params.cache_type_k
    switch = xllamacpp.llama_flash_attn_type
    is_on = flash == "flash"
    params.flash_attn_type = (
        switch.LLAMA_FLASH_ATTN_TYPE_ENABLED if is_on else switch.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    server = xllamacpp.Server(params)
    print(f"listening: {str(server.listening_address).rstrip('/')}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
