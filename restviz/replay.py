"""What if: the steps that a recorded run would have had with other drafting parameters.

The text never depends on how it was drafted, so a trace holds every choice that the target would make: a replay
proposes draft trees along the recorded text, follows the recorded tokens through them, and needs no verification.  The
target runs once over the text, and only when a draft model reads its features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from restviz.decode import record
from restviz.drafters import METHODS, Context, Draft, Drafter
from restviz.settings import Settings, SettingsError, recorded_settings
from restviz.trace import Look, Step, Times, Trace
from restviz.tree import from_paths

if TYPE_CHECKING:
    from restviz.api import Engine

CHUNK = 64  # rows of a forward over recorded text


def replay(engine: Engine, trace: Trace, settings: Settings, position: int | None = None) -> Iterator[Step]:
    """Yield the steps after the prefill of a run of `trace`'s prompt with `settings`, from its text.

    With `position` they start where the root is there (as in `Step.position`).  `times` holds what drafting took now;
    `target_p` and `looks` are what the trace knows of them.  Raises SettingsError when `settings` would change the text
    or the trace is of another model, MethodError when the engine cannot run the method.
    """
    prompt, answer = trace.header.prompt_ids, trace.tokens
    _comparable(engine, trace, settings)
    drafter = METHODS[settings.method].make(settings, engine)
    text = np.array(prompt + answer, dtype=np.int32)
    limit = len(prompt) + min(settings.max_new_tokens, engine.target.info.context_window - len(prompt))
    count, seen, index = (len(prompt) if position is None else position) + 1, 0, 1
    if not len(prompt) < count <= len(text):
        raise SettingsError(f"The run has no step at position {count - 1}.")
    known = [(look.token, look.p) for step in trace.steps for look in step.looks]  # one for each token of the answer
    read = text[:-1].tolist()  # what the target reads: the last token is never a root
    while count < len(text):
        features = _features(engine, read, len(prompt), drafter.taps, count - 1)
        hidden = None if features is None else features[seen : count - 1]
        draft = drafter.propose(Context(text[:count], limit - count, hidden))
        path, bonus = _follow(draft, text[count:].tolist())
        visited = [0, *path][: len(path) + (bonus is not None)]
        looks, target_p = _looked(draft, visited, known[count - len(prompt) :])
        step = record(index, count - 1, draft, path, bonus, looks, target_p)
        step.times = Times(**draft.times)
        yield step
        seen, count, index = count - 1, count + len(step.emitted), index + 1


def _comparable(engine: Engine, trace: Trace, settings: Settings) -> None:
    mine, theirs = engine.target.info, trace.header.model
    if (mine.name, mine.tokenizer) != (theirs.name, theirs.tokenizer):
        raise SettingsError(f"This run is of {theirs.name} and {mine.name} is loaded: load that model to ask what if.")
    drafting = {name for method in METHODS.values() for name in method.parameters}
    fixed = settings.model_dump(exclude={"method", *drafting})
    if fixed != recorded_settings(trace).model_dump(exclude={"method", *drafting}):
        raise SettingsError("Only the method and what it drafts with can be changed after a run, not the sampling.")


class Features(NamedTuple):
    """The target's features of a text, [tokens, taps × d]."""

    ids: list[int]
    taps: tuple[int, ...]
    features: torch.Tensor


class Listening(Drafter):
    """A drafter that remembers the features it is shown, so that questions about the run need not compute them."""

    def __init__(self, drafter: Drafter):
        self.drafter, self.shown = drafter, []
        self.budget, self.datastores, self.taps = drafter.budget, drafter.datastores, drafter.taps

    def propose(self, context: Context) -> Draft:
        if context.hidden is not None:
            self.shown.append(context.hidden)
        return self.drafter.propose(context)

    def features(self, ids: list[int]) -> Features | None:
        """Those of the first of `ids`, as far as they were shown; None when there are none."""
        if not self.shown:
            return None
        features = torch.cat(self.shown)
        return Features(ids[: len(features)], self.taps, features)


def _features(engine: Engine, ids: list[int], prompt: int, taps: tuple[int, ...], needed: int) -> torch.Tensor | None:
    """[t, features] of at least the first `needed` tokens, as `Session.hidden` gives them; None when nobody reads them.

    The first `prompt` tokens are read as one and the others as draft trees are, so that the features are those that the
    run had, to the last bit where the target is bit-exact: a draft model can turn the smallest difference into another
    tree.  Those asked for last are kept with the engine: most questions are about one run.
    """
    if not taps:
        return None
    known = engine.remembered
    if known and known.taps == taps and len(known.ids) >= needed and known.ids == ids[: len(known.ids)]:
        return known.features
    with engine.lock:
        session = engine.target.session(len(ids), taps)
        try:
            session.prefill(ids[:prompt])
            parts = [session.hidden]
            for start in range(prompt, len(ids), CHUNK):
                root, *rest = ids[start : start + CHUNK]
                session.forward(from_paths(root, [rest]), last_only=True)
                session.commit(list(range(len(rest) + 1)))
                parts.append(session.hidden)
            engine.remembered = Features(ids, taps, torch.cat(parts))
            return engine.remembered.features
        finally:
            session.release()


def _follow(draft: Draft, following: list[int]) -> tuple[list[int], int | None]:
    """The nodes to verify that the text goes through, and the token where it leaves them; None where it ends."""
    node, path = 0, []
    for token in following:
        child = draft.tree.children(node).get(token)
        if child is None or not draft.kept[child]:
            return path, token
        path.append(child)
        node = child
    return path, None


def _looked(draft: Draft, visited: list[int], known: list[tuple[list[int], list[float]]]):
    """`Look`s of the visited nodes, and the target's probability of each of their children that is in them."""
    looks, target_p = [], {}
    for node, (tokens, p) in zip(visited, known, strict=False):
        looks.append(Look(node=node, token=tokens, p=p))
        seen = dict(zip(tokens, p, strict=True))
        for token, child in draft.tree.children(node).items():
            if token in seen:
                target_p[child] = seen[token]
    return looks, target_p
