from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from restviz.settings import Settings
from restviz.trace import Trace, TraceError
from restviz.tree import Source


@pytest.fixture
def trace(tiny_engine) -> Trace:
    return tiny_engine.generate("def add(a", Settings(method="rest", chat=False, max_new_tokens=12, n_min=1))


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_what_is_saved_is_loaded(trace, tmp_path, name):
    path = trace.save(tmp_path / name)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert Trace.load(path) == trace


def test_counts_of_a_run(trace):
    assert trace.header.schema_version == 2
    assert len(trace.tokens) == 12 or trace.finish.reason == "eos"
    assert trace.forwards == len(trace.steps) - 1
    assert trace.steps[0].nodes.fate == ["root"]
    assert trace.mean_generated_length == pytest.approx((len(trace.tokens) - 1) / trace.forwards)
    assert trace.mean_generated_length_with_prefill == pytest.approx(len(trace.tokens) / len(trace.steps))
    assert trace.seconds == pytest.approx(sum(s.times.total for s in trace.steps[1:]) / 1000)


def test_steps_follow_each_other(trace):
    text = trace.header.prompt_ids + trace.tokens
    for step in trace.steps:
        assert text[step.position] == step.nodes.token[0]
        assert text[step.position + 1 :][: len(step.emitted)] == step.emitted
        lengths = {len(getattr(step.nodes, name)) for name in type(step.nodes).model_fields}
        assert len(lengths) == 1


def test_the_target_looked_at_every_visited_node(trace):
    for step in trace.steps:
        visited = [0, *step.accepted] if step.bonus is not None else [0, *step.accepted[:-1]]
        assert [look.node for look in step.looks] == visited
        for node, parent in enumerate(step.nodes.parent):
            assert (step.nodes.target_p[node] is not None) == (parent in visited)
        for look in step.looks:
            assert look.p == sorted(look.p, reverse=True)
            assert sum(look.p) <= 1.001


def test_every_token_has_text(trace):
    ids = set(trace.tokens) | set(trace.header.prompt_ids)
    for step in trace.steps:
        ids.update(step.nodes.token, *(look.token for look in step.looks))
    assert ids <= trace.token_text.keys()


def circle(nodes):
    """Two nodes that are each other's parent."""
    made = {name: [*values[:1], *values[:1] * 2] for name, values in nodes.items()}
    return made | {"parent": [-1, 2, 1]}


def test_unusable_files_are_refused_in_one_sentence(trace, tmp_path):
    whole = trace.save(tmp_path / "good.json").read_bytes()
    data = json.loads(whole)
    files = {
        "missing.json": (None, "cannot be read"),
        "cut.json": (whole[:-20], "not a RestViz trace: it is not .* cut short"),
        "cut.json.gz": (gzip.compress(whole)[:-20], "cut short"),
        "binary.json": (b"\x00\xff\xfe", "not a RestViz trace"),
        "list.json": (b'{"header": [1]}', "no header with a schema version"),
        "flipped.json.gz": (b"\x1f\x8b" + b"\xff" * 200, "not a RestViz trace"),
        "nowhere.json": (
            json.dumps(data | {"steps": [data["steps"][0] | {"accepted": [99]}]}).encode(),
            "damaged: steps",
        ),
        "circle.json": (
            json.dumps(data | {"steps": [data["steps"][0] | {"nodes": circle(data["steps"][0]["nodes"])}]}).encode(),
            "damaged: steps",
        ),
        "other.json": (b"[1, 2]", "no header with a schema version"),
        "newer.json": (
            json.dumps(data | {"header": data["header"] | {"schema_version": 99}}).encode(),
            "version 99 and this RestViz reads version 2",
        ),
        "damaged.json": (json.dumps(data | {"steps": [{"index": "x"}]}).encode(), "damaged: steps"),
    }
    for name, (content, sentence) in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceError, match=sentence) as error:
            Trace.load(tmp_path / name)
        assert str(error.value).count("\n") == 0


def test_a_trace_of_version_1_opens(trace, tmp_path):
    raw = json.loads(trace.model_dump_json())
    raw["header"]["schema_version"] = 1
    raw["header"]["environment"]["calibration"] = {"fp32 1 row": 80.0}
    (tmp_path / "old.json").write_text(json.dumps(raw))
    assert Trace.load(tmp_path / "old.json") == trace
    raw["header"]["environment"] = 3
    (tmp_path / "old.json").write_text(json.dumps(raw))
    with pytest.raises(TraceError, match="damaged"):
        Trace.load(tmp_path / "old.json")


def test_a_node_whose_retrieved_branch_was_pruned_is_the_draft_models_alone():
    sys.path.insert(0, str(Path(__file__).parent / "browser"))
    from made import rasd_trace

    step = rasd_trace().steps[1]
    assert [step.origin(node) for node in step.accepted] == [step.nodes.source[node] for node in step.accepted]
    step.first.k, step.first.tested[0].rank = 1, 2
    assert [step.origin(node) for node in step.accepted[:2]] == [Source.MODEL, Source.MODEL]
    assert step.origin(step.accepted[2]) == step.nodes.source[step.accepted[2]]
