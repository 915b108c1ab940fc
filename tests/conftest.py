"""Targets for the tests: a tiny random model for logic, the real default one for what must hold on a real model."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

TEXT = "def add(a, b):\n    return a + b\n\n\nclass Counter:\n    def add(self, key):\n        self.total += 1\n" * 3
CHAT = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}<|model|>"


def pytest_report_header() -> str:
    import torch

    return "tests/gpu: collected" if torch.cuda.is_available() else "tests/gpu: not collected, no CUDA device here"


@pytest.fixture
def notebook(monkeypatch) -> list[str]:
    """What was displayed as HTML in a notebook; IPython itself is not installed for it."""
    shown: list[str] = []
    display = types.ModuleType("IPython.display")
    display.HTML, display.display = str, shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A folder with a random two-layer LLaMA (grouped-query attention) and a byte-level tokenizer of 320 tokens."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>", "<|user|>", "<|model|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", chat_template=CHAT)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=fast.eos_token_id,
        bos_token_id=None,
        initializer_range=0.3,  # so that the logits are far from equal
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = fast.eos_token_id
    folder = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """The tiny model as a target, in float32 with exact attention."""
    from restviz.target.build import load_target

    return load_target.__wrapped__(str(tiny_folder), "cpu", "fp32", "exact")


@pytest.fixture(scope="session")
def tiny_engine(tiny, tmp_path_factory):
    """An engine over the tiny target and a datastore of TEXT."""
    from restviz.api import Engine
    from restviz.datastore import Datastore, build, recipe_from_files

    folder = tmp_path_factory.mktemp("corpus")
    (folder / "one.py").write_text(TEXT, encoding="utf-8")
    build(recipe_from_files([folder], name="corpus"), tiny.tokenizer.backend_tokenizer, folder / "ds", progress=False)
    return Engine(tiny, [Datastore.open(folder / "ds")])


def _smol(dtype: str):
    from restviz.api import load

    return load(dtype=dtype, attention="exact")


@pytest.fixture(scope="session")
def smol_fp32():
    """The default target in float32, with the default datastore (fetched and built on first use)."""
    return _smol("fp32")


@pytest.fixture(scope="session")
def smol_bf16():
    """The default target in bfloat16 with exact attention."""
    return _smol("bf16")
