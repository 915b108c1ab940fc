"""How to train a head; apart from the training itself, so that the command line can list it without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """One optimiser step sees `batch` sequences."""

    epochs: float = 3.0
    batch: int = 8
    steps: int = 3  # unrolled; each later one counts `decay` times the one before
    decay: float = 0.8
    rate: float = 6e-4  # peak of the learning rate: linear warm-up, then a cosine down to a twentieth
    warmup: int = 100
    seed: int = 0
