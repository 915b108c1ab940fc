"""What the page offers: the config file, the environment's variables, and a public page's lists."""

from __future__ import annotations

import json
import shutil

import pytest

from restviz.datastore import DATASTORES
from restviz.ui.config import CONFIG, ConfigError, Model, offer, on_zero_gpu, read_config


def names(**environment):
    return [model.name for model in offer(environment).models]


def test_the_config_that_comes_with_it():
    config = read_config()
    assert [model.name for model in config.models][:2] == ["SmolLM2-135M-Instruct", "SmolLM2-1.7B-Instruct"]
    assert {"Vicuna-7B-v1.3", "Qwen2-7B-Instruct"} <= {model.name for model in config.models}
    assert all(model.needs and (model.gpu_gb or model.needs == "a CPU") for model in config.models)
    assert all(model.head != "auto" or model.assistant or not model.gpu_gb for model in config.models), "who drafts?"


def test_the_first_is_loaded_first_unless_another_is_named():
    assert names()[0] == "SmolLM2-135M-Instruct"
    assert names(RESTVIZ_MODEL="Qwen2-7B-Instruct")[0] == "Qwen2-7B-Instruct"
    assert len(names()) == len(names(RESTVIZ_MODEL="Qwen2-7B-Instruct")) == len(read_config().models)
    with pytest.raises(ConfigError, match="RESTVIZ_MODEL is “x”, which is no model of the config: SmolLM2"):
        names(RESTVIZ_MODEL="x")


def test_models_of_ones_own_come_first():
    own = offer({"RESTVIZ_TARGET": "/models/mine", "RESTVIZ_ASSISTANT": "/models/small"}).models[0]
    assert (own.name, own.target, own.head, own.assistant) == ("mine", "/models/mine", "auto", "/models/small")
    own = offer({"RESTVIZ_HEAD": "none"}).models[0]
    assert (own.name, own.target, own.head) == ("SmolLM2-135M-Instruct", "default", "none")
    assert names(RESTVIZ_HEAD="none").count("SmolLM2-135M-Instruct") == 1
    other = offer({"RESTVIZ_MODEL": "Qwen2-7B-Instruct", "RESTVIZ_HEAD": "my/head"}).models[0]
    assert (other.name, other.target, other.head) == ("Qwen2-7B-Instruct", "Qwen/Qwen2-7B-Instruct", "my/head")


@pytest.mark.parametrize(
    ("environment", "public"),
    [
        ({}, False),
        ({"SPACE_ID": "a/b"}, True),
        ({"SPACE_ID": "a/b", "RESTVIZ_PUBLIC": "0"}, False),
        ({"RESTVIZ_PUBLIC": "1"}, True),
    ],
)
def test_a_space_is_a_public_page(environment, public):
    offered = offer(environment)
    assert bool(offered.limits) is public
    assert [model.name for model in offered.models] == (["SmolLM2-135M-Instruct"] if public else names())
    assert offered.datastores == DATASTORES


def test_a_public_page_offers_the_model_that_its_owner_named():
    assert names(SPACE_ID="a/b", RESTVIZ_MODEL="Qwen2-7B-Instruct") == ["Qwen2-7B-Instruct"]
    assert names(SPACE_ID="a/b", RESTVIZ_TARGET="/models/mine") == ["mine"]
    with pytest.raises(ConfigError, match="RESTVIZ_PUBLIC is “yes”"):
        offer({"RESTVIZ_PUBLIC": "yes"})


def test_on_zero_gpu_there_is_one_model(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert names() == ["SmolLM2-135M-Instruct"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("models = [", "is not TOML"),
        ("models = []", "models: tuple should have at least 1 item"),
        ("[[models]]\ntarget = 'x'", "models.0.name: field required"),
        ("[[models]]\nname = 'x'\nhed = 'y'", "models.0.hed: extra inputs are not permitted"),
        ("[[models]]\nname = 'x'\n[public]\nmodels = ['y']", "public.models names “y”, which is none of its models"),
    ],
)
def test_a_wrong_config_is_told_in_one_sentence(tmp_path, text, sentence):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError) as told:
        offer({"RESTVIZ_CONFIG": str(tmp_path / "c.toml"), "RESTVIZ_PUBLIC": "1"})
    assert sentence in str(told.value)
    assert str(told.value).endswith(".")
    with pytest.raises(ConfigError, match="cannot be read"):
        offer({"RESTVIZ_CONFIG": str(tmp_path / "gone.toml")})


def test_a_config_of_ones_own_is_read(tmp_path):
    (tmp_path / "c.toml").write_text(CONFIG.read_text().replace("SmolLM2-135M", "Other"))
    assert names(RESTVIZ_CONFIG=str(tmp_path / "c.toml"))[0] == "Other-Instruct"


def test_a_model_that_needs_a_gpu_is_refused_where_there_is_none(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="Big needs a GPU with 20 GB of memory and this machine has none: choose"):
        Model(name="Big", gpu_gb=20).load()


def test_a_template_is_given_to_a_model_without_one(tiny_folder, tmp_path):
    folder = tmp_path / "mute"
    shutil.copytree(tiny_folder, folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    vicuna = next(model for model in read_config().models if model.name.startswith("Vicuna"))
    engine = Model(name="mute", target=str(folder), head="none", template=vicuna.template).load(())
    asked = engine.target.tokenizer.decode(engine.target.encode("Why?"))
    assert asked.startswith("A chat between a curious user")
    assert asked.endswith("USER: Why? ASSISTANT:")
    assert not engine.target.tokenizer.decode(engine.target.encode("Why?", chat=False)).startswith("A chat")


@pytest.mark.parametrize(("value", "there"), [("true", True), ("1", True), ("", False), (None, False)])
def test_a_space_says_that_it_is_one(monkeypatch, value, there):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    if value is not None:
        monkeypatch.setenv("SPACES_ZERO_GPU", value)
    assert on_zero_gpu() is there
