"""Models in a process of their own: Python objects, MLflow models, ONNX files."""
