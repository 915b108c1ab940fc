"""ZeroGPU: a Hugging Face Space that gets a GPU only while a decorated function runs, in a forked process.

Weights are put on the device when the page starts, which is before there is one.  Every run is then one call of a
generator that `spaces.GPU` wraps: arguments and yields are plain data, what a GPU alone can tell is measured inside the
call, before anything that is timed, and nothing of a run stays behind in the process.
https://huggingface.co/docs/hub/spaces-zerogpu
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from restviz.api import Engine, Run
from restviz.drafters import METHODS
from restviz.errors import RestvizError
from restviz.settings import Settings
from restviz.trace import Check, Environment, Finish, Step, Trace

STARTUP = 20  # seconds of a call before its first token: moving the weights, measuring
PER_TOKEN = 0.06  # seconds: a forward of a 7B target, generously
LONGEST = 120  # seconds that a visitor's quota usually allows


def seconds(task: str, question: dict[str, Any]) -> int:
    """How long a call may take: what is asked for from a visitor's quota."""
    tokens = question["settings"]["max_new_tokens"] if task == "run" else 0
    return min(LONGEST, STARTUP + round(PER_TOKEN * tokens))


class ZeroEngine(Engine):
    """An engine whose target is on a GPU that is there only during a call.

    `gpu` is `spaces.GPU`.  Runs, checks and replays raise RestvizError when the GPU cannot be had or is taken away.
    """

    def __init__(self, engine: Engine, gpu: Callable[..., Callable]):
        super().__init__(engine.target, engine.datastores, engine.head, engine.assistant)

        def work(task: str, question: dict[str, Any]) -> Iterator[dict[str, Any]]:  # in the forked process
            inside = Engine(engine.target, engine.datastores, engine.head, engine.assistant)
            inside.target.lock = threading.Lock()  # the other process may have held it when this one was forked
            try:
                yield from {"run": _run, "replay": _replay, "check": _check}[task](inside, **question)
            except RestvizError as error:  # pickled, it would be an error without its sentence
                yield {"error": str(error)}

        self._work = gpu(duration=seconds)(work)

    def stream(self, prompt: str, settings: Settings | None = None) -> ZeroRun:
        return ZeroRun(self, prompt, settings or Settings())

    def check(self, trace: Trace) -> Check:
        return Check.model_validate(next(self.call("check", trace=trace.model_dump(mode="json")))["check"])

    def replay(self, trace: Trace, settings: Settings, position: int | None = None) -> Iterator[Step]:
        if "draft_k" not in METHODS[settings.method].parameters:  # no draft model: that needs no GPU
            yield from super().replay(trace, settings, position)
            return
        asked = {"trace": trace.model_dump(mode="json"), "settings": settings.model_dump(), "position": position}
        for answer in self.call("replay", **asked):
            yield Step.model_validate(answer["step"])

    def call(self, task: str, **question: Any) -> Iterator[dict[str, Any]]:
        """What a task yields, from the process that has the GPU."""
        answers = self._work(task, question)
        try:
            for answer in answers:
                if "error" in answer:
                    raise RestvizError(answer["error"])
                yield answer
        except Exception as error:
            reason = re.sub(r"<[^>]+>|[.\s]+$", "", str(getattr(error, "message", "")))  # a gradio.Error has one
            if not reason or re.fullmatch(r"\w+(Error|Exception)", reason):  # a defect in the other process
                raise
            raise RestvizError(
                f"The GPU is not there any more, or not yet ({reason}): a call gets {seconds(task, question)} seconds. "
                "What is on the page stays. Ask for fewer new tokens, or try again later."
            ) from error
        finally:
            answers.close()  # ends the task after the step under way


class ZeroRun(Run):
    """A run whose steps are made in the process that has the GPU."""

    def _steps(self) -> Generator[Step, None, Finish]:
        answers = self.engine.call("run", prompt=self.trace.header.prompt, settings=self.settings.model_dump())
        try:
            for answer in answers:
                if "environment" in answer:
                    environment = Environment.model_validate(answer["environment"])
                    self.trace.header.environment = self.engine.target.environment = environment
                elif "step" in answer:
                    yield Step.model_validate(answer["step"])
                else:
                    return Finish.model_validate(answer["finish"])
            raise RestvizError("The GPU ended the run early: try it again.")
        finally:
            answers.close()


def _run(engine: Engine, prompt: str, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from restviz.target.build import measure
    from restviz.target.probe import time_forwards

    target, asked = engine.target, Settings(**settings)
    if target.environment.bit_exact is None:
        measure(target)
    else:
        time_forwards(target, (1, 16, 32))  # the first forwards of a process are slow
    yield {"environment": target.environment.model_dump()}
    run = engine.stream(prompt, asked)
    for step in run:
        yield {"step": step.model_dump(mode="json")}
    yield {"finish": run.trace.finish.model_dump()}


def _replay(engine: Engine, trace: dict, settings: dict[str, Any], position: int | None) -> Iterator[dict[str, Any]]:
    for step in engine.replay(Trace.model_validate(trace), Settings(**settings), position):
        yield {"step": step.model_dump(mode="json")}


def _check(engine: Engine, trace: dict) -> Iterator[dict[str, Any]]:
    yield {"check": engine.check(Trace.model_validate(trace)).model_dump()}


def load(**named: Any) -> ZeroEngine:
    """`restviz.load` for a ZeroGPU Space.  `spaces` must have been imported before torch."""
    import spaces

    from restviz.api import load as load_engine

    return ZeroEngine(load_engine(**named, probe=False), spaces.GPU)
