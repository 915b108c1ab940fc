"""TreeCache: the target's KV cache for tree verification.

Buffers are allocated once per run.  A forward over root + draft tree writes its rows behind the committed tokens; then
`commit` moves the rows of the accepted path together and forgets the others.  Nothing is concatenated or reallocated.
"""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class TreeLayer(CacheLayerMixin):
    """One layer's keys and values, [1, kv_heads, capacity, head_dim] in `dtype` (None: as they come)."""

    is_sliding = False

    def __init__(self, cache: TreeCache):
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        def buffer(like: torch.Tensor) -> torch.Tensor:
            shape = (*like.shape[:2], self.cache.capacity, like.shape[3])
            return torch.empty(shape, dtype=self.cache.dtype or like.dtype, device=like.device)

        self.keys, self.values = buffer(key_states), buffer(value_states)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Write the rows of this forward behind the committed ones and return views of both together."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, stop = self.cache.length, self.cache.length + key_states.shape[2]
        self.keys[:, :, start:stop] = key_states
        self.values[:, :, start:stop] = value_states
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def get_seq_length(self) -> int:
        return self.cache.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.length + query_length, 0

    def get_max_length(self) -> int:
        return self.cache.capacity

    get_max_cache_shape = get_max_length  # the name before transformers 5.2x


class TreeCache(Cache):
    """A cache of `capacity` positions; `length` of them are committed."""

    def __init__(self, layers: int, capacity: int, dtype: torch.dtype | None = None):
        self.capacity, self.dtype, self.length = capacity, dtype, 0
        super().__init__(layers=[TreeLayer(self) for _ in range(layers)])

    def commit(self, rows: list[int]) -> None:
        """Keep these rows of the last forward (ascending, 0 the root), in this order, behind the committed tokens."""
        if rows != list(range(len(rows))):
            start = self.length
            for layer in self.layers:
                index = torch.as_tensor(rows, device=layer.keys.device) + start
                for buffer in (layer.keys, layer.values):
                    buffer[:, :, start : start + len(rows)] = buffer.index_select(2, index)
        self.length += len(rows)
