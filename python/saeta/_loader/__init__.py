"""The training loader: which rows a batch has, how they are read, and how they become tensors."""
