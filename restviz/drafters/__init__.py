"""Drafters: each proposes draft trees in its own way; `METHODS` names them all.

A new drafter is one file and one line here.  Draft models import torch, so their files are imported when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from restviz.drafters.base import Context, Distribution, Draft, Drafter, NoDrafter, Verdict
from restviz.drafters.lookup import LookupDrafter
from restviz.drafters.rasd import RasdDrafter
from restviz.drafters.rest import RestDrafter
from restviz.errors import RestvizError

if TYPE_CHECKING:
    from restviz.api import Engine
    from restviz.datastore import Datastore
    from restviz.settings import Settings

MOST_WEIGHT = 100

__all__ = [
    "METHODS",
    "Context",
    "Distribution",
    "Draft",
    "Drafter",
    "LookupDrafter",
    "Method",
    "MethodError",
    "NoDrafter",
    "RasdDrafter",
    "RestDrafter",
    "Verdict",
]


class MethodError(RestvizError):
    """A method that needs something this engine does not have."""


class Method(NamedTuple):
    label: str  # for people
    make: Callable[[Settings, Engine], Drafter]  # a drafter for one run; raises MethodError
    parameters: tuple[str, ...] = ()  # the fields of Settings that only drafting uses and this method reads


def _rest(s: Settings, engine: Engine) -> Drafter:
    if not engine.datastores:
        raise MethodError("REST needs a datastore: name one with --datastore.")
    stores, weights = _stores(s, engine)
    return RestDrafter(stores, s.n_max, s.n_min, s.length, s.budget, s.cap, weights=weights)


def _stores(s: Settings, engine: Engine) -> tuple[list[Datastore], list[int]]:
    """The datastores to search, in the order of the setting, and their weights."""
    chosen = chosen_stores(s.stores) or {store.meta.name: 1 for store in engine.datastores}
    opened = {store.meta.name: store for store in engine.datastores}
    if missing := [name for name in chosen if name not in opened]:
        raise MethodError(f"There is no datastore “{missing[0]}” open here: choose from {', '.join(opened)}.")
    return [opened[name] for name in chosen], list(chosen.values())


def _pld(s: Settings, engine: Engine) -> Drafter:
    return LookupDrafter(s.pld_n_max, s.pld_n_min, s.length, s.budget)


def _eagle(s: Settings, engine: Engine) -> Drafter:
    if engine.head is None:
        raise MethodError(
            f"EAGLE needs a head trained for {engine.target.info.name}: name one with --head, or train one with "
            "“python -m restviz train-head”."
        )
    from restviz.drafters.eagle import Eagle
    from restviz.drafters.model import ModelDrafter

    return ModelDrafter(Eagle(engine.head), s.draft_k, s.draft_depth, s.draft_nodes)


def _assistant(s: Settings, engine: Engine) -> Drafter:
    if engine.assistant is None:
        raise MethodError(
            "The assistant method needs a smaller model with the same tokenizer: name one with --assistant."
        )
    from restviz.drafters.assistant import Assistant
    from restviz.drafters.model import ModelDrafter

    return ModelDrafter(Assistant(engine.assistant), s.draft_k, s.draft_depth, s.draft_nodes)


def _rasd(s: Settings, engine: Engine) -> Drafter:
    auto = _assistant if engine.head is None and engine.assistant is not None else _eagle
    model = {"auto": auto, "eagle": _eagle, "assistant": _assistant}[s.draft_model](s, engine)
    makers = {"datastore": [_rest], "context": [_pld], "both": [_rest, _pld]}[s.retrievers]
    overlap = s.overlap == "on" or (s.overlap == "auto" and engine.target.environment.device != "cpu")
    return RasdDrafter(model, [make(s, engine) for make in makers], s.prune_k or None, s.fused_cap or None, overlap)


def chosen_stores(text: str) -> dict[str, int]:
    """The names and weights in a `stores` setting, as `answers*3, python-code`, in its order.  Raises MethodError."""
    chosen: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = (part.strip() for part in item.partition("*"))
        if not (weight or "1").isdigit() or not 1 <= int(weight or 1) <= MOST_WEIGHT:
            raise MethodError(f"“{item}” is no datastore with a weight: write {name}*3, with 1 to {MOST_WEIGHT}.")
        if name in chosen:
            raise MethodError(
                f"The datastore “{name}” is named twice: name it once, with a weight if it is to count more."
            )
        chosen[name] = int(weight or 1)
    return chosen


REST = ("n_max", "n_min", "length", "budget", "cap", "stores")
PLD = ("pld_n_max", "pld_n_min", "length", "budget")
DRAFT = ("draft_k", "draft_depth", "draft_nodes")
FUSION = ("draft_model", "retrievers", "prune_k", "fused_cap", "overlap")

METHODS: dict[str, Method] = {
    "autoregressive": Method("Autoregressive", lambda settings, engine: NoDrafter()),
    "pld": Method("Prompt lookup (PLD)", _pld, PLD),
    "rest": Method("REST", _rest, REST),
    "eagle": Method("EAGLE", _eagle, DRAFT),
    "assistant": Method("Assistant model", _assistant, DRAFT),
    "rasd": Method("RASD", _rasd, tuple(dict.fromkeys(REST + PLD + DRAFT + FUSION))),
}
