"""What a drafter is: `propose(context) -> Draft`.

A drafter never sees the target's logits and never decides what is emitted; it only proposes tokens to verify.  A new
one is made for every run.  Writing one is one small file plus one line in `restviz.drafters.METHODS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from restviz.trace import DatastoreInfo, Match
from restviz.tree import TokenTree, root_only


@dataclass(frozen=True)
class Context:
    """What a drafter may look at when it proposes the next draft tree."""

    tokens: np.ndarray  # int32[t]: prompt and answer so far; the last one is the root
    max_depth: int  # deepest useful node: tokens left to generate, and positions left in the context window
    hidden: Any = (
        None  # torch [k, features]: what the drafter's `taps` ask for, of the k tokens before the root that are
    )
    #                     new since the last proposal (the whole prompt at first)


class Verdict(IntEnum):
    """What the drafter decided about a node before the target saw it."""

    KEPT = 0
    PRUNED_FIRST_TOKEN = 1
    PRUNED_BUDGET = 2  # by what made its tree
    PRUNED_CAP = 3  # from the fused tree (RASD)


@dataclass(frozen=True)
class Distribution:
    """A draft model's distribution over its vocabulary, which may be a part of the target's."""

    p: np.ndarray  # float32[v]
    ids: np.ndarray | None = None  # int64[v]: the target's id of each entry, ascending; None: the entry's own index

    def top(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and probabilities of the k likeliest tokens, best first; ties go to the lower id."""
        some = np.argpartition(-self.p, k - 1)[:k] if k < len(self.p) else np.arange(len(self.p))
        bar = self.p[some].min()
        best = np.flatnonzero(self.p >= bar)
        best = best[np.argsort(-self.p[best], kind="stable")[:k]]
        return (best if self.ids is None else self.ids[best]), self.p[best]

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """float32[n]: probabilities of target ids; 0 for a token that is not in the draft model's vocabulary."""
        return self._look_up(self.p, tokens, np.float32(0))

    def rank(self, tokens: np.ndarray) -> np.ndarray:
        """int64[n]: places of target ids in the order of `top`, from 1 on; v + 1 for a token that is not in it."""
        place = np.empty(len(self.p), dtype=np.int64)
        place[np.argsort(-self.p, kind="stable")] = np.arange(1, len(self.p) + 1)
        return self._look_up(place, tokens, len(place) + 1)

    def _look_up(self, values: np.ndarray, tokens: np.ndarray, missing: float) -> np.ndarray:
        """[n]: the entries of `values` for target ids; `missing` for a token that is not in the vocabulary."""
        if self.ids is None:
            return values[tokens]
        at = np.minimum(np.searchsorted(self.ids, tokens), len(self.ids) - 1)
        return np.where(self.ids[at] == tokens, values[at], missing)


@dataclass
class Draft:
    """A proposed draft tree, what was dropped on the way, and the evidence for it."""

    tree: TokenTree  # all nodes worth showing: those to verify and the dropped ones
    verdict: np.ndarray  # uint8[n], `Verdict`: the kept nodes are closed under ancestors, the root is kept
    unrecorded: int = 0  # dropped nodes that are not even in `tree`
    matches: list[Match] = field(default_factory=list)
    first: Distribution | None = None  # the draft model's distribution of the token after the root
    tested: int = 0  # RASD: a retrieved branch stays when its first token is among so many likeliest of `first`
    times: dict[str, float] = field(default_factory=dict)  # ms: retrieve, draft, fuse

    @property
    def kept(self) -> np.ndarray:
        """bool[n]: the nodes to verify."""
        return self.verdict == Verdict.KEPT

    @classmethod
    def of(cls, tree: TokenTree, **evidence: Any) -> Draft:
        """A draft that keeps all of `tree`."""
        return cls(tree, np.zeros(len(tree), dtype=np.uint8), **evidence)

    @classmethod
    def within(cls, tree: TokenTree, budget: int, **evidence: Any) -> Draft:
        """A draft that keeps the `budget` heaviest nodes of `tree`."""
        verdict = np.where(tree.heaviest(budget), Verdict.KEPT, Verdict.PRUNED_BUDGET).astype(np.uint8)
        return cls(tree, verdict, **evidence)


class Drafter:
    """What every drafter has; the defaults are those of one that looks at nothing but the text."""

    budget: int = 0  # most nodes of a draft tree, the root not counted
    datastores: list[DatastoreInfo] = []
    taps: tuple[int, ...] = ()  # hidden states of the target to see as `Context.hidden`, side by side: i is the input
    #                             of layer i, -1 the output of the final norm

    def propose(self, context: Context) -> Draft:
        """The draft tree under the last token of `context.tokens`, at most `context.max_depth` deep."""
        raise NotImplementedError


class NoDrafter(Drafter):
    """Proposes nothing: with it the decoding loop is plain autoregressive decoding."""

    def propose(self, context: Context) -> Draft:
        return Draft.of(root_only(int(context.tokens[-1])))
