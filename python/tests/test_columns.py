import ctypes
import os
import subprocess
import tempfile
import unittest

import numpy as np
import weir
from support import job_of
from weir import _arrow, _library

COLUMNS = [
    {"name": "y", "kind": "label"},
    {"name": "user", "kind": "categorical"},
    {"name": "tags", "kind": "multi", "pooling": "mean"},
    {"name": "price", "kind": "numeric", "transform": "standard", "mean": 2, "std": 4},
]
JOB = """
job: columns
data:
  format: csv
  train: rows.csv
  columns:
    - {name: y, kind: label}
    - {name: user, kind: categorical}
    - {name: tags, kind: multi, pooling: mean}
    - {name: price, kind: numeric, transform: standard, mean: 2, std: 4}
model: {kind: wide_deep}
"""


class Table:
    """A producer of one batch, with the layouts of weir._arrow: y, user, tags, price."""

    def __init__(self, fails=b""):
        self.fails = fails
        self.given = 0
        self.callbacks = [
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self.get_schema),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self.get_next),
            ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.get_last_error),
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.release),
        ]
        self.error = ctypes.create_string_buffer(fails)
        self.released = False

    def get_schema(self, _, out):
        made = [_arrow._Schema() for _ in range(5)]
        y, user, tags, price, item = made
        _arrow._schema(item, "u", "item", [])
        for node, fmt, name in ((y, "l", "y"), (user, "L", "user"), (price, "g", "price")):
            _arrow._schema(node, fmt, name, [])
        _arrow._schema(tags, "+l", "tags", [item])
        _arrow._schema(_arrow._Schema.from_address(out), "+s", "", [y, user, tags, price])
        return 0

    def get_next(self, _, out):
        if self.fails:
            return 5
        self.given += 1
        if self.given > 1:
            ctypes.memset(out, 0, ctypes.sizeof(_arrow._Array))
            return 0
        y, user, tags, price, item = (_arrow._Array() for _ in range(5))
        text = np.frombuffer(b"abba", np.uint8)
        _arrow._array(item, 3, [None, np.array([0, 1, 3, 4], np.int32), text], [])
        _arrow._array(y, 3, [None, np.array([1, 0, 3], np.int64)], [])
        _arrow._array(user, 3, [None, np.array([7, 2**63, 7], np.uint64)], [])
        _arrow._array(tags, 3, [None, np.array([0, 2, 2, 3], np.int32)], [item])
        _arrow._array(price, 3, [None, np.array([10, 2, 0], np.float64)], [])
        _arrow._array(_arrow._Array.from_address(out), 3, [None], [y, user, tags, price])
        return 0

    def get_last_error(self, _):
        return ctypes.addressof(self.error)

    def release(self, at):
        self.released = True
        _arrow._Stream.from_address(at).release = None

    def __arrow_c_stream__(self, requested_schema=None):
        self.stream = _arrow._Stream()
        names = ("get_schema", "get_next", "get_last_error", "release")
        for name, callback in zip(names, self.callbacks):
            setattr(self.stream, name, ctypes.cast(callback, ctypes.c_void_p).value)
        return _arrow._new_capsule(ctypes.addressof(self.stream), _arrow.STREAM_NAME, None)


def key_of(folder, column, value):
    """The key by which the tables of a job hold an id, as `weir key` prints it."""
    job = os.path.join(folder, "job.yaml")
    with open(job, "w") as f:
        f.write(JOB)
    command = [_library.program("weir"), "key", column, value, "--job", job]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


class ColumnsOfStreams(unittest.TestCase):
    def test_keys_and_floats_are_those_of_a_job(self):
        table = Table()
        columns = weir.Columns(table, COLUMNS)
        (rows,) = columns
        with tempfile.TemporaryDirectory() as folder:
            users = [key_of(folder, "user", value) for value in ("7", str(2**63))]
            tags = [key_of(folder, "tags", value) for value in ("a", "bb")]
        self.assertEqual(rows.keys.tolist(), [users[0], *tags, users[1]])
        self.assertEqual(rows.offsets.tolist(), [0, 1, 3, 4, 4])
        self.assertEqual(rows.values.tolist(), [1, 0.5, 0.5, 1])
        self.assertEqual(rows.dense.tolist(), [[2], [0]])
        self.assertEqual(rows.labels.tolist(), [[1], [0]])
        self.assertIsNone(rows.weights)
        self.assertIsNone(rows.groups)
        self.assertEqual(columns.bad_rows, 1)
        self.assertIn("row 3: column 'y': the label is 3", columns.first_bad)
        self.assertEqual(list(columns), [])
        del columns
        self.assertTrue(table.released)

    def test_stream_that_fails_says_why(self):
        columns = weir.Columns(Table(b"the disk is gone"), COLUMNS)
        with self.assertRaisesRegex(weir.IoError, "the disk is gone"):
            next(columns)

    def test_what_does_not_fit_is_refused_by_name(self):
        with self.assertRaisesRegex(weir.InvalidError, "has the column 'price'"):
            weir.Columns(Table(), COLUMNS[:3])
        with self.assertRaisesRegex(weir.Error, "categorial"):
            weir.Columns(Table(), [{"name": "user", "kind": "categorial"}])
        with self.assertRaisesRegex(weir.InvalidError, "type list; expected an object with"):
            weir.Columns([], COLUMNS)
        with job_of() as job:
            table = job.table("rows", width=2)
            table.assign(np.arange(3), np.ones((3, 2), np.float32))
            columns = [
                {"name": "key", "kind": "label", "positive_above": 1},
                {"name": "values", "kind": "multi"},
            ]
            with self.assertRaisesRegex(weir.Error, "column 'values' is"):
                next(weir.Columns(table.scan(), columns))

    def test_pyarrow(self):
        try:
            import pyarrow as pa
            import pyarrow.parquet as parquet
        except ImportError as e:
            self.skipTest(f"there is no pyarrow: {e}")
        users = ["u1", "", "u3", "u1"]
        table = pa.table(
            {
                "y": [1, 0, 1, 0],
                "user": pa.array(users).dictionary_encode(),
                "tags": pa.array([["a", "bb"], [], ["a"], None]),
                "price": [10.0, 2.0, None, -2.0],
            }
        )
        (rows,) = weir.Columns(table, COLUMNS)
        with tempfile.TemporaryDirectory() as folder:
            at = rows.offsets.reshape(-1)[:-1:2]
            self.assertEqual(rows.keys[at].tolist(), [key_of(folder, "user", u) for u in users])
            path = os.path.join(folder, "rows.parquet")
            parquet.write_table(table, path, row_group_size=3)
            read = list(weir.Columns(parquet.read_table(path), COLUMNS))
        self.assertEqual(np.concatenate([r.keys for r in read]).tolist(), rows.keys.tolist())
        self.assertEqual(rows.dense[:, 0].tolist(), [2, 0, 0, -1])
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
        batches = list(weir.Columns(reader, COLUMNS))
        self.assertEqual([len(b.labels) for b in batches], [2, 2])
        self.assertEqual(np.concatenate([b.keys for b in batches]).tolist(), rows.keys.tolist())


if __name__ == "__main__":
    unittest.main()
