"""Building: what is written, when nothing is done, what an interrupted build leaves, and every way it can fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from threading import Event

import numpy as np
import pytest
from corpora import CODE, store_of, word_tokenizer
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from restviz.assets import AssetError
from restviz.datastore import (
    Datastore,
    DatastoreError,
    Recipe,
    Source,
    build,
    default_path,
    open_or_build,
    recipe_from_files,
    vocabulary_fingerprint,
)
from restviz.datastore.format import FORMAT_VERSION


@pytest.fixture
def store(tmp_path, corpus, byte_tokenizer):
    build(recipe_from_files([str(corpus)]), byte_tokenizer, tmp_path / "store", progress=False, tokenizer_name="tiny")
    return tmp_path / "store"


def test_what_is_written(store, corpus, byte_tokenizer):
    meta = Datastore.open(store, vocabulary_fingerprint(byte_tokenizer)).meta
    ids = [byte_tokenizer.encode((corpus / name).read_text(encoding="utf-8")).ids for name in ("one.py", "two.py")]
    assert (meta.name, meta.documents, meta.skipped, meta.width) == ("corpus", 2, 0, 2)
    assert meta.tokens == sum(map(len, ids)) == meta.sources[0]["tokens"] == meta.shards[0]["tokens"]
    assert sorted(p.name for p in store.iterdir()) == ["meta.json", "shard-000", "stamp.json"]
    shard = Datastore.open(store).shards[0]
    assert shard.tokens.tolist() == [*ids[0], 65_535, *ids[1], 65_535]
    assert sorted(shard.suffixes.tolist()) == [i for i, t in enumerate(shard.tokens) if t != 65_535]
    assert [shard.path(i) for i in range(2)] == ["one.py", "two.py"]
    assert shard.docs["start"].tolist() == [0, len(ids[0]) + 1]


def test_documents_are_not_split_over_shards(tmp_path):
    store = store_of(tmp_path, [[1] * 5, [2] * 9, [3] * 2, [4] * 2], 10, shard_tokens=8)
    assert [shard["tokens"] for shard in store.meta.shards] == [5, 9, 4], "a part holds texts of 24 bytes"
    assert store.meta.documents == 4


def test_unchanged_sources_are_not_built_again(store, corpus, byte_tokenizer):
    recipe = recipe_from_files([str(corpus)])
    before = (store / "meta.json").stat().st_mtime_ns
    assert not build(recipe, byte_tokenizer, store, progress=False)
    assert (store / "meta.json").stat().st_mtime_ns == before


def test_changed_sources_are_built_again(store, corpus, byte_tokenizer):
    opened = Datastore.open(store)
    (corpus / "three.py").write_text("a + b + c\n")
    assert build(recipe_from_files([str(corpus)]), byte_tokenizer, store, progress=False)
    assert Datastore.open(store).meta.documents == 3
    assert not store.with_name("store.old").exists()
    assert opened.search(byte_tokenizer.encode("a + b").ids).hits, "one that is open stays usable"


def test_damaged_ones_are_built_again(store, corpus, byte_tokenizer):
    (store / "shard-000" / "suffixes").unlink()
    assert build(recipe_from_files([str(corpus)]), byte_tokenizer, store, progress=False)
    Datastore.open(store).verify()


def test_the_same_sources_give_the_same_content(tmp_path, store, corpus, byte_tokenizer):
    build(recipe_from_files([str(corpus)]), byte_tokenizer, tmp_path / "again", progress=False)
    assert Datastore.open(tmp_path / "again").meta.content == Datastore.open(store).meta.content


def test_files_that_are_no_text_are_skipped_and_counted(tmp_path, corpus, byte_tokenizer):
    (corpus / "empty.py").write_text("")
    (corpus / "blank.py").write_text(" \n\n")
    (corpus / "latin1.py").write_bytes("é".encode("latin-1"))
    (corpus / "binary").write_bytes(b"ab\0cd")
    (corpus / ".hidden").write_text("not looked at")
    (corpus / "__pycache__").mkdir()
    (corpus / "__pycache__" / "one.pyc").write_bytes(b"not looked at")
    build(recipe_from_files([str(corpus)]), byte_tokenizer, tmp_path / "store", progress=False)
    meta = Datastore.open(tmp_path / "store").meta
    assert (meta.documents, meta.skipped) == (2, 4)
    assert meta.left_out == [
        ["binary", "binary (it holds a NUL character)"],
        ["blank.py", "empty"],
        ["empty.py", "empty"],
        ["latin1.py", "no UTF-8 text (byte 0xe9 at 0)"],
    ]


def test_truncation_and_padding_of_the_tokenizer_are_not_used(tmp_path, corpus):
    (corpus / "one.py").write_text("1 2 3 4 5 6")
    (corpus / "two.py").write_text("7")
    tokenizer = word_tokenizer(10)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=5)
    build(recipe_from_files([str(corpus)]), tokenizer, tmp_path / "store", progress=False)
    assert Datastore.open(tmp_path / "store").meta.tokens == 7
    assert tokenizer.truncation is not None, "the caller's tokenizer was changed"


def test_nothing_to_build_from(tmp_path, byte_tokenizer):
    (tmp_path / "corpus").mkdir()
    with pytest.raises(DatastoreError, match="There is no text in the 0 files of corpus"):
        build(recipe_from_files([str(tmp_path / "corpus")]), byte_tokenizer, tmp_path / "store", progress=False)
    (tmp_path / "corpus" / "a").write_text("")
    with pytest.raises(DatastoreError, match="There is no text in the 1 files of corpus: a is empty"):
        build(recipe_from_files([str(tmp_path / "corpus")]), byte_tokenizer, tmp_path / "store", progress=False)
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "store.partial").exists()


def test_a_folder_that_is_no_datastore_is_left_alone(tmp_path, corpus, byte_tokenizer):
    with pytest.raises(DatastoreError, match="is there already and is not a datastore"):
        build(recipe_from_files([str(corpus)]), byte_tokenizer, corpus, progress=False)
    assert (corpus / "one.py").exists()


def test_open_or_build(cache, corpus, byte_tokenizer):
    fingerprint = vocabulary_fingerprint(byte_tokenizer)
    recipe = corpus / "small.toml"
    recipe.write_text(
        f'title = "t"\ndescription = "d"\n[[source]]\nasset = "file:{corpus}"\nlicence = "l"\nattribution = "a"\n'
        'include = ["*.py"]\n'
    )
    store = open_or_build(str(recipe), byte_tokenizer, progress=False)
    assert store.path == default_path("small", fingerprint) == cache / "datastores" / f"small-{fingerprint[:12]}"
    recipe.unlink()
    assert open_or_build("small", byte_tokenizer).meta.content == store.meta.content
    assert open_or_build(str(store.path), byte_tokenizer).meta.content == store.meta.content


def test_a_killed_build_leaves_nothing_usable_and_the_next_one_works(tmp_path, corpus, subprocess_env, byte_tokenizer):
    byte_tokenizer.save(str(tmp_path / "tokenizer.json"))
    code = """
import sys, time
from pathlib import Path
from tokenizers import Tokenizer
from restviz.datastore import build, recipe_from_files
module = sys.modules["restviz.datastore.parts"]
def stop(*args):
    print("sorting", flush=True)
    time.sleep(60)
module._sort = stop
corpus, tokenizer, out = sys.argv[1:]
build(recipe_from_files([corpus]), Tokenizer.from_file(tokenizer), Path(out), progress=False)
"""
    command = [sys.executable, "-c", code, str(corpus), str(tmp_path / "tokenizer.json"), str(tmp_path / "store")]
    process = subprocess.Popen(command, env=subprocess_env, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "sorting\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / "store.partial").exists()
    with pytest.raises(DatastoreError, match="is not a datastore"):
        Datastore.open(tmp_path / "store")
    with pytest.raises(DatastoreError, match="is not a datastore"):
        Datastore.open(tmp_path / "store.partial")
    assert build(recipe_from_files([str(corpus)]), byte_tokenizer, tmp_path / "store", progress=False)
    assert not (tmp_path / "store.partial").exists()
    Datastore.open(tmp_path / "store").verify()


@pytest.fixture
def many(tmp_path):
    """A corpus of several parts: 300 records in one file, which is cut, and 40 files."""
    folder = tmp_path / "many"
    folder.mkdir()
    chance = np.random.default_rng(0)
    texts = [" ".join(map(str, chance.integers(0, 50, 60))) for _ in range(340)]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:300]))
    for i, text in enumerate(texts[300:]):
        (folder / f"{i:02d}.txt").write_text(text)
    return folder


def hashes(store) -> list[dict]:
    return Datastore.open(store).meta.shards


def test_processes_build_what_one_builds(tmp_path, many):
    tokenizer, recipe = word_tokenizer(50), recipe_from_files([str(many)])
    options = {"shard_tokens": 4000, "progress": False}
    build(recipe, tokenizer, tmp_path / "one", **options)
    told = Counter()
    build(
        recipe, tokenizer, tmp_path / "two", workers=2, **options | {"progress": lambda what, n: told.update({what: n})}
    )
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")
    meta = Datastore.open(tmp_path / "two").meta
    assert (meta.tokens, meta.documents, len(meta.shards) >= 4) == (340 * 60, 340, True)
    size = sum(path.stat().st_size for path in many.iterdir())
    assert told == {"read": size, "tokens": meta.tokens, "sorted": meta.tokens, "shards": len(meta.shards)}
    shard = Datastore.open(tmp_path / "one").shards
    records = [
        int(d["record"]) for s in shard for d in s.docs if s.path(int(np.flatnonzero(s.docs == d)[0])) == "a.jsonl"
    ]
    assert records == list(range(1, 301)), "the parts of a file count its records through"


def test_a_build_that_is_killed_at_any_moment_goes_on_and_ends_the_same(tmp_path, many, subprocess_env):
    """Ten builds, each killed (SIGKILL) somewhere between its start and its end, and then run again."""
    tokenizer, recipe = word_tokenizer(50), recipe_from_files([str(many)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    build(recipe, tokenizer, tmp_path / "calm", shard_tokens=2000, progress=False)
    code = """
import sys
from pathlib import Path
from tokenizers import Tokenizer
from restviz.datastore import build, recipe_from_files
corpus, tokenizer, out = sys.argv[1:]
tokenizer = Tokenizer.from_file(tokenizer)
print("begins", flush=True)
build(recipe_from_files([corpus]), tokenizer, Path(out), shard_tokens=2000, progress=False)
"""
    command = [sys.executable, "-c", code, str(many), str(tmp_path / "tokenizer.json")]

    def start(out):
        process = subprocess.Popen([*command, str(out)], env=subprocess_env, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "begins\n"
        return process

    begun = time.monotonic()
    start(tmp_path / "timed").communicate()
    whole = time.monotonic() - begun
    finished, resumed = [], 0
    for i in range(10):
        out = tmp_path / f"killed-{i}"
        process = start(out)
        time.sleep(whole * i / 10)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        partial = out.with_name(out.name + ".partial")
        resumed += any(partial.glob("part-*/shard-*.json"))
        finished.append(out.exists())
        assert start(out).wait(60) == 0
        assert hashes(out) == hashes(tmp_path / "calm")
        assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in (tmp_path / "calm").iterdir())
        assert [p.name for p in tmp_path.glob(f"killed-{i}*") if p != out] == [f"killed-{i}.lock"]
    assert not finished[0], "the first was killed at its start"
    assert resumed, "no build was killed between its first shard and its end"


def test_what_is_finished_is_not_built_again(tmp_path, many, monkeypatch):
    parts = sys.modules["restviz.datastore.parts"]
    tokenizer, recipe, sort, sorts = word_tokenizer(50), recipe_from_files([str(many)]), parts._sort, []

    def count(*arguments):
        if len(sorts) == 3:
            raise KeyboardInterrupt
        sorts.append(1)
        sort(*arguments)

    monkeypatch.setattr(parts, "_sort", count)
    with pytest.raises(KeyboardInterrupt):
        build(recipe, tokenizer, tmp_path / "store", shard_tokens=2000, progress=False)
    kept = sorted(p.parent.name + "/" + p.name for p in tmp_path.glob("store.partial/part-*/shard-*.json"))
    assert len(kept) == 3
    monkeypatch.setattr(parts, "_sort", lambda *arguments: (sorts.append(1), sort(*arguments)))
    build(recipe, tokenizer, tmp_path / "store", shard_tokens=2000, progress=False)
    assert len(sorts) == len(hashes(tmp_path / "store")), "a finished shard was sorted again"
    (many / "00.txt").write_text("1 2 3")
    monkeypatch.setattr(parts, "_sort", count)
    sorts[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        build(recipe, tokenizer, tmp_path / "store", shard_tokens=2000, progress=False)
    assert (tmp_path / "store.partial").exists()
    (many / "00.txt").write_text("1 2 3 4 5")
    monkeypatch.setattr(parts, "_sort", sort)
    build(recipe, tokenizer, tmp_path / "store", shard_tokens=2000, progress=False)
    assert Datastore.open(tmp_path / "store").meta.tokens == 339 * 60 + 5, (
        "another text does not go on with the old one"
    )


def test_memory_decides_on_shards_and_a_process_that_dies_is_told(tmp_path, many, monkeypatch):
    tokenizer, recipe = word_tokenizer(50), recipe_from_files([str(many)])
    module = sys.modules["restviz.datastore.build"]
    with pytest.raises(DatastoreError, match="100 MB of memory are too little to build in: allow at least 316 MB"):
        build(recipe, tokenizer, tmp_path / "store", max_memory=10**8, progress=False)
    assert module._fitting(64_000_000, 2, 2**30) < 64_000_000
    assert module._memory(module._fitting(64_000_000, 3, 2**30), 3) <= 2**30
    assert module._fitting(1000, 2, 2**30) == 1000
    assert module._workers(5, 2**30, 3 * 2**30) == min(os.cpu_count(), 3)
    assert module._workers(5, 2**30, 2**20) == 1
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DatastoreError, match="A process that built a part ended with 1"):
        build(recipe, tokenizer, tmp_path / "store", workers=2, progress=False)
    assert module._why(-9, "").startswith("A process that built a part was killed, most likely for want of memory")


def test_a_build_can_be_stopped_and_goes_on(tmp_path, many):
    tokenizer, recipe, stopped = word_tokenizer(50), recipe_from_files([str(many)]), Event()
    options = {"shard_tokens": 2000, "workers": 1}
    with pytest.raises(DatastoreError, match="The build was stopped"):
        build(recipe, tokenizer, tmp_path / "store", stopped=stopped, progress=lambda *told: stopped.set(), **options)
    assert not (tmp_path / "store").exists()
    build(recipe, tokenizer, tmp_path / "store", progress=False, **options)
    assert Datastore.open(tmp_path / "store").meta.documents == 340


def test_a_source_that_cannot_be_had_may_be_optional(tmp_path, corpus, byte_tokenizer, caplog):
    there, gone = Source(f"file:{corpus}", "l", "a", include=["*.py"]), f"file:{tmp_path}/gone"
    recipe = Recipe("mine", "t", "d", [Source(gone, "l", "a", optional=True), there])
    build(recipe, byte_tokenizer, tmp_path / "store", progress=False)
    assert [source["documents"] for source in Datastore.open(tmp_path / "store").meta.sources] == [0, 2]
    assert f"mine goes without {gone}" in caplog.text
    with pytest.raises(AssetError, match="does not exist"):
        build(Recipe("mine", "t", "d", [Source(gone, "l", "a"), there]), byte_tokenizer, tmp_path / "b", progress=False)


def test_a_vocabulary_of_150_000_ids_round_trips(tmp_path):
    tokenizer = word_tokenizer(150_000)
    chance = np.random.default_rng(1)
    documents = [[*chance.integers(0, 150_000, 400).tolist(), 149_999, 65_535, 65_536] for _ in range(20)]
    store = store_of(tmp_path, documents, 150_000, shard_tokens=3000)
    assert store.meta.width == 3
    for ids in documents:
        hits = store.search(ids[100:110], n_max=10, n_min=10, length=10)
        assert hits.rows.tolist() == [ids[110:120]]
        place = store.locate(ids[100:110], tokenizer).locations[0]
        assert place.match.split() == [str(i) for i in ids[100:110]]


def test_importing_brings_in_no_heavy_library(subprocess_env):
    code = "import sys, restviz.datastore, restviz.drafters.rest; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=subprocess_env, capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "gradio", "plotly", "scipy", "pandas", "pydivsufsort", "huggingface_hub", "rich"}
    assert not heavy & set(done.stdout.split())


# ---- opening: one clear sentence for everything that can be wrong


def test_built_for_another_tokenizer(store):
    other = vocabulary_fingerprint(word_tokenizer(10))
    mine = Datastore.open(store).meta.tokenizer
    with pytest.raises(DatastoreError, match="built for another tokenizer") as error:
        Datastore.open(store, other)
    assert f"tiny, fingerprint {mine[:12]}" in str(error.value)
    assert other[:12] in str(error.value)


@pytest.mark.parametrize("array", ["tokens", "suffixes", "buckets", "docs", "paths"])
def test_a_file_that_is_cut_short_longer_altered_or_missing(store, array):
    path = store / "shard-000" / array
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(DatastoreError, match=f"is damaged: shard-000/{array} is cut short"):
        Datastore.open(store)
    path.write_bytes(data + b"x")
    with pytest.raises(DatastoreError, match=f"is damaged: shard-000/{array} is longer than it was"):
        Datastore.open(store)
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(DatastoreError, match=f"is damaged: shard-000/{array} was altered after it was built"):
        Datastore.open(store)
    path.unlink()
    with pytest.raises(DatastoreError, match=f"is incomplete: shard-000/{array} is missing"):
        Datastore.open(store)
    path.write_bytes(data)
    Datastore.open(store)


def test_a_missing_shard(store):
    shutil.rmtree(store / "shard-000")
    with pytest.raises(DatastoreError, match="is incomplete: shard-000 is missing"):
        Datastore.open(store)


def test_a_foreign_directory(tmp_path):
    with pytest.raises(DatastoreError, match=r"is not a datastore: it has no meta.json"):
        Datastore.open(tmp_path)
    for content in ("{}", "[1]", "no JSON", "\0"):
        (tmp_path / "meta.json").write_text(content)
        with pytest.raises(DatastoreError, match=r"is not a datastore: its meta.json cannot be read as one"):
            Datastore.open(tmp_path)


def test_a_newer_format(store):
    raw = json.loads((store / "meta.json").read_text())
    (store / "meta.json").write_text(json.dumps({"format_version": FORMAT_VERSION + 1, "anything": "else"}))
    with pytest.raises(DatastoreError, match=f"has datastore format {FORMAT_VERSION + 1} and this RestViz reads up to"):
        Datastore.open(store)
    for change in ({"width": 3}, {"vocab_size": "x"}, {"tokens": 999}, {"shards": []}):
        (store / "meta.json").write_text(json.dumps(raw | change))
        with pytest.raises(DatastoreError, match=r"is damaged: its meta.json was altered after it was built"):
            Datastore.open(store)


def test_the_stamp_saves_hashing_and_verify_does_not_trust_it(store):
    path = store / "shard-000" / "tokens"
    stat, data = path.stat(), path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    opened = Datastore.open(store)  # same size, same time: not hashed
    with pytest.raises(DatastoreError, match="was altered"):
        opened.verify()


@pytest.mark.parametrize("stamp", [None, "[]", "no JSON", "{}"])
def test_any_stamp_will_do(store, stamp):
    (store / "stamp.json").unlink() if stamp is None else (store / "stamp.json").write_text(stamp)
    Datastore.open(store)
    assert len(json.loads((store / "stamp.json").read_text())) == 5


def test_a_place_where_the_stamp_cannot_be_written(store, monkeypatch):
    (store / "stamp.json").unlink()

    def refuse(*args):
        raise PermissionError(13, "read-only")

    monkeypatch.setattr("restviz.datastore.format.os.replace", refuse)
    assert Datastore.open(store).search([0], n_min=1) is not None


def test_opening_is_quick_and_reads_nothing(tmp_path):
    store = store_of(tmp_path, [list(range(100)) * 20] * 50, 1000)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        Datastore.open(store.path)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


# ---- fingerprints


def test_the_fingerprint_is_that_of_the_vocabulary(byte_tokenizer):
    first = vocabulary_fingerprint(word_tokenizer(10))
    assert first == vocabulary_fingerprint(word_tokenizer(10))
    assert len(first) == 64
    assert first != vocabulary_fingerprint(word_tokenizer(11))
    longer = word_tokenizer(10)
    longer.add_special_tokens([AddedToken("<end>", special=True)])
    assert first != vocabulary_fingerprint(longer)


def test_ids_may_have_gaps(tmp_path, corpus):
    (corpus / "one.py").write_text("a b a")
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 7}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    build(recipe_from_files([str(corpus / "one.py")]), tokenizer, tmp_path / "store", progress=False)
    store = Datastore.open(tmp_path / "store")
    assert store.meta.vocab_size == 8
    assert store.search([7], n_min=1).rows[0, 0] == 0


def test_added_tokens_are_part_of_the_vocabulary(tmp_path, corpus):
    (corpus / "one.py").write_text("1 <end> 2")
    tokenizer = word_tokenizer(10)
    tokenizer.add_tokens([AddedToken("<end>")])
    build(recipe_from_files([str(corpus / "one.py")]), tokenizer, tmp_path / "store", progress=False)
    store = Datastore.open(tmp_path / "store")
    assert store.meta.vocab_size == 11
    assert store.search([10], n_min=1).rows[0, 0] == 2


def test_code_in_this_test_is_what_the_tokenizer_was_made_for(byte_tokenizer):
    assert byte_tokenizer.decode(byte_tokenizer.encode(CODE).ids) == CODE
    assert np.max(byte_tokenizer.encode(CODE).ids) < 300
