"""A search whose trials this process chooses, by hand and by Optuna."""

import contextlib
import json
import math
import os
import tempfile
import unittest

import weir
from weir.sweep import Sweep

try:
    import optuna
    import weir.optuna
except ImportError:
    optuna = None

JOB = """\
job: trials
cluster: {servers: 1, workers: 1, partitions: 2, lease_ms: 3001}
data: {generate: {rows: 4000, ids: 14000, seed: 3}, batch: 128, unit_batches: 4}
model: {kind: fm, dim: 4}
tables:
  embedding: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
  dense: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
train: {passes: 4, threads: 1}
"""
SWEEP = """\
base: job.yaml
out: out
search: {{kind: external, metric: valid.auc, passes: 3{more}}}
space:
  tables.embedding.optimizer.lr: {{min: 1.0e-4, max: 1.0e-1, log: true}}
  tables.dense.optimizer.kind: [adam, momentum]
  tables.dense.optimizer.momentum: {{min: 0.5, max: 0.99, when: {{tables.dense.optimizer.kind: momentum}}}}
"""
RATE, KIND = "tables.embedding.optimizer.lr", "tables.dense.optimizer.kind"
ADAM = {RATE: 0.01, KIND: "adam"}


@contextlib.contextmanager
def sweep_folder(more=""):
    """A job and a sweep, in the working directory."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, text in (("job.yaml", JOB), ("sweep.yaml", SWEEP.format(more=more))):
                with open(name, "w", encoding="utf-8") as f:
                    f.write(text)
            yield
        finally:
            os.chdir(before)


def results():
    with open("out/results.json", encoding="utf-8") as f:
        return {t["trial"]: t for t in json.load(f)["trials"]}


class ByHand(unittest.TestCase):
    def test_trials_go_on_from_their_checkpoints(self):
        with sweep_folder():
            with Sweep("sweep.yaml") as sweep:
                self.assertEqual((sweep.passes, sweep.parallel), (3, 1))
                self.assertEqual([d.key for d in sweep.space][:2], [RATE, KIND])
                self.assertEqual(sweep.space[2].when_choices, ("momentum",))
                self.assertEqual(sweep.begin(ADAM, until=1), 0)
                first = sweep.wait()
                self.assertEqual((first.state, len(first.steps)), ("paused", 1))
            with Sweep("sweep.yaml") as sweep:  # as after a kill
                self.assertEqual(sweep.trials[0], first)
                sweep.go_on(0, until=3)
                whole = sweep.wait()
            self.assertEqual(whole.state, "trained to the end")
            self.assertEqual(whole.steps[0], first.steps[0])
            self.assertEqual(whole.steps[1].number, 3)
            self.assertEqual(whole.steps[1].samples, 3 * first.steps[0].samples)
            self.assertTrue(0 < whole.values[0] < 1)
            self.assertEqual(results()[0]["passes"][1]["measures"][0]["value"], whole.values[0])
            self.assertTrue(os.path.exists("out/best.yaml"))

    def test_what_is_wrong_is_refused(self):
        wrong = [
            ({RATE: 0.5, KIND: "adam"}, 1, f"{RATE} is 0.5; expected a number from 0.0001 to 0.1"),
            ({RATE: 0.01, KIND: "sgd"}, 1, f'{KIND} is "sgd"; expected one of its values'),
            ({RATE: 0.01}, 1, f"{KIND} is nothing"),
            ({**ADAM, "tables.dense.optimizer.momentum": 0.9}, 1, "does not count"),
            ({**ADAM, "model.dim": 8}, 1, "model.dim is not a key"),
            (ADAM, 4, "fewer"),
        ]
        with sweep_folder(), Sweep("sweep.yaml") as sweep:
            for settings, until, why in wrong:
                sweep.begin(settings, until)
                sweep.next_number = 0  # the refused one has begun nothing
                with self.assertRaisesRegex(weir.InvalidError, why):
                    sweep.wait()
            sweep.go_on(7, until=1)
            with self.assertRaisesRegex(weir.InvalidError, "settings"):
                sweep.wait()
            self.assertEqual(sweep.trials, {})

    def test_a_wrong_file_is_an_error(self):
        with sweep_folder(), self.assertRaisesRegex(weir.Error, "status 1"):
            Sweep("absent.yaml")

    def test_the_budget_ends_it(self):
        with sweep_folder(", budget: {samples: 1000}"), Sweep("sweep.yaml") as sweep:
            sweep.begin(ADAM, until=1)
            self.assertEqual(sweep.wait().steps[-1].number, 1)
            sweep.begin({**ADAM, RATE: 0.02}, until=1)
            self.assertIsNone(sweep.wait())
            self.assertEqual(sweep.spent, "samples")


@unittest.skipUnless(optuna, "no Optuna here")
class ByOptuna(unittest.TestCase):
    def setUp(self):
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def study(self, **options):
        return optuna.create_study(
            storage="sqlite:///study.db",
            study_name="s",
            load_if_exists=True,
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=1, n_startup_trials=2),
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
            **options,
        )

    def test_a_study_of_the_sweeps_trials(self):
        with sweep_folder(", parallel: 2"):
            weir.optuna.optimize(self.study(), "sweep.yaml", trials=3)
            weir.optuna.optimize(self.study(), "sweep.yaml", trials=6)  # goes on
            trials, ran = self.study().get_trials(), results()
            self.assertEqual(len(trials), 6)
            self.assertEqual(sorted(t.user_attrs["weir.trial"] for t in trials), sorted(ran))
            self.assertIn(optuna.trial.TrialState.PRUNED, [t.state for t in trials])
            self.assertIn(optuna.trial.TrialState.COMPLETE, [t.state for t in trials])
            for t in trials:
                passes = ran[t.user_attrs["weir.trial"]]["passes"]
                seen = {p["pass"]: p["measures"][0]["value"] for p in passes}
                self.assertEqual(t.intermediate_values, seen)
                self.assertTrue(all(math.isclose(t.params[RATE], float(s.split("=")[1]), rel_tol=1e-5)
                                    for s in passes[0]["set"] if s.startswith(RATE)))

    def test_a_process_that_died_is_taken_over(self):
        with sweep_folder():
            study = self.study()
            with Sweep("sweep.yaml") as sweep:  # a driver that dies after its first step
                trial = study.ask()
                trial.set_user_attr(weir.optuna.NUMBER, sweep.next_number)
                sweep.begin(weir.optuna.suggest(trial, sweep.space), until=1)
                sweep.wait()
            lost = study.ask()  # and before the sweep heard of this one
            weir.optuna.suggest(lost, sweep.space)
            lost.set_user_attr(weir.optuna.NUMBER, 1)
            weir.optuna.optimize(self.study(), "sweep.yaml", trials=2)
            self.assertTrue(all(t.state.is_finished() for t in study.get_trials()))
            self.assertEqual(sorted(results()), [0, 1])

    def test_directions_must_agree(self):
        with sweep_folder(), self.assertRaisesRegex(weir.InvalidError, "directions"):
            weir.optuna.optimize(optuna.create_study(), "sweep.yaml", trials=1)


if __name__ == "__main__":
    unittest.main()
