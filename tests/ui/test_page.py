"""What the page promises without a browser: settings in words, no public endpoints, figures that agree with traces."""

from __future__ import annotations

import pytest

from restviz.settings import Settings, SettingsError
from restviz.ui.config import Model, offer
from restviz.ui.page import LABELS, build, linked, settings_from


def form(**changes):
    values = {
        "method": "rest",
        "chat": True,
        "max_new_tokens": 128,
        "temperature": 0,
        "top_k": 0,
        "top_p": 1,
        "seed": 0,
        "n_max": 16,
        "n_min": 2,
        "length": 10,
        "budget": 64,
        "cap": 1000,
        "stores": [],
        "pld_n_max": 3,
        "pld_n_min": 1,
        "draft_k": 8,
        "draft_depth": 3,
        "draft_nodes": 16,
        "draft_model": "auto",
        "retrievers": "both",
        "prune_k": 10,
        "fused_cap": 0,
        "overlap": "auto",
    }
    return values | changes


def test_the_form_has_all_labels_and_gives_settings():
    settings = settings_from(form(budget=32, stores=["answers", "python-code"]))
    assert settings.budget == 32
    assert settings.stores == "answers,python-code"
    assert set(form()) == set(LABELS) | {"method", "chat"} == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"max_new_tokens": 0}, "New tokens, at most cannot be 0"),
        ({"temperature": -1}, "Temperature cannot be -1"),
        ({"budget": 1.5}, "Node budget cannot be 1.5"),
        ({"seed": None}, "Seed is empty"),
        ({"n_min": 9, "n_max": 4}, "Shortest suffix (9) must not be larger than Longest suffix (4)"),
    ],
)
def test_wrong_values_give_one_sentence_in_the_words_of_the_form(change, part):
    with pytest.raises(SettingsError) as error:
        settings_from(form(**change))
    assert part in str(error.value)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_a_link_fills_the_form():
    values, wrong = linked({"prompt": "Hi", "method": "rasd", "prune_k": "3", "chat": "false", "other": "x"})
    assert (values, wrong) == ({"prompt": "Hi", "method": "rasd", "prune_k": 3, "chat": False}, "")
    assert linked({"stores": "answers,gone"})[0] == {"stores": ["answers"]}
    assert linked({"run": "stack", "method": "rest", "step": "3"}) == linked({"run": "none"}) == ({}, "")
    assert "no recorded run “gone”, only stack" in linked({"run": "gone"})[1]
    assert "eagle, rasd, not magic" in linked({"run": "stack", "method": "magic"})[1]
    assert linked({"method": "magic"})[1].startswith("The link cannot be used: there is no method “magic”")
    values, wrong = linked({"method": "assistant", "budget": "9"}, ["autoregressive", "rest"])
    assert values == {"budget": 9}
    assert wrong == "The link cannot be used as it is: assistant needs a model that is not set up here."
    assert linked({"method": "assistant"}) == ({"method": "assistant"}, "")


def test_no_handler_is_public(monkeypatch):
    monkeypatch.setattr(Model, "load", lambda *_: None)
    page = build(offer({}))
    assert page.fns
    assert all(fn.api_visibility == "private" for fn in page.fns.values())
