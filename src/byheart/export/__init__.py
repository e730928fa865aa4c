"""Export models to other formats: GGUF, ONNX, TransformerLens."""
