"""A small tokenizer made on the spot, a small corpus, and a cache of their own for the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from corpora import CODE
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


@pytest.fixture(scope="session")
def byte_tokenizer() -> Tokenizer:
    """A byte-level BPE, as most language models have: one character may be several tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([CODE], trainer)
    return tokenizer


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A folder with two small Python files."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "one.py").write_text(CODE, encoding="utf-8")
    (folder / "two.py").write_text(CODE.replace("add", "plus"), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """No test touches the user's cache."""
    monkeypatch.setenv("RESTVIZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def subprocess_env(cache) -> dict[str, str]:
    """An environment in which `python -c` finds RestViz."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
