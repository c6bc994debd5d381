"""Trials of `weir sweep`, chosen by this process.

::

    with weir.sweep.Sweep("sweep.yaml") as sweep:      # its search: {kind: external, ...}
        sweep.begin({"model.dim": 8}, until=1)
        trial = sweep.wait()
        if trial.values[0] > 0.7:
            sweep.go_on(trial.number, until=sweep.passes)  # from pass 1

`weir sweep` runs each trial on servers and workers of its own, keeps its checkpoints, journal, table
and plots, and goes on where it was after a kill. `weir.optuna` drives it by Optuna.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from . import errors
from ._library import program

__all__ = ["Dimension", "Metric", "Step", "Sweep", "Trial"]

Value = Union[str, int, float, bool]


@dataclasses.dataclass(frozen=True)
class Metric:
    """What a search compares trials by."""

    name: str
    maximize: bool


@dataclasses.dataclass(frozen=True)
class Dimension:
    """A key of the job file and its values: `choices`, or the numbers from `min` to `max`.

    step: between neighbours; 0: none. when, when_choices: the key counts only where the key `when`
    has one of these values.
    """

    key: str
    choices: Optional[List[str]] = None
    min: float = 0.0
    max: float = 0.0
    step: float = 0.0
    log: bool = False
    int: bool = False
    when: Optional[str] = None
    when_choices: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Step:
    """A trial after a pass. values: of the metrics, in their order; NaN where one has none.

    violation: by how much it breaks the constraints; 0: by nothing. seconds (of training), samples
    (rows trained) and bytes (pushed and pulled): since the trial began.
    """

    number: int
    values: Tuple[float, ...]
    violation: float
    seconds: float
    samples: float
    bytes: float


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial as the sweep knows it.

    state: "training", "paused", "trained to the end" or "failed"; failure: why it failed.
    """

    number: int
    state: str
    steps: Tuple[Step, ...]
    failure: Optional[str]

    @property
    def values(self) -> Tuple[float, ...]:
        """Those of the last step."""
        return self.steps[-1].values


def _real(value: Optional[float]) -> float:
    return float("nan") if value is None else value


def _dimension(said: Mapping[str, Any]) -> Dimension:
    fields = dict(said, when_choices=tuple(said.get("when_choices", ())))
    return Dimension(**fields)


def _trial(said: Mapping[str, Any], metrics: int) -> Trial:
    steps = tuple(
        Step(
            number=p["pass"],
            values=tuple(_real(m["value"]) for m in p["measures"][:metrics]),
            violation=p["violation"],
            seconds=p["seconds"],
            samples=p["samples"],
            bytes=p["bytes"],
        )
        for p in said["passes"]
    )
    return Trial(said["trial"], said["state"], steps, said.get("failure"))


class Sweep:
    """A running `weir sweep PATH`. Close it, or use ``with``.

    passes: of a trial that trains to its end. parallel: trials that train at a time; the others
    that were asked for wait. metrics, space: as in the file. trials: by their numbers, those that
    have answered, with those of an earlier run of the same file. next_number: of the next new one.

    Raises Error with the program's own last line where the file is wrong.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self._spent: Optional[str] = None
        self._process = subprocess.Popen(
            [program("weir"), "sweep", os.fspath(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            said = self._read()
        except errors.Error:
            self.close()
            raise
        self.passes: int = said["passes"]
        self.parallel: int = said["parallel"]
        self.metrics = [Metric(**m) for m in said["metrics"]]
        self.space = [_dimension(d) for d in said["space"]]
        self.trials: Dict[int, Trial] = {}
        for trial in said["trials"]:
            self._keep(trial)
        self.next_number = len(self.trials)

    def _keep(self, said: Mapping[str, Any]) -> Trial:
        trial = _trial(said, len(self.metrics))
        self.trials[trial.number] = trial
        return trial

    def _read(self) -> Dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise errors.Error(f"weir sweep ended with status {status}; its last line says why")
        return json.loads(line)

    def _ask(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._read()  # raises, if the program has ended
            raise

    def begin(self, settings: Mapping[str, Value], until: int) -> int:
        """Asks for a new trial that trains until that pass. Returns its number.

        settings: a value for each key of the space that counts.
        """
        number = self.next_number
        self._ask({"trial": number, "until": until, "settings": dict(settings)})
        self.next_number += 1
        return number

    def go_on(self, trial: int, until: int) -> None:
        """Asks for a trial to go on from its last step until that pass."""
        self._ask({"trial": trial, "until": until})

    def wait(self) -> Optional[Trial]:
        """The next trial whose training has ended, well or by a failure. None: the budget is spent.

        Raises InvalidError where the sweep refuses what was asked for.
        """
        said = {} if self._spent else self._read()
        self._spent = said.get("spent", self._spent)
        if self._spent:
            return None
        if "refused" in said:
            raise errors.InvalidError(f"trial {said.get('trial')}: {said['refused']}")
        return self._keep(said)

    @property
    def spent(self) -> Optional[str]:
        """The budget that is spent: "seconds", "samples", "bytes" or "joules"; else None."""
        return self._spent

    def close(self) -> None:
        """Waits for what has been asked for, and ends the sweep. Its results are in its folder."""
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        if self._process.stdout:
            self._process.stdout.read()
            self._process.stdout.close()
        self._process.wait()

    def __enter__(self) -> "Sweep":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self._process.terminate()  # what trains goes on the next time
        self.close()
