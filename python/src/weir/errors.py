"""One exception class for each status of libweir.

The text of an exception is libweir's own sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations

from typing import ClassVar, Dict, Type

__all__ = [
    "Error",
    "BusyError",
    "CancelledError",
    "ClosedError",
    "CorruptError",
    "DeniedError",
    "DroppedError",
    "DuplicateError",
    "ExistsError",
    "GenerationError",
    "InternalError",
    "InvalidError",
    "IoError",
    "LimitError",
    "LostError",
    "MovedError",
    "NoSpaceError",
    "NotCurrentError",
    "NotFiniteError",
    "NotFoundError",
    "OutOfMemoryError",
    "ParseError",
    "StaleError",
    "StateError",
    "TimedOutError",
    "UnavailableError",
    "UnsupportedError",
    "VersionError",
]


class Error(Exception):
    """An error of Weir. `status` is the name of libweir's status, for example ``"E_INVALID"``."""

    status: ClassVar[str] = "E_INTERNAL"


class InvalidError(Error, ValueError):
    """An argument or a setting is invalid, for example an array's dtype or shape."""

    status = "E_INVALID"


class OutOfMemoryError(Error, MemoryError):
    """Memory does not suffice."""

    status = "E_MEMORY"


class LimitError(Error):
    """A configured or built-in limit was exceeded."""

    status = "E_LIMIT"


class CorruptError(Error):
    """Data failed its checksum, or has another format."""

    status = "E_CORRUPT"


class VersionError(Error):
    """The peer has a format or a protocol version that this release cannot read."""

    status = "E_VERSION"


class IoError(Error, OSError):
    """Input or output failed."""

    status = "E_IO"


class NotFoundError(Error, LookupError):
    """The job has no such table, partition, file or worker."""

    status = "E_NOT_FOUND"


class ExistsError(Error):
    """The thing exists with other properties, or the name belongs to another live worker."""

    status = "E_EXISTS"


class TimedOutError(Error, TimeoutError):
    """The deadline passed."""

    status = "E_TIMEOUT"


class UnavailableError(Error, ConnectionError):
    """A server cannot be reached."""

    status = "E_UNAVAILABLE"


class CancelledError(Error):
    """The operation was cancelled."""

    status = "E_CANCELLED"


class ClosedError(Error):
    """The job, or the unit, was closed, or it belongs to another process."""

    status = "E_CLOSED"


class BusyError(Error):
    """Over capacity: try again."""

    status = "E_BUSY"


class StaleError(Error):
    """The job took this worker for dead. `Job.units` rejoins by itself."""

    status = "E_STALE"


class DuplicateError(Error):
    """The servers have applied this already."""

    status = "E_DUPLICATE"


class DroppedError(Error):
    """The synchronous step closed without this batch."""

    status = "E_DROPPED"


class NotCurrentError(Error):
    """The server has not applied the requested step yet."""

    status = "E_NOT_CURRENT"


class NotFiniteError(Error, ArithmeticError):
    """A push has a NaN or an infinity. Nothing was sent; the batch counts as left out."""

    status = "E_NOT_FINITE"


class GenerationError(Error):
    """The job has gone back to a checkpoint. `Job.units` joins the new generation by itself."""

    status = "E_GENERATION"


class StateError(Error, RuntimeError):
    """The call is not allowed in the present state."""

    status = "E_STATE"


class UnsupportedError(Error, NotImplementedError):
    """This build, or the peer, does not support the request."""

    status = "E_UNSUPPORTED"


class ParseError(Error, ValueError):
    """A text does not parse."""

    status = "E_PARSE"


class InternalError(Error):
    """An internal error of Weir."""

    status = "E_INTERNAL"


class NoSpaceError(Error, OSError):
    """The disk is full."""

    status = "E_NO_SPACE"


class MovedError(Error):
    """Another server has this partition now."""

    status = "E_MOVED"


class LostError(Error):
    """A server has lost its state. Close the job and start it anew."""

    status = "E_LOST"


class DeniedError(Error, PermissionError):
    """The certificate does not allow this."""

    status = "E_DENIED"


_CLASSES: Dict[str, Type[Error]] = {c.status: c for c in Error.__subclasses__()}


def of_status(name: str, text: str) -> Error:
    """The exception for a status by its name, such as ``"E_STALE"``."""
    return _CLASSES.get(name, InternalError)(text)
