"""One trial on its device: training, checkpoints and reports. PyTorch, without Ray or MLflow."""
