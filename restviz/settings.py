"""Settings: how to run, as one validated record.  Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from restviz.datastore import CAP
from restviz.drafters import METHODS
from restviz.errors import RestvizError
from restviz.trace import Trace


class SettingsError(RestvizError):
    """A setting that is unknown or out of range."""


class Settings(BaseModel):
    """How to run: everything but the prompt, the target and the datastores.  Raises SettingsError."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str = Field("rest", description="decoding method: " + ", ".join(METHODS))
    max_new_tokens: int = Field(128, ge=1, le=8192, description="most tokens to generate")
    chat: bool = Field(True, description="put the prompt into the model's chat template")
    temperature: float = Field(0.0, ge=0, le=5, description="0 is greedy")
    top_k: int = Field(0, ge=0, description="sample among the k likeliest tokens; 0 is off")
    top_p: float = Field(1.0, gt=0, le=1, description="sample among the likeliest tokens that hold this probability")
    seed: int = Field(0, ge=0, lt=2**63, description="the same seed gives the same text, whatever the method")
    n_max: int = Field(16, ge=1, le=64, description="REST: longest suffix to look up, tokens")
    n_min: int = Field(2, ge=1, le=64, description="REST: shortest suffix to look up, tokens")
    length: int = Field(10, ge=1, le=64, description="retrieval: tokens of a continuation, the tree's depth")
    budget: int = Field(
        15,
        ge=1,
        le=255,
        description="retrieval: most nodes a retriever adds to the tree, root not counted; REST's 64 suits a GPU, on a "
        "CPU every node costs time, and 15 with the root fill 16 rows",
    )
    stores: str = Field(
        "",
        description="retrieval: names of the open datastores to search, with commas between; *2 after a name makes "
        "what it holds count twice; empty is all",
    )
    cap: int = Field(CAP, ge=1, le=1_000_000, description="REST: continuations read per step; more are sampled evenly")

    pld_n_max: int = Field(3, ge=1, le=64, description="PLD: longest suffix to look up in the text itself, tokens")
    pld_n_min: int = Field(1, ge=1, le=64, description="PLD: shortest suffix to look up, tokens")
    draft_k: int = Field(
        8, ge=1, le=64, description="draft model: nodes expanded a level, and children of each; EAGLE-2 uses 10"
    )
    draft_depth: int = Field(
        3, ge=0, le=32, description="draft model: forwards after the first; EAGLE-2 uses 5, which a CPU does not repay"
    )
    draft_nodes: int = Field(
        16, ge=1, le=255, description="draft model: nodes of its tree, root not counted; EAGLE-2 uses 59 on GPUs"
    )
    draft_model: Literal["auto", "eagle", "assistant"] = Field(
        "auto",
        description="RASD: what drafts the model tree; auto: the EAGLE head, or the assistant where there is none",
    )
    retrievers: Literal["datastore", "context", "both"] = Field(
        "both", description="RASD: where branches are retrieved from: the datastores, the text itself, or both"
    )
    prune_k: int = Field(
        10,
        ge=0,
        le=1000,
        description="RASD: a retrieved branch stays if its first token is among so many likeliest of the draft model; "
        "0 is no pruning; the paper's value is not confirmed, 10 is likeliest",
    )
    fused_cap: int = Field(
        31,
        ge=0,
        le=255,
        description="RASD: most nodes of the fused tree; 0 is no cap, which keeps the model tree whole; the paper's "
        "value is not confirmed, none is likeliest; 31 with the root fill 32 rows, beyond which a CPU pays dearly",
    )

    overlap: Literal["auto", "on", "off"] = Field(
        "auto",
        description="RASD: retrieve while the draft model runs; auto: on a GPU, where the processor is free meanwhile",
    )

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "settings"
            reason = first["msg"].removeprefix("Value error, ").rstrip(".")
            if first["type"] == "extra_forbidden":
                raise SettingsError(
                    f"There is no setting “{name}”: choose from {', '.join(Settings.model_fields)}."
                ) from None
            if first["type"] == "value_error":
                raise SettingsError(f"{reason}.") from None
            raise SettingsError(f"{name} cannot be {first['input']!r}: {reason[0].lower()}{reason[1:]}.") from None

    @model_validator(mode="after")
    def _together(self) -> Settings:
        if self.method not in METHODS:
            raise ValueError(f"there is no method “{self.method}”: choose from {', '.join(METHODS)}")
        if self.n_min > self.n_max:
            raise ValueError(f"n_min ({self.n_min}) must not be larger than n_max ({self.n_max})")
        if self.pld_n_min > self.pld_n_max:
            raise ValueError(f"pld_n_min ({self.pld_n_min}) must not be larger than pld_n_max ({self.pld_n_max})")
        return self

    def but(self, **changes: Any) -> Settings:
        """These settings with some changed, validated again."""
        return Settings(**self.model_dump() | changes)

    def relevant(self) -> dict[str, Any]:
        """What makes a difference to the method: of the drafting parameters, those it reads."""
        drafting = {name for method in METHODS.values() for name in method.parameters}
        return self.model_dump(exclude={"method"} | (drafting - set(METHODS[self.method].parameters)))


def recorded_settings(trace: Trace) -> Settings:
    """The settings that a trace was made with."""
    return Settings(method=trace.header.method, **trace.header.parameters)
