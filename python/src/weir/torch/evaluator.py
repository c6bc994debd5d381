"""Verdicts on passes: an evaluator scores the model after each one."""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from .. import errors
from ..job import Job
from ..work import Evaluation
from .optimizer import load_from

__all__ = ["auc", "binary_scores", "evaluate"]

log = logging.getLogger("weir")

LEAST_PROBABILITY = 1e-15  # a score of 0 or 1 has a finite loss

Figures = Mapping[str, float]


def auc(labels: Any, scores: Any) -> float:
    """Area under the ROC curve: how often a positive scores above a negative. Ties count half.

    labels (n,): above 0 is positive. scores (n,). NaN if one class is missing.
    """
    y = np.asarray(labels).ravel() > 0
    s = np.asarray(scores, np.float64).ravel()
    if y.shape != s.shape:
        raise errors.InvalidError(f"{y.size} labels and {s.size} scores; expected one each")
    positives, negatives = int(y.sum()), int(y.size - y.sum())
    if not positives or not negatives:
        return math.nan
    _, group, counts = np.unique(s, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group.ravel()]  # the mean rank of equal scores
    return float((ranks[y].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def binary_scores(
    model: Callable[[Any], torch.Tensor], batches: Iterable[Tuple[Any, torch.Tensor]]
) -> Dict[str, float]:
    """AUC and log loss of a model whose output is a logit.

    batches: (input, labels) pairs; labels above 0 are positive. model(input) has the labels' shape.
    Returns {"auc", "logloss", "not_numbers"}; scores that are not finite make both figures NaN.
    """
    labels: List[NDArray[Any]] = []
    logits: List[NDArray[Any]] = []
    with torch.no_grad():
        for x, y in batches:
            labels.append(y.cpu().numpy().ravel() > 0)
            logits.append(model(x).float().cpu().numpy().ravel())
    y, z = np.concatenate(labels), np.concatenate(logits).astype(np.float64)
    bad = int((~np.isfinite(z)).sum())
    if bad:
        return {"auc": math.nan, "logloss": math.nan, "not_numbers": bad}
    p = np.clip(1 / (1 + np.exp(-z)), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return {
        "auc": auc(y, z),
        "logloss": float(-np.where(y, np.log(p), np.log(1 - p)).mean()),
        "not_numbers": 0,
    }


def _waits_for(job: Job, evaluation: Evaluation) -> bool:
    """Whether the next pass waits for the verdict. Warns if not."""
    if job.status().pass_ == evaluation.pass_:
        return True
    log.warning(
        "training goes on while pass %d is evaluated, as the job file has no validation data with "
        "train.early_stop or train.keep_best: figures are those of a moment in a later pass, and "
        "passes may be missed",
        evaluation.pass_,
    )
    return False


def evaluate(
    job: Job,
    model: nn.Module,
    score: Callable[[nn.Module], Figures],
    *,
    table: str = "dense",
    patience: int = 0,
    language: bool = False,
) -> List[Dict[str, float]]:
    """Scores the model after each pass, and gives the verdict, until the last one.

    job: an evaluator's connection. model: built as the trainers'; its values come from the servers.
    score: called with the model in evaluation mode; returns logloss and, if there are any, auc and
    not_numbers (`binary_scores`); nothing: the pass has no figures. language: the model has a loss
    and no AUC.
    patience: ends the training after so many passes without a better AUC (loss, for language);
    0: never.

    Returns the figures of each pass that it has judged, with its number as "pass". A job need not
    wait for verdicts (`Job.evaluations`); a warning then says so, once.
    """
    history: List[Dict[str, float]] = []
    waits = True
    best, since = -math.inf, 0
    for evaluation in job.evaluations():
        if waits and not evaluation.last:
            waits = _waits_for(job, evaluation)
        load_from(model, job, table)
        was_training = model.training
        model.eval()
        figures = {**score(model), "pass": evaluation.pass_}
        model.train(was_training)
        history.append(figures)
        merit = -figures.get("logloss", math.nan) if language else figures.get("auc", math.nan)
        since = 0 if merit > best else since + 1
        best = max(best, merit) if merit == merit else best
        log.info("evaluated: %s", figures)
        evaluation.verdict(
            auc=figures.get("auc", math.nan),
            logloss=figures.get("logloss", math.nan),
            not_numbers=int(figures.get("not_numbers", 0)),
            language=language,
            stop=bool(patience and since >= patience),
        )
        if evaluation.last:
            break
    return history
