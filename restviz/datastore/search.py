"""Search in a built datastore: the longest suffix of a context that occurs in it, and what followed there.

    store = Datastore.open(path, fingerprint)
    hits = store.search(context)            # for drafting
    store.next_tokens(context)              # what came next, counted
    store.locate(tokens, tokenizer)         # where a token sequence stands: file, line, text around it

Everything is memory-mapped and nothing is kept between calls, so one open datastore serves any number of threads.
Neither a match nor a continuation crosses the end of a document.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from restviz.datastore.format import (
    DOCUMENT,
    DatastoreError,
    Meta,
    check_arrays,
    from_bytes,
    read_meta,
    separator,
    shard_folder,
    to_bytes,
)

SAMPLE = 1_000_000  # suffixes of a shard that `frequent` looks at
CAP = 500  # continuations read per search: 2,000 double the p99 and accept no token more of held-out code


@dataclass(frozen=True, slots=True)
class Hits:
    """What a search found.

    match_length  tokens of the longest suffix that occurs, 0 when none does
    hits          number of places where it occurs
    rows          int32[m, length] continuations, sorted (an ended document sorts last), filled up with -1
    weights       int64[m] how many hits a row stands for, summing to `hits`; None when each stands for itself
    corpus        int64[m] which of several corpora a row is from (see `merge`); None when there is one
    """

    match_length: int
    hits: int
    rows: np.ndarray
    weights: np.ndarray | None = None
    corpus: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class NextTokens:
    """Exact counts of what follows the longest match, most frequent first, then by id."""

    match_length: int
    hits: int
    tokens: np.ndarray  # int32[k]
    counts: np.ndarray  # int64[k]
    ended: int  # hits at the end of a document, where nothing follows


@dataclass(frozen=True, slots=True)
class Location:
    """One place where a token sequence occurs, as keyword in context."""

    path: str
    record: int  # number of the record within the file, from 1; 0 when the document is the whole file
    line: int  # line within the document, from 1, in which the match's first character stands
    offset: int  # tokens of the document before the match
    before: str
    match: str
    after: str
    licence: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where a token sequence occurs: how often, and some of the places, spread evenly over all of them."""

    total: int
    locations: list[Location]


class Shard:
    """The arrays of one shard; see `restviz.datastore.format`."""

    def __init__(self, folder: Path, width: int):
        self.width = width
        self.bytes = _map(folder / "tokens")  # slicing a mmap gives `bytes`, which compare like the tokens in them
        self.tokens = np.frombuffer(self.bytes, dtype=">u2" if width == 2 else np.uint8)
        suffixes, buckets = _map(folder / "suffixes"), _map(folder / "buckets")
        self.suffixes = np.frombuffer(suffixes, dtype="<u4")
        self._suffixes, self._buckets = memoryview(suffixes).cast("I"), memoryview(buckets).cast("I")
        self.docs = np.frombuffer(_map(folder / "docs"), dtype=DOCUMENT)
        self.paths = _map(folder / "paths")

    def first(self, query: bytes) -> int:
        """Index in `suffixes` of the first suffix that starts with `query` (whole tokens, no separator), else -1."""
        lo, hi = self._bucket(query)
        key = self._key(len(query))
        i = bisect_left(self._suffixes, query, lo, hi, key=key)
        return i if i < hi and key(self._suffixes[i]) == query else -1

    def range(self, query: bytes, first: int) -> tuple[int, int]:
        """`(start, stop)` in `suffixes` of all suffixes that start with `query`, from `self.first(query)`."""
        if first < 0:
            return 0, 0
        return first, bisect_right(self._suffixes, query, first, self._bucket(query)[1], key=self._key(len(query)))

    def read(self, positions: np.ndarray, length: int) -> np.ndarray:
        """int32[m, length] tokens from each position on, -1 from the end of the document on."""
        index = positions[:, None] + np.arange(length)
        if self.width == 2:
            rows = self.tokens.take(index, mode="clip").astype(np.int32)
        else:
            triples = self.tokens.reshape(-1, 3)
            rows = from_bytes(triples.take(index, axis=0, mode="clip"), 3)
        ended = rows == separator(self.width)
        if ended.any():
            rows[np.logical_or.accumulate(ended, axis=1)] = -1
        return rows

    def document(self, position: int) -> tuple[int, int]:
        """Index of the document that holds a token position, and the position of its first token."""
        index = bisect_right(range(len(self.docs)), position, key=lambda i: int(self.docs[i]["start"])) - 1
        return index, int(self.docs[index]["start"])

    def path(self, document: int) -> str:
        start = int(self.docs[document]["path"])
        return self.paths[start : self.paths.find(b"\0", start)].decode()

    def _bucket(self, query: bytes) -> tuple[int, int]:
        token = int.from_bytes(query[: self.width])
        return self._buckets[token], self._buckets[token + 1]

    def _key(self, size: int):
        data, width = self.bytes, self.width
        return lambda position: data[position * width : position * width + size]


class Datastore:
    """An open datastore: `meta`, `path` and the searches."""

    def __init__(self, path: Path, meta: Meta):
        self.path, self.meta = path, meta
        self.shards = [Shard(shard_folder(path, index), meta.width) for index in range(len(meta.shards))]

    @classmethod
    def open(cls, path: str | Path, fingerprint: str | None = None) -> Datastore:
        """Open the datastore in the directory `path`; with `fingerprint`, only if it was built for that vocabulary.

        Raises DatastoreError when it is no datastore, damaged, too new, or built for another tokenizer.
        """
        path = Path(path)
        meta = read_meta(path)
        if fingerprint is not None and meta.tokenizer != fingerprint:
            known = f"{meta.tokenizer_name}, " if meta.tokenizer_name else ""
            raise DatastoreError(
                f"{path} was built for another tokenizer ({known}fingerprint {meta.tokenizer[:12]}) than the target's "
                f"(fingerprint {fingerprint[:12]}): build it again for this target."
            )
        check_arrays(path, meta)
        return cls(path, meta)

    def verify(self) -> None:
        """Compare every array with its sha256.  Raises DatastoreError when one differs."""
        check_arrays(self.path, self.meta, full=True)

    def search(
        self, context: Sequence[int] | np.ndarray, n_max: int = 16, n_min: int = 2, length: int = 10, cap: int = CAP
    ) -> Hits:
        """Continuations of the longest suffix of `context` (int[t]) with n_min to n_max tokens that occurs.

        REST, section 3.1: try n_max tokens, then one less, and use only the longest length that matches.  "Has a
        match" is monotone in the length, so the length is found by bisection.  Up to `cap` hits every continuation is
        read; beyond it an evenly spaced sample of the sorted continuations, weighted to sum to the number of hits.
        An id outside the vocabulary matches nothing.
        """
        n, ranges, hits = self._longest(context, n_max, n_min)
        if not n:
            return Hits(0, 0, np.empty((0, length), dtype=np.int32))
        chosen = weights = None
        if hits > cap:
            edges, chosen = strata(hits, cap)
            weights = np.diff(edges)
        parts, done = [], 0
        for shard, positions in self._positions(ranges, chosen):
            part = slice(done, done := done + len(positions))
            parts.append(Hits(n, 0, shard.read(positions + n, length), None if weights is None else weights[part]))
        merged = merge(parts)
        return Hits(n, hits, merged.rows, merged.weights)

    def next_tokens(self, context: Sequence[int] | np.ndarray, n_max: int = 16, n_min: int = 1) -> NextTokens:
        """What follows the longest suffix of `context` that occurs, counted over all hits.

        With `n_max = n_min = len(context)` it is the whole context or nothing.
        """
        n, ranges, _ = self._longest(context, n_max, n_min)
        if not n:
            return counted(0, np.empty(0, dtype=np.int32))
        parts = [shard.read(positions + n, 1)[:, 0] for shard, positions in self._positions(ranges)]
        return counted(n, np.concatenate(parts))

    def locate(
        self, tokens: Sequence[int] | np.ndarray, tokenizer: Tokenizer, limit: int = 10, window: int = 16
    ) -> Places:
        """Where `tokens` (int[k]) occurs, with `window` tokens of text on each side.

        At most `limit` places, evenly spaced over the sorted hits and then ordered by path and offset.  Lines are
        exact: they are counted in the document's text from its start.
        """
        n, ranges, total = self._longest(tokens, len(tokens), max(len(tokens), 1))
        if not n:
            return Places(0, [])
        locations = [
            self._location(shard, position, len(tokens), tokenizer, window)
            for shard, positions in self._positions(ranges, strata(total, limit)[1])
            for position in positions.tolist()
        ]
        return Places(total, sorted(locations, key=lambda place: (place.path, place.record, place.offset)))

    def frequent(self, n: int = 8, limit: int = 20) -> list[tuple[list[int], int]]:
        """The token sequences of length `n` that occur most often, with their counts, most frequent first.

        Candidates are runs of equal beginnings among at most SAMPLE suffixes of each shard, evenly spaced; their counts
        are exact.  Whatever occurs less often than two such spaces may be missed.
        """
        candidates: dict[bytes, int] = {}
        for shard in self.shards:
            step = max(1, len(shard.suffixes) // SAMPLE)
            rows = shard.read(shard.suffixes[::step].astype(np.int64), n)
            starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))
            runs = np.diff(np.append(starts, len(rows))) * step
            whole = rows[starts, -1] >= 0
            for i in np.argsort(-runs * whole, kind="stable")[: 2 * limit]:
                if whole[i]:
                    key = to_bytes(rows[starts[i]], self.meta.width)
                    candidates[key] = candidates.get(key, 0) + int(runs[i])
        likely = sorted(candidates, key=lambda key: -candidates[key])[: 2 * limit]
        counts = {
            key: sum(stop - start for start, stop in (s.range(key, s.first(key)) for s in self.shards))
            for key in likely
        }
        best = sorted(likely, key=lambda key: (-counts[key], key))[:limit]
        width = self.meta.width
        return [
            (from_bytes(np.frombuffer(key, dtype=np.uint8).reshape(-1, width), width).tolist(), counts[key])
            for key in best
        ]

    def _longest(
        self, context: Sequence[int] | np.ndarray, n_max: int, n_min: int
    ) -> tuple[int, list[tuple[int, int]], int]:
        """Length of the longest suffix of `context` that occurs (0: none), its range in each shard, and its hits."""
        width = self.meta.width
        ids = np.asarray(context[-n_max:], dtype=np.int64)
        foreign = ids.view(np.uint64) >= self.meta.vocab_size  # negative ids too
        if foreign.any():
            ids = ids[np.flatnonzero(foreign)[-1] + 1 :]
        data = to_bytes(ids, width)
        first: dict[int, list[int]] = {}

        def missing(n: int) -> bool:
            query = data[len(data) - n * width :]
            first[n] = [shard.first(query) for shard in self.shards]
            return max(first[n]) < 0

        n = n_min - 1 + bisect_left(range(n_min, len(ids) + 1), True, key=missing)
        if n < n_min:
            return 0, [], 0
        query = data[len(data) - n * width :]
        ranges = [shard.range(query, i) for shard, i in zip(self.shards, first[n], strict=True)]
        return n, ranges, sum(stop - start for start, stop in ranges)

    def _positions(
        self, ranges: list[tuple[int, int]], chosen: np.ndarray | None = None
    ) -> Iterator[tuple[Shard, np.ndarray]]:
        """Token positions (int64) of the hits, or of those numbered `chosen` (ascending, through all shards)."""
        before = 0
        for shard, (start, stop) in zip(self.shards, ranges, strict=True):
            if chosen is None:
                positions = shard.suffixes[start:stop]
            else:
                lo, hi = np.searchsorted(chosen, (before, before + stop - start))
                positions = shard.suffixes[chosen[lo:hi] + (start - before)]
            if len(positions):
                yield shard, positions.astype(np.int64)
            before += stop - start

    def _location(self, shard: Shard, position: int, size: int, tokenizer: Tokenizer, window: int) -> Location:
        document, start = shard.document(position)
        return Location(
            path=shard.path(document),
            record=int(shard.docs[document]["record"]),
            offset=position - start,
            licence=self.meta.sources[int(shard.docs[document]["source"])]["licence"],
            **words_around(shard.read, start, position, size, tokenizer, window),
        )


def words_around(
    read: Callable[[np.ndarray, int], np.ndarray],
    start: int,
    position: int,
    size: int,
    tokenizer: Tokenizer,
    window: int,
) -> dict[str, Any]:
    """The `line`, `before`, `match` and `after` of a `Location`: `size` tokens at `position`, in the document that
    begins at `start`.  `read(positions, length)` gives tokens as `Shard.read` does."""

    def text(lo: int, hi: int) -> str:
        ids = read(np.array([lo]), hi - lo)[0]
        # a character that is cut at the end is left to the piece that completes it
        return tokenizer.decode(ids[ids >= 0].tolist(), skip_special_tokens=False).rstrip("\ufffd")

    near = max(start, position - window)
    before = text(near, position)
    match = text(near, position + size)
    return {
        "line": text(start, position).count("\n") + 1,
        "before": before.lstrip("\ufffd"),
        "match": match[len(before) :],
        "after": text(near, position + size + window)[len(match) :],
    }


def counted(n: int, following: np.ndarray) -> NextTokens:
    """The counts of what follows a match of `n` tokens (int32[hits], -1 where a document ends)."""
    tokens, counts = np.unique(following[following >= 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return NextTokens(n, len(following), tokens[order], counts[order], int(np.sum(following < 0)))


def ordered(rows: np.ndarray) -> np.ndarray:
    """int64[m] that sorts continuations (int32[m, length]), ended documents last."""
    return np.lexsort(rows.view(np.uint32).T[::-1])  # as uint32, -1 sorts last


def merge(found: list[Hits], times: Sequence[int] | None = None) -> Hits:
    """What one search in all the corpora together would have found: the hits of the longest match, rows sorted.

    `times`: how often the hits of each corpus count (1).
    """
    longest = max(hits.match_length for hits in found)
    if times and any(factor > 1 for factor in times):
        found = [_counted_times(hits, factor) for hits, factor in zip(found, times, strict=True)]
    best = [(i, hits) for i, hits in enumerate(found) if hits.match_length == longest]
    corpus = np.repeat([i for i, _ in best], [len(hits.rows) for _, hits in best])
    if len(best) == 1:
        return replace(best[0][1], corpus=corpus)
    rows = np.concatenate([hits.rows for _, hits in best])
    order = ordered(rows)
    weights = None
    if any(hits.weights is not None for _, hits in best):
        weights = np.concatenate([_weights(h) for _, h in best])[order]
    return Hits(longest, sum(hits.hits for _, hits in best), rows[order], weights, corpus[order])


def _weights(hits: Hits) -> np.ndarray:
    return np.ones(len(hits.rows), dtype=np.int64) if hits.weights is None else hits.weights


def _counted_times(hits: Hits, factor: int) -> Hits:
    return hits if factor == 1 else replace(hits, hits=hits.hits * factor, weights=_weights(hits) * factor)


def strata(total: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Split range(total) into at most `limit` even parts: their edges int64[m + 1] and the middle of each int64[m]."""
    m = min(total, limit)
    edges = np.arange(m + 1) * total // max(m, 1)
    return edges, (edges[:-1] + edges[1:]) // 2


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
