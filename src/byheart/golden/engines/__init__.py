"""The engines that `byheart golden check` can run: transformers, llama.cpp, ONNX Runtime, and any server by its address."""
