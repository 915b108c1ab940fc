"""The live datastore: what this session wrote, searchable at once, as SuffixDecoding (arXiv 2411.04975) reuses outputs.

Adding a text appends its tokens, and a search compares the last token with all of them, then the one before with what
is left, and so on: the longest match costs one pass over the tokens.  At its bound of 256 Ki tokens a search takes
0.2 ms and an answer 0.05 ms to add, in 1 MB.  A suffix automaton in Python took 4 µs and 520 bytes a token (136 MB), to
save a fifth of a millisecond of a step of tens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tokenizers import Tokenizer

from restviz.datastore.search import CAP, Hits, Location, NextTokens, Places, counted, ordered, strata, words_around

NAME = "live"
CAPACITY = 1 << 18  # tokens
ENDED = -1  # after every text


@dataclass
class LiveMeta:
    """What a datastore's `Meta` has and a run asks for."""

    tokenizer: str
    name: str = NAME
    tokens: int = 0
    content: str = ""  # hash of all that was added, in order
    title: str = "Written in this session"
    sources: list[dict] = field(default_factory=list)
    shards: list[dict] = field(default_factory=list)


class LiveDatastore:
    """Texts of one vocabulary, in the order in which they were added; beyond `capacity` tokens the oldest are dropped.

    Has the searches of `Datastore`.  `add` and searches must not overlap.
    """

    def __init__(self, tokenizer: str, capacity: int = CAPACITY):
        self.meta, self.capacity = LiveMeta(tokenizer), capacity
        self._ids = np.empty(0, dtype=np.int32)
        self._starts: list[tuple[int, str]] = []  # of every text, and its title
        self._states: list[tuple[str, int]] = [("", 0)]  # `meta.content` after every text, and the tokens by then

    def add(self, ids: Sequence[int], title: str) -> None:
        """Add a text (token ids), of which at most the last `capacity` tokens."""
        new = np.append(np.asarray(ids, dtype=np.int32)[-self.capacity + 1 :], np.int32(ENDED))
        while self._starts and len(self._ids) + len(new) > self.capacity:
            self._drop()
        self._starts.append((len(self._ids), title))
        self._ids = np.concatenate([self._ids, new])
        self.meta.content = hashlib.sha256(self.meta.content.encode() + new.tobytes()).hexdigest()
        self.meta.tokens = len(self._ids) - len(self._starts)
        self._states.append((self.meta.content, len(self._ids)))

    def clear(self) -> None:
        """Forget all texts."""
        self.__init__(self.meta.tokenizer, self.capacity)

    def at(self, content: str) -> LiveDatastore | None:
        """This datastore as it was when its content was that; None when it never was, or texts were dropped since."""
        stop = next((stop for known, stop in self._states if known == content), None)
        if stop is None:
            return None
        past = LiveDatastore(self.meta.tokenizer, self.capacity)
        past._ids, past._starts = self._ids[:stop], [(start, title) for start, title in self._starts if start < stop]
        past.meta.content, past.meta.tokens = content, stop - len(past._starts)
        return past

    def search(
        self, context: Sequence[int] | np.ndarray, n_max: int = 16, n_min: int = 2, length: int = 10, cap: int = CAP
    ) -> Hits:
        """As `Datastore.search`, except that beyond `cap` hits the last ones stand for all: a session mostly goes on
        with what it said lately."""
        n, ends = self._longest(context, n_max, n_min)
        rows = self._read(ends[-cap:] + 1, length)
        return Hits(n, len(ends), rows[ordered(rows)])

    def next_tokens(self, context: Sequence[int] | np.ndarray, n_max: int = 16, n_min: int = 1) -> NextTokens:
        """As `Datastore.next_tokens`."""
        n, ends = self._longest(context, n_max, n_min)
        return counted(n, self._read(ends + 1, 1)[:, 0])

    def locate(
        self, tokens: Sequence[int] | np.ndarray, tokenizer: Tokenizer, limit: int = 10, window: int = 16
    ) -> Places:
        """As `Datastore.locate`; the path is a text's title."""
        _, ends = self._longest(tokens, len(tokens), max(len(tokens), 1))
        starts = [start for start, _ in self._starts]
        found = []
        for end in ends[strata(len(ends), limit)[1]].tolist():
            first = end - len(tokens) + 1
            start, title = self._starts[int(np.searchsorted(starts, first, side="right")) - 1]
            around = words_around(self._read, start, first, len(tokens), tokenizer, window)
            found.append(Location(path=title, record=0, offset=first - start, licence="", **around))
        return Places(len(ends), found)

    def verify(self) -> None:
        """Nothing is on disk."""

    def _longest(self, context: Sequence[int] | np.ndarray, n_max: int, n_min: int) -> tuple[int, np.ndarray]:
        """Length of the longest suffix that occurs (0: none), and where its last token stands (int64[hits])."""
        wanted = np.asarray(context[-n_max:], dtype=np.int64)[::-1].tolist()
        n, ends = 0, np.empty(0, dtype=np.int64)
        for back, token in enumerate(wanted):
            if token == ENDED:
                break
            left = ends[ends >= back] if back else np.flatnonzero(self._ids == token)
            left = left[self._ids[left - back] == token]
            if not len(left):
                break
            n, ends = back + 1, left
        return (n, ends) if n >= n_min else (0, ends[:0])

    def _read(self, positions: np.ndarray, length: int) -> np.ndarray:
        """int32[m, length] tokens from each position on, -1 from the end of the text on."""
        index = positions[:, None] + np.arange(length)
        rows = self._ids.take(index, mode="clip") if len(self._ids) else np.full(index.shape, ENDED, dtype=np.int32)
        rows[np.logical_or.accumulate(rows == ENDED, axis=1)] = ENDED
        return rows

    def _drop(self) -> None:
        """Forget the oldest text."""
        self._starts.pop(0)
        size = self._starts[0][0] if self._starts else len(self._ids)
        self._ids = self._ids[size:]
        self._starts = [(start - size, title) for start, title in self._starts]
        self._states = []  # what was before holds what is gone
