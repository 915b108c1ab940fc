from __future__ import annotations

import random

import pytest

from restviz.datastore.sources import load_recipe, read_documents
from restviz.errors import RestvizError
from restviz.provenance import places
from restviz.settings import Settings
from restviz.tree import Source

PROMPT = "import unittest\n\n\nclass StackTest(unittest.TestCase):\n    def setUp(self):\n"


def test_places_of_random_nodes_hold_the_drafted_continuation(smol_fp32):
    """The file and line shown for a node really hold the text of the match and of the node's path."""
    trace = smol_fp32.generate(PROMPT, Settings(method="rest", chat=False, max_new_tokens=40))
    documents = {}
    for name in ("python-code", "answers"):
        recipe = load_recipe(name)
        for file in recipe.files():
            for document in read_documents(recipe, *file):
                documents[name, document.path, document.record] = document.text
    retrieved = [
        (step.index, node)
        for step in trace.steps
        for node, source in enumerate(step.nodes.source)
        if source & Source.DATASTORE
    ]
    checked = 0
    for index, node in random.Random(0).sample(retrieved, 100):
        step = trace.steps[index]
        path, at = [], node
        while at > 0:
            path.insert(0, step.nodes.token[at])
            at = step.nodes.parent[at]
        drafted = smol_fp32.target.tokenizer.decode(path)
        for found in places(smol_fp32, trace, index, node):
            assert found["total"] >= len(found["locations"]) > 0
            for place in found["locations"]:
                lines = documents[found["datastore"], place["path"], place["record"]].split("\n")
                below = "\n".join(lines[place["line"] - 1 :])
                assert 0 <= below.find(place["match"]) <= len(lines[place["line"] - 1]), "it begins in that line"
                assert place["match"].endswith(drafted)
                checked += 1
    assert checked >= 100


def test_nodes_that_are_not_there_and_other_datastores_are_told(tiny_engine):
    trace = tiny_engine.generate("def add(", Settings(method="rest", chat=False, n_min=1, max_new_tokens=20))
    index, node = next((s.index, i) for s in trace.steps for i, source in enumerate(s.nodes.source) if source)
    (found,) = places(tiny_engine, trace, index, node)
    assert found["datastore"] == "corpus"
    for bad in ((index, 0), (index, 10_000), (999, 1)):
        with pytest.raises(RestvizError, match="no drafted node"):
            places(tiny_engine, trace, *bad)
    trace.header.datastores[0] = trace.header.datastores[0].model_copy(update={"fingerprint": "other"})
    with pytest.raises(RestvizError, match="another version"):
        places(tiny_engine, trace, index, node)
