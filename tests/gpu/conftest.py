"""Tests for a CUDA device.  Where there is none they are not collected, and the report's header says so."""

from __future__ import annotations

import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]
