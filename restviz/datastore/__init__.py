"""Datastores: tokenised corpora with a suffix array, to look up what followed the last tokens elsewhere.

`open_or_build("python-code", tokenizer)` gives the default one; `Datastore` has the searches; `build` makes new ones
from recipes (`load_recipe`) or from files (`recipe_from_files`).  Imports neither torch nor transformers.
"""

from __future__ import annotations

from restviz.datastore.build import build, default_path, open_or_build
from restviz.datastore.combine import combine
from restviz.datastore.format import DatastoreError, Meta, vocabulary_fingerprint
from restviz.datastore.live import LiveDatastore
from restviz.datastore.search import CAP, Datastore, Hits, Location, NextTokens, Places, merge
from restviz.datastore.sources import Recipe, Source, load_recipe, recipe_from_files

DATASTORES = ("python-code", "answers")  # what a run searches when nothing else is said

__all__ = [
    "CAP",
    "DATASTORES",
    "Datastore",
    "DatastoreError",
    "Hits",
    "LiveDatastore",
    "Location",
    "Meta",
    "NextTokens",
    "Places",
    "Recipe",
    "Source",
    "build",
    "combine",
    "default_path",
    "load_recipe",
    "merge",
    "open_or_build",
    "recipe_from_files",
    "vocabulary_fingerprint",
]
