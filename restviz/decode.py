"""The decoding loop: one for every method.

A step proposes a draft tree, verifies it with one target forward, and accepts the path that the target agrees with
(REST, section 3; with a drafter that proposes nothing it is plain autoregressive decoding).  Whatever the drafter
proposes, the emitted tokens are the target's own draws, so the text never depends on the method.

    tokens   committed token ids: prompt and answer; the last one is the root, not yet in the KV cache
    L        tokens in the KV cache = position of the root
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import torch

from restviz.drafters.base import Context, Draft, Drafter, NoDrafter
from restviz.target.model import Target
from restviz.target.sampling import Drawn, Sampler
from restviz.trace import Finish, FirstStep, Look, Nodes, Step, Tested, Times
from restviz.tree import Source, TokenTree

LOOKS = 10  # target's likeliest tokens recorded at each visited node
VERDICTS = ("rejected", "pruned_first_token", "pruned_budget", "pruned_cap")  # fates by `Verdict`, before acceptance


@dataclass
class Verified:
    """What the target made of a draft tree: indices are into the tree that was verified."""

    path: list[int]  # accepted nodes, from below the root down
    bonus: int | None  # the target's own token after the path; None when the text ended in the path
    visits: list[tuple[int, Drawn]]  # the nodes the target looked from, and what it drew there


def decode(
    target: Target, drafter: Drafter, prompt: list[int], sampler: Sampler, max_new_tokens: int
) -> Generator[Step, None, Finish]:
    """Decode after `prompt` (token ids), yielding each step as it is made; returns why the text ended.

    Closing the generator at any step releases everything that the run held.  Raises TargetError when the prompt leaves
    no room in the context window.
    """
    target.check_room(prompt)
    limit = min(max_new_tokens, target.info.context_window - len(prompt))
    session = target.session(len(prompt) + limit + drafter.budget, drafter.taps)
    tokens = np.empty(len(prompt) + limit, dtype=np.int32)
    tokens[: len(prompt)], count, index = prompt, len(prompt), 0
    try:
        clock = _Clock()
        with clock("forward"):
            logits = session.prefill(prompt)[None]
        draft = NoDrafter().propose(Context(tokens[:count], max_depth=0))
        tree = draft.tree
        while True:
            with clock("accept"):
                left = len(prompt) + limit - count
                verified = verify(tree, logits, sampler, position=count, left=left, eos=target.eos)
                emitted = [int(tree.token[node]) for node in verified.path]
                emitted += [] if verified.bonus is None else [verified.bonus]
                if index:
                    session.commit([0, *verified.path])
                root, count = count - 1, count + len(emitted)
                tokens[root + 1 : count] = emitted
            yield clock.stop(_record(index, root, draft, verified))
            if emitted[-1] in target.eos:
                return Finish(reason="eos", message="The model ended its answer.")
            if count - len(prompt) == max_new_tokens:
                return Finish(reason="max_new_tokens", message=f"Stopped at the limit of {max_new_tokens} new tokens.")
            if count - len(prompt) == limit:
                window = target.info.context_window
                return Finish(reason="context_window", message=f"The context window of {window} tokens is full.")
            index += 1
            clock = _Clock()
            draft = drafter.propose(Context(tokens[:count], len(prompt) + limit - count, session.hidden))
            clock.ms |= draft.times
            with clock("forward"):
                tree = draft.tree.keep(draft.kept)
                logits = session.forward(tree)
    finally:
        session.release()


def verify(
    tree: TokenTree, logits: torch.Tensor, sampler: Sampler, position: int, left: int, eos: frozenset[int]
) -> Verified:
    """Walk down from the root: draw once at each visited node, descend if a child carries the draw, else emit it.

    `logits` [n, vocab] are the target's after each node; `position` is the absolute position of the root's successor;
    at most `left` tokens may be emitted, and none after one of `eos`.
    """
    node, path, visits = 0, [], []
    while True:
        drawn = sampler.draw(logits[node], position + len(path))
        visits.append((node, drawn))
        child = tree.children(node).get(drawn.token)
        if child is None:
            return Verified(path, drawn.token, visits)
        path.append(child)
        if drawn.token in eos or len(path) == left:
            return Verified(path, None, visits)
        node = child


def _record(index: int, position: int, draft: Draft, verified: Verified) -> Step:
    """The step as plain data.  Node indices become those of the draft's whole tree, dropped nodes included."""
    whole = np.flatnonzero(draft.kept).tolist()
    looks, target_p = [], {}
    for node, drawn in verified.visits:
        for token, child in draft.tree.children(whole[node]).items():
            target_p[child] = round(float(drawn.p[token]), 6)
        best = torch.from_numpy(drawn.p).topk(min(LOOKS, len(drawn.p)))
        some = best.values > 0
        p = [round(value, 6) for value in best.values[some].tolist()]
        looks.append(Look(node=whole[node], token=best.indices[some].tolist(), p=p))
    return record(index, position, draft, [whole[node] for node in verified.path], verified.bonus, looks, target_p)


def record(
    index: int,
    position: int,
    draft: Draft,
    accepted: list[int],
    bonus: int | None,
    looks: list[Look],
    target_p: dict[int, float],
) -> Step:
    """A step as plain data, its times still to be told.  Nodes are those of `draft.tree`."""
    tree = draft.tree
    fate = [VERDICTS[verdict] for verdict in draft.verdict.tolist()]
    fate[0] = "root"
    for node in accepted:
        fate[node] = "accepted"
    logp = tree.logp.astype(object)
    logp[np.isnan(tree.logp)] = None
    return Step(
        index=index,
        position=position,
        nodes=Nodes(
            token=tree.token.tolist(),
            parent=tree.parent.tolist(),
            source=tree.source.tolist(),
            count=tree.count.tolist(),
            logp=logp.tolist(),
            target_p=[target_p.get(node) for node in range(len(tree))],
            fate=fate,
        ),
        matches=draft.matches,
        first=_first_step(draft),
        unrecorded=draft.unrecorded,
        accepted=accepted,
        bonus=bonus,
        looks=looks,
        times=Times(),
    )


def _brief(p: float) -> float:
    """A probability with six digits, however small: 0 says that a token is not in the draft vocabulary."""
    return float(f"{p:.6g}")


def _first_step(draft: Draft) -> FirstStep | None:
    """What the draft model thinks comes after the root, and how the retrieved branches fared against it."""
    if draft.first is None:
        return None
    token, p = draft.first.top(min(LOOKS, len(draft.first.p)))
    step = FirstStep(token=token.tolist(), p=[_brief(value) for value in p.tolist()], k=draft.tested)
    tree = draft.tree
    nodes = np.flatnonzero((tree.depth == 1) & (tree.source & (Source.DATASTORE | Source.CONTEXT) > 0))
    if draft.tested and len(nodes):
        ranks, p = draft.first.rank(tree.token[nodes]), draft.first.of(tree.token[nodes])
        step.tested = [
            Tested(node=node, rank=rank, p=_brief(value))
            for node, rank, value in zip(nodes.tolist(), ranks.tolist(), p.tolist(), strict=True)
        ]
    return step


class _Clock:
    """Wall clock of one step, split by part: `with clock("forward"): …`."""

    def __init__(self):
        self.start = time.perf_counter()
        self.ms: dict[str, float] = {}

    def __call__(self, part: str) -> _Clock:
        self.part = part
        return self

    def __enter__(self) -> None:
        self.entered = time.perf_counter()

    def __exit__(self, *error) -> None:
        self.ms[self.part] = (time.perf_counter() - self.entered) * 1000

    def stop(self, step: Step) -> Step:
        """Write the times into `step`; what is in no part (recording, mostly) is `other`."""
        total = (time.perf_counter() - self.start) * 1000
        step.times = Times(**self.ms, other=total - sum(self.ms.values()))
        return step
