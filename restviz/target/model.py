"""Target: the language model being sped up, and Session: one run's KV cache over it.

A session's forward takes a draft tree and returns the target's logits at every node, all in one pass (tree attention:
SpecInfer, REST section 3.3).  `commit` then keeps the accepted path.

    L   committed tokens in the KV cache, the root not among them
    n   rows of a forward: root and draft nodes
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
from transformers.modeling_utils import PreTrainedModel

from restviz.target.cache import TreeCache
from restviz.target.load import TargetError
from restviz.trace import Environment, ModelInfo
from restviz.tree import TokenTree

PREFILL_ROWS = 512  # rows of one prefill forward: bounds the memory of attention over a long prompt


@dataclass
class Target:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    info: ModelInfo
    environment: Environment
    lock: threading.Lock = field(default_factory=threading.Lock)  # one run at a time

    @property
    def exact(self) -> bool:
        """Whether attention is the order-independent one."""
        return self.environment.attention == "exact"

    @property
    def eos(self) -> frozenset[int]:
        """Ids that end the text."""
        ids = self.model.generation_config.eos_token_id
        ids = self.tokenizer.eos_token_id if ids is None else ids
        ids = [] if ids is None else [ids] if isinstance(ids, int) else ids
        return frozenset(ids) | ({self.tokenizer.eos_token_id} - {None})

    def session(self, capacity: int, taps: tuple[int, ...] = ()) -> Session:
        """A run of at most `capacity` positions, draft nodes included."""
        return Session(self, capacity, taps)

    def encode(self, prompt: str, chat: bool = True) -> list[int]:
        """Token ids of a prompt, as a user message in the model's chat template when it has one and `chat` is set."""
        if chat and self.tokenizer.chat_template:
            message = [{"role": "user", "content": prompt}]
            return list(self.tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False))
        return list(self.tokenizer(prompt)["input_ids"])

    def check_room(self, ids: list[int]) -> None:
        """Raises TargetError when a prompt of these ids leaves no room for an answer in the context window."""
        window = self.info.context_window
        if not ids:
            raise TargetError("The prompt has no tokens: write something for the model to continue.")
        if len(ids) >= window:
            raise TargetError(
                f"The prompt has {len(ids)} tokens and {self.info.name} has room for {window}: shorten it."
            )

    def decode(self, ids: list[int]) -> str:
        """The text of generated ids, special tokens left out and white space as it is."""
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


class Session:
    """One run's state on the device.  `release` frees it; nothing else of a run stays behind.

    `taps` are hidden states to keep: i is the input of layer i, -1 the output of the final norm.  `hidden`,
    [n, taps × d], are those of the rows of the last forward (or the whole prefill), and after `commit` of the rows
    that it kept.
    """

    def __init__(self, target: Target, capacity: int, taps: tuple[int, ...] = ()):
        self.model, self.exact, self.taps = target.model, target.exact, taps
        self.hidden: torch.Tensor | None = None
        self.argument = cache_argument(self.model)
        layers = self.model.config.get_text_config().num_hidden_layers
        self.cache = TreeCache(layers, capacity, torch.float64 if self.exact else None)

    @property
    def length(self) -> int:
        """L, the number of committed tokens in the cache."""
        return self.cache.length

    def prefill(self, ids: list[int]) -> torch.Tensor:
        """Commit a prompt; returns the logits [vocab] after its last token."""
        parts = [(logits, self.hidden) for logits in self._committed(ids, last_only=True)]
        self.hidden = torch.cat([hidden for _, hidden in parts]) if self.taps else None
        return parts[-1][0][-1]

    def score(self, ids: list[int]) -> Iterator[torch.Tensor]:
        """Commit `ids` and yield the logits [vocab] after each of them, computed as those of a prompt are."""
        for logits in self._committed(ids):
            yield from logits

    def _committed(self, ids: list[int], last_only: bool = False) -> Iterator[torch.Tensor]:
        """Commit `ids`, and yield the logits of each forward on the way."""
        for start in range(0, len(ids), PREFILL_ROWS):
            rows = ids[start : start + PREFILL_ROWS]
            with torch.inference_mode():
                logits = self._forward(rows, range(self.length, self.length + len(rows)), None, last_only)
                self.cache.commit(list(range(len(rows))))
            yield logits

    @torch.inference_mode()
    def forward(self, tree: TokenTree, last_only: bool = False) -> torch.Tensor:
        """Logits [n, vocab] after each node of `tree`, or [1, vocab] after the last; its rows are in the cache until
        the next `commit`."""
        length, n = self.length, len(tree)
        mask = None
        if n > 1:
            visible = torch.from_numpy(tree.ancestor_mask())
            if self.exact:  # additive, over the tree's own columns
                mask = torch.zeros(n, n, dtype=torch.float64).masked_fill_(~visible, float("-inf"))
            else:
                mask = torch.cat([torch.ones(n, length, dtype=torch.bool), visible], dim=1)
            mask = mask.to(self.model.device)[None, None]
        return self._forward(tree.token.tolist(), (length + tree.depth).tolist(), mask, last_only)

    @torch.inference_mode()
    def commit(self, nodes: list[int]) -> None:
        """Keep the rows of these nodes of the last forward: the root (0) and the accepted path, in order."""
        self.cache.commit(nodes)
        if self.taps:
            self.hidden = self.hidden[nodes]

    @torch.inference_mode()
    def rows(self, tokens: list[int], positions: np.ndarray, visible: np.ndarray) -> torch.Tensor:
        """Logits [n, vocab] of rows behind what is in the cache, which see what `visible` (bool[n, L + n]) says.

        For models that draft, with fast attention.
        """
        return self._forward(tokens, positions.tolist(), torch.from_numpy(visible).to(self.model.device)[None, None])

    def release(self) -> None:
        self.cache = self.hidden = None

    def _forward(self, tokens, positions, mask, last_only: bool = False) -> torch.Tensor:
        device = self.model.device
        output = self.model(
            input_ids=torch.tensor([list(tokens)], device=device),
            position_ids=torch.tensor([list(positions)], device=device),
            attention_mask=mask,
            use_cache=True,
            logits_to_keep=1 if last_only else 0,
            output_hidden_states=bool(self.taps),
            **{self.argument: self.cache},
        )
        if device.type in ("cuda", "mps"):
            getattr(torch, device.type).synchronize()  # so that the time of a forward is the forward's
        if self.taps:
            self.hidden = torch.cat([output.hidden_states[i][0] for i in self.taps], dim=-1)
        return output.logits[0]


def cache_argument(model: PreTrainedModel) -> str:
    """Name of the KV cache argument: transformers is renaming `past_key_values` to `cache`."""
    parameters = inspect.signature(type(model).forward).parameters
    for name in ("cache", "past_key_values"):
        if name in parameters:
            return name
    raise TargetError(f"{type(model).__name__} exposes no KV cache, which speculative decoding needs.")
