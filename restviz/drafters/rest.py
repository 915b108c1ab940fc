"""REST: draft from what followed the last tokens in a datastore (arXiv 2311.08252).

    n <- n_max; while the last n tokens of the text do not occur in the datastore, n <- n - 1, down to n_min
    trie of the continuations of all places where they occur, a node's weight = continuations with its path
    keep the `budget` heaviest nodes

A weight never grows with depth, so the heaviest nodes are closed under ancestors; ties go to the shallower node and
then to level order, so the same text always gives the same tree.  Unlike the public code, the budget counts nodes
(not the summed lengths of paths) and is used up whenever the trie is large enough.

Several datastores act as one: only those with the longest match contribute, and counts add up, each datastore's times
its weight (REST has one datastore; this is RestViz's).  Each node knows which ones it is from (`Source.datastore`).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from restviz.datastore import CAP, Datastore, Hits, merge
from restviz.drafters.base import Context, Draft, Drafter
from restviz.trace import DatastoreInfo, Match
from restviz.tree import Source, root_only, top_of_sorted_continuations


class RestDrafter(Drafter):
    """The REST drafter over one or several datastores.

    n_max, n_min   longest and shortest suffix to look up, in tokens (paper: 16 and, as code, 2)
    length         tokens of each continuation, the depth of the tree (paper: 10)
    budget         most nodes to verify, root not counted (paper: 64)
    cap            continuations read per datastore and step; beyond it an even, weighted sample
    shown          heaviest nodes beyond the budget that stay in the draft, as pruned, to be looked at
    weights        how often what each datastore holds counts; once by default

    Raises ValueError when a parameter is out of range or the datastores are for different tokenizers.
    """

    name = "rest"

    def __init__(
        self,
        datastores: Datastore | Sequence[Datastore],
        n_max: int = 16,
        n_min: int = 2,
        length: int = 10,
        budget: int = 64,
        cap: int = CAP,
        shown: int = 64,
        weights: Sequence[int] | None = None,
    ):
        self.stores = [datastores] if isinstance(datastores, Datastore) else list(datastores)
        if not self.stores:
            raise ValueError("REST needs at least one datastore.")
        if len({store.meta.tokenizer for store in self.stores}) > 1:
            raise ValueError("The datastores were built for different tokenizers.")
        if not 1 <= n_min <= n_max:
            raise ValueError(f"Suffix lengths must satisfy 1 ≤ n_min ≤ n_max, not n_min = {n_min}, n_max = {n_max}.")
        for key, value, least in [("length", length, 1), ("budget", budget, 0), ("cap", cap, 1), ("shown", shown, 0)]:
            if value < least:
                raise ValueError(f"{key} must be at least {least}, not {value}.")
        self.n_max, self.n_min, self.length, self.budget = n_max, n_min, length, budget
        self.cap, self.shown = cap, shown
        self.weights = list(weights) if weights else [1] * len(self.stores)
        if len(self.weights) != len(self.stores) or min(self.weights) < 1:
            raise ValueError(f"Each of {len(self.stores)} datastores needs a weight of at least 1, not {self.weights}.")
        self.flags = np.array([Source.datastore(i) for i in range(len(self.stores))], dtype=np.uint32)
        self.datastores = [
            DatastoreInfo(name=s.meta.name, fingerprint=s.meta.content, tokens=s.meta.tokens) for s in self.stores
        ]

    def propose(self, context: Context) -> Draft:
        """The retrieval tree under the last token, at most `context.max_depth` deep."""
        start = perf_counter()
        if context.max_depth <= 0:
            return Draft.of(root_only(int(context.tokens[-1])))
        draft = self.draft_from(int(context.tokens[-1]), self.retrieve(context))
        draft.times["retrieve"] = 1000 * (perf_counter() - start)
        return draft

    def retrieve(self, context: Context) -> list[Hits]:
        """What each datastore found, continuations at most `context.max_depth` long."""
        length = min(self.length, context.max_depth)
        return [store.search(context.tokens, self.n_max, self.n_min, length, self.cap) for store in self.stores]

    def draft_from(self, root: int, found: list[Hits]) -> Draft:
        """The draft for the token `root`, from what `retrieve` found."""
        hits = merge(found, self.weights)
        recorded = self.budget + self.shown
        source = self.flags[hits.corpus]
        tree, unrecorded = top_of_sorted_continuations(root, hits.rows, hits.weights, source, recorded)
        matches = [
            Match(retriever=info.name, length=h.match_length, hits=h.hits, sampled=len(h.rows))
            for info, h in zip(self.datastores, found, strict=True)
        ]
        return Draft.within(tree, self.budget, unrecorded=unrecorded, matches=matches)
