"""Programs that write what they say into a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.audio_decoding import decode_audio
from aitest_lib.errors import InputError
from aitest_lib.models.base import excerpt
from aitest_lib.voices.base import SAY_S, CannotSay

OUT = "said.wav"


def said(
    command: Callable[[Path], Sequence[str]], *, stdin: str = "", folder: Path | None = None, limit_s: float = SAY_S
) -> tuple[NDArray[np.float32], int]:
    """The audio in the file that a command wrote, as mono samples and rate. `command`: the command for that file.

    `stdin`: what it reads, as UTF-8; `folder`: where it runs. `CannotSay` where it fails, takes too long or writes no
    audio; `InputError` where it cannot be started.
    """
    with TemporaryDirectory(prefix="aitest-voice-") as work:
        out = Path(work) / OUT
        _run(command(out), stdin, folder, limit_s)
        try:
            content = out.read_bytes()
        except FileNotFoundError:
            raise CannotSay("wrote no file") from None
        except OSError as error:
            raise CannotSay(f"wrote what cannot be read: {error.strerror}") from error
    if not content:
        raise CannotSay("wrote an empty file")
    samples, rate, _ = decode_audio(content)
    return samples, rate


def _run(command: Sequence[str], stdin: str, folder: Path | None, limit_s: float) -> None:
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that it can be ended with all that it started
        )
    except OSError as error:
        where = "" if folder is None else f" in {folder}"
        raise InputError(f"the program {command[0]} cannot be started{where}: {error.strerror}; check its name") from error
    try:
        _, told = process.communicate(stdin.encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise CannotSay(f"gave no audio within {limit_s:g} s") from None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = told.decode("utf-8", "replace").strip().splitlines()
        # Most programs say what is wrong in the first line, tracebacks in the last.
        shown = " ... ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))
        raise CannotSay(f"exited with status {process.returncode}" + (f": {excerpt(shown)}" if shown else ""))
