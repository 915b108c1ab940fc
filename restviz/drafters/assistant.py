"""Drafting with a smaller causal LM that has the target's tokenizer, in the same dynamic tree as EAGLE-2."""

from __future__ import annotations

import numpy as np
import torch

from restviz.datastore.format import vocabulary_fingerprint
from restviz.drafters.base import Context
from restviz.drafters.model import DraftRows
from restviz.target.build import load_target
from restviz.target.load import TargetError, load_tokenizer, resolve
from restviz.target.model import Target


class Assistant:
    """A causal LM as a `DraftModel`.  `assistant` is loaded as targets are, with fast attention."""

    taps = ()
    ids = None

    def __init__(self, assistant: Target):
        self.assistant = assistant
        self.session = None
        self.committed = 0

    def begin(self, context: Context) -> torch.Tensor:
        if self.session is None:  # each draft row may be there twice over: committed, and as a draft
            self.session = self.assistant.session(len(context.tokens) + 2 * context.max_depth + 512)
        self.session.cache.length = self.committed
        logits = self.session.prefill(context.tokens[self.committed :].tolist())
        self.committed = len(context.tokens)
        self.rows = DraftRows()
        return logits

    def expand(self, tokens: list[int], parents: list[int]) -> torch.Tensor:
        sees, depth = self.rows.add(parents)
        committed = np.ones((len(tokens), self.committed), dtype=bool)
        logits = self.session.rows(tokens, self.committed - 1 + depth, np.concatenate([committed, sees], axis=1))
        self.session.cache.length += len(tokens)
        return logits


def load_assistant(name: str, target: Target) -> Target:
    """The model `name` (as targets are named) to draft for `target`, on its device and in its dtype.

    Raises TargetError when it cannot be had, or when its tokenizer is another than the target's.
    """
    environment = target.environment
    if vocabulary_fingerprint(load_tokenizer(name)) != target.info.tokenizer:  # told before anything is loaded
        raise TargetError(
            f"{resolve(name).name} has another tokenizer than {target.info.name}, so it cannot draft for it: choose "
            "an assistant of the same family."
        )
    probe = environment.bit_exact is not None  # where the target could be measured, this can
    return load_target.__wrapped__(name, environment.device, environment.dtype, "fast", probe)
