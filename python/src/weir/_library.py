"""libweir.so and the programs: where they are, and how a failed call becomes an exception."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import errors
from ._binding import ffi as _ffi  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

ffi: Any = _ffi

NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")
LIBRARY = os.path.join(NATIVE, "lib", "libweir.so.0")


def program(name: str) -> str:
    """The path of a program of the package: weir, weir-server, weir-worker."""
    return os.path.join(NATIVE, "bin", name)


# Local: no other library sees the symbols of the libraries that libweir brings.
lib: Any = ffi.dlopen(LIBRARY, ffi.RTLD_NOW | ffi.RTLD_LOCAL)


def text_of(pointer: Any) -> str:
    """The text of a NUL-terminated string."""
    return ffi.string(pointer).decode("utf-8", "replace")


def error_of(status: int, err: Any) -> errors.Error:
    """The exception for a failed call, with the sentence in *err."""
    text = text_of(err.text) or text_of(lib.weir_status_text(status))
    err.text = b""
    return errors.of_status(text_of(lib.weir_status_name(status)), text)


def check(status: int, err: Any) -> None:
    """Raises the exception for a status other than WEIR_OK."""
    if status:
        raise error_of(status, err)


class _Scratch(threading.local):
    """What a thread's calls write to."""

    def __init__(self) -> None:
        self.err = ffi.new("weir_error *")
        self.ticket = ffi.new("weir_ticket *")


scratch = _Scratch()


def new_error() -> Any:
    """The thread's weir_error. Read it before the next call."""
    return scratch.err


def new(kind: str) -> Any:
    """A struct that may grow, such as weir_report, with its size and its defaults."""
    out = ffi.new(f"{kind} *")
    getattr(lib, f"{kind}_init")(out, ffi.sizeof(kind))
    return out


def number_of(prefix: str, name: str, what: str) -> int:
    """The number of WEIR_<prefix>_<name>. The error lists the names that exist."""
    enum = ffi.typeof(_ENUMS[prefix])
    number = enum.relements.get(f"WEIR_{prefix}{name.upper()}")
    if number is None:
        known = sorted(
            k[len("WEIR_" + prefix) :].lower()
            for k in enum.relements
            if k.startswith("WEIR_" + prefix)
        )
        raise errors.InvalidError(f"{what} is {name!r}; expected one of {', '.join(known)}")
    return int(number)


_ENUMS = {
    "": "weir_mode_kind",
    "OPT_": "weir_optimizer_kind",
    "SCHEDULE_": "weir_schedule_kind",
    "DECAY_": "weir_decay",
    "CODEC_": "weir_codec",
    "VALUES_": "weir_values",
    "BOOK_": "weir_book",
    "LZ4_": "weir_lz4",
    "INIT_": "weir_init_kind",
    "ADMIT_": "weir_admission_kind",
}
