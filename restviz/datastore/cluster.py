"""The parts of a build on a Ray cluster: each task builds one part in a folder that all machines share.

Needs `pip install ray`, the same RestViz on every machine, and sources that every machine sees at the same path.
A task whose machine or process is lost runs again elsewhere and goes on with the shards that are finished.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from restviz.datastore.format import DatastoreError
from restviz.datastore.parts import Report, build_part, finished
from restviz.errors import RestvizError

RETRIES = 5  # of a task whose process was lost


def build_parts(root: Path, parts: list[int], address: str, memory: int, report: Report) -> None:
    """Build parts of the plan in `root`, each with a core and `memory` bytes of a machine of the cluster.

    `address`: as `ray.init` takes it (`auto`, `ray://host:port`); `local` starts a cluster on this machine.
    Raises DatastoreError when Ray is not there, cannot be reached, or gives a part up.
    """
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError
    except ImportError:
        raise DatastoreError("Building on a cluster needs Ray: pip install ray.") from None
    ours = not ray.is_initialized()
    try:
        if ours:
            if host := re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address):  # Ray itself would try for minutes
                socket.create_connection((host[1], int(host[2])), timeout=10).close()
            ray.init(address=address, log_to_driver=False, logging_level="error")
        task = ray.remote(num_cpus=1, memory=memory, max_retries=RETRIES)(_build)
        running = {task.remote(str(root), index): index for index in parts}
        while running:
            done, _ = ray.wait([*running], num_returns=1)
            for reference in done:
                index = running.pop(reference)
                if said := ray.get(reference):
                    raise DatastoreError(said)
                part = finished(root, index)
                if part is None:
                    raise DatastoreError(
                        f"{root} is not shared by the machines of the cluster: part {index} was built elsewhere; "
                        "choose a folder that all of them see (--out)."
                    )
                report("shards", len(part["shards"]))
                report("tokens", sum(shard["tokens"] for shard in part["shards"]))
                report("sorted", sum(shard["tokens"] for shard in part["shards"]))
    except RayTaskError as error:
        raise DatastoreError(f"A part could not be built: {str(error).strip().splitlines()[-1]}.") from error
    except (RayError, OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DatastoreError(f"The Ray cluster {address} cannot be used: {reason.rstrip('.')}.") from error
    finally:
        if ours and ray.is_initialized():
            ray.shutdown()


def _build(root: str, index: int) -> str:
    """Build a part; what was wrong with it, or nothing."""
    try:
        build_part(Path(root), index)
    except RestvizError as error:
        return str(error)
    return ""
