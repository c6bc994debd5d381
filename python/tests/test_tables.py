import unittest

import weir
from support import job_of
from weir import errors, specs
from weir._library import ffi, lib, text_of


class Descriptions(unittest.TestCase):
    def test_each_status_has_a_class(self):
        for number, name in ffi.typeof("weir_status").elements.items():
            short = text_of(lib.weir_status_name(number))
            self.assertEqual(name, "WEIR_" + short)
            if number:
                made = errors.of_status(short, "a sentence")
                self.assertEqual((made.status, str(made)), (short, "a sentence"))
                self.assertIn(type(made).__name__, weir.errors.__all__)

    def spec(self, **given):
        whole = dict(
            width=0,
            elements=0,
            optimizer="adam",
            mode="async",
            push="fp32",
            pull="fp32",
            admission="none",
            eviction={},
            init="zero",
            seed=0,
        )
        return specs.make_spec("t", *{**whole, **given}.values())[0]

    def test_classes_dicts_and_words_are_alike(self):
        forms = ["adamw", {"kind": "adamw"}, weir.Optimizer("adamw")]
        got = [
            bytes(ffi.buffer(ffi.addressof(self.spec(width=4, optimizer=form), "optimizer")))
            for form in forms
        ]
        self.assertEqual(len(set(got)), 1)

    def test_each_word_of_the_headers_is_known(self):
        for kind in ffi.typeof("weir_optimizer_kind").relements:
            if kind.startswith("WEIR_OPT_"):
                self.spec(width=4, optimizer=kind[9:].lower())
        for codec in ffi.typeof("weir_codec").relements:
            self.spec(elements=4, push=codec[11:].lower(), pull=codec[11:].lower())

    def test_unused_fields_are_zero(self):
        spec = self.spec(width=4)
        self.assertEqual(
            (spec.push.density, spec.push.rows, spec.push.feedback, spec.pull.every),
            (0, 0, False, 0),
        )
        spec = self.spec(
            elements=4,
            push={"codec": "topk", "density": 0.125},
            mode={"kind": "local", "steps": 8, "fragments": 2},
        )
        self.assertEqual((spec.push.density, spec.push.feedback), (0.125, True))
        self.assertEqual(
            (spec.mode.kind, spec.mode.local_steps, spec.mode.fragments), (lib.WEIR_SYNC, 8, 2)
        )

    def test_mistakes_are_named(self):
        wrong = [
            (dict(width=4, optimizer={"kind": "adm"}), "adm.*adam"),
            (dict(width=4, optimizer={"rate": 1}), "rate.*lr"),
            (dict(width=4, elements=4), "either"),
            (dict(), "either"),
            (dict(width=4, mode={"kind": "local", "steps": 4}), "dense"),
            (dict(width=4, push={"codec": "int9"}), "int9"),
            (dict(width=4, push={"rows": 0}), "rows"),
            (dict(width=-1), "t:"),
            (dict(width="4"), "t:"),
            (dict(width=4, optimizer=3), "int"),
        ]
        for given, words in wrong:
            with self.subTest(given=given), self.assertRaisesRegex(weir.InvalidError, words):
                self.spec(**given)

    def test_job_lists_its_tables(self):
        with job_of() as job:
            self.assertEqual(job.tables(), [])
            job.table("rows", width=4, optimizer={"kind": "adagrad", "lr": 0.5}, pull="bf16")
            job.table("flat", elements=70000, mode="sync", push="topk")
            rows, flat = job.tables()
            self.assertEqual(
                (rows.name, rows.width, rows.optimizer, rows.pull), ("rows", 4, "adagrad", "bf16")
            )
            self.assertEqual(
                (flat.elements, flat.mode, flat.push, flat.lr),
                (70000, "sync", "topk", job.find("flat").spec.lr),
            )


if __name__ == "__main__":
    unittest.main()
