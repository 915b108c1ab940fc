from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM

from restviz.assets import AssetError
from restviz.target.build import load_plain, load_target
from restviz.target.cost import ROWS
from restviz.target.load import PICKLED, TargetError, load_tokenizer, resolve
from restviz.target.probe import is_bit_exact, row_limit, time_forwards
from restviz.target.text import TokenText

load = load_target.__wrapped__  # without the cache of loaded targets


@pytest.fixture
def altered(tiny_folder, tmp_path):
    """A copy of the tiny model with changes to its config."""

    def copy(**changes):
        folder = tmp_path / "model"
        shutil.copytree(tiny_folder, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        return folder

    return copy


def refused(*args) -> str:
    with pytest.raises(TargetError) as error:
        load(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_loaded_is_described(tiny, tiny_folder):
    assert tiny.info.name == str(tiny_folder)
    assert (tiny.info.architecture, tiny.info.context_window) == ("LlamaForCausalLM", 256)
    assert tiny.environment.dtype == "fp32"
    assert tiny.environment.versions["torch"] == torch.__version__
    assert isinstance(tiny.environment.bit_exact, bool)
    assert tiny.eos == {tiny.tokenizer.eos_token_id}


def test_the_dtype_is_the_faster_one_on_a_cpu_and_stays_it(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RESTVIZ_CACHE", str(tmp_path))
    environment = load(str(tiny_folder), "cpu", "auto", "auto").environment
    memory = tmp_path / "forwards.json"
    known = json.loads(memory.read_text())
    cost = {key.split(", ")[-1]: times["1"] * times["32"] for key, times in known.items()}
    assert environment.dtype == min(cost, key=cost.get)
    assert environment.attention == "exact"
    assert list(environment.forward_ms) == list(ROWS)
    assert all(ms > 0 for ms in environment.forward_ms.values())

    other = {"fp32": "bf16", "bf16": "fp32"}[environment.dtype]
    quick = {str(rows): 1e-6 * rows for rows in ROWS}
    memory.write_text(json.dumps({key: quick if key.endswith(other) else times for key, times in known.items()}))
    again = load(str(tiny_folder), "cpu", "auto", "auto").environment
    assert again.dtype == other, "what was measured once is remembered"
    assert again.forward_ms == {rows: 1e-6 * rows for rows in ROWS}
    for damage in ("{", "[]", '{"a": 1}'):
        memory.write_text(damage)
        assert list(load(str(tiny_folder), "cpu", "fp32", "auto").environment.forward_ms) == list(ROWS)


def test_choices_that_are_not_possible_are_one_sentence(tiny_folder):
    assert "“fp8” is not a dtype" in refused(str(tiny_folder), "cpu", "fp8")
    assert "“best” is not an attention" in refused(str(tiny_folder), "cpu", "fp32", "best")
    assert "“tpu9” is not available here" in refused(str(tiny_folder), "tpu9")


def test_names_that_lead_nowhere_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "nobody/nothing could not be fetched from the hub" in refused("nobody/nothing")
    assert "write default, a hub id" in refused("what is this")
    assert "write default, a hub id" in refused("./nothere.gguf")
    assert "no config.json" in refused(str(tmp_path))
    (tmp_path / "weights.bin").write_bytes(b"x")
    assert "not a model: give a folder" in refused(str(tmp_path / "weights.bin"))
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\0\0")
    assert "not a GGUF model" in refused(str(tmp_path / "bad.gguf"))
    assert not list(tmp_path.glob("**/*.partial"))


class Code:
    """What a pickle can carry: it would run when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("it-ran",)


def test_older_weights_are_read_and_no_code_in_them_is_run(tiny_folder, altered, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = altered()
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    read = load_plain(str(folder), "fp32", "cpu")
    assert all(torch.equal(value, read.state_dict()[name]) for name, value in model.state_dict().items())
    torch.save({"weight": Code()}, folder / "pytorch_model.bin")
    assert "cannot be loaded by transformers" in refused(str(folder), "cpu", "fp32")
    assert not (tmp_path / "it-ran").exists()


def test_a_repository_without_safetensors_is_fetched_with_its_older_weights(tiny_folder, monkeypatch):
    asked = []

    def fetch(spec, sha256=None, *, offline=False, extra=()):
        asked.append((offline, extra))
        if offline:
            raise AssetError("not there")
        return tiny_folder

    monkeypatch.setattr("restviz.target.load.fetch", fetch)
    assert resolve("org/name").folder == tiny_folder
    assert asked == [(True, PICKLED), (False, ())]
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: [])
    resolve("org/name")
    assert asked[2:] == [(True, PICKLED), (False, ()), (False, PICKLED)]


def test_models_that_cannot_branch_are_refused(altered, tmp_path):
    assert "only a sliding window" in refused(str(altered(model_type="mistral", sliding_window=64)), "cpu", "fp32")
    from transformers import MambaConfig, MambaForCausalLM

    folder = tmp_path / "mamba"
    MambaForCausalLM(MambaConfig(vocab_size=305, hidden_size=16, num_hidden_layers=1, state_size=4)).save_pretrained(
        folder
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "model" / name, folder)
    sentence = refused(str(folder), "cpu", "fp32")
    assert "recurrent state" in sentence or "no KV cache" in sentence


def test_a_model_that_ignores_the_mask_is_refused(tiny, monkeypatch):
    forward = tiny.model.forward
    deaf = lambda attention_mask, **rest: forward(attention_mask=None, **rest)  # noqa: E731
    monkeypatch.setattr(tiny.model, "forward", deaf)
    with pytest.raises(TargetError, match="does not follow a 4-D attention mask"):
        is_bit_exact(tiny)


def test_the_probe_notices_a_difference_in_the_last_bit(tiny, monkeypatch):
    session = type(tiny.session(1))
    forward = session.forward

    def off_by_a_bit(self, tree):
        logits = forward(self, tree).clone()
        if len(tree) > 1:
            logits[-1, 0] = torch.nextafter(logits[-1, 0], torch.tensor(torch.inf))
        return logits

    monkeypatch.setattr(session, "forward", off_by_a_bit)
    assert is_bit_exact(tiny) is False


def test_the_row_limit_is_where_products_change():
    linear = torch.nn.Linear(1, 4, bias=False).requires_grad_(False)  # one product each: nothing to add up
    plain = linear.forward
    linear.forward = lambda x: plain(x) + (1e-3 if x.shape[-2] > 32 else 0)
    assert row_limit(torch.nn.Sequential(linear)) == 32


def test_forwards_are_timed(tiny):
    times = time_forwards(tiny, rows=(1, 8), context=16)
    assert times.keys() == {1, 8}
    assert min(times.values()) > 0


def test_a_tokenizer_is_had_without_the_weights(tiny_folder, tiny):
    assert load_tokenizer(str(tiny_folder)).encode("def add").ids == tiny.tokenizer("def add")["input_ids"]
    assert resolve(str(tiny_folder)).folder == tiny_folder


def test_tokens_have_bytes_and_text(tiny):
    text = TokenText(tiny.tokenizer)
    ids = tiny.tokenizer("def é €")["input_ids"]
    assert b"".join(map(text.bytes, ids)) == "def é €".encode()
    assert not all(map(text.whole, ids))
    assert text.text(next(i for i in ids if not text.whole(i))) == "\ufffd"
    assert text.text(tiny.tokenizer.eos_token_id) == "<|end|>"
    assert text.bytes(10**6) == b""


def test_tokens_of_byte_fallback_vocabularies():
    from transformers import PreTrainedTokenizerFast

    vocab = {"<unk>": 0, "▁Hello": 1, "<0xE2>": 2, "<0x82>": 3, "<0xAC>": 4}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab, [], unk_token="<unk>")))
    text = TokenText(tokenizer)
    assert b"".join(map(text.bytes, [1, 2, 3, 4])) == " Hello€".encode()
