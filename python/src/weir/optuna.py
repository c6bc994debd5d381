"""Optuna chooses the trials of `weir sweep`.

::

    study = optuna.create_study(storage="sqlite:///study.db", study_name="clicks", load_if_exists=True,
                                direction="maximize", sampler=..., pruner=optuna.pruners.HyperbandPruner())
    weir.optuna.optimize(study, "sweep.yaml", trials=40)

sweep.yaml is a file of `weir sweep` with `search: {kind: external, ...}`: it has the job, the space and
the metrics. Samplers, pruners, storage and dashboard are Optuna's; the runs, their checkpoints and
their journal are the sweep's. A trial that is not pruned goes on from its own checkpoint. The same
call continues a study that was killed, if the study's storage lasts.
"""

from __future__ import annotations

from typing import Dict, List, Union

import optuna
from optuna.trial import TrialState

from . import errors
from .sweep import Dimension, Sweep, Trial, Value

__all__ = ["optimize", "suggest"]

NUMBER = "weir.trial"  # of the sweep, as an attribute of Optuna's trial


def _value(trial: optuna.trial.Trial, d: Dimension) -> Value:
    if d.choices is not None:
        return trial.suggest_categorical(d.key, d.choices)
    if d.int:
        return trial.suggest_int(d.key, int(d.min), int(d.max), step=int(d.step) or 1, log=d.log)
    return trial.suggest_float(d.key, d.min, d.max, step=d.step or None, log=d.log)


def suggest(trial: optuna.trial.Trial, space: List[Dimension]) -> Dict[str, Value]:
    """Settings for a trial of the sweep, by Optuna's sampler."""
    settings: Dict[str, Value] = {}
    for d in space:
        if d.when is None or settings.get(d.when) in d.when_choices:
            settings[d.key] = _value(trial, d)
    return settings


class _Driver:
    """A study and the sweep that runs its trials."""

    def __init__(self, study: optuna.study.Study, sweep: Sweep, every: int) -> None:
        self.study, self.sweep, self.every = study, sweep, every
        # by the sweep's number, also the last step that Optuna has heard of
        self.running: Dict[int, optuna.trial.Trial] = {}
        self.reported: Dict[int, int] = {}

    def begin(self, trial: optuna.trial.Trial) -> None:
        settings = suggest(trial, self.sweep.space)
        trial.set_user_attr(NUMBER, self.sweep.next_number)  # first: a kill loses no trial
        self.running[self.sweep.begin(settings, min(self.every, self.sweep.passes))] = trial

    def resume(self) -> None:
        """Takes up the trials that an earlier process left."""
        known = dict(self.sweep.trials)
        for frozen in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            number = frozen.user_attrs.get(NUMBER)
            if number is None:
                continue
            trial = optuna.trial.Trial(self.study, frozen._trial_id)
            if number not in known:
                self.begin(trial)  # with the settings that it has
                continue
            self.running[number] = trial
            self.reported[number] = max(frozen.intermediate_values, default=0)
            if known[number].state != "training":
                self.take(known[number])

    def take(self, said: Trial) -> None:
        """Tells Optuna how a trial stands, and goes on with it unless it ends here."""
        trial = self.running.get(said.number)
        if trial is None:
            return  # of a study that does not know it
        if said.state == "failed":
            self.end(said, TrialState.FAIL)
            return
        last = said.steps[-1]
        trial.set_user_attr("weir.violation", last.violation)
        for name, amount in (("seconds", last.seconds), ("samples", last.samples), ("bytes", last.bytes)):
            trial.set_user_attr(f"weir.{name}", amount)
        prunes = len(self.sweep.metrics) == 1
        if prunes:
            for step in said.steps:
                if step.number > self.reported.get(said.number, 0):
                    trial.report(step.values[0], step.number)
            self.reported[said.number] = last.number
        if last.number == self.sweep.passes:
            self.end(said, TrialState.COMPLETE)
        elif prunes and trial.should_prune():
            self.end(said, TrialState.PRUNED)
        else:
            self.sweep.go_on(said.number, min(last.number + self.every, self.sweep.passes))

    def end(self, said: Trial, state: TrialState) -> None:
        trial = self.running.pop(said.number)
        if said.failure:
            trial.set_user_attr("weir.failure", said.failure)
        if state == TrialState.COMPLETE:
            self.study.tell(trial, list(said.values))
        else:
            self.study.tell(trial, state=state)


def _check(study: optuna.study.Study, sweep: Sweep) -> None:
    wanted = ["maximize" if m.maximize else "minimize" for m in sweep.metrics]
    has = [d.name.lower() for d in study.directions]
    if wanted != has:
        names = ", ".join(m.name for m in sweep.metrics)
        raise errors.InvalidError(
            f"the study has the directions {has}, the sweep's metrics ({names}) {wanted}: "
            "create the study with the sweep's"
        )


def optimize(
    study: optuna.study.Study, sweep: Union[str, Sweep], trials: int, every: int = 1
) -> None:
    """Runs until the study has `trials` trials that have ended, or the sweep's budget is spent.

    sweep: the path of its file, or one that runs. every: passes between two looks of the study's
    pruner. As many trials train at a time as the file's `parallel` says. With several metrics
    Optuna does not prune, and trials train to their end. A trial that fails is told as such.

    Raises InvalidError where the study's directions are not those of the metrics.
    """
    if isinstance(sweep, str):
        with Sweep(sweep) as opened:
            optimize(study, opened, trials, every)
        return
    _check(study, sweep)
    driver = _Driver(study, sweep, every if len(sweep.metrics) == 1 else sweep.passes)
    driver.resume()
    while True:
        ended = sum(t.state.is_finished() for t in study.get_trials(deepcopy=False))
        while ended + len(driver.running) < trials and len(driver.running) < sweep.parallel:
            driver.begin(study.ask())
        if not driver.running:
            return
        said = sweep.wait()
        if said is None:
            return  # a larger budget goes on with what runs
        driver.take(said)
