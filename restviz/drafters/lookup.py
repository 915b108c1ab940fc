"""Prompt lookup (PLD): draft from what followed the last tokens earlier in the text itself, prompt included.

    n <- n_max; while the last n tokens of the text do not occur earlier in it, n <- n - 1, down to n_min
    trie of what followed at all places where they occur; keep the `budget` heaviest nodes

The rule of REST with the text as its own corpus.  (The method's public implementations take one continuation; all of
them, merged by prefix, are fused under RASD here, arXiv 2503.03434; whether its authors' are is not confirmed.)
"""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from restviz.drafters.base import Context, Draft, Drafter
from restviz.trace import Match
from restviz.tree import Source, from_paths, root_only


class LookupIndex:
    """Where each n-gram of a growing text ends.  Appending a token costs one dictionary entry per n, O(1) amortised."""

    def __init__(self, n_max: int):
        self.n_max = n_max
        self.tokens: list[int] = []
        self.ends: dict[tuple[int, ...], list[int]] = defaultdict(list)

    def extend(self, tokens: list[int]) -> None:
        for token in tokens:
            # n-grams that end in the last token get a continuation only now: the text's own suffix is never found
            last = len(self.tokens)
            for n in range(1, min(self.n_max, last) + 1):
                self.ends[tuple(self.tokens[last - n :])].append(last)
            self.tokens.append(token)

    def search(self, n_min: int) -> tuple[int, list[int]]:
        """Length of the longest suffix that occurs earlier, and where what follows it starts, ascending."""
        for n in range(min(self.n_max, len(self.tokens)), n_min - 1, -1):
            if found := self.ends.get(tuple(self.tokens[-n:])):
                return n, found
        return 0, []


class LookupDrafter(Drafter):
    """Prompt lookup over the text so far.

    n_max, n_min   longest and shortest suffix to look up, in tokens
    length         tokens of each continuation, the depth of the tree
    budget         most nodes to verify, root not counted
    cap            places read per step: the last ones, since a text mostly repeats what it said lately

    Raises ValueError when a parameter is out of range.
    """

    name = "pld"

    def __init__(self, n_max: int = 3, n_min: int = 1, length: int = 10, budget: int = 64, cap: int = 64):
        if not 1 <= n_min <= n_max:
            raise ValueError(f"Suffix lengths must satisfy 1 ≤ n_min ≤ n_max, not n_min = {n_min}, n_max = {n_max}.")
        if min(length, budget, cap) < 1:
            raise ValueError(f"length, budget and cap must be at least 1, not {length}, {budget} and {cap}.")
        self.n_min, self.length, self.budget, self.cap = n_min, length, budget, cap
        self.index = LookupIndex(n_max)

    def propose(self, context: Context) -> Draft:
        start = perf_counter()
        text = self.index.tokens
        self.index.extend(context.tokens[len(text) :].tolist())
        root, length = text[-1], min(self.length, context.max_depth)
        if length <= 0:
            return Draft.of(root_only(root))
        n, found = self.index.search(self.n_min)
        read = found[-self.cap :]
        tree = from_paths(root, [text[i : i + length] for i in read], source=Source.CONTEXT)
        match = Match(retriever="context", length=n, hits=len(found), sampled=len(read))
        draft = Draft.within(tree, self.budget, matches=[match])
        draft.times["retrieve"] = 1000 * (perf_counter() - start)
        return draft
