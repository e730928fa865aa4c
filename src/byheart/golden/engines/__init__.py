"""The engines that `golden check` can drive: transformers, llama.cpp, ONNX Runtime, and a server by its address."""
