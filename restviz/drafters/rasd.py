"""RASD: prune the retrieval tree with the draft model, and fuse it with the model tree (arXiv 2503.03434).

    retrieval tree   of each retriever (REST, prompt lookup), cut to its frequent prefixes
    model tree       of the draft model (EAGLE head or assistant)
    pruning          a retrieved branch stays if its first token is among the k likeliest of the draft model's
                     first-step distribution, which the model tree has computed anyway; deeper tokens are not tested
    fusion           union of what is left and the model tree by longest prefix match, verified in one forward

The abstract confirms pruning by the draft model's distribution and fusion by longest prefix matching.  The paper's body
could not be read: that only first tokens are tested is what secondary sources say, and k = 10, no cap, and the sizes of
the retrieval trees are not confirmed.  Every one of these is a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from time import perf_counter

import numpy as np

from restviz.drafters.base import Context, Draft, Drafter, Verdict
from restviz.tree import TokenTree, fuse


class RasdDrafter(Drafter):
    """Any model drafter with any retrievers.

    k     branches stay if their first token is among so many likeliest (not confirmed; likeliest 10); None: no pruning
    cap   most nodes of the fused tree, root not counted (not confirmed; likeliest none); None: the model tree is whole
    overlap   retrieve in a thread while the draft model runs (the paper's stated limitation is that it does not)
    """

    name = "rasd"

    def __init__(
        self,
        model: Drafter,
        retrievers: Sequence[Drafter],
        k: int | None = 10,
        cap: int | None = None,
        overlap: bool = False,
    ):
        if not retrievers:
            raise ValueError("RASD needs at least one retriever.")
        self.model, self.retrievers, self.k, self.cap = model, list(retrievers), k, cap
        self.taps = model.taps
        self.pool = ThreadPoolExecutor(1, "restviz-retrieve") if overlap else None
        whole = model.budget + sum(retriever.budget for retriever in self.retrievers)
        self.budget = whole if cap is None else min(cap, whole)
        self.datastores = [info for retriever in self.retrievers for info in retriever.datastores]

    def propose(self, context: Context) -> Draft:
        found, drafted, waited = self._both(context)
        start = perf_counter()
        likely = None if self.k is None else set(drafted.first.top(self.k)[0].tolist())
        retrieved = [draft.tree.keep(draft.kept) for draft in found]
        left = retrieved if likely is None else [prune(tree, likely) for tree in retrieved]
        fused = reduce(fuse, left, drafted.tree)
        if self.cap is not None:
            fused = fused.top(self.cap, path_logp(fused))
        times = {"retrieve": waited, **drafted.times, "fuse": 1000 * (perf_counter() - start)}
        draft = _record(fused, found, retrieved, drafted, left)  # for the trace; decoding needs `fused` alone
        draft.tested, draft.times = self.k or 0, times
        return draft

    def _both(self, context: Context) -> tuple[list[Draft], Draft, float]:
        """The retrievers' drafts, the draft model's, and the ms that retrieval added to the step."""
        start = perf_counter()
        if self.pool is None:
            found, waited = self._retrieve(context), 1000 * (perf_counter() - start)
            return found, self.model.propose(context), waited
        retrieving = self.pool.submit(self._retrieve, context)
        drafted = self.model.propose(context)
        start = perf_counter()
        return retrieving.result(), drafted, 1000 * (perf_counter() - start)

    def _retrieve(self, context: Context) -> list[Draft]:
        return [retriever.propose(context) for retriever in self.retrievers]


def prune(tree: TokenTree, likely: set[int]) -> TokenTree:
    """The branches of `tree` whose first token is in `likely` (RASD: "pruning")."""
    stays = np.array([token in likely for token in tree.token.tolist()])
    return tree.keep(stays | (tree.depth != 1))


def path_logp(tree: TokenTree) -> np.ndarray:
    """float[n]: log-probability of each node's path: the draft model's, or its share of the retrieved continuations,
    whichever is larger.  What ranks nodes of different origin under a cap (RestViz's choice; the paper names none)."""
    with np.errstate(divide="ignore"):
        share = np.log(tree.count / max(int(tree.count[0]), 1))
    return np.fmax(tree.logp, share)


def _record(
    fused: TokenTree, found: list[Draft], retrieved: list[TokenTree], drafted: Draft, left: list[TokenTree]
) -> Draft:
    """Everything that was proposed, and why what is not in `fused` was dropped."""
    whole = reduce(fuse, [draft.tree for draft in found], drafted.tree)
    proposed = reduce(fuse, retrieved, drafted.tree)  # `whole` without what the retrievers' own budgets cut
    stayed = {path for tree in [drafted.tree, *left] for path in tree.paths()}
    kept, at = set(fused.paths()), {path: i for i, path in enumerate(proposed.paths())}
    verdict = np.full(len(whole), Verdict.PRUNED_BUDGET, dtype=np.uint8)
    for node, path in enumerate(whole.paths()):
        if path not in at:
            continue
        whole.source[node], whole.count[node] = proposed.source[at[path]], proposed.count[at[path]]
        verdict[node] = (
            Verdict.KEPT if path in kept else Verdict.PRUNED_CAP if path in stayed else Verdict.PRUNED_FIRST_TOKEN
        )
    matches = [match for draft in found for match in draft.matches]
    return Draft(whole, verdict, sum(draft.unrecorded for draft in found), matches, drafted.first)
