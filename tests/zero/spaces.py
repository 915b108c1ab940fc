"""A stand-in for the `spaces` package of a ZeroGPU Space, with what matters of it: a decorated generator runs in a
forked process, its arguments and every yield are pickled, closing it ends it after the next yield, and the process is
killed when the time is up.  (Like the real one, from reading spaces 0.51; there is no GPU.)

SPACES_FAKE_YIELDS: the time is up after so many.  SPACES_FAKE_QUOTA=0: there is none left.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import sys
import threading
from functools import wraps

import gradio

assert "torch" not in sys.modules or not sys.modules["torch"].cuda.is_initialized(), "spaces has to be imported first"
fork = multiprocessing.get_context("fork")
calls: list[tuple] = []  # pid of the process, seconds asked for


def GPU(task=None, *, duration=None):
    if task is None:
        return lambda task: GPU(task, duration=duration)
    assert inspect.isgeneratorfunction(task), "one generator for a whole run"
    assert threading.current_thread() is threading.main_thread(), "weights reach a GPU from the main thread only"

    @wraps(task)
    def decorated(*args, **kwargs):
        asked = duration(*args, **kwargs) if callable(duration) else duration or 60
        if os.environ.get("SPACES_FAKE_QUOTA") == "0":
            raise gradio.Error(f"You have exceeded your GPU quota (<b>{asked}s</b> requested vs. 0s left).")
        here, there = fork.Pipe(duplex=False)
        stop = fork.Event()
        process = fork.Process(target=work, args=(task, pickle.dumps((args, kwargs)), there, stop), daemon=True)
        process.start()
        there.close()
        calls.append((process.pid, asked))
        left = int(os.environ.get("SPACES_FAKE_YIELDS") or -1)
        try:
            while True:
                if left == 0:
                    process.kill()
                    process.join()
                    raise gradio.Error("GPU task aborted", title="ZeroGPU worker error")
                left -= 1
                try:
                    kind, value = pickle.loads(here.recv_bytes())
                except EOFError:
                    raise gradio.Error("The process is gone", title="ZeroGPU worker error") from None
                if kind == "end":
                    return
                if kind == "error":
                    raise gradio.Error(value, title="ZeroGPU worker error")
                yield value
        finally:
            stop.set()
            here.close()

    return decorated


def work(task, arguments, there, stop):
    import torch

    torch.set_num_threads(1)  # those of OpenMP are not forked
    args, kwargs = pickle.loads(arguments)
    iterator = task(*args, **kwargs)
    try:
        for value in iterator:
            if stop.is_set():
                iterator.close()
                break
            there.send_bytes(pickle.dumps(("value", value)))
        there.send_bytes(pickle.dumps(("end", None)))
    except BrokenPipeError:
        iterator.close()
    except Exception as error:
        there.send_bytes(pickle.dumps(("error", type(error).__name__)))
    finally:
        os._exit(0)  # without what the other process would do at its end
