"""Drafting with a model: the dynamic draft tree of EAGLE-2 (arXiv 2406.16858, section 4), for any draft model.

    level 1: the K likeliest tokens after the root
    `depth` times: one forward of the K best nodes of the last level; each gives its K likeliest children, whose score
    is the parent's plus log q; the K best of these K² are the next level
    of all nodes made on the way, the `budget` best are the tree

A child never scores above its parent, so the best are closed under ancestors, and a node outside the `budget` best so
far has no descendants among them: it is not expanded, which changes nothing but the time.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

import numpy as np
import torch

from restviz.drafters.base import Context, Distribution, Draft, Drafter
from restviz.tree import from_nodes, root_only


class DraftModel(Protocol):
    """A model with a KV cache of its own over the committed tokens, and rows of draft nodes behind them."""

    taps: tuple[int, ...]
    ids: np.ndarray | None  # int64[v]: the target's id of each entry of its vocabulary; None: the same vocabulary

    def begin(self, context: Context) -> torch.Tensor:
        """Take in the tokens that are new and drop earlier draft rows; logits [v] of the token after the root."""

    def expand(self, tokens: list[int], parents: list[int]) -> torch.Tensor:
        """Add draft rows: `tokens` (target's ids) under the rows `parents` (in order of being added; -1: under the
        root).  Returns logits [n, v] of their successors."""


class ModelDrafter(Drafter):
    """Drafts with a model.

    k        nodes expanded per level, and children of each (EAGLE-2's evaluation: 10)
    depth    forwards after the first; the tree is at most depth + 1 deep (EAGLE-2: 5)
    budget   nodes of the tree, root not counted (EAGLE-2: 59 for 7B targets; its "60 tokens" count the root)
    """

    def __init__(self, model: DraftModel, k: int = 10, depth: int = 5, budget: int = 59):
        if min(k, budget) < 1 or depth < 0:
            raise ValueError(f"k and budget must be at least 1 and depth at least 0, not {k}, {budget} and {depth}.")
        self.model, self.taps = model, model.taps
        self.k, self.depth, self.budget = k, depth, budget

    @torch.inference_mode()
    def propose(self, context: Context) -> Draft:
        start = perf_counter()
        root = int(context.tokens[-1])
        logp = torch.log_softmax(self.model.begin(context).float(), dim=-1)
        first = Distribution(logp.exp().cpu().numpy(), self.model.ids)
        if context.max_depth <= 0:
            tree = root_only(root)
        else:
            tree = from_nodes(root, *self._grow(logp, min(self.depth, context.max_depth - 1)))
        return Draft.of(tree, first=first, times={"draft": 1000 * (perf_counter() - start)})

    def _grow(self, logp: torch.Tensor, depth: int) -> tuple[list[int], list[int], list[float]]:
        """Tokens, parents (0 is the root, i + 1 is node i) and scores of the tree's nodes, parents first."""
        score, token = self._best(logp[None])
        tokens, scores, parents = token[0], score[0], np.zeros(len(token[0]), dtype=np.int64)
        frontier = np.arange(len(tokens))[: self.budget]  # nodes of the last level to expand, likeliest first
        row = {-1: -1}  # node -> its draft row
        for _ in range(depth):
            logp = torch.log_softmax(
                self.model.expand(tokens[frontier].tolist(), [row[parents[i] - 1] for i in frontier]).float(), dim=-1
            )
            row |= {node: len(row) - 1 + i for i, node in enumerate(frontier.tolist())}
            score, token = self._best(logp)
            score = (score + scores[frontier][:, None]).ravel()
            new = len(tokens) + _highest(score, self.k)
            parents = np.concatenate([parents, np.repeat(frontier + 1, token.shape[1])])
            scores = np.concatenate([scores, score])
            tokens, frontier = np.concatenate([tokens, token.ravel()]), new[np.isin(new, _highest(scores, self.budget))]
            if not len(frontier):
                break
        chosen = np.sort(_highest(scores, self.budget))
        place = {0: 0} | {int(node) + 1: i + 1 for i, node in enumerate(chosen)}
        return tokens[chosen].tolist(), [place[int(parents[i])] for i in chosen], scores[chosen].tolist()

    def _best(self, logp: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The k likeliest of each row: log-probabilities float32[n, k] and the target's ids int64[n, k]."""
        value, index = logp.topk(min(self.k, logp.shape[-1]), dim=-1)
        index = index.cpu().numpy()
        return value.cpu().numpy(), index if self.model.ids is None else self.model.ids[index]


def _highest(scores: np.ndarray, n: int) -> np.ndarray:
    """Indices of the n highest, best first; of equals the earliest."""
    return np.argsort(-scores, kind="stable")[:n]


class DraftRows:
    """Which draft rows see which: each sees the committed tokens, its ancestors and itself."""

    def __init__(self):
        self.sees = np.zeros((0, 0), dtype=bool)
        self.depth = np.zeros(0, dtype=np.int64)  # 1 below the root

    def add(self, parents: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """bool[n, rows]: what the new rows see of all draft rows, themselves included, and their depths int64[n]."""
        old, n = len(self.depth), len(parents)
        grown = np.zeros((old + n, old + n), dtype=bool)
        grown[:old, :old] = self.sees
        depth = np.concatenate([self.depth, np.ones(n, dtype=np.int64)])
        for i, parent in enumerate(parents, old):
            if parent >= 0:
                grown[i] = grown[parent]
                depth[i] = depth[parent] + 1
            grown[i, i] = True
        self.sees, self.depth = grown, depth
        return grown[old:], depth[old:]
