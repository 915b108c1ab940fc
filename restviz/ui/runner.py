"""From the engine to the page: one run at a time, measured against a baseline, told in small messages.

A message is a JSON object.  `note`, `busy` and `error` say what is going on.  With `run`, it carries steps:

    run, role   id of the recording, and "baseline" or "run"
    baseline    id of the baseline that a run is compared with
    from, total index of the first step in `steps`, and how many the recording has by now
    steps, at   steps as in a trace, and when the engine made each (seconds since the epoch)
    text, bytes `Trace.token_text` and `token_bytes` of the token ids in these steps
    header      in the first message only
    end, answer `Finish` of the run, once all steps are out, and the decoded answer
    environment where it ran, with the end: what was found out in the run is not in its header yet
    check       `Check` of a run whose text differs from the baseline's

The engine works in a thread of its own and never waits for the page: whatever it made since the last message goes into
the next one, so nothing queues up on this side.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from restviz.drafters import METHODS
from restviz.errors import RestvizError
from restviz.settings import recorded_settings
from restviz.trace import Finish, Header, Step, Trace

if TYPE_CHECKING:
    from restviz.ui.config import Public

log = logging.getLogger("restviz.ui")

KEPT = 24  # recordings that stay available to the page, baselines included
PACE = 0.025  # seconds between messages at least: a message that is overtaken in the browser costs a refill
PLAIN = "Decoding autoregressively, one forward per token; this is also the baseline for other methods…"
MEASURING = "Measuring the baseline first: plain autoregressive decoding of the same prompt in the same process…"
DECODING = "Decoding with {}, one draft tree per forward…"
PLAIN_METHOD = "autoregressive"
BASELINE_KEYS = ("max_new_tokens", "temperature", "top_k", "top_p", "seed", "chat")


class Recording:
    """A run in progress or done, and when each of its steps was made."""

    def __init__(self, run: Any, role: str, session: str, baseline: Recording | None = None):
        self.id, self.session = uuid.uuid4().hex, session
        self.role = role
        self.baseline = baseline  # the recording to compare with
        self.run = run
        self.trace: Trace = run.trace
        self.made: list[float] = []
        self.done = False
        self.error: Exception | None = None
        self.thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        # with the visitor's context, from which ZeroGPU knows whose quota a run is
        work = partial(copy_context().run, self._work, wake)
        self.thread = threading.Thread(target=work, name="restviz-run", daemon=True)
        self.thread.start()

    def _work(self, wake: Callable[[], None]) -> None:
        """Run to the end; the body of the engine's thread."""
        try:
            for _ in self.run:
                self.made.append(time.time())
                wake()
            if self.baseline and self.trace.differs(self.baseline.trace):
                self.trace.check = self.run.engine.check(self.trace)
        except Exception as error:
            self.error = error
        finally:
            self.run = None  # and with it its engine: another model may be loaded next
            self.done = True
            wake()

    def stop(self) -> None:
        if run := self.run:
            run.stop()

    def message(self, start: int) -> dict[str, Any]:
        """Steps from `start` on; `steps` holds JSON already, see `encode`."""
        end = self.trace.finish if self.done else None
        if self.error and not end:
            end = Finish(reason="failed", message="The run failed.")
        stop = len(self.made)
        steps = self.trace.steps[start:stop]
        ids = set().union(*map(_ids, steps))
        message: dict[str, Any] = {
            "run": self.id,
            "role": self.role,
            "baseline": self.baseline and self.baseline.id,
            "from": start,
            "total": stop,
        }
        if start == 0:
            ids.update(self.trace.header.prompt_ids)
            message["header"] = self.trace.header.model_dump()
        return message | {
            "steps": [json.loads(step.model_dump_json()) for step in steps],
            "at": self.made[start:stop],
            "text": {i: self.trace.token_text[i] for i in ids if i in self.trace.token_text},
            "bytes": {i: self.trace.token_bytes[i] for i in ids if i in self.trace.token_bytes},
            "end": end.model_dump() if end else None,
            "answer": self.trace.text if end else None,
            "check": self.trace.check.model_dump() if end and self.trace.check else None,
            "environment": self.trace.header.environment.model_dump() if end else None,
        }


def _ids(step: Step) -> set[int]:
    ids = {*step.nodes.token, *step.emitted, *(step.first.token if step.first else [])}
    return ids.union(*(look.token for look in step.looks))


class Job:
    """One press of Run: everything that Stop, or the visitor leaving, has to end."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.recording: Recording | None = None

    def stop(self) -> None:
        self.stopped.set()
        if self.recording:
            self.recording.stop()

    async def unless_stopped(self, what: Any) -> bool:
        """Wait for `what`; False when the job was stopped first."""
        waiting, stopped = asyncio.ensure_future(what), asyncio.ensure_future(self.stopped.wait())
        try:
            await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.done()
        finally:
            stopped.cancel()
            if not waiting.done():
                waiting.cancel()


class _Told(logging.Handler):
    """What loading says it is doing, for the page."""

    def __init__(self, runner: Runner):
        super().__init__(logging.INFO)
        self.runner = runner

    def emit(self, record: logging.LogRecord) -> None:
        self.runner.loading = record.getMessage().rstrip("…. ")


class Runner:
    """Owns the engine and hands it to one visitor after the other.

    `models` says how each model is loaded; the first is at once, and one is there at a time.  `limits`: those of a
    public page.  `check` raises RestvizError when a model cannot be loaded here.  `inline`: load in this thread and
    once only, which ZeroGPU needs.
    """

    def __init__(
        self,
        models: Mapping[str, Callable[[], Any]],
        limits: Public | None = None,
        check: Callable[[str], None] = lambda model: None,
        inline: bool = False,
    ):
        self.models, self.limits, self.check, self.inline = models, limits, check, inline
        self.asking = threading.Lock()  # one question about a run at a time
        self.loading = ""  # what is being done until the engine is there
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.jobs: dict[str, Job] = {}
        self.recordings: OrderedDict[str, Recording] = OrderedDict()
        self.baselines: OrderedDict[tuple, str] = OrderedDict()
        self.counter = 0
        self._begin(next(iter(models)))

    def _begin(self, model: str) -> None:
        """Load a model in place of the one that is there."""
        self.model, self.engine = model, Future()
        load = partial(self._load, self.models[model], self.engine)
        if self.inline:
            load()
        else:
            threading.Thread(target=load, name="restviz-load", daemon=True).start()

    def _load(self, load: Callable[[], Any], engine: Future) -> None:
        told, logger = _Told(self), logging.getLogger("restviz")
        logger.addHandler(told)
        logger.setLevel(logging.INFO)
        try:
            engine.set_result(load())
        except Exception as error:
            if not isinstance(error, RestvizError):
                log.exception("loading failed")
            engine.set_exception(error)
        finally:
            logger.removeHandler(told)

    def sentence(self, error: BaseException) -> str:
        if isinstance(error, RestvizError):
            return str(error)
        return f"Something went wrong in RestViz itself ({type(error).__name__}); the server's log has the details."

    def encode(self, **message: Any) -> str:
        self.counter += 1  # makes every value new, so the page notices even the same error twice
        return json.dumps(message | {"n": self.counter}, separators=(",", ":"))

    # -- what the page's JavaScript asks for ---------------------------------------------------------------------

    def state(self) -> str:
        if not self.engine.done():
            doing = f": {self.loading}" if self.loading else ""
            return json.dumps({"ready": False, "note": f"Loading the model and the datastore{doing}…", "footer": ""})
        error = self.engine.exception()
        if error:
            return json.dumps({"ready": False, "error": self.sentence(error), "footer": ""})
        return json.dumps({"ready": True, "note": "", "footer": footer(self.engine.result().describe())})

    def steps(self, run: str, start: int) -> str:
        """Steps that the page missed."""
        recording = self.recordings.get(run)
        if recording is None:
            raise KeyError("that run is no longer kept here; run it again")
        return json.dumps(recording.message(start), separators=(",", ":"))

    # Questions about a run bring with them what they are about, so nothing need be kept here, and a run from a file
    # can be asked about like one that was just made.

    def what_if(
        self,
        header: dict[str, Any],
        tokens: list[int],
        changes: dict[str, Any],
        position: int | None = None,
        choices: list[dict[str, list]] | None = None,
    ) -> str:
        """The step at `position` with other drafting parameters; without a position what the whole run would gain.

        `header` is the run's, `tokens` its answer, and `choices` the target's looks before each of them, if known.
        Gives `step` with `text` and `bytes` as in messages and the `datastores` that its flags number, or `M` and
        `forwards`, or an `error`.
        """
        return self._answer(self._what_if, header, tokens, changes, position, choices)

    def places(self, header: dict[str, Any], tokens: list[int], step: dict[str, Any], node: int) -> str:
        """`places` in the datastores that a node of a step is from, or an `error`; `tokens`: the answer before it."""
        return self._answer(self._places, header, tokens, step, node)

    def _places(self, header: dict[str, Any], tokens: list[int], step: dict[str, Any], node: int) -> dict[str, Any]:
        engine, trace = self._asked(header, tokens)
        trace.steps.append(Step.model_validate(step))
        return {"places": engine.places(trace, 1, node)}

    def _answer(self, ask: Callable[..., dict[str, Any]], *question: Any) -> str:
        try:
            with self.asking:
                return json.dumps(ask(*question), separators=(",", ":"))
        except Exception as error:
            if isinstance(error, ValidationError):
                error = RestvizError("This run cannot be asked about: what it says of itself is damaged.")
            elif not isinstance(error, RestvizError):
                log.exception("a question about a run failed")
            return json.dumps({"error": self.sentence(error)})

    def _asked(
        self, header: dict[str, Any], tokens: list[int], choices: list[dict[str, list]] | None = None
    ) -> tuple[Any, Trace]:
        """The engine, and the run that a question is about.  Raises RestvizError or ValidationError."""
        if not self.engine.done():
            raise RestvizError("The model is still loading: ask again in a moment.")
        engine = self.engine.result()
        trace = Trace.of_tokens(Header.model_validate(header), tokens, choices and choices[: len(tokens)])
        if self.limits:
            self.limits.check(trace.header.prompt, len(tokens))
        info, ids = engine.target.info, [*trace.header.prompt_ids, *trace.tokens]
        if len(ids) > info.context_window or not all(0 <= token < info.vocab_size for token in ids):
            raise RestvizError(f"This run cannot be asked about: its text is none that {info.name} can read.")
        return engine, trace

    def _idle(self) -> None:
        if self.turn.locked():
            raise RestvizError("The model is busy with a run: ask again when it has ended.")

    def _what_if(
        self,
        header: dict[str, Any],
        tokens: list[int],
        changes: dict[str, Any],
        position: int | None,
        choices: list[dict[str, list]] | None,
    ) -> dict[str, Any]:
        def unless_busy(steps: Iterator[Step]) -> Iterator[Step]:
            for step in steps:
                yield step
                self._idle()  # a run may have begun: what it measures must not share the processor

        self._idle()
        engine, trace = self._asked(header, tokens, choices)
        settings = recorded_settings(trace).but(**changes)
        steps = unless_busy(engine.replay(trace, settings, position))
        if position is None:
            emitted = [len(step.emitted) for step in steps]
            return {"M": sum(emitted) / max(len(emitted), 1), "forwards": len(emitted)}
        step, text = next(steps), engine.token_text
        ids = _ids(step)
        return {
            "step": json.loads(step.model_dump_json()),
            "text": {i: text.text(i) for i in ids},
            "bytes": {i: text.bytes(i).hex() for i in ids if not text.whole(i)},
            "datastores": [store.model_dump() for store in METHODS[settings.method].make(settings, engine).datastores],
        }

    # -- a run ---------------------------------------------------------------------------------------------------

    def stop(self, session: str) -> None:
        job = self.jobs.get(session)
        if job:
            job.stop()

    def leave(self, session: str) -> None:
        """A visitor is gone, and with them what was kept for them."""
        self.stop(session)
        self.recordings = OrderedDict((i, run) for i, run in self.recordings.items() if run.session != session)
        self.baselines = OrderedDict((key, run) for key, run in self.baselines.items() if key[0] != session)

    async def run(
        self,
        session: str,
        prompt: str,
        make_settings: Callable[..., Any],
        fresh: bool = False,
        methods: Sequence[str] | None = None,
        repeats: int = 1,
        model: str | None = None,
    ) -> AsyncIterator[str]:
        """Messages of one press of Run.  `make_settings(**changes)` gives the settings, or raises RestvizError.

        `model`: the one to run, by default the one that is loaded.
        With `fresh` the baseline is measured even when there is one.  With `methods`, those of them that can run here
        do, one after the other, so many times over; from the second time on the baseline too.
        """
        job = self.jobs[session] = Job()
        if fresh:
            self._forget(session, prompt)
        try:
            async with aclosing(self._run(job, session, prompt, make_settings, methods, repeats, model)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:
            if not isinstance(error, RestvizError):
                log.exception("a run failed")
            yield self.encode(error=self.sentence(error), note="")
            error.__traceback__ = None  # its frames hold the engine, and the recording holds the error
        finally:  # also when the visitor is gone
            job.stop()
            if self.jobs.get(session) is job:
                del self.jobs[session]

    def _forget(self, session: str, prompt: str) -> None:
        """Let the baselines of a prompt be measured anew."""
        self.baselines = OrderedDict((key, run) for key, run in self.baselines.items() if key[:2] != (session, prompt))

    async def _run(
        self,
        job: Job,
        session: str,
        prompt: str,
        make_settings: Callable[..., Any],
        methods: Sequence[str] | None,
        repeats: int,
        model: str | None,
    ) -> AsyncIterator[str]:
        settings = make_settings()
        if self.limits:
            self.limits.check(prompt, settings.max_new_tokens)
            if self.turn.locked():
                self.limits.check_queue(self.waiting)
            repeats = min(repeats, self.limits.repeats)
        if self.turn.locked():
            ahead = "one run is" if not self.waiting else f"{self.waiting + 1} runs are"
            yield self.encode(note=f"The model is busy: {ahead} ahead of yours, which starts right after…", busy=True)
        self.waiting += 1
        try:
            mine = await job.unless_stopped(turn := asyncio.ensure_future(self.turn.acquire()))
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self.turn.release()
            raise
        finally:
            self.waiting -= 1
        if not mine:
            yield self.encode(note="Stopped before the run began.", busy=False)
            return
        try:
            other = model not in (None, self.model) or (self.engine.done() and self.engine.exception())
            if other and not self.inline:
                self.check(model or self.model)
                self._begin(model or self.model)
            if other or not self.engine.done():
                loading = "Loading the model and the datastore; the run starts when they are ready…"
                yield self.encode(note=loading, busy=True, footer="")
                if not await job.unless_stopped(asyncio.shield(asyncio.wrap_future(self.engine))):
                    yield self.encode(note="Stopped before the run began.", busy=False)
                    return
                yield self.encode(footer=footer(self.engine.result().describe()))
            engine = self.engine.result()
            runnable = [settings.method] if methods is None else [m for m in engine.methods() if m in methods]
            if not runnable:
                raise RestvizError("There is nothing to compare: choose at least one method under Advanced.")
            for i, method in enumerate(runnable * repeats):
                if i and i % len(runnable) == 0:
                    self._forget(session, prompt)
                one = make_settings(method=method)
                async with aclosing(self._measured(job, engine, session, prompt, one, make_settings)) as messages:
                    async for message in messages:
                        yield message
                if job.stopped.is_set():
                    break
        finally:
            job.stop()
            try:
                while job.recording and job.recording.thread and job.recording.thread.is_alive():
                    await asyncio.sleep(0.01)  # the engine is free only when its thread has ended
            finally:  # also when the wait is cancelled: others queue for this turn
                self.turn.release()

    async def _measured(self, job, engine, session, prompt, settings, make_settings) -> AsyncIterator[str]:
        run = engine.stream(prompt, settings)  # a bad value is told before the baseline is measured
        key = (session, prompt, self.model, *(getattr(settings, name) for name in BASELINE_KEYS))
        baseline = self.recordings.get(self.baselines.get(key, ""))
        if baseline:  # in use: not the next to be forgotten
            self.recordings.move_to_end(baseline.id)
        plain = settings.method == PLAIN_METHOD
        if plain or baseline is None:
            first = run if plain else engine.stream(prompt, make_settings(method=PLAIN_METHOD))
            baseline = Recording(first, "baseline", session)
            async with aclosing(self._follow(job, baseline, PLAIN if plain else MEASURING)) as messages:
                async for message in messages:
                    yield message
            if job.stopped.is_set():
                return
            self.baselines[key] = baseline.id
            while len(self.baselines) > KEPT:
                self.baselines.popitem(last=False)
        if not plain:
            note = DECODING.format(METHODS[settings.method].label)
            async with aclosing(self._follow(job, Recording(run, "run", session, baseline), note)) as messages:
                async for message in messages:
                    yield message

    async def _follow(self, job: Job, recording: Recording, note: str) -> AsyncIterator[str]:
        self.recordings[recording.id] = recording
        while len(self.recordings) > KEPT:
            self.recordings.popitem(last=False)
        job.recording = recording
        if job.stopped.is_set():
            recording.stop()
        news, loop = asyncio.Event(), asyncio.get_running_loop()
        # Told before the engine starts, so that the first step is as quick to show as any other.
        yield self.encode(**recording.message(0), note=note, busy=True)
        recording.start(lambda: loop.call_soon_threadsafe(news.set))
        sent, ended = 0, False
        while not ended:
            await news.wait()
            news.clear()
            ended = recording.done
            message = recording.message(sent)
            sent = message["total"]
            if recording.error:  # what there is stays on the page
                yield self.encode(**message, note="", busy=False)
                await asyncio.sleep(PACE)  # the page must not lose this message to the error's
                raise recording.error
            yield self.encode(
                **message, **({"note": message["end"]["message"], "busy": False} if ended and message["end"] else {})
            )
            await asyncio.sleep(PACE)


def footer(facts: dict[str, Any]) -> str:
    """One line about what runs here, from `Engine.describe()`."""
    model, env = facts["model"], facts["environment"]
    exact = {True: "bit-exact", False: "not bit-exact", None: "bit-exactness not probed"}[env["bit_exact"]]
    parts = [
        f"Target {model['name']} ({model['parameters'] / 1e6:,.0f}M parameters)",
        f"{env['device_name'] or env['device']}, {env['dtype']}, {env['threads']} thread{'s' * (env['threads'] != 1)}",
        f"{env['attention']} attention: {exact}",
        *(f"datastore {store['name']} ({store['tokens'] / 1e6:,.1f}M tokens)" for store in facts["datastores"]),
        *([f"EAGLE head {facts['head']}"] if facts.get("head") else []),
        *([f"assistant {facts['assistant']}"] if facts.get("assistant") else []),
    ]
    return " · ".join(parts)
