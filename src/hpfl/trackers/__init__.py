"""Watchers that tell trackers of a run: TensorBoard, MLflow, Weights & Biases. Each is an extra of its own."""
