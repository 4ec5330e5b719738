//! Programs and operators with expected outputs from PyTorch, run on every kernel list.
