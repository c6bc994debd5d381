"""The programs of the package: ``python -m weir train job.yaml`` is `weir train job.yaml`."""

import os
import sys

from ._library import program


def _become(name: str) -> None:
    os.execv(program(name), [name, *sys.argv[1:]])


def weir() -> None:
    _become("weir")


def weir_server() -> None:
    _become("weir-server")


def weir_worker() -> None:
    _become("weir-worker")


if __name__ == "__main__":
    weir()
