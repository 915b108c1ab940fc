"""Trace: the recorded run, the one contract between the engine, the page and files.

A trace is a header (what ran, on what), a list of steps (one target forward each) and an ending.  It is plain data:
`Trace.save("run.json")` or `"run.json.gz"`, `Trace.load(path)`.  All times are milliseconds of wall clock.

Step 0 is the prefill: its root is the last prompt token, its tree is the root alone, and its bonus is the first
generated token.  Every later step verifies a draft tree.
"""

from __future__ import annotations

import gzip
import html
import json
import zlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from restviz.errors import RestvizError
from restviz.tree import Source

SCHEMA_VERSION = 2

Fate = Literal["root", "accepted", "rejected", "pruned_first_token", "pruned_budget", "pruned_cap"]
FinishReason = Literal["eos", "max_new_tokens", "context_window", "stopped", "failed"]


class TraceError(RestvizError):
    """A trace file that cannot be used."""


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Nodes(Record):
    """The step's draft tree as parallel lists of length n, level order, node 0 the root (see `restviz.tree`).

    Pruned nodes are here too: their `parent` may be a verified node or another pruned one.  `fate` says what pruned
    them: the budget of the retriever that found them (they never were in its tree), RASD's first-token test, or the cap
    of RASD's fused tree.  `source` and `count` tell of the trees that a node was in, cut to their budgets.
    """

    token: list[int]
    parent: list[int] = Field(description="index of the parent, -1 for the root")
    source: list[int] = Field(
        description="flags: 1 datastore, 2 context, 4 model, 256 << i the header's datastore i; 0 for the root"
    )
    count: list[int] = Field(description="retrieved continuations that start with this node's path")
    logp: list[float | None] = Field(description="draft model's cumulative log-probability, null where it has none")
    target_p: list[float | None] = Field(
        description="target's probability of this token after its parent, null where the target did not look"
    )
    fate: list[Fate]

    def path(self, node: int) -> list[int]:
        """Node indices from below the root down to `node`; empty for the root."""
        nodes = []
        while node > 0:
            nodes.insert(0, node)
            node = self.parent[node]
        return nodes


class Match(Record):
    """What one retriever found: the longest suffix of the text that occurs in it."""

    retriever: str = Field(description="name of the datastore, or 'context'")
    length: int = Field(description="tokens of the longest matching suffix, 0 when nothing matched")
    hits: int = Field(description="number of places where it occurs")
    sampled: int = Field(description="continuations read: all hits, or a strided sample of them beyond the cap")


class Tested(Record):
    """A retrieved branch whose first token was tested against the draft model (RASD's pruning)."""

    node: int = Field(description="the branch's first node")
    rank: int = Field(description="1 is the draft model's likeliest token")
    p: float = Field(description="the draft model's probability; 0 for a token that is not in its vocabulary")


class FirstStep(Record):
    """The draft model's distribution of the token after the root: its likeliest tokens, best first."""

    token: list[int]
    p: list[float]
    k: int = Field(0, description="a branch stays when its first token is among so many likeliest; 0: no pruning")
    tested: list[Tested] = []


class Look(Record):
    """The target's most likely next tokens at a node that the verification visited, best first."""

    node: int
    token: list[int]
    p: list[float] = Field(description="probabilities after temperature, top-k and top-p when sampling")


class Times(Record):
    """Wall clock of one step in milliseconds; the six parts add up to the step."""

    retrieve: float = 0.0
    draft: float = 0.0
    fuse: float = 0.0
    forward: float = 0.0
    accept: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        return self.retrieve + self.draft + self.fuse + self.forward + self.accept + self.other


class Step(Record):
    index: int = Field(description="0 is the prefill")
    position: int = Field(description="absolute position of the root = tokens already in the target's KV cache")
    nodes: Nodes
    matches: list[Match] = []
    first: FirstStep | None = Field(None, description="methods with a draft model")
    unrecorded: int = Field(0, description="pruned nodes that were too many to record")
    accepted: list[int] = Field(description="accepted nodes from below the root down")
    bonus: int | None = Field(description="target's own token after the accepted path; null if the text ended in it")
    looks: list[Look] = []
    times: Times

    @model_validator(mode="after")
    def _nodes_exist(self) -> Step:
        n = len(self.nodes.token)
        if any(len(getattr(self.nodes, name)) != n for name in Nodes.model_fields) or not n:
            raise ValueError("the lists of nodes differ in length")
        if any(not 0 < node < n for node in self.accepted) or self.nodes.parent[0] != -1:
            raise ValueError("a node is named that is not there")
        if any(not 0 <= parent < i for i, parent in enumerate(self.nodes.parent[1:], 1)):
            raise ValueError("the nodes are not in level order")
        return self

    def origin(self, node: int) -> int:
        """Flags of the trees that brought a node to where it is: `source`, less the retrievers' when RASD pruned their
        branch and the draft model's own tree kept the node."""
        source, first = self.nodes.source[node], self.first
        if first is None or not source & Source.MODEL:
            return source
        branch = self.nodes.path(node)[:1]
        dropped = any(test.rank > first.k for test in first.tested if [test.node] == branch)
        return int(Source.MODEL) if dropped else source

    @property
    def emitted(self) -> list[int]:
        """Token ids that this step added to the text."""
        return [self.nodes.token[i] for i in self.accepted] + ([] if self.bonus is None else [self.bonus])


class ModelInfo(Record):
    name: str
    source: str = Field(description="asset or path it was loaded from")
    revision: str | None = Field(description="hub commit or content hash of the weights file")
    architecture: str
    parameters: int
    vocab_size: int
    context_window: int
    tokenizer: str = Field(description="fingerprint of the vocabulary")


class Environment(Record):
    device: str
    device_name: str
    dtype: str
    attention: str = Field(description="'exact' (order-independent) or 'fast' (stock SDPA)")
    bit_exact: bool | None = Field(description="tree forward = token-by-token forward to the last bit (probe at load)")
    threads: int
    versions: dict[str, str]
    forward_ms: dict[int, float] = Field(
        {}, description="measured milliseconds of a tree forward by its number of rows, after a short text"
    )


class DatastoreInfo(Record):
    name: str
    fingerprint: str
    tokens: int


class Header(Record):
    schema_version: Literal[2] = SCHEMA_VERSION
    created: str = Field(description="UTC, ISO 8601")
    method: str
    parameters: dict[str, int | float | str | bool | None]
    model: ModelInfo
    environment: Environment
    datastores: list[DatastoreInfo] = []
    prompt: str = Field(description="what the user typed, before the chat template")
    prompt_ids: list[int] = Field(description="what the target saw")


class Finish(Record):
    reason: FinishReason
    message: str = Field(description="one sentence for people")


class Check(Record):
    """What a teacher-forced forward over the whole text says about the emitted tokens (see `restviz.check`)."""

    tokens: int = Field(description="emitted tokens compared")
    differs: list[int] = Field(description="those that are not its choice, as indices into the answer")
    gap: list[float | None] = Field(
        description="how much likelier its choice is there, in logits (noise added when sampling); null: infinitely"
    )


class Trace(Record):
    header: Header
    steps: list[Step] = []
    finish: Finish | None = Field(None, description="null while the run is under way")
    check: Check | None = Field(None, description="made when the text differs from the baseline's")
    text: str = Field("", description="the decoded answer, special tokens left out")
    token_text: dict[int, str] = Field({}, description="text of every token id in the trace")
    token_bytes: dict[int, str] = Field({}, description="hex bytes of the tokens that are not whole UTF-8 characters")

    @property
    def tokens(self) -> list[int]:
        """Generated token ids, the first (from the prefill) included."""
        return [token for step in self.steps for token in step.emitted]

    @property
    def forwards(self) -> int:
        """Target forwards, prefill not counted."""
        return max(len(self.steps) - 1, 0)

    @property
    def mean_generated_length(self) -> float:
        """M: generated tokens per target forward, prefill and its token not counted (REST, section 4)."""
        return sum(len(step.emitted) for step in self.steps[1:]) / self.forwards if self.forwards else 0.0

    @property
    def mean_generated_length_with_prefill(self) -> float:
        """M as REST's paper counts it: the prefill is one of the forwards."""
        return len(self.tokens) / len(self.steps) if self.steps else 0.0

    @property
    def seconds(self) -> float:
        """Wall clock of decoding, prefill not counted."""
        return sum(step.times.total for step in self.steps[1:]) / 1000

    @property
    def tokens_per_second(self) -> float:
        """Decoding speed, prefill and its token not counted."""
        return sum(len(step.emitted) for step in self.steps[1:]) / self.seconds if self.seconds else 0.0

    def differs(self, other: Trace) -> bool:
        """Whether the answers part: a token differs, or one ended by itself where the other went on."""
        mine, theirs = self.tokens, other.tokens
        short = min(len(mine), len(theirs))
        cut = any(trace.finish is None or trace.finish.reason in ("stopped", "failed") for trace in (self, other))
        return mine[:short] != theirs[:short] or (len(mine) != len(theirs) and not cut)

    @classmethod
    def of_tokens(cls, header: Header, tokens: list[int], choices: list[dict[str, list]] | None = None) -> Trace:
        """A trace that knows no more of a run than its text: one step, whose accepted path is the answer.

        `choices`: the `token` and `p` of the target's look before each token of the answer, if they are known.
        """
        n = len(tokens)
        nodes = Nodes(
            token=[header.prompt_ids[-1], *tokens],
            parent=list(range(-1, n)),
            source=[0] * (n + 1),
            count=[0] * (n + 1),
            logp=[None] * (n + 1),
            target_p=[None] * (n + 1),
            fate=["root", *["accepted"] * n],
        )
        position = len(header.prompt_ids) - 1
        step = Step(
            index=0,
            position=position,
            nodes=nodes,
            accepted=list(range(1, n + 1)),
            bonus=None,
            looks=[Look(node=i, token=look["token"], p=look["p"]) for i, look in enumerate(choices or [])],
            times=Times(),
        )
        return cls(header=header, steps=[step])

    def show(self, baseline: Trace | None = None, height: int = 900) -> None:
        """Show the player in a notebook, `height` pixels high, with `baseline` to compare with.  Raises TraceError."""
        try:
            from IPython.display import HTML, display
        except ImportError:
            raise TraceError(
                "trace.show() is for notebooks: elsewhere, write a page with “python -m restviz trace export”."
            ) from None
        from restviz.ui.export import export

        page = html.escape(export(self, baseline))
        display(HTML(f'<iframe srcdoc="{page}" style="width: 100%; height: {height}px; border: 0"></iframe>'))

    def save(self, path: str | Path) -> Path:
        """Write as JSON, gzipped when the name ends in `.gz`."""
        path = Path(path)
        data = self.model_dump_json().encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace written by `save`.  Raises TraceError with one sentence when that cannot be done."""
        path = Path(path)
        try:
            data = path.read_bytes()
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
            raw = json.loads(data)
        except (EOFError, ValueError, zlib.error, gzip.BadGzipFile):
            raise TraceError(f"{path} is not a RestViz trace: it is not (gzipped) JSON or it is cut short.") from None
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error.strerror or error}.") from None
        header = raw.get("header") if isinstance(raw, dict) else None
        version = header.get("schema_version") if isinstance(header, dict) else None
        if version is None:
            raise TraceError(f"{path} is not a RestViz trace: it has no header with a schema version.")
        if version == 1:  # what forwards cost was told in another way
            header["schema_version"] = SCHEMA_VERSION
            if isinstance(header.get("environment"), dict):
                header["environment"].pop("calibration", None)
        elif version != SCHEMA_VERSION:
            raise TraceError(
                f"{path} has trace schema version {version} and this RestViz reads version {SCHEMA_VERSION}: "
                "record the run again, or open it with the RestViz that made it."
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise TraceError(f"{path} is damaged: {where} is not what a trace has there.") from None
