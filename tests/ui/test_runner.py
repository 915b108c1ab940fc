"""The runner with an engine that is scripted, so that waiting, stopping and failing can be arranged exactly."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from restviz.errors import RestvizError
from restviz.trace import Check, Environment, Finish, Header, ModelInfo, Nodes, Step, Times, Trace
from restviz.ui.config import Public
from restviz.ui.runner import Runner


def one(load, limits=None) -> Runner:
    """A runner with one model."""
    return Runner({"tiny": load}, limits)


class ScriptedRun:
    """Emits tokens 1, 2, 3, …; waits for `gate` before each step."""

    def __init__(self, engine, settings):
        self.engine, self.settings, self.gate, self.fails_at = engine, settings, engine.gate, engine.fails_at
        self.stopped = threading.Event()
        self.trace = Trace(header=header(settings.method), token_text={i: f"t{i}" for i in range(100)})

    def stop(self) -> None:
        self.stopped.set()
        if self.gate:
            self.gate.release()

    def token(self, i: int) -> int:
        return 99 if i == 3 and self.engine.wrong == self.settings.method else i + 1

    def __iter__(self):
        for i in range(self.settings.max_new_tokens):
            if self.gate:
                self.gate.acquire()
            if self.stopped.is_set():
                break
            if i == self.fails_at:
                raise ZeroDivisionError
            nodes = Nodes(token=[i], parent=[-1], source=[0], count=[0], logp=[None], target_p=[None], fate=["root"])
            self.trace.steps.append(
                Step(index=i, position=i, nodes=nodes, accepted=[], bonus=self.token(i), times=Times(forward=1.0))
            )
            yield self.trace.steps[-1]
        reason = "stopped" if self.stopped.is_set() else "max_new_tokens"
        self.trace.finish = Finish(reason=reason, message=reason)


class ScriptedEngine:
    def __init__(self, gate=None, fails_at=None, wrong=None):
        self.gate, self.fails_at, self.wrong, self.runs = gate, fails_at, wrong, []

    def stream(self, prompt, settings):
        if not prompt:
            raise RestvizError("The prompt is empty.")
        self.runs.append(ScriptedRun(self, settings))
        return self.runs[-1]

    def methods(self):
        return ["autoregressive", "pld", "rest"]

    def describe(self):
        environment = header("rest").environment.model_dump()
        return {"model": header("rest").model.model_dump(), "environment": environment, "datastores": []}

    def check(self, trace):
        return Check(tokens=len(trace.tokens), differs=[3], gap=[0.5])


def header(method: str) -> Header:
    model = ModelInfo(
        name="m",
        source="s",
        revision=None,
        architecture="a",
        parameters=1,
        vocab_size=9,
        context_window=9,
        tokenizer="t",
    )
    environment = Environment(
        device="cpu", device_name="", dtype="fp32", attention="exact", bit_exact=True, threads=1, versions={}
    )
    return Header(
        created="", method=method, parameters={}, model=model, environment=environment, prompt="p", prompt_ids=[1, 2]
    )


def settings(method="rest", **changes):
    values = {"max_new_tokens": 5, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0, "chat": True}
    return lambda **more: SimpleNamespace(**({"method": method} | values | changes | more))


def play(scenario):
    """Runs a coroutine on a thread of its own: Playwright's tests leave an event loop behind on the main one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, scenario).result()


async def collect(runner, session="a", prompt="p", make=None, fresh=False, **comparison):
    return [json.loads(m) async for m in runner.run(session, prompt, make or settings(), fresh, **comparison)]


def steps(messages, role):
    """Step indices of a role in the order sent."""
    return [step["index"] for m in messages if m.get("role") == role for step in m["steps"]]


def roles(messages):
    return list(dict.fromkeys(m["role"] for m in messages if "role" in m))


ALL = ["autoregressive", "pld", "rest", "eagle", "rasd"]


def methods(messages):
    """The methods that ran, in order."""
    return list(dict.fromkeys(m["header"]["method"] for m in messages if "header" in m))


def test_baseline_is_measured_first_and_every_step_is_sent_once():
    messages = play(collect(one(ScriptedEngine)))
    assert roles(messages) == ["baseline", "run"]
    assert steps(messages, "baseline") == steps(messages, "run") == [0, 1, 2, 3, 4]
    assert messages[-1]["end"]["reason"] == "max_new_tokens"
    run = next(m for m in messages if m.get("role") == "run")
    assert run["baseline"] == next(m for m in messages if m.get("role") == "baseline")["run"]
    assert all(len(m["at"]) == len(m["steps"]) for m in messages if "steps" in m)


@pytest.mark.parametrize("wrong", [None, "rest"])
def test_a_text_that_differs_from_the_baselines_is_checked(wrong):
    messages = play(collect(one(lambda: ScriptedEngine(wrong=wrong))))
    assert messages[-1]["check"] == ({"tokens": 5, "differs": [3], "gap": [0.5]} if wrong else None)


def test_baseline_is_measured_once_for_a_prompt_and_its_sampling():
    engine = ScriptedEngine()

    async def scenario():
        runner = one(lambda: engine)
        first = await collect(runner)
        again = await collect(runner, make=settings(budget=7))
        other_seed = await collect(runner, make=settings(seed=1))
        other_visitor = await collect(runner, session="b")
        asked_for = await collect(runner, fresh=True)
        return [roles(m) for m in (first, again, other_seed, other_visitor, asked_for)]

    both = ["baseline", "run"]
    assert play(scenario()) == [both, ["run"], both, both, both]


def test_an_autoregressive_run_is_the_baseline_of_the_next():
    async def scenario():
        runner = one(ScriptedEngine)
        return [roles(await collect(runner, make=settings(method))) for method in ("autoregressive", "rest")]

    assert play(scenario()) == [["baseline"], ["run"]]


def test_missed_steps_can_be_fetched():
    async def scenario():
        runner = one(ScriptedEngine)
        messages = await collect(runner)
        return json.loads(runner.steps(messages[-1]["run"], 2))

    message = play(scenario())
    assert message["from"] == 2
    assert [step["index"] for step in message["steps"]] == [2, 3, 4]
    assert message["end"]["reason"] == "max_new_tokens"
    assert message["text"]["3"] == "t3"


def test_stop_in_the_middle_keeps_what_there_is():
    gate = threading.Semaphore(2)

    async def scenario():
        runner = one(lambda: ScriptedEngine(gate))
        messages = []
        async for text in runner.run("a", "p", settings("autoregressive")):
            messages.append(json.loads(text))
            if len(steps(messages, "baseline")) == 2:
                runner.stop("a")
        assert not runner.turn.locked()
        assert not runner.jobs
        return messages

    messages = play(scenario())
    assert steps(messages, "baseline") == [0, 1]
    assert messages[-1]["end"]["reason"] == "stopped"


def test_a_stopped_baseline_is_not_kept_and_no_run_follows():
    gate = threading.Semaphore(1)
    engine = ScriptedEngine(gate)

    async def scenario():
        runner = one(lambda: engine)
        messages = []
        async for text in runner.run("a", "p", settings()):
            messages.append(json.loads(text))
            if steps(messages, "baseline"):
                runner.stop("a")
        gate.release(100)
        return roles(messages), roles(await collect(runner))

    assert play(scenario()) == (["baseline"], ["baseline", "run"])


def test_a_second_visitor_waits_and_is_told():
    gate = threading.Semaphore(1)

    async def scenario():
        runner = one(lambda: ScriptedEngine(gate))
        first = asyncio.create_task(collect(runner, "a", make=settings("autoregressive")))
        while not runner.turn.locked():
            await asyncio.sleep(0.01)
        second = runner.run("b", "p", settings("autoregressive"))
        note = json.loads(await anext(second))["note"]
        gate.release(100)
        rest = [json.loads(m) async for m in second]
        await first
        return note, steps(rest, "baseline")

    note, sent = play(scenario())
    assert "one run is ahead of yours" in note
    assert sent == [0, 1, 2, 3, 4]


def test_stop_while_waiting_leaves_the_queue():
    gate = threading.Semaphore(1)

    async def scenario():
        runner = one(lambda: ScriptedEngine(gate))
        first = asyncio.create_task(collect(runner, "a", make=settings("autoregressive")))
        while not runner.turn.locked():
            await asyncio.sleep(0.01)
        second = runner.run("b", "p", settings())
        await anext(second)
        runner.stop("b")
        last = [json.loads(m) async for m in second][-1]
        gate.release(100)
        await first
        assert not runner.turn.locked()
        return last["note"]

    assert play(scenario()) == "Stopped before the run began."


def test_a_visitor_who_leaves_frees_the_engine():
    gate = threading.Semaphore(1)

    async def scenario():
        runner = one(lambda: ScriptedEngine(gate))
        run = runner.run("a", "p", settings())
        async for text in run:
            if json.loads(text).get("steps"):
                break
        await run.aclose()
        assert not runner.turn.locked()
        gate.release(100)
        return roles(await collect(runner, "b"))

    assert play(scenario()) == ["baseline", "run"]


@pytest.mark.parametrize("prompt", ["", None])
def test_what_the_user_can_mend_is_told_in_a_sentence(prompt):
    messages = play(collect(one(ScriptedEngine), prompt=prompt))
    assert messages[-1]["error"] == "The prompt is empty."


def test_a_defect_is_told_without_a_traceback_and_keeps_the_steps():
    async def scenario():
        runner = one(lambda: ScriptedEngine(fails_at=2))
        messages = await collect(runner, make=settings("autoregressive"))
        assert not runner.turn.locked()
        return messages

    messages = play(scenario())
    assert steps(messages, "baseline") == [0, 1]
    assert messages[-2]["end"]["reason"] == "failed"
    assert "went wrong" in messages[-1]["error"]


def test_a_model_that_cannot_be_loaded_is_told():
    def load():
        raise RestvizError("There is no such model.")

    async def scenario():
        runner = one(load)
        messages = await collect(runner)
        return messages[-1]["error"], json.loads(runner.state())["error"]

    assert play(scenario()) == ("There is no such model.",) * 2


def test_run_waits_for_the_model():
    ready = threading.Event()

    def load():
        ready.wait()
        return ScriptedEngine()

    async def scenario():
        runner = one(load)
        assert not json.loads(runner.state())["ready"]
        run = runner.run("a", "p", settings("autoregressive"))
        assert "Loading" in json.loads(await anext(run))["note"]
        ready.set()
        return steps([json.loads(m) async for m in run], "baseline")

    assert play(scenario()) == [0, 1, 2, 3, 4]


def test_every_method_that_can_run_here_runs_against_one_baseline():
    messages = play(collect(one(ScriptedEngine), methods=ALL))
    assert methods(messages) == ["autoregressive", "pld", "rest"]
    baseline, *others = list(dict.fromkeys(m["run"] for m in messages if "run" in m))
    assert {m["baseline"] for m in messages if m.get("run") in others} == {baseline}


def test_a_comparison_has_the_methods_that_were_chosen():
    assert methods(play(collect(one(ScriptedEngine), methods=["rest", "rasd"]))) == ["autoregressive", "rest"]
    nothing = play(collect(one(ScriptedEngine), methods=[]))
    assert "choose at least one method" in nothing[-1]["error"]
    assert methods(nothing) == []


def test_repeats_measure_the_baseline_again_too():
    messages = play(collect(one(ScriptedEngine), methods=ALL, repeats=3))
    made = {m["run"]: m["header"]["method"] for m in messages if "header" in m}
    assert list(made.values()) == ["autoregressive", "pld", "rest"] * 3
    runs = list(dict.fromkeys((m["run"], m["baseline"]) for m in messages if m.get("baseline")))
    assert len({baseline for _, baseline in runs}) == 3


def test_stop_ends_all_methods_that_are_to_come():
    gate = threading.Semaphore(7)

    async def scenario():
        runner = one(lambda: ScriptedEngine(gate))
        messages = []
        async for text in runner.run("a", "p", settings(), methods=ALL):
            messages.append(json.loads(text))
            if len(steps(messages, "run")) == 2:
                runner.stop("a")
        return messages

    messages = play(scenario())
    assert methods(messages) == ["autoregressive", "pld"]
    assert messages[-1]["end"]["reason"] == "stopped"


def recorded(engine, **changes):
    from restviz.settings import Settings

    return engine.generate("def add(", Settings(method="rest", chat=False, n_min=1, max_new_tokens=24, **changes))


def told(trace):
    """What the page sends of a run."""
    return trace.header.model_dump(mode="json"), trace.tokens


def test_what_if_answers_for_any_run_it_is_told_of(tiny_engine):
    trace = recorded(tiny_engine)
    runner = one(lambda: tiny_engine)
    runner.engine.result()
    again = recorded(tiny_engine, budget=3)
    for step in again.steps[1:]:
        answer = json.loads(runner.what_if(*told(trace), {"budget": 3}, step.position))
        assert answer["step"]["nodes"]["token"] == step.nodes.token
        assert answer["step"]["accepted"] == step.accepted
        assert {str(token) for token in step.nodes.token} <= answer["text"].keys()
    assert json.loads(runner.what_if(*told(trace), {"budget": 3})) == {
        "M": pytest.approx(again.mean_generated_length),
        "forwards": again.forwards,
    }
    for bad, words in (({"budget": 0}, "budget cannot be 0"), ({"seed": 3}, "not the sampling")):
        assert words in json.loads(runner.what_if(*told(trace), bad, 30))["error"]


def test_questions_about_what_is_no_run_get_a_sentence(tiny_engine):
    trace = recorded(tiny_engine)
    runner = one(lambda: tiny_engine)
    runner.engine.result()
    header, tokens = told(trace)
    for bad in (({}, tokens), (header, [10**9]), (header, [-1]), (header, tokens * 1000)):
        assert "cannot be asked about" in json.loads(runner.what_if(*bad, {}))["error"]
    other = header | {"model": header["model"] | {"name": "other"}}
    assert "run is of other" in json.loads(runner.what_if(other, tokens, {}))["error"]


def test_places_are_told_for_a_step_that_is_sent(tiny_engine):
    trace = recorded(tiny_engine)
    runner = one(lambda: tiny_engine)
    runner.engine.result()
    header, tokens = told(trace)
    for step in trace.steps[1:]:
        before = tokens[: step.position + 1 - len(trace.header.prompt_ids)]
        for node in [i for i, source in enumerate(step.nodes.source) if source]:
            answer = json.loads(runner.places(header, before, step.model_dump(mode="json"), node))
            assert answer == {"places": json.loads(json.dumps(tiny_engine.places(trace, step.index, node)))}
    assert "damaged" in json.loads(runner.places(header, tokens, {}, 1))["error"]


def test_what_loading_does_is_told():
    gate, going = threading.Event(), threading.Event()

    def load():
        logging.getLogger("restviz").info("unpacking %s, once", "the model")
        going.set()
        gate.wait()

    runner = one(load)
    going.wait()
    note = json.loads(runner.state())["note"]
    assert note == "Loading the model and the datastore: unpacking the model, once…"
    gate.set()


def test_questions_wait_for_the_model(tiny_engine):
    gate = threading.Event()
    runner = one(lambda: gate.wait() and tiny_engine)
    trace = recorded(tiny_engine)
    assert "still loading" in json.loads(runner.what_if(*told(trace), {}))["error"]
    gate.set()


def test_a_sweep_ends_when_a_run_begins(tiny_engine, monkeypatch):
    trace, drafted = recorded(tiny_engine), []
    runner = one(lambda: tiny_engine)
    runner.engine.result()

    def replay(*question):
        for step in type(tiny_engine).replay(tiny_engine, *question):
            drafted.append(step.index)
            if step.index == 2:
                play(runner.turn.acquire())
            yield step

    monkeypatch.setattr(tiny_engine, "replay", replay)
    assert "busy with a run" in json.loads(runner.what_if(*told(trace), {}))["error"]
    assert drafted == [1, 2]


def test_what_if_waits_for_no_run(tiny_engine):
    async def scenario():
        gate = threading.Semaphore(0)
        runner = one(lambda: ScriptedEngine(gate))
        messages = runner.run("a", "p", settings())
        first = json.loads(await anext(messages))
        answer = json.loads(runner.what_if(first["header"], [], {}, 3))
        runner.stop("a")
        async for _ in messages:
            pass
        return answer

    assert "busy with a run" in play(scenario())["error"]


def test_another_model_is_loaded_when_it_is_asked_for_and_the_first_is_freed():
    async def scenario():
        engines = {"a": ScriptedEngine(), "b": ScriptedEngine()}
        first = weakref.ref(engines["a"])
        runner = Runner({name: lambda name=name: engines.pop(name) for name in tuple(engines)})
        await collect(runner, model="a")
        messages = await collect(runner, model="b")
        gc.collect()
        return steps(messages, "baseline"), first(), runner.model, [m["footer"] for m in messages if "footer" in m]

    sent, first, model, (loading, loaded) = play(scenario())
    assert sent == [0, 1, 2, 3, 4], "a baseline of its own"
    assert first is None
    assert model == "b"
    assert (loading, loaded[:6]) == ("", "Target")


def test_a_model_that_could_not_be_loaded_is_tried_again():
    loads = iter([RestvizError("No network."), ScriptedEngine()])

    def load():
        if isinstance(found := next(loads), Exception):
            raise found
        return found

    async def scenario():
        runner = one(load)
        while not runner.engine.done():
            await asyncio.sleep(0.01)
        return json.loads(runner.state())["error"], roles(await collect(runner))

    error, told = play(scenario())
    assert error == "No network."
    assert "run" in told


LIMITS = Public(models=(), prompt_characters=10, new_tokens=5, repeats=1, waiting=1)


def test_a_public_page_says_what_it_does_not_allow():
    async def scenario():
        runner = one(ScriptedEngine, LIMITS)
        long = (await collect(runner, prompt="x" * 11))[-1]["error"]
        much = (await collect(runner, make=settings("rest", max_new_tokens=6)))[-1]["error"]
        return long, much, steps(await collect(runner, prompt="x" * 10), "run")

    long, much, sent = play(scenario())
    assert long.startswith("The prompt has 11 characters and this public page takes 10: shorten it")
    assert much.startswith("6 new tokens are more than the 5 of this public page")
    assert sent == [0, 1, 2, 3, 4]


def test_a_public_page_measures_a_comparison_as_often_as_it_allows():
    messages = play(collect(one(ScriptedEngine, LIMITS), methods=ALL, repeats=3))
    assert methods(messages) == ["autoregressive", "pld", "rest"]


def test_a_full_queue_is_told():
    async def scenario():
        gate = threading.Semaphore(0)
        runner = one(lambda: ScriptedEngine(gate), LIMITS)
        runs = [runner.run(name, "p", settings("autoregressive")) for name in "ab"]
        for run in runs:
            await anext(run)
        second = asyncio.ensure_future(anext(runs[1]))
        await asyncio.sleep(0.05)
        full = await collect(runner, "c")
        runner.stop("b")
        await second
        gate.release(5)
        async for _ in runs[0]:
            pass
        return full[-1]["error"]

    assert play(scenario()).startswith("1 visitors wait for the model already: try again in a minute")


def test_what_was_kept_for_a_visitor_goes_with_them():
    async def scenario():
        runner = one(ScriptedEngine)
        await collect(runner, "a")
        mine = set(runner.recordings)
        await collect(runner, "b")
        runner.leave("a")
        return mine, set(runner.recordings), {key[0] for key in runner.baselines}

    mine, kept, baselines = play(scenario())
    assert mine
    assert kept
    assert not mine & kept
    assert baselines == {"b"}


def test_a_model_that_cannot_be_here_leaves_the_one_that_is():
    def check(model):
        raise RestvizError("It needs a GPU.")

    async def scenario():
        runner = Runner({"a": ScriptedEngine, "b": ScriptedEngine}, check=check)
        await collect(runner)
        return (await collect(runner, model="b"))[-1]["error"], runner.model, roles(await collect(runner))

    error, model, told = play(scenario())
    assert (error, model) == ("It needs a GPU.", "a")
    assert "run" in told


def test_a_load_that_fails_late_is_not_the_failure_of_the_next_model():
    gate = threading.Event()

    def slow():
        gate.wait()
        raise RestvizError("Out of memory.")

    async def scenario():
        runner = Runner({"a": ScriptedEngine, "b": slow})
        await collect(runner)
        run = runner.run("x", "p", settings("rest"), model="b")
        assert "Loading" in json.loads(await anext(run))["note"]
        runner.stop("x")
        async for _ in run:
            pass
        told = asyncio.ensure_future(collect(runner, "y", model="a"))
        await asyncio.sleep(0.05)
        gate.set()
        return roles(await told)

    assert "run" in play(scenario())


def test_a_failed_run_holds_no_engine(monkeypatch):
    monkeypatch.setattr("restviz.ui.runner.log.exception", lambda *_: None)  # pytest would keep what is logged

    async def scenario():
        runner = Runner({"a": lambda: ScriptedEngine(fails_at=1), "b": ScriptedEngine})
        await collect(runner)
        engine = weakref.ref(runner.engine.result())
        await collect(runner, model="b")
        gc.collect()
        return engine()

    assert play(scenario()) is None
