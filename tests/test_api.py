from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from restviz.datastore import LiveDatastore
from restviz.drafters import MethodError
from restviz.errors import RestvizError
from restviz.settings import Settings, SettingsError

FAST = {"chat": False, "max_new_tokens": 10, "n_min": 1}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"temperature": -1}, "temperature cannot be -1: input should be greater than or equal to 0"),
        ({"budget": 0}, "budget cannot be 0"),
        ({"budget": "many"}, "budget cannot be 'many'"),
        ({"top_p": 0}, "top_p cannot be 0"),
        ({"methode": "rest"}, "no setting “methode”: choose from"),
        ({"method": "magic"}, "no method “magic”: choose from autoregressive, pld, rest, eagle"),
        ({"n_min": 9, "n_max": 4}, "must not be larger than n_max"),
    ],
)
def test_bad_settings_are_one_sentence(values, sentence):
    with pytest.raises(SettingsError, match=sentence) as error:
        Settings(**values)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_both_methods_write_the_same_text(tiny_engine):
    for sampling in ({}, {"temperature": 1.0, "seed": 5}):
        plain = tiny_engine.generate("def add(", Settings(method="autoregressive", **FAST, **sampling))
        rest = tiny_engine.generate("def add(", Settings(method="rest", **FAST, **sampling))
        assert plain.tokens == rest.tokens
        assert plain.text == rest.text
        assert plain.header.parameters.keys() < rest.header.parameters.keys()
        assert rest.header.datastores[0].name == "corpus"


def test_stop_ends_after_the_step_under_way_and_frees_the_engine(tiny_engine):
    run = tiny_engine.stream("def add(", Settings(**FAST | {"max_new_tokens": 100}))
    for number, _ in enumerate(run):
        if number == 2:
            run.stop()
    assert (len(run.trace.steps), run.trace.finish.reason) == (3, "stopped")
    assert len(tiny_engine.generate("def", Settings(**FAST)).tokens) > 0


def test_leaving_the_loop_frees_the_engine(tiny_engine):
    run = iter(tiny_engine.stream("def add(", Settings(**FAST)))
    next(run)
    run.close()
    assert not tiny_engine.lock.locked()


def test_a_second_run_waits_for_the_first(tiny_engine):
    first = iter(tiny_engine.stream("def add(", Settings(**FAST)))
    next(first)
    done = threading.Event()

    def second():
        tiny_engine.generate("def", Settings(**FAST))
        done.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not done.wait(0.2)
    for _ in first:
        pass
    thread.join(30)
    assert done.is_set()


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(tiny_engine, prompt):
    with pytest.raises(RestvizError, match="prompt is empty"):
        tiny_engine.stream(prompt)


def test_a_prompt_beyond_the_window_is_refused_before_the_run(tiny_engine):
    with pytest.raises(RestvizError, match="shorten it"):
        tiny_engine.stream("x y " * 400, Settings(chat=False))


def test_the_chat_template_is_used_when_asked(tiny_engine):
    chat = tiny_engine.stream("hello", Settings(chat=True)).trace.header.prompt_ids
    raw = tiny_engine.stream("hello", Settings(chat=False)).trace.header.prompt_ids
    decode = tiny_engine.target.tokenizer.decode
    assert decode(chat) == "<|user|>hello<|end|><|model|>"
    assert decode(raw) == "hello"


def test_the_parts_without_torch_stay_without_it():
    code = (
        "import restviz, restviz.tree, restviz.trace, restviz.settings, restviz.datastore, restviz.drafters.rest, sys;"
        "assert not {'torch', 'transformers', 'gradio', 'plotly'} & sys.modules.keys(), 'heavy import'"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_order_and_weights_of_datastores(tiny_engine):
    live = LiveDatastore(tiny_engine.datastores[0].meta.tokenizer)
    engine = tiny_engine.beside(live)
    settings = Settings(method="rest", chat=False, max_new_tokens=4)
    both = engine.stream("def add(", settings.but(stores="live*5, corpus")).drafter
    assert ([store.meta.name for store in both.stores], both.weights) == (["live", "corpus"], [5, 1])
    assert engine.stream("def add(", settings).drafter.weights == [1, 1]
    assert [store.meta.name for store in tiny_engine.datastores] == ["corpus"], "the other engine is as it was"
    for stores, sentence in [
        ("live*0", "is no datastore with a weight: write live\\*3, with 1 to 100"),
        ("live*x", "is no datastore with a weight"),
        ("live, live*2", "is named twice"),
        ("other*2", "There is no datastore “other” open here: choose from corpus, live"),
    ]:
        with pytest.raises(MethodError, match=sentence):
            engine.stream("def add(", settings.but(stores=stores))


def test_what_the_session_wrote_is_found_again(tiny_engine):
    """The second run of a prompt is drafted from the first, and its text is the same."""
    live = LiveDatastore(tiny_engine.datastores[0].meta.tokenizer)
    engine, settings = tiny_engine.beside(live), Settings(method="rest", chat=False, stores="live", max_new_tokens=40)
    first = engine.generate("def add(", settings)
    live.add(first.header.prompt_ids + first.tokens, "the first run")
    second = engine.generate("def add(", settings)
    assert first.tokens == second.tokens
    assert first.mean_generated_length == 1
    assert second.mean_generated_length > 4
    assert first.header.datastores[0].fingerprint != second.header.datastores[0].fingerprint
    assert second.header.datastores[0].tokens == live.meta.tokens
    index, node = next((s.index, n) for s in second.steps for n in range(1, len(s.nodes.token)))
    assert engine.places(second, index, node)[0]["locations"][0]["path"] == "the first run"
    live.add([1, 2, 3], "more")
    past = tiny_engine.beside(live.at(second.header.datastores[0].fingerprint))
    assert past.places(second, index, node)[0]["total"] >= 1
    with pytest.raises(RestvizError, match="used another version of the datastore live"):
        engine.places(second, index, node)


def test_a_run_searches_the_datastores_it_names(tiny_engine):
    from restviz.drafters import MethodError

    named = tiny_engine.generate("def add(", Settings(method="rest", chat=False, stores="corpus", max_new_tokens=4))
    assert [store.name for store in named.header.datastores] == ["corpus"]
    with pytest.raises(MethodError, match="no datastore “other” open here: choose from corpus"):
        tiny_engine.stream("def add(", Settings(stores="corpus, other"))
