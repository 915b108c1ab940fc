"""What a drafter is: `propose(context) -> Draft`, then `observe(accepted)`.

A drafter never sees the target's logits and never decides what is emitted; it only proposes tokens to verify.
Writing one is one small file plus one line in `restviz.drafters.METHODS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from restviz.trace import DatastoreInfo, Match
from restviz.tree import TokenTree, root_only


@dataclass(frozen=True)
class Context:
    """What a drafter may look at when it proposes the next draft tree."""

    tokens: np.ndarray  # int32[t]: prompt and answer so far; the last one is the root
    max_depth: int  # deepest useful node: tokens left to generate, and positions left in the context window
    hidden: Any = None  # target's last hidden state(s) of the tokens committed by the last step, for drafters that ask


class Verdict(IntEnum):
    """What the drafter decided about a node before the target saw it."""

    KEPT = 0
    PRUNED_FIRST_TOKEN = 1
    PRUNED_BUDGET = 2


@dataclass
class Draft:
    """A proposed draft tree, what was dropped on the way, and the evidence for it."""

    tree: TokenTree  # all nodes worth showing: those to verify and the dropped ones
    verdict: np.ndarray  # uint8[n], `Verdict`: the kept nodes are closed under ancestors, the root is kept
    unrecorded: int = 0  # dropped nodes that are not even in `tree`
    matches: list[Match] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)  # ms: retrieve, draft, fuse

    @property
    def kept(self) -> np.ndarray:
        """bool[n]: the nodes to verify."""
        return self.verdict == Verdict.KEPT


class Drafter(Protocol):
    budget: int  # most nodes of a draft tree, the root not counted
    datastores: list[DatastoreInfo]

    def propose(self, context: Context) -> Draft: ...

    def observe(self, accepted: np.ndarray) -> None:
        """int32[k]: the tokens that the step added to the text, in order."""


class NoDrafter:
    """Proposes nothing: with it the decoding loop is plain autoregressive decoding."""

    budget = 0
    datastores: list[DatastoreInfo] = []

    def propose(self, context: Context) -> Draft:
        return Draft(tree=root_only(int(context.tokens[-1])), verdict=np.zeros(1, dtype=np.uint8))

    def observe(self, accepted: np.ndarray) -> None:
        pass
