"""The target: loading it, its KV cache, tree-attention forwards, sampling, and what is measured about it at load."""
