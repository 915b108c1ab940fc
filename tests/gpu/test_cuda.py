"""What must hold on a GPU.  Random weights serve: nothing here depends on what the model knows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from restviz.decode import decode
from restviz.drafters import NoDrafter
from restviz.settings import Settings
from restviz.target.build import load_target
from restviz.target.probe import time_forwards
from restviz.target.sampling import Sampler

load = load_target.__wrapped__


def test_auto_chooses_the_gpu_in_bf16(tiny_folder):
    environment = load(str(tiny_folder)).environment
    assert (environment.device, environment.dtype, environment.attention) == ("cuda", "bf16", "fast")
    assert environment.device_name == torch.cuda.get_device_name()


@pytest.mark.parametrize("attention", ["exact", "fast"])
def test_every_method_writes_the_autoregressive_text(tiny_folder, tiny_engine, attention, tmp_path):
    from restviz.api import Engine
    from restviz.drafters.assistant import load_assistant
    from restviz.drafters.eagle import load_head
    from restviz.train.head import new_head, write_head

    target = load(str(tiny_folder), "cuda", "fp32", attention)
    ids = np.arange(0, 300, 2)
    write_head(tmp_path, new_head(target.model.config, len(ids)), ids, {})
    head, assistant = load_head(str(tmp_path), target.model, "tiny"), load_assistant(str(tiny_folder), target)
    engine = Engine(target, tiny_engine.datastores, head, assistant)
    settings = Settings(chat=False, max_new_tokens=40, n_min=1)
    plain = engine.generate("def add(a", settings.but(method="autoregressive"))
    assert engine.methods() == ["autoregressive", "pld", "rest", "eagle", "assistant", "rasd"]
    for method in engine.methods():
        assert engine.generate("def add(a", settings.but(method=method)).tokens == plain.tokens, method


def test_a_run_leaves_no_memory_behind(tiny_folder):
    target = load(str(tiny_folder), "cuda", "bf16", "fast")
    for _ in decode(target, NoDrafter(), [5, 80, 81], Sampler(), 4):
        pass
    before = torch.cuda.memory_allocated()
    generator = decode(target, NoDrafter(), [5, 80, 81], Sampler(), 200)
    next(generator)
    assert torch.cuda.memory_allocated() > before
    generator.close()
    assert torch.cuda.memory_allocated() <= before


def test_forwards_are_timed_to_their_end(tiny_folder):
    times = time_forwards(load(str(tiny_folder), "cuda", "bf16", "fast"), rows=(1, 64), context=64)
    assert min(times.values()) > 0.1  # milliseconds: a launch alone would take microseconds
