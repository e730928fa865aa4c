"""Models in other formats: GGUF, ONNX, TransformerLens."""
