"""Measurements at load: how long a forward takes, how many rows keep their order of summation, is it bit-exact.

All are of this model on this machine, take about a second each, and end up in the trace's header.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import nn

from restviz.target.load import TargetError
from restviz.target.model import Target
from restviz.tree import TokenTree, from_paths, root_only

CONTEXT = 64  # committed tokens in a timed forward
REPEATS = 3


@torch.inference_mode()
def row_limit(model: nn.Module) -> int | None:
    """Most rows (a multiple of 16, at most 64) whose matrix products equal one-row products to the last bit.

    None when even few rows differ, as in float32 with most libraries: then nothing is gained by splitting.
    """
    generator = torch.Generator().manual_seed(0)
    limit = 64
    shapes = {tuple(module.weight.shape): module for module in model.modules() if type(module) is nn.Linear}
    for linear in shapes.values():
        x = torch.randn(64, linear.in_features, generator=generator).to(linear.weight)
        picked = [0, 1, 7, 15, 16, 23, 31, 32, 47, 63]
        # unsqueezed after the cut: with a batch stride that is not rows × features, other code would run
        single = {row: linear(x[row : row + 1].unsqueeze(0))[0, 0] for row in picked}
        for n in (2, 3, 7, 8, 16, 17, 24, 32, 33, 48, 64):
            if n > limit:
                break
            many = linear(x[:n].unsqueeze(0))[0]
            if not all(torch.equal(many[row], single[row]) for row in picked if row < n):
                limit = (n - 1) // 16 * 16
    return limit or None


def time_forwards(target: Target, rows: tuple[int, ...], context: int = CONTEXT) -> dict[int, float]:
    """Least milliseconds of a tree forward for each number of rows, after `context` committed tokens.

    The least of a few, since whatever else the machine does can only add to it.
    """
    session = target.session(context + max(rows))
    session.prefill(_ids(target, context))
    times: dict[int, list[float]] = {n: [] for n in rows}
    for repeat in range(REPEATS + 1):
        for n in rows:
            tree = _tree(target, n)
            start = time.perf_counter()
            session.forward(tree)
            if repeat:  # the first round warms up
                times[n].append((time.perf_counter() - start) * 1000)
    session.release()
    return {n: min(values) for n, values in times.items()}


def is_bit_exact(target: Target) -> bool:
    """Whether a tree forward gives the very logits that token-by-token forwards give, to the last bit.

    Raises TargetError when the two are not even close: then the model does not follow a 4-D attention mask.
    """
    context, tree = 20, _tree(target, 65)
    session = target.session(context + len(tree))
    session.prefill(_ids(target, context))
    together = session.forward(tree).float()
    exact = True
    for leaf in (len(tree) - 1, len(tree) // 2):
        alone = target.session(context + len(tree))
        alone.prefill(_ids(target, context))
        for node in [0, *tree.path(leaf)]:
            row = alone.forward(root_only(int(tree.token[node])))[0].float()
            alone.commit([0])
            exact &= torch.equal(row, together[node])
            difference = (row - together[node]).abs().mean() / row.std().clamp_min(1e-6)
            if not difference < 0.1:
                raise TargetError(
                    f"{type(target.model).__name__} does not follow a 4-D attention mask (its tree forward differs "
                    "from token-by-token forwards), so draft trees cannot be verified with it: choose another model."
                )
        alone.release()
    session.release()
    return exact


def _ids(target: Target, n: int) -> list[int]:
    """`n` token ids, the same every time; what they say does not matter."""
    return np.random.default_rng(0).integers(0, target.info.vocab_size, n).tolist()


def _tree(target: Target, n: int) -> TokenTree:
    """A tree of `n` nodes, chains of five under the root."""
    tokens = np.random.default_rng(1).permutation(min(target.info.vocab_size, 4 * n + 8))[:n].tolist()
    return from_paths(0, [tokens[i : min(i + 5, n - 1)] for i in range(0, n - 1, 5)])
