"""Building on Ray: a cluster on this machine, several workers, and one of them killed half-way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
import ray
from corpora import word_tokenizer

from restviz.datastore import Datastore, DatastoreError, build, recipe_from_files

SHARD = 60_000


@pytest.fixture
def corpus(tmp_path):
    """Six parts of two shards each."""
    chance = np.random.default_rng(0)
    (tmp_path / "corpus").mkdir()
    for i in range(72):
        ids = chance.integers(0, 10, SHARD // 8)
        (tmp_path / "corpus" / f"{i:02d}.txt").write_text(" ".join(map(str, ids)))
    return recipe_from_files([str(tmp_path / "corpus")])


@pytest.fixture(scope="module")
def cluster():
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    runtime = {"env_vars": {"PYTHONPATH": path, "RAYON_NUM_THREADS": "1"}}
    options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(address="local", runtime_env=runtime, **options)
    yield
    ray.shutdown()


def test_a_cluster_builds_what_one_process_builds_though_a_worker_is_killed(tmp_path, corpus, cluster):
    options = {"shard_tokens": SHARD, "progress": False}
    build(corpus, word_tokenizer(10), tmp_path / "calm", **options)
    partial, killed, over = tmp_path / "store.partial", [], threading.Event()

    def kill() -> None:
        """SIGKILL a worker that has a shard of its part done and is at the next."""
        while not over.wait(0.01) and not killed:
            halfway = [p for p in partial.glob("part-*/shard-0.json") if not (p.parent / "part.json").exists()]
            for process in psutil.process_iter(["cmdline"]) if halfway else ():
                if (process.info["cmdline"] or [""])[0].startswith("ray::_build"):
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
                    break

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        build(corpus, word_tokenizer(10), tmp_path / "store", ray="local", **options)
    finally:
        over.set()
        thread.join()
    assert killed, "the build was over before a worker could be killed"
    store, calm = Datastore.open(tmp_path / "store").meta, Datastore.open(tmp_path / "calm").meta
    assert len(store.shards) >= 6
    assert (store.shards, store.sources) == (calm.shards, calm.sources)
    assert not partial.exists()


def test_what_a_part_says_is_told(tmp_path, corpus, cluster, monkeypatch):
    from restviz.datastore import cluster as module

    monkeypatch.setattr(module, "_build", lambda root, index: "The moon is full.")
    with pytest.raises(DatastoreError, match="The moon is full"):
        build(corpus, word_tokenizer(10), tmp_path / "store", ray="local", progress=False)
    monkeypatch.setattr(module, "_build", lambda root, index: "")
    with pytest.raises(DatastoreError, match="is not shared by the machines of the cluster"):
        build(corpus, word_tokenizer(10), tmp_path / "store", ray="local", progress=False)
    monkeypatch.setattr(module, "_build", lambda root, index: 1 / 0)
    with pytest.raises(DatastoreError, match="A part could not be built: ZeroDivisionError"):
        build(corpus, word_tokenizer(10), tmp_path / "store", ray="local", progress=False)


def test_without_ray_and_without_a_cluster(tmp_path, corpus, monkeypatch):
    if ray.is_initialized():
        ray.shutdown()
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "auto"):
        with pytest.raises(DatastoreError, match=f"The Ray cluster {address} cannot be used: .+"):
            build(corpus, word_tokenizer(10), tmp_path / "store", ray=address, progress=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DatastoreError, match="needs Ray: pip install ray"):
        build(corpus, word_tokenizer(10), tmp_path / "store", ray="auto", progress=False)
