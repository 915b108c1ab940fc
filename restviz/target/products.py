"""Matrix products that are fast for the few rows of a draft tree, and that do not depend on how many rows there are.

A forward over one row reads every weight once and is bound by memory; a forward over a draft tree should cost little
more, but a matrix library that rearranges the weights at every call makes it cost twice as much on CPUs.  So `pack`
rearranges them once.

The order in which a product sums over features depends on the kernel that the library picks for the number of rows.
oneDNN's packed float32 products have one order for all; for others `exact_products` feeds at most so many rows at a
time, below the point where the order starts to change (see `probe.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

PREFILL = 256  # rows; also the largest draft tree
Product = Callable[[torch.Tensor], torch.Tensor]


def pack(model: nn.Module) -> None:
    """Pack the weights of every `nn.Linear` of `model`, in place, for inference; see `packed`.

    The output embedding's weight, which is often the input's too and which draft heads borrow, stays as it is beside
    the packed one.
    """
    output = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    for module in model.modules():
        if type(module) is nn.Linear and (weight := _pack(module.weight)) is not None:
            module.forward = partial(_product, weight, module.bias)
            if module is not output:
                module.weight = nn.Parameter(weight, requires_grad=False)


def packed(weight: torch.Tensor) -> Product:
    """x [..., features] → x @ weight.T for a `weight` [out, features], packed where that is possible."""
    ready = _pack(weight)
    return partial(F.linear, weight=weight) if ready is None else partial(_product, ready, None)


def _pack(weight: torch.Tensor) -> torch.Tensor | None:
    """float32 on a CPU whose build of PyTorch has oneDNN; None for anything else.

    These are the operators that PyTorch's own compiler uses for frozen weights, so they are tried before they are
    trusted.  In bfloat16, F.linear calls oneDNN by itself.
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return None
    weight = weight.detach()
    x = torch.randn(3, weight.shape[1], generator=torch.Generator().manual_seed(0))
    try:
        ready = torch.ops.mkldnn._reorder_linear_weight(weight, 16)
        same = torch.allclose(_product(ready, None, x), F.linear(x, weight), rtol=1e-3, atol=1e-3)
    except (AttributeError, RuntimeError):
        return None
    return ready if same else None


def _product(weight: torch.Tensor, bias: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")


def quantised(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product | None:
    """x float32[n, features] → about x @ weight.T + bias: int8 weights with a scale for each output, int8 activations.

    For drafts, which may be wrong: a quarter of the bytes to read, and a relative error of about 2 %.  None where
    PyTorch has no such products (off the CPU, and on some builds), and where they are not that close.
    """
    if weight.device.type != "cpu":
        return None
    weight, bias = weight.detach().float(), None if bias is None else bias.detach().float()
    scale = weight.abs().amax(1).clamp_min(1e-8).double() / 127
    x = torch.randn(8, weight.shape[1], generator=torch.Generator().manual_seed(0))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the type is to move to another package; where it is gone, None
            int8 = torch.quantize_per_channel(weight, scale, torch.zeros_like(scale).long(), 0, torch.qint8)
            ready = torch.ops.quantized.linear_prepack(int8, bias)
        product = partial(_quantised_product, ready)
        exact = F.linear(x, weight, bias)
        return product if float((product(x) - exact).norm()) < 0.05 * float(exact.norm()) else None
    except (AttributeError, RuntimeError, NotImplementedError):
        return None


def _quantised_product(weight: torch.ScriptObject, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized.linear_dynamic(x.float(), weight, True).to(x.dtype)


def exact_products(model: nn.Module, rows: int) -> None:
    """Make every `nn.Linear` of `model` (in place) multiply at most `rows` rows at a time in a tree forward.

    A forward of more than `PREFILL` rows is a prefill and runs as it is.
    """

    def forward(product: Product, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-2] <= rows or x.shape[-2] > PREFILL:
            return product(x)
        # as matrices: some CPU builds of PyTorch take a path ten times slower for a slice of a batch of matrices
        parts = [product(part) for part in x.flatten(0, -2).split(rows)]
        return torch.cat(parts).view(*x.shape[:-1], -1)

    for module in model.modules():
        if type(module) is nn.Linear:
            module.forward = partial(forward, module.forward)
