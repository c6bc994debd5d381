"""Descriptions of tables, in the job file's own words (config/reference.yaml).

Each class takes the keys of one map of a job file. A plain dict with these keys does as well, and
so does a single word where only the kind matters: ``optimizer="adam"``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Type, TypeVar, Union

from . import errors
from ._library import ffi, new, number_of, text_of

__all__ = [
    "Admission",
    "Eviction",
    "Init",
    "Mode",
    "Optimizer",
    "Pull",
    "Push",
    "Schedule",
    "TableSpec",
]


@dataclass(frozen=True)
class Schedule:
    """The learning rate's course. Numbers are steps; `min` is a share of lr.

    kind: constant, linear, cosine, wsd, step, triangular, triangular2, exp_range.
    """

    kind: str = "constant"
    warmup: int = 0
    total: int = 0
    decay: int = 0
    period: int = 0
    min: float = 0
    gamma: float = 1


@dataclass(frozen=True)
class Optimizer:
    """The update rule that servers apply to a table's rows.

    kind: sgd, momentum, nesterov, adagrad, row_adagrad, adam, adamw, lamb, ftrl, delayed_nesterov,
    average, lion. config/reference.yaml says which kind reads which of the other numbers.
    """

    kind: str = "adam"
    lr: float = 1e-3
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    initial: float = 0
    weight_decay: float = 0
    l1: float = 0
    l2: float = 0
    ftrl_beta: float = 1
    window: int = 1
    decay: str = "lazy"
    schedule: Union[Schedule, Mapping[str, Any], str] = field(default_factory=Schedule)


@dataclass(frozen=True)
class Mode:
    """When pushes take effect.

    kind: async (each push on arrival), sync (the mean of a step's pushes), ssp (as async, and a
    worker at most `bound` batches ahead of the slowest), local (rounds of `steps` batches, whose
    pushes are of mode `rounds`, in `fragments`; `by_speed` shortens the rounds of slow workers).
    backup: sync: workers that a step need not wait for. staleness_rate: divide a push's rate by its
    staleness.
    """

    kind: str = "async"
    backup: int = 0
    bound: int = 0
    staleness_rate: bool = False
    steps: int = 0
    rounds: str = "sync"
    fragments: int = 1
    by_speed: bool = False


@dataclass(frozen=True)
class Push:
    """The code of gradients on their way to the servers.

    codec: fp32, bf16, fp16, int8, int4, int2, fp8_e4m3, fp8_e5m2; dense tables also sign and topk.
    rows: embeddings: the share of a push's rows that it sends. feedback: dense tables: add the
    coding error to the next push.
    """

    codec: str = "fp32"
    density: float = 0.01
    values: str = "log4"
    book: str = "nf4"
    momentum: float = 0
    warmup: int = 0
    clip: float = 0
    rows: float = 1
    feedback: bool = True
    lz4: str = "off"


@dataclass(frozen=True)
class Pull:
    """The code of values on their way to trainers.

    codec: embeddings: fp32, bf16, fp16, int8. Dense tables: any but sign; all except fp32 send
    differences, one after `every` pushes.
    """

    codec: str = "fp32"
    density: float = 0.02
    values: str = "bf16"
    book: str = "nf4"
    every: int = 1


@dataclass(frozen=True)
class Admission:
    """Which keys of an embedding table get a row.

    kind: none (every key), count (from its count-th push on), probability (drawn at each push).
    """

    kind: str = "none"
    count: int = 1
    probability: float = 1


@dataclass(frozen=True)
class Eviction:
    """When rows of an embedding table are removed: by either rule. 0: off."""

    ttl_s: int = 0
    min_score: int = 0
    half_life_s: int = 86400


@dataclass(frozen=True)
class Init:
    """Initial values.

    kind: zero, constant (`a`), uniform ([-a, a)), normal (standard deviation a). elements: how many
    elements of a dense table this covers; 0: the rest. undecayed: weight_decay skips them.
    """

    kind: str = "zero"
    a: float = 0
    elements: int = 0
    undecayed: bool = False


@dataclass(frozen=True)
class TableSpec:
    """A table's description, as the job keeps it.

    Either `width` (an embedding table: elements of a row) or `elements` (a dense table) is above 0.
    """

    name: str
    width: int
    elements: int
    optimizer: str
    lr: float
    mode: str
    push: str
    pull: str


_T = TypeVar("_T")


def as_class(cls: Type[_T], value: Any, what: str) -> _T:
    """value as cls: one of it, a dict of its fields, or a word for its first field."""
    names = [f.name for f in dataclasses.fields(cls)]  # pyright: ignore[reportArgumentType]
    if isinstance(value, cls):
        return value
    if isinstance(value, str):
        return cls(**{names[0]: value})
    if not isinstance(value, Mapping):
        raise errors.InvalidError(
            f"{what} is a {type(value).__name__}; expected {cls.__name__}, a dict or a word"
        )
    unknown = [k for k in value if k not in names]
    if unknown:
        raise errors.InvalidError(f"{what} has no key {unknown[0]!r}; expected {', '.join(names)}")
    return cls(**value)


def make_spec(
    name: str,
    width: int,
    elements: int,
    optimizer: Any,
    mode: Any,
    push: Any,
    pull: Any,
    admission: Any,
    eviction: Any,
    init: Any,
    seed: int,
) -> Any:
    """A weir_table_spec. Its segments live as long as the pair that this returns."""
    for what, number in (("width", width), ("elements", elements), ("seed", seed)):
        if not isinstance(number, int) or number < 0:
            raise errors.InvalidError(
                f"table {name}: {what} is {number!r}; expected an integer of at least 0"
            )
    dense = elements > 0
    if dense == (width > 0):
        raise errors.InvalidError(
            f"table {name}: give either width (an embedding table) or elements (a dense one)"
        )
    room = int(dict(ffi.typeof("weir_table_spec").fields)["name"].type.length)
    raw = name.encode()
    if len(raw) >= room:
        raise errors.InvalidError(
            f"table {name}: the name has {len(raw)} bytes; expected at most {room - 1}"
        )
    spec = new("weir_table_spec")
    for part in ("mode", "push", "pull", "admission", "eviction"):
        unset = ffi.buffer(ffi.addressof(spec, part))
        unset[:] = bytes(len(unset))
    spec.name = raw
    spec.kind = 1 if dense else 0
    try:
        spec.width, spec.elements, spec.seed = width, elements, seed
        _fill_optimizer(
            spec.optimizer, as_class(Optimizer, optimizer, f"table {name}: optimizer"), name
        )
        _fill_mode(spec.mode, as_class(Mode, mode, f"table {name}: mode"), name, dense)
        _fill_push(spec.push, as_class(Push, push, f"table {name}: push"), name, dense)
        _fill_pull(spec.pull, as_class(Pull, pull, f"table {name}: pull"), name, dense)
        _fill_admission(spec, as_class(Admission, admission, f"table {name}: admission"), name)
        _fill_eviction(spec, as_class(Eviction, eviction, f"table {name}: eviction"))
        segments = _segments(init, elements if dense else width, name)
    except (OverflowError, TypeError) as e:
        raise errors.InvalidError(f"table {name}: {e}") from None
    spec.segments_count = len(segments)
    spec.segments = segments
    return spec, segments


def _fill_optimizer(to: Any, o: Optimizer, name: str) -> None:
    schedule = as_class(Schedule, o.schedule, f"table {name}: schedule")
    for key in (
        "lr",
        "momentum",
        "beta1",
        "beta2",
        "eps",
        "initial",
        "weight_decay",
        "l1",
        "l2",
        "ftrl_beta",
        "window",
    ):
        setattr(to, key, getattr(o, key))
    to.kind = number_of("OPT_", o.kind, f"table {name}: optimizer.kind")
    to.decay = number_of("DECAY_", o.decay, f"table {name}: optimizer.decay")
    for key in ("warmup", "total", "decay", "period", "min", "gamma"):
        setattr(to.schedule, key, getattr(schedule, key))
    to.schedule.kind = number_of("SCHEDULE_", schedule.kind, f"table {name}: schedule.kind")


def _fill_mode(to: Any, m: Mode, name: str, dense: bool) -> None:
    local = m.kind == "local"
    if local and not (dense and m.steps > 0):
        raise errors.InvalidError(
            f"table {name}: mode local is for dense tables, with steps of at least 1"
        )
    kind = m.rounds if local else m.kind
    if kind not in ("async", "sync", "ssp"):
        raise errors.InvalidError(
            f"table {name}: mode.kind is {kind!r}; expected async, sync, ssp or local"
        )
    to.kind = number_of("", kind, f"table {name}: mode.kind")
    to.backup, to.bound, to.staleness_rate = m.backup, m.bound, m.staleness_rate
    if local:
        to.local_steps, to.local_speed = m.steps, m.by_speed
        to.fragments = m.fragments if m.fragments > 1 else 0


# Fields that the codec does not use are 0, so that equal coding gives equal descriptions.
def _fill_push(to: Any, p: Push, name: str, dense: bool) -> None:
    to.codec = number_of("CODEC_", p.codec, f"table {name}: push.codec")
    to.lz4 = number_of("LZ4_", p.lz4, f"table {name}: push.lz4")
    to.feedback = p.feedback and dense and p.codec not in ("fp32", "bf16")
    to.rows = p.rows if p.rows < 1 else 0
    if p.rows <= 0:
        raise errors.InvalidError(
            f"table {name}: push.rows is {p.rows}; expected a share above 0, up to 1"
        )
    if p.codec == "int4":
        to.book = number_of("BOOK_", p.book, f"table {name}: push.book")
    if p.codec == "topk":
        to.values = number_of("VALUES_", p.values, f"table {name}: push.values")
        to.density, to.momentum, to.warmup, to.clip = p.density, p.momentum, p.warmup, p.clip


def _fill_pull(to: Any, p: Pull, name: str, dense: bool) -> None:
    to.codec = number_of("CODEC_", p.codec, f"table {name}: pull.codec")
    if not dense or p.codec == "fp32":
        return
    to.every = p.every
    if p.codec == "int4":
        to.book = number_of("BOOK_", p.book, f"table {name}: pull.book")
    if p.codec == "topk":
        to.values = number_of("VALUES_", p.values, f"table {name}: pull.values")
        to.density = p.density


def _fill_admission(spec: Any, a: Admission, name: str) -> None:
    spec.admission.kind = number_of("ADMIT_", a.kind, f"table {name}: admission.kind")
    if a.kind == "count":
        spec.admission.count = a.count
    if a.kind == "probability":
        spec.admission.probability = a.probability


def _fill_eviction(spec: Any, e: Eviction) -> None:
    spec.eviction.ttl_s, spec.eviction.min_score = e.ttl_s, e.min_score
    if e.min_score:
        spec.eviction.half_life_s = e.half_life_s


def _segments(init: Any, elements: int, name: str) -> Any:
    parts: Sequence[Any] = [init] if isinstance(init, (Init, Mapping, str)) else list(init)
    inits = [as_class(Init, p, f"table {name}: init") for p in parts]
    out = ffi.new("weir_init_segment[]", len(inits))
    left = elements
    for i, part in enumerate(inits):
        out[i].kind = number_of("INIT_", part.kind, f"table {name}: init.kind")
        out[i].a, out[i].undecayed = part.a, part.undecayed
        out[i].elements = part.elements or left
        left -= min(left, out[i].elements)
    return out


def _word(kind: str, number: int, prefix: str) -> str:
    name: Optional[str] = ffi.typeof(kind).elements.get(number)
    return name[len(prefix) :].lower() if name else str(number)


def read_spec(spec: Any) -> TableSpec:
    """What a person asks of a weir_table_spec."""
    return TableSpec(
        name=text_of(spec.name),
        width=int(spec.width),
        elements=int(spec.elements),
        optimizer=_word("weir_optimizer_kind", int(spec.optimizer.kind), "WEIR_OPT_"),
        lr=float(spec.optimizer.lr),
        mode=_word("weir_mode_kind", int(spec.mode.kind), "WEIR_"),
        push=_word("weir_codec", int(spec.push.codec), "WEIR_CODEC_"),
        pull=_word("weir_codec", int(spec.pull.codec), "WEIR_CODEC_"),
    )
