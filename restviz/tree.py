"""TokenTree: the one tree structure of RestViz.

A draft tree is a set of token paths under a root (the last committed token).  It is stored as flat numpy arrays in
*level order*: parents before children, shallow nodes before deep ones, siblings in ascending token order.  Node 0 is
the root.  No two children of a node carry the same token, so a node *is* its path.

    token   int32[n]    token id
    parent  int32[n]    index of the parent, -1 for the root
    depth   int16[n]    edges to the root, 0 for the root
    source  uint32[n]   `Source` flags: where the node came from, and from which datastores
    count   int64[n]    how many retrieved continuations start with this node's path (0: none did);
                        it never grows from a node to its child
    logp    float32[n]  draft model's cumulative log-probability of the path (NaN: the model did not propose it)

Every operation is a pure function that returns a new tree.  The same set of paths always gives the same arrays,
whatever order it was built in, so trees can be compared with `==`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np


class Source(IntFlag):
    """Where a node came from; a fused node carries several flags."""

    NONE = 0
    DATASTORE = 1
    CONTEXT = 2
    MODEL = 4

    @classmethod
    def datastore(cls, number: int) -> int:
        """The flags of a node from the datastore `number` (0 to 23) of a run: DATASTORE, and bit 8 + number."""
        return int(cls.DATASTORE) | 1 << 8 + number


@dataclass(frozen=True, slots=True, eq=False)
class TokenTree:
    """A draft tree; see the module's docstring for the arrays.  Arrays are not copied: treat them as read-only."""

    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    source: np.ndarray
    count: np.ndarray
    logp: np.ndarray

    def __len__(self) -> int:
        """Number of nodes, the root included."""
        return len(self.token)

    def __eq__(self, other: object) -> bool:
        """Same paths with the same sources, counts and log-probabilities (NaN equals NaN)."""
        if not isinstance(other, TokenTree):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name == "logp") for name in FIELDS
        )

    __hash__ = None

    def children(self, node: int) -> dict[int, int]:
        """`{token: node}` for the children of `node`."""
        return {int(self.token[i]): int(i) for i in np.flatnonzero(self.parent == node)}

    def path(self, node: int) -> list[int]:
        """Node indices from below the root down to `node`; empty for the root."""
        nodes = []
        while node > 0:
            nodes.append(node)
            node = int(self.parent[node])
        return nodes[::-1]

    def paths(self) -> list[tuple[int, ...]]:
        """Token paths of all nodes in level order; `paths()[0]` is the root's, `()`."""
        result: list[tuple[int, ...]] = [()]
        for token, parent in zip(self.token[1:].tolist(), self.parent[1:].tolist(), strict=True):
            result.append((*result[parent], token))
        return result

    def ancestor_mask(self) -> np.ndarray:
        """bool[n, n]: `[i, j]` is true when `j` is `i` or an ancestor of `i`, that is, when `i` may attend to `j`."""
        n, size = len(self), -(-len(self) // 8)
        ancestors = [1]  # as bit sets: Python's integers are faster than numpy for trees of this size
        for node, parent in enumerate(self.parent[1:].tolist(), 1):
            ancestors.append(ancestors[parent] | 1 << node)
        packed = np.frombuffer(b"".join(bits.to_bytes(size, "little") for bits in ancestors), dtype=np.uint8)
        return np.unpackbits(packed.reshape(n, size), axis=1, count=n, bitorder="little").view(bool)

    def keep(self, mask: np.ndarray) -> TokenTree:
        """The nodes where `mask` (bool[n]) is true and all of whose ancestors are kept too.  The root always stays."""
        mask = np.array(mask, dtype=bool)
        mask[0] = True
        if not mask[self.parent[1:][mask[1:]]].all():
            for start, stop in self._levels():
                mask[start:stop] &= mask[self.parent[start:stop]]
        nodes = np.flatnonzero(mask)
        kept = {name: getattr(self, name)[nodes] for name in FIELDS}
        kept["parent"] = _column(-1, np.searchsorted(nodes, kept["parent"][1:]), np.int32)
        return TokenTree(**kept)

    def heaviest(self, budget: int, key: np.ndarray | None = None) -> np.ndarray:
        """bool[n]: the `budget` heaviest nodes (root not counted, but always true), closed under ancestors.

        `key` (numeric[n], default `count`) is the weight.  A node is never ranked above its parent: its weight is
        capped by its ancestors', which changes nothing for counts and cumulative log-probabilities.  Ties go to the
        shallower node, then to level order, so the choice is deterministic and a smaller budget's is a subset of a
        larger one's.
        """
        if key is None:
            weight = self.count
        else:
            weight = np.array(key)
            if weight.dtype.kind == "f":
                weight[np.isnan(weight)] = -np.inf
            for start, stop in self._levels():
                weight[start:stop] = np.minimum(weight[start:stop], weight[self.parent[start:stop]])
        chosen = np.zeros(len(self), dtype=bool)
        chosen[0] = True
        chosen[1 + np.argsort(-weight[1:], kind="stable")[: max(budget, 0)]] = True
        return chosen

    def top(self, budget: int, key: np.ndarray | None = None) -> TokenTree:
        """`keep(heaviest(budget, key))`: the subtree of the `budget` heaviest nodes."""
        return self.keep(self.heaviest(budget, key))

    def _levels(self) -> Iterable[tuple[int, int]]:
        """`(start, stop)` of each level below the root."""
        bounds = np.searchsorted(self.depth, np.arange(1, int(self.depth[-1]) + 2))
        return zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)


FIELDS = TokenTree.__slots__


def root_only(root: int) -> TokenTree:
    """The tree of a drafter that proposes nothing."""
    return from_paths(root, [])


def from_sorted_continuations(
    root: int, rows: np.ndarray, weights: np.ndarray | None = None, source: Source = Source.DATASTORE
) -> TokenTree:
    """The trie of all prefixes of `rows`; a node's count is the summed weight of the rows that start with its path.

    `rows` is int32[m, length], one continuation a row; a row shorter than `length` is filled up with -1.  Rows with
    equal prefixes must be neighbours and siblings must come in ascending token order, as a suffix array gives them
    (REST, section 3.2: "trie of all prefixes, weight = number of continuations with that prefix").
    `weights` is int64[m], default one each.  The root's count is the sum of all weights.
    """
    return top_of_sorted_continuations(root, rows, weights, source, budget=None)[0]


def top_of_sorted_continuations(
    root: int,
    rows: np.ndarray,
    weights: np.ndarray | None = None,
    source: int | np.ndarray = Source.DATASTORE,
    budget: int | None = None,
) -> tuple[TokenTree, int]:
    """`from_sorted_continuations(...).top(budget)` without building the rest, and how many nodes the rest has.

    `source` may be uint32[m], one for each row: a node has the flags of all rows that start with its path.
    """
    m, length = rows.shape
    total = m if weights is None else int(np.sum(weights))
    if m == 0 or length == 0:
        return _single(root, total), 0
    differs = np.ones((m, length), dtype=bool)
    np.not_equal(rows[1:], rows[:-1], out=differs[1:])
    np.logical_or.accumulate(differs, axis=1, out=differs)
    # A node is a run of rows with the same path.  Going through the rows level by level, a run is known by its start,
    # level * m + row, and its parent is the run around the same row one level up.
    run = np.flatnonzero(differs.T)
    if weights is None:
        count = np.empty_like(run)
        count[:-1], count[-1] = run[1:], m * length
        count -= run
    else:
        count = np.add.reduceat(np.broadcast_to(weights, (length, m)).ravel(), run)
    if isinstance(source, np.ndarray):
        source = np.bitwise_or.reduceat(np.broadcast_to(source, (length, m)).ravel(), run)
    token = rows.T.ravel()[run]
    nodes = np.flatnonzero(token >= 0)
    n = len(nodes)
    if budget is not None and n > budget:
        # a count never grows with depth, so the first of equals in level order has all its ancestors before it
        nodes = nodes[np.sort(np.argsort(-count[nodes], kind="stable")[: max(budget, 0)])]
    if isinstance(source, np.ndarray):
        source = source[nodes]
    run = run[nodes]
    tree = TokenTree(
        token=_column(root, token[nodes], np.int32),
        parent=_column(-1, np.searchsorted(run, run - m, side="right"), np.int32),
        depth=_column(0, run // m + 1, np.int16),
        source=_column(0, source, np.uint32, len(run)),
        count=_column(total, count[nodes], np.int64),
        logp=_column(np.nan, np.nan, np.float32, len(run)),
    )
    return tree, n - len(run)


def from_paths(
    root: int,
    paths: Iterable[Sequence[int]],
    weights: Sequence[int] | None = None,
    source: Source = Source.DATASTORE,
) -> TokenTree:
    """The trie of all prefixes of `paths` (in any order), each counted with its weight (default one)."""
    paths = [tuple(path) for path in paths]
    order = sorted(range(len(paths)), key=paths.__getitem__)
    rows = np.full((len(paths), max(map(len, paths), default=0)), -1, dtype=np.int32)
    for row, i in enumerate(order):
        rows[row, : len(paths[i])] = paths[i]
    return from_sorted_continuations(
        root, rows, None if weights is None else np.asarray(weights, dtype=np.int64)[order], source
    )


def from_nodes(root: int, token: Sequence[int], parent: Sequence[int], logp: Sequence[float]) -> TokenTree:
    """The tree of a draft model's nodes, given in any order in which parents come before children.

    `token[i]`, `parent[i]` and `logp[i]` belong to node i + 1; a parent of 0 is the root.
    """
    paths: list[tuple[int, ...]] = [()]
    for t, p in zip(token, parent, strict=True):
        paths.append((*paths[p], t))
    order = sorted(range(len(paths)), key=lambda i: (len(paths[i]), paths[i]))
    place = {i: k for k, i in enumerate(order)}
    n = len(token)
    return TokenTree(
        token=_column(root, [token[i - 1] for i in order[1:]], np.int32, n),
        parent=_column(-1, [place[parent[i - 1]] for i in order[1:]], np.int32, n),
        depth=np.array([len(paths[i]) for i in order], dtype=np.int16),
        source=_column(0, Source.MODEL, np.uint32, n),
        count=np.zeros(n + 1, dtype=np.int64),
        logp=_column(np.nan, [logp[i - 1] for i in order[1:]], np.float32, n),
    )


def fuse(a: TokenTree, b: TokenTree) -> TokenTree:
    """Union of two trees with the same root by longest prefix match (RASD, abstract: "tree fusion").

    A path in both trees becomes one node: flags are or-ed, counts added, and the log-probability is the one that is
    there (`a`'s where both have one).  Raises ValueError when the roots differ.
    """
    if a.token[0] != b.token[0]:
        raise ValueError(f"cannot fuse trees with different roots ({a.token[0]} and {b.token[0]})")
    in_b = {path: j for j, path in enumerate(b.paths())}
    merged: dict[tuple[int, ...], tuple[int, int]] = {}  # path -> (index in a or -1, index in b or -1)
    for i, path in enumerate(a.paths()):
        merged[path] = (i, in_b.get(path, -1))
    for path, j in in_b.items():
        merged.setdefault(path, (-1, j))
    ordered: list[tuple[int, ...]] = sorted(merged, key=lambda path: (len(path), path))
    index = {path: i for i, path in enumerate(ordered)}
    ia, ib = np.array([merged[path] for path in ordered], dtype=np.int64).T
    has_a, has_b = ia >= 0, ib >= 0

    def pick(name: str, empty: float) -> tuple[np.ndarray, np.ndarray]:
        x, y = getattr(a, name), getattr(b, name)
        fill = x.dtype.type(empty)
        return np.where(has_a, x[ia], fill), np.where(has_b, y[ib], fill)

    logp_a, logp_b = pick("logp", np.nan)
    return TokenTree(
        token=np.array([a.token[0], *(path[-1] for path in ordered[1:])], dtype=np.int32),
        parent=np.array([-1, *(index[path[:-1]] for path in ordered[1:])], dtype=np.int32),
        depth=np.array([len(path) for path in ordered], dtype=np.int16),
        source=np.bitwise_or(*pick("source", 0)),
        count=np.add(*pick("count", 0)),
        logp=np.where(np.isnan(logp_a), logp_b, logp_a),
    )


def _column(root: float, rest: np.ndarray | float, dtype: type, n: int | None = None) -> np.ndarray:
    """An array of a tree: the root's value and those of the other n nodes."""
    column = np.empty(1 + (len(rest) if n is None else n), dtype=dtype)
    column[0], column[1:] = root, rest
    return column


def _single(root: int, count: int) -> TokenTree:
    return TokenTree(
        token=np.array([root], dtype=np.int32),
        parent=np.array([-1], dtype=np.int32),
        depth=np.zeros(1, dtype=np.int16),
        source=np.zeros(1, dtype=np.uint32),
        count=np.array([count], dtype=np.int64),
        logp=np.full(1, np.nan, dtype=np.float32),
    )
