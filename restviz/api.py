"""The public API: `generate` a trace, or `load` an engine and `stream` runs step by step.

trace = restviz.generate("def quicksort(", method="rest")

engine = restviz.load()
run = engine.stream("def quicksort(", restviz.Settings(method="rest"))
for step in run: ...
run.trace
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import torch

from restviz.check import check
from restviz.datastore import DATASTORES, Datastore, LiveDatastore, open_or_build
from restviz.decode import decode
from restviz.drafters import METHODS, MethodError
from restviz.drafters.assistant import load_assistant
from restviz.drafters.eagle import Head, check_head_name, head_for
from restviz.provenance import places
from restviz.replay import Features, Listening, replay
from restviz.settings import Settings, SettingsError
from restviz.target.build import load_target
from restviz.target.load import load_tokenizer
from restviz.target.model import Target
from restviz.target.sampling import Sampler
from restviz.target.text import TokenText
from restviz.trace import Check, DatastoreInfo, Finish, Header, Step, Trace

__all__ = ["Engine", "Run", "Settings", "SettingsError", "generate", "load"]


PLACES = ("head", "assistant", "device", "dtype", "attention")  # keyword arguments of `load`
STOPPED = Finish(reason="stopped", message="Stopped by you.")


class Run:
    """One run: iterate over it for its steps; `trace` grows meanwhile and is complete at the end."""

    def __init__(self, engine: Engine, prompt: str, settings: Settings):
        target = engine.target
        self.engine, self.settings = engine, settings
        self.drafter = METHODS[settings.method].make(settings, engine)
        if not prompt.strip():
            raise SettingsError("The prompt is empty: write something for the model to continue.")
        ids = target.encode(prompt, settings.chat)
        target.check_room(ids)
        self.trace = Trace(
            header=Header(
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                method=settings.method,
                parameters=settings.relevant(),
                model=target.info,
                environment=target.environment,
                datastores=self.drafter.datastores,
                prompt=prompt,
                prompt_ids=ids,
            )
        )
        self._name(ids)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the run after the step under way; may be called from any thread."""
        self._stopped.set()

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps as they are made.  Waits while another run uses the engine."""
        trace = self.trace
        if trace.steps or trace.finish:
            raise RuntimeError("a Run can be iterated over once; its steps are in run.trace.steps")
        with self.engine.lock:
            steps = self._steps()
            finish = Finish(reason="failed", message="The run failed.")
            try:
                while not self._stopped.is_set():
                    try:
                        step = next(steps)
                    except StopIteration as end:
                        finish = end.value
                        return
                    trace.steps.append(step)
                    first = step.first.token if step.first else []
                    self._name(step.nodes.token, step.emitted, first, *(look.token for look in step.looks))
                    yield step
                finish = STOPPED
            except GeneratorExit:  # whoever iterated left
                finish = STOPPED
                raise
            finally:
                steps.close()
                trace.text = self.engine.target.decode(trace.tokens)
                trace.finish = finish

    def _steps(self) -> Generator[Step, None, Finish]:
        s, ids, drafter = self.settings, self.trace.header.prompt_ids, Listening(self.drafter)
        sampler = Sampler(s.temperature, s.top_k, s.top_p, s.seed)
        try:
            return (yield from decode(self.engine.target, drafter, ids, sampler, s.max_new_tokens))
        finally:
            self.engine.remembered = drafter.features(ids + self.trace.tokens) or self.engine.remembered

    def _name(self, *ids: Sequence[int]) -> None:
        """Put the text of new token ids into the trace."""
        text = self.engine.token_text
        for token in set().union(*ids) - self.trace.token_text.keys():
            self.trace.token_text[token] = text.text(token)
            if not text.whole(token):
                self.trace.token_bytes[token] = text.bytes(token).hex()


class Engine:
    """A loaded target, opened datastores and draft models.  Runs on it wait for each other."""

    def __init__(
        self, target: Target, datastores: list[Datastore], head: Head | None = None, assistant: Target | None = None
    ):
        self.target, self.datastores, self.head, self.assistant = target, datastores, head, assistant
        self.token_text = TokenText(target.tokenizer)
        self.remembered: Features | None = None  # of the last run or replay that had any, see `restviz.replay`

    @property
    def lock(self) -> threading.Lock:
        """Held while the target computes; engines over the same target share it."""
        return self.target.lock

    def beside(self, *more: Datastore | LiveDatastore) -> Engine:
        """This engine with more datastores, for whoever asks only: the target is shared."""
        engine = copy(self)
        engine.datastores = [*self.datastores, *more]
        return engine

    def stream(self, prompt: str, settings: Settings | None = None) -> Run:
        """A run, ready to be iterated over.  Raises RestvizError when prompt or settings do not allow one."""
        return Run(self, prompt, settings or Settings())

    def generate(self, prompt: str, settings: Settings | None = None) -> Trace:
        """Run to the end."""
        run = self.stream(prompt, settings)
        for _ in run:
            pass
        return run.trace

    def check(self, trace: Trace) -> Check:
        """A teacher-forced forward over a finished run's text: where the emitted tokens are not its choice."""
        return check(self.target, trace)

    def replay(self, trace: Trace, settings: Settings, position: int | None = None) -> Iterator[Step]:
        """The steps that a finished run would have had with other drafting parameters (see `restviz.replay`)."""
        return replay(self, trace, settings, position)

    def places(self, trace: Trace, index: int, node: int) -> list[dict[str, Any]]:
        """Where in the datastores a node of step `index` comes from (see `restviz.provenance`)."""
        return places(self, trace, index, node)

    def methods(self) -> list[str]:
        """The methods that can run here: those whose draft model is loaded."""
        return [name for name in METHODS if self._can(Settings(method=name))]

    def _can(self, settings: Settings) -> bool:
        try:
            METHODS[settings.method].make(settings, self)
        except MethodError:
            return False
        return True

    def describe(self) -> dict[str, Any]:
        """Plain facts about model, device and datastores, for people."""
        return {
            "model": self.target.info.model_dump(),
            "environment": self.target.environment.model_dump(),
            "datastores": [
                DatastoreInfo(
                    name=store.meta.name, fingerprint=store.meta.content, tokens=store.meta.tokens
                ).model_dump()
                for store in self.datastores
            ],
            "head": self.head and self.head.name,
            "assistant": self.assistant and self.assistant.info.name,
            "methods": self.methods(),
        }


@lru_cache(maxsize=2)
def _load(
    target: str,
    datastores: tuple[str, ...],
    head: str,
    assistant: str,
    device: str,
    dtype: str,
    attention: str,
    probe: bool,
) -> Engine:
    check_head_name(head)
    tokenizer = load_tokenizer(target)
    stores = [open_or_build(name, tokenizer, tokenizer_name=target) for name in datastores]  # before the long part
    loaded = load_target(target, device, dtype, attention, probe)
    return Engine(loaded, stores, head_for(head, loaded), load_assistant(assistant, loaded) if assistant else None)


_loading = threading.Lock()


def load(
    target: str = "default",
    datastore: str | Sequence[str] = DATASTORES,
    *,
    head: str = "auto",
    assistant: str = "",
    device: str = "auto",
    dtype: str = "auto",
    attention: str = "auto",
    probe: bool = True,
) -> Engine:
    """Load a target and open (or first build) its datastores; the last engines are kept.  Raises RestvizError.

    target      `default`, a hub id, or the path of a model folder or GGUF file (see `restviz.target.load`)
    datastore   names of recipes or paths of built datastores, all for the target's tokenizer
    head        the target's EAGLE head: a checkpoint's folder or hub id, `auto` (the one RestViz has for it, if any) or
                `none`
    assistant   a smaller model with the target's tokenizer, named like a target; none by default
    device, dtype, attention, probe   see `restviz.target.build.load_target`
    """
    names = (datastore,) if isinstance(datastore, str) else tuple(datastore)
    with _loading:
        return _load(target, names, head, assistant, device, dtype, attention, probe)


def unload() -> None:
    """Free the engines that `load` keeps; those that someone else holds stay."""
    with _loading:
        _load.cache_clear()
        load_target.cache_clear()
        gc.collect()
        torch.cuda.empty_cache()  # nothing without a GPU


def generate(
    prompt: str,
    method: str = "rest",
    *,
    target: str = "default",
    datastore: str | Sequence[str] = DATASTORES,
    **settings,
) -> Trace:
    """Generate an answer and return the trace of how it was made.

    `settings` are fields of `Settings` (`max_new_tokens=128`, `temperature=0.0`, `budget=64`, …) and the keyword
    arguments of `load`.  Raises RestvizError with one sentence when something is not possible.
    """
    where = {key: settings.pop(key) for key in PLACES if key in settings}
    return load(target, datastore, **where).generate(prompt, Settings(method=method, **settings))
