"""What the page offers, and what a public page allows: config.toml, read and checked."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from restviz.datastore import DATASTORES
from restviz.errors import RestvizError

CONFIG = Path(__file__).with_name("config.toml")
OWN = ("target", "head", "assistant")  # RESTVIZ_TARGET and so on name a model of one's own


class ConfigError(RestvizError):
    """A config file that cannot be used."""


def on_zero_gpu() -> bool:
    """Whether this is a ZeroGPU Space (see `restviz.zero`)."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


class Model(BaseModel):
    """A target with what drafts for it; names as in `restviz.load`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    target: str = "default"
    head: str = "auto"
    assistant: str = ""
    needs: str = ""
    gpu_gb: float = Field(0, ge=0, description="memory of a GPU that it needs; 0: a CPU is enough")
    template: str = Field("", description="chat template, for models that come without one")

    @property
    def label(self) -> str:
        return f"{self.name} ({self.needs})" if self.needs else self.name

    def load(self, datastores: tuple[str, ...] = DATASTORES) -> Any:
        """The engine, on ZeroGPU one whose runs are calls.  Raises RestvizError when it cannot be had here."""
        import restviz
        from restviz import zero
        from restviz.api import unload

        self.check()
        unload()  # the memory of the one before
        named = {"target": self.target, "datastore": datastores, "head": self.head, "assistant": self.assistant}
        engine = zero.load(**named) if on_zero_gpu() else restviz.load(**named)
        if self.template and not engine.target.tokenizer.chat_template:
            engine.target.tokenizer.chat_template = self.template
        return engine

    def check(self) -> None:
        """Raises ConfigError when this machine has no GPU that is large enough."""
        import torch

        if not self.gpu_gb:
            return
        there = torch.cuda.get_device_properties(0).total_memory / 1e9 if torch.cuda.is_available() else 0
        if there < self.gpu_gb:
            has = f"this machine's has {there:.0f} GB" if there else "this machine has none"
            raise ConfigError(
                f"{self.name} needs a GPU with {self.gpu_gb:g} GB of memory and {has}: choose another model."
            )


class Public(BaseModel):
    """What a page that strangers use allows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...]
    datastores: tuple[str, ...] = DATASTORES
    prompt_characters: int = Field(6000, ge=1)
    new_tokens: int = Field(512, ge=1, description="most of a run")
    repeats: int = Field(2, ge=1, description="most of a comparison")
    waiting: int = Field(8, ge=0, description="most visitors in the queue")
    upload_mb: int = Field(5, ge=1)

    def check(self, prompt: str, new_tokens: int) -> None:
        """Raises ConfigError when a run asks for more than is allowed."""
        elsewhere = "or run RestViz on a machine of your own, where there is no such limit."
        if len(prompt) > self.prompt_characters:
            raise ConfigError(
                f"The prompt has {len(prompt):,} characters and this public page takes {self.prompt_characters:,}: "
                f"shorten it, {elsewhere}"
            )
        if new_tokens > self.new_tokens:
            raise ConfigError(
                f"{new_tokens:,} new tokens are more than the {self.new_tokens:,} of this public page: ask for fewer, "
                f"{elsewhere}"
            )

    def check_queue(self, waiting: int) -> None:
        """Raises ConfigError when there is no place in the queue, in which so many wait."""
        if waiting >= self.waiting:
            raise ConfigError(
                f"{waiting} visitors wait for the model already: try again in a minute; the lessons need no waiting."
            )


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[Model, ...] = Field(min_length=1)
    public: Public | None = None


class Offer(BaseModel):
    """What one page offers: its models, the first of which is loaded first, its datastores, and its limits if any."""

    models: tuple[Model, ...]
    datastores: tuple[str, ...] = DATASTORES
    limits: Public | None = None


def read_config(path: Path = CONFIG) -> Config:
    """Raises ConfigError with one sentence when the file is none."""
    try:
        return Config.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"The config file {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The config file {path} is not TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"In {path}, {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}.") from None


def offer(environment: dict[str, str] | None = None) -> Offer:
    """What the page offers where these environment variables are set (default: those of this process).

    Raises ConfigError when they name what there is not.
    """
    env = os.environ if environment is None else environment
    config = read_config(Path(env["RESTVIZ_CONFIG"]).expanduser() if env.get("RESTVIZ_CONFIG") else CONFIG)
    models = {model.name: model for model in config.models}
    first = env.get("RESTVIZ_MODEL") or next(iter(models))
    if first not in models:
        raise ConfigError(f"RESTVIZ_MODEL is “{first}”, which is no model of the config: {', '.join(models)}.")
    if named := {name: env[key] for name in OWN if env.get(key := f"RESTVIZ_{name.upper()}")}:
        base = Model(name=Path(named["target"]).name) if "target" in named else models[first]
        own = base.model_copy(update=named)
        models, first = models | {own.name: own}, own.name
    public, limits = env.get("RESTVIZ_PUBLIC") or ("1" if env.get("SPACE_ID") else "0"), None
    if public not in ("0", "1"):
        raise ConfigError(f"RESTVIZ_PUBLIC is “{public}”: write 1 for a page with limits, or 0.")
    if public == "1":
        limits = config.public or Public(models=())
        if unknown := [name for name in limits.models if name not in models]:
            raise ConfigError(f"The config's public.models names “{unknown[0]}”, which is none of its models.")
        chosen = [first] if named or env.get("RESTVIZ_MODEL") else [*limits.models] or [first]
        models = {name: models[name] for name in chosen}
        first = chosen[0]
    if on_zero_gpu():  # the weights have to be there before the first call
        models = {first: models[first]}
    ordered = sorted(models.values(), key=lambda model: model.name != first)
    return Offer(models=tuple(ordered), datastores=limits.datastores if limits else DATASTORES, limits=limits)
