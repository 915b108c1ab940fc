"""Arithmetic that does not depend on how tokens arrived.

Floating-point sums depend on their order, and the order in which a forward adds up depends on how many rows it has and
where in the KV cache the keys lie.  That is enough to turn a near-tie between two tokens, and is why most speculative
decoders in half precision do not reproduce autoregressive text.  Two things have to be pinned down: matrix products,
which sum over features (see `products.py`), and attention, which sums over all earlier tokens.  `exact_attention`
computes it in float64 and rounds once at the end: the order still changes the last of 53 bits, and rounding to the
model's 8 or 24 bits hides it.

Neither is needed for the prefill, which is the same forward whatever the method.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

SUMMED = ("s_aux", "position_bias")  # arguments of some models' attention that would change what is added up
EXACT = "restviz_exact"  # name of the attention implementation as transformers knows it


def exact_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention in float64, rounded once to the query's dtype.

    query [b, heads, q, d]; key and value [b, kv_heads, k, d], float64 (`TreeCache` keeps them so).  `attention_mask` is
    additive float64 [b, 1, q, q] over the last q keys, that is, the draft tree's ancestor mask: the committed tokens
    before it are visible to every row.  None with q > 1 is the prefill: causal, by stock SDPA.
    Returns [b, q, heads, d] and no weights.
    """
    if unknown := {name for name in SUMMED if kwargs.get(name) is not None}:
        raise NotImplementedError(f"exact attention knows nothing of {', '.join(sorted(unknown))}")
    batch, heads, q, dim = query.shape
    kv_heads, k = key.shape[1], key.shape[2]
    if attention_mask is None and q > 1:
        causal = torch.ones(q, k, dtype=torch.bool, device=query.device).tril(k - q)[None, None]
        stored = (key.to(query.dtype), value.to(query.dtype))  # exact: they were that before the cache widened them
        return sdpa_attention_forward(module, query, *stored, causal, scaling=scaling, **kwargs)
    grouped = query.to(torch.float64).mul_(dim**-0.5 if scaling is None else scaling)
    scores = grouped.reshape(batch, kv_heads, heads // kv_heads * q, dim) @ key.transpose(2, 3)
    if (softcap := kwargs.get("softcap")) is not None:
        scores = scores.div_(softcap).tanh_().mul_(softcap)
    if attention_mask is not None:
        scores.view(batch, heads, q, k)[..., k - q :] += attention_mask
    torch.softmax(scores, dim=-1, out=scores)  # in place: at 4,000 keys, new memory costs as much as the products
    output = (scores @ value).view(batch, heads, q, -1)
    return output.to(query.dtype).transpose(1, 2).contiguous(), None


AttentionInterface.register(EXACT, exact_attention)
