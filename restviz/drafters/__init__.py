"""Drafters: each proposes draft trees in its own way; `METHODS` names them all.

A new drafter is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from restviz.drafters.base import Context, Draft, Drafter, NoDrafter, Verdict
from restviz.drafters.rest import RestDrafter

if TYPE_CHECKING:
    from restviz.api import Engine
    from restviz.settings import Settings

__all__ = ["METHODS", "Context", "Draft", "Drafter", "NoDrafter", "RestDrafter", "Verdict"]


def _rest(settings: Settings, engine: Engine) -> Drafter:
    return RestDrafter(
        engine.datastores,
        n_max=settings.n_max,
        n_min=settings.n_min,
        length=settings.length,
        budget=settings.budget,
        cap=settings.cap,
    )


METHODS: dict[str, Callable[[Settings, Engine], Drafter]] = {
    "autoregressive": lambda settings, engine: NoDrafter(),
    "rest": _rest,
}
