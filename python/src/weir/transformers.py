"""Hugging Face's Trainer on Weir: leased data, and rounds of local steps.

::

    from weir.transformers import TrainerMixin, WeirOptions
    from transformers import Trainer, TrainingArguments

    class WeirTrainer(TrainerMixin, Trainer):
        weir_options = WeirOptions(every=50, push="int4")

    WeirTrainer(model=model, args=TrainingArguments(...), train_dataset=dataset).train()

Start it with ``weir launch job.yaml -- python3 train.py``: each process is a worker. The Trainer's
loop, its optimizer, callbacks and collator stay. The servers keep the trainable parameters (with
PEFT: the adapters), lease the batches, and join the rounds, as `weir.torch.DiLoCo` says. A process
that is killed and started again goes on with the next batch that nobody has completed.

Import this module before you make TrainingArguments. `weir launch` sets RANK and WORLD_SIZE, which
accelerate would take for torch.distributed's. The import removes them from the environment, except
beside MASTER_ADDR. `RANK` and `WORLD_SIZE` of this module keep their values. So each process is a
main one for the Trainer: give each its own output_dir, or save after training where RANK is 0.

One batch of Weir is one step of the optimizer: gradient_accumulation_steps micro-batches. This
module needs transformers 4.46 or later.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
)

import numpy as np
import transformers

from . import errors
from .connection import connect
from .specs import Optimizer
from .torch.diloco import DiLoCo
from .work import Batch, Unit

if TYPE_CHECKING:
    from .job import Job

__all__ = ["RANK", "WORLD_SIZE", "TrainerCallback", "TrainerMixin", "UnitLoader", "WeirOptions"]

RANK: int = int(os.environ.get("RANK", 0))
WORLD_SIZE: int = int(os.environ.get("WORLD_SIZE", 1))
if "WEIR_LEDGER" in os.environ and "MASTER_ADDR" not in os.environ:
    for _name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        os.environ.pop(_name, None)

SAMPLES = 64  # items that identify a dataset


@dataclasses.dataclass
class WeirOptions:
    """How a Trainer trains on Weir.

    every, outer, push, pull, table: `every`, `outer`, `push`, `pull` and `name` of
    `weir.torch.DiLoCo`. diloco: its other options.
    unit_batches: batches of a work unit; 0: one round.
    version: a text that identifies the dataset; None: length, class and 64 items do.
    connect: arguments of `weir.connect`, such as ledger and name.
    """

    every: int = 1
    outer: Any = dataclasses.field(default_factory=lambda: Optimizer("sgd", lr=1))
    push: Any = "fp32"
    pull: Any = "fp32"
    table: str = "dense"
    diloco: Dict[str, Any] = dataclasses.field(default_factory=dict)
    unit_batches: int = 0
    version: Optional[str] = None
    connect: Dict[str, Any] = dataclasses.field(default_factory=dict)


def _identify(dataset: Any, version: Optional[str]) -> str:
    name = f"{type(dataset).__qualname__}:{len(dataset)}"
    if version is not None:
        return f"{name}:{version}"
    seen = hashlib.blake2b(digest_size=8)
    for i in range(min(SAMPLES, len(dataset))):
        seen.update(repr(dataset[i * len(dataset) // min(SAMPLES, len(dataset))]).encode())
    return f"{name}:{seen.hexdigest()}"


class UnitLoader:
    """The micro-batches of the units that this process leases, until the job is finished.

    It has no length: the job decides who executes which batch. A unit has the same rows in each
    pass; their order is a function of seed, pass and place.
    """

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[List[Any]], Any],
        micro_rows: int,
        micro_batches: int,
        unit_batches: int,
        seed: int,
    ) -> None:
        try:
            self.rows = len(dataset)
            dataset[0]
        except (TypeError, KeyError, NotImplementedError) as e:
            raise errors.InvalidError(
                f"dataset {type(dataset).__name__} cannot be addressed ({e}); expected one with a "
                "length and items by index: leased batches are read again after a failure"
            ) from None
        self.dataset, self._collate, self._seed = dataset, collate, seed
        self._micro_batches, self._batch_rows = micro_batches, micro_rows * micro_batches
        self.unit_batches = unit_batches
        self._unit_rows = self._batch_rows * unit_batches
        self.units = -(-self.rows // self._unit_rows)
        self._batches_of_pass = -(-self.rows // self._batch_rows)
        self._spread = np.random.default_rng(seed).permutation(self.rows)
        self._rounds: Optional[DiLoCo] = None
        self._before: Callable[[int], None] = lambda place: None
        self._stream: Optional[Generator[Any, None, None]] = None
        self._ahead: List[Any] = []
        self.finished = False  #: the job has no more work

    def bind(self, rounds: DiLoCo, before: Callable[[int], None]) -> None:
        """Takes units by `rounds`. before: called with each batch's place in the training."""
        self._rounds, self._before = rounds, before

    def steps(self, passes: int) -> int:
        """Batches of all passes."""
        return passes * self._batches_of_pass

    def __iter__(self) -> "UnitLoader":
        """All epochs of the Trainer share one stream: an epoch may end within a unit."""
        return self

    def __next__(self) -> Any:
        if self._ahead:
            return self._ahead.pop()
        if self._stream is None:
            self._stream = self._all()
        return next(self._stream)

    def look_ahead(self) -> None:
        """Completes the batch in hand, and waits for the next one or the job's end."""
        if not self._ahead:
            self._ahead.extend(itertools.islice(self, 1))

    def close(self) -> None:
        """Gives up the unit in hand."""
        if self._stream is not None:
            self._stream.close()

    def _all(self) -> Generator[Any, None, None]:
        if self._rounds is None:
            raise errors.StateError("the loader has no rounds: TrainerCallback binds them")
        for unit in self._rounds.units():
            with unit:
                order = self._order(unit)
                for batch in self._rounds.batches(unit, -(-len(order) // self._batch_rows)):
                    yield from self._micro(unit, batch, order)
        self.finished = True

    def _order(self, unit: Unit) -> "np.ndarray[Any, Any]":
        mine = self._spread[unit.data_unit * self._unit_rows :][: self._unit_rows]
        return np.random.default_rng((self._seed, unit.pass_, unit.place)).permutation(mine)

    def _micro(self, unit: Unit, batch: Batch, order: Any) -> Iterator[Any]:
        self._before(
            unit.pass_ * self._batches_of_pass + unit.place * self.unit_batches + batch.index
        )
        rows = order[batch.index * self._batch_rows :][: self._batch_rows]
        # Each step has the same number of micro-batches: too few rows begin again.
        rows = np.resize(rows, max(len(rows), self._micro_batches))
        for part in np.array_split(rows, self._micro_batches):
            yield self._collate([self.dataset[int(i)] for i in part])


class TrainerCallback(transformers.TrainerCallback):  # pyright: ignore[reportGeneralTypeIssues]
    """Connects a Trainer's loop to a job. `TrainerMixin` adds it.

    It makes the rounds when training begins, sets the rate by the batch's place in the whole
    training, reports the loss, and pulls the final weights into the model.
    """

    def __init__(self, trainer: Any, loader: UnitLoader, job: "Job", options: WeirOptions) -> None:
        self._trainer, self._loader, self._job, self._options = trainer, loader, job, options
        self.rounds: Optional[DiLoCo] = None
        self._reported = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        o, optimizer = self._options, self._trainer.optimizer
        self.rounds = DiLoCo(
            self._job,
            self._trainer.model,
            getattr(optimizer, "optimizer", optimizer),  # accelerate wraps it
            o.every,
            outer=o.outer,
            push=o.push,
            pull=o.pull,
            name=o.table,
            **o.diloco,
        )
        self._loader.bind(self.rounds, self._set_rate)

    def _set_rate(self, place: int) -> None:
        """A process that begins late, or anew, continues at the others' rate."""
        wrapped = self._trainer.lr_scheduler
        scheduler = getattr(wrapped, "scheduler", wrapped)
        factors = getattr(scheduler, "lr_lambdas", None)
        if factors is None:
            return
        step = place // WORLD_SIZE
        rates = [base * factor(step) for base, factor in zip(scheduler.base_lrs, factors)]
        for group, rate in zip(scheduler.optimizer.param_groups, rates):
            group["lr"] = rate
        scheduler.last_epoch, scheduler._last_lr = step, rates

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # The job ends the training: this process may execute more batches than its share.
        if state.global_step >= state.max_steps:
            control.should_training_stop = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= state.max_steps:
            self._loader.look_ahead()
        if self._loader.finished:
            control.should_training_stop = True
        elif state.global_step >= state.max_steps:
            control.should_training_stop = False

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Optional[Mapping[str, Any]] = None,
        **_: Any,
    ) -> None:
        if logs and "loss" in logs and not self._job.closed:
            steps, self._reported = state.global_step - self._reported, state.global_step
            rows = steps * args.per_device_train_batch_size * args.gradient_accumulation_steps
            self._job.progress(rows=rows, batches=steps, loss_sum=float(logs["loss"]) * rows)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._loader.close()
        if self.rounds:
            self.rounds.finish()
        self._job.close()


class TrainerMixin:
    """Put it before `transformers.Trainer` among a class's bases. weir_options: a WeirOptions.

    The number of passes is num_train_epochs, rounded up, unless the job file says. max_steps, if it
    is not given, is this process's share of all steps: the length of the rate's schedule.

    Raises InvalidError for a dataset without length and items by index.
    """

    weir_options = WeirOptions()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._weir_loader: Optional[UnitLoader] = None
        self.weir_callback: Optional[TrainerCallback] = None

    def get_train_dataloader(self) -> Any:
        """The loader of leased units; the first call connects to the job."""
        t: Any = self
        if self._weir_loader is None or self._weir_loader.finished:
            loader, job = self._make_loader(t, t.args, self.weir_options)
            if self.weir_callback is not None:
                t.remove_callback(self.weir_callback)
            self.weir_callback = TrainerCallback(t, loader, job, self.weir_options)
            t.add_callback(self.weir_callback)
            self._weir_loader = loader
        return self._weir_loader

    @staticmethod
    def _make_loader(t: Any, args: Any, options: WeirOptions) -> "Tuple[UnitLoader, Job]":
        dataset, collate = t.train_dataset, t.data_collator
        if hasattr(dataset, "column_names"):  # of the package datasets
            dataset = t._remove_unused_columns(dataset, description="training")
        else:
            collate = t._get_collator_with_removed_columns(collate, description="training")
        loader = UnitLoader(
            dataset,
            collate,
            args.per_device_train_batch_size,
            args.gradient_accumulation_steps,
            options.unit_batches or options.every,
            args.data_seed if args.data_seed is not None else args.seed,
        )
        job = connect(
            **{
                "units": loader.units,
                "rows": loader.rows,
                "unit_batches": loader.unit_batches,
                "passes": math.ceil(args.num_train_epochs),
                "dataset": _identify(dataset, options.version),
                **options.connect,
            }
        )
        if args.max_steps <= 0:
            args.max_steps = -(-loader.steps(job.passes) // WORLD_SIZE)
        return loader, job
