"""Runs the package's `weir`."""

from __future__ import annotations

import subprocess

from . import errors
from ._library import program


def run_program(verb: str, *arguments: str) -> str:
    """The output of `weir VERB ARGUMENTS`. Raises Error with the last line of its messages."""
    done = subprocess.run(
        [program("weir"), verb, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise errors.Error(
            lines[-1] if lines else f"weir {verb} ended with status {done.returncode}"
        )
    return done.stdout
