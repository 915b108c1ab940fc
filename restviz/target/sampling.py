"""Drawing tokens so that losslessness can be seen.

The draw at a position is argmax(log p + Gumbel noise), with noise from a generator keyed by (seed, position).  That is
an exact sample from p (the Gumbel-max trick), and it is the *same* sample whatever the decoding method: with one seed,
every method has to write the same text, token by token, at any temperature.

Verification makes one draw per visited node, descends if a child carries the drawn token, else emits it and stops
(REST, section 3.3: "accept draft tokens while the token sampled from the target equals the draft token").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper


@dataclass(frozen=True)
class Drawn:
    token: int
    p: np.ndarray  # float32[vocab]: the distribution drawn from; when greedy, the target's own


class Sampler:
    """`temperature` 0 is greedy; `top_k` 0 and `top_p` 1 switch those off.  Warpers apply in transformers' order."""

    def __init__(self, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0):
        self.greedy = temperature == 0
        self.top_p, self.seed = top_p, seed
        self.warp = LogitsProcessorList()
        if not self.greedy and temperature != 1:
            self.warp.append(TemperatureLogitsWarper(float(temperature)))
        if not self.greedy and top_k:
            self.warp.append(TopKLogitsWarper(top_k))

    def draw(self, logits: torch.Tensor, position: int) -> Drawn:
        """The token at absolute `position`, from the target's logits [vocab] for it.  Ties go to the lowest id."""
        score, p = self._scores(logits, position)
        return Drawn(int(score.argmax()), p)  # numpy's argmax is the first of equals; torch's need not be

    def margin(self, logits: torch.Tensor, position: int, token: int) -> float:
        """By how much the drawn token's score exceeds that of `token`: 0 when it is that token."""
        score, _ = self._scores(logits, position)
        return float(score.max() - score[token])

    def _scores(self, logits: torch.Tensor, position: int) -> tuple[np.ndarray, np.ndarray]:
        """What the draw is the argmax of, and the distribution it is a draw from; both [vocab].

        Greedy: the logits.  Sampling: log p plus Gumbel noise, -inf where p is 0.
        """
        row = self.warp(None, logits.float().cpu()[None])
        p = torch.softmax(row, dim=-1)[0].numpy()
        if self.greedy:
            return row[0].numpy(), p
        if self.top_p < 1:
            p = nucleus(p, self.top_p)
        ids = np.flatnonzero(p)
        uniform = np.random.Generator(np.random.Philox(key=[self.seed, position])).random(len(p))
        score = np.full(len(p), -np.inf)
        score[ids] = np.log(p[ids]) - np.log(-np.log(uniform[ids]))
        return score, p


def nucleus(p: np.ndarray, top_p: float) -> np.ndarray:
    """float32[vocab]: `p` cut to its likeliest tokens until they hold `top_p`, and rescaled to sum to one.

    The rule of transformers' TopPLogitsWarper, which sorts the whole vocabulary (7 ms for 49,152 tokens).  Tokens
    below (1 - top_p) / vocab hold less than 1 - top_p together, so they are out whatever the order: sort the rest.
    """
    ids = np.flatnonzero(p > (1 - top_p) / len(p))
    ids = ids[np.argsort(-p[ids], kind="stable")]
    before = np.cumsum(p[ids], dtype=np.float64) - p[ids]
    ids = ids[before < top_p]
    kept = np.zeros_like(p)
    kept[ids] = p[ids] / p[ids].sum()
    return kept
