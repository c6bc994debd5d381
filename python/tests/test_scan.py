import ctypes
import gc
import unittest

import numpy as np
import weir
from support import job_of
from weir import _arrow


class Scans(unittest.TestCase):
    def rows_of(self, job, width=3, count=50):
        table = job.table("rows", width=width, optimizer="adagrad")
        values = np.arange(count * width, dtype=np.float32).reshape(count, width)
        table.assign(np.arange(count) * 7, values)
        return table, values

    def test_rows_come_once(self):
        with job_of() as job:
            table, values = self.rows_of(job)
            got = {int(k): v for keys, rows in table.scan() for k, v in zip(keys, rows)}
            self.assertEqual(sorted(got), [7 * i for i in range(50)])
            self.assertTrue(all((got[7 * i] == values[i]).all() for i in range(50)))
            _, with_slots = next(iter(table.scan(slots=True)))
            self.assertEqual(with_slots.shape[1], 6)

    def test_dense_table_comes_in_chunks(self):
        with job_of() as job:
            table = job.table("flat", elements=weir.CHUNK + 5)
            values = np.arange(weir.CHUNK + 5, dtype=np.float32)
            table.assign(None, values)
            got = {int(k[0]): v[0] for k, v in table.scan()}
            self.assertTrue((np.concatenate([got[0], got[1]]) == values).all())

    def test_scan_ends_with_its_job(self):
        with job_of() as job:
            scan = iter(self.rows_of(job)[0].scan())
            next(scan)
            job.close()
            with self.assertRaises(weir.ClosedError):
                for _ in scan:
                    pass

    # A consumer of the C stream, written against Arrow's page alone.
    def read_stream(self, capsule):
        stream = _arrow._Stream.from_address(
            _arrow._capsule_pointer(id(capsule), b"arrow_array_stream")
        )
        at = ctypes.addressof(stream)
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        schema = _arrow._Schema()
        self.assertEqual(call(stream.get_schema)(at, ctypes.addressof(schema)), 0)
        columns = [schema.children[i].contents for i in range(schema.n_children)]
        formats = [(c.name.decode(), c.format.decode()) for c in columns]
        release(schema.release)(ctypes.addressof(schema))
        keys, floats = [], []
        while True:
            array = _arrow._Array()
            status = call(stream.get_next)(at, ctypes.addressof(array))
            if status:
                text = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(stream.get_last_error)(at)
                raise OSError(status, text.decode())
            if not array.release:
                break
            key, values = (array.children[i].contents for i in range(2))
            item = values.children[0].contents
            keys.append(
                np.ctypeslib.as_array(
                    (ctypes.c_uint64 * key.length).from_address(key.buffers[1])
                ).copy()
            )
            floats.append(
                np.ctypeslib.as_array(
                    (ctypes.c_float * item.length).from_address(item.buffers[1])
                ).copy()
            )
            release(array.release)(ctypes.addressof(array))
        return formats, np.concatenate(keys), np.concatenate(floats)

    def test_arrow_stream(self):
        with job_of() as job:
            table, values = self.rows_of(job)
            capsule = table.scan().__arrow_c_stream__()
            formats, keys, floats = self.read_stream(capsule)
            self.assertEqual(formats, [("key", "L"), ("values", "+w:3")])
            self.assertTrue((floats.reshape(-1, 3) == values[keys // 7]).all())
            del capsule
            unread = table.scan(slots=True).__arrow_c_stream__()
            del unread
            gc.collect()
            self.assertEqual(_arrow._alive, {})
            self.assertEqual(job._handle.scanners, set())

    def test_arrow_stream_reports_errors(self):
        with job_of() as job:
            capsule = self.rows_of(job)[0].scan().__arrow_c_stream__()
            job.close()
            with self.assertRaisesRegex(OSError, "closed"):
                self.read_stream(capsule)

    def test_pyarrow(self):
        try:
            import pyarrow
        except ImportError:
            self.skipTest("no pyarrow here")
        with job_of() as job:
            table, values = self.rows_of(job)
            read = pyarrow.table(table.scan()).sort_by("key")
            self.assertEqual(read["key"].to_pylist(), [7 * i for i in range(50)])
            self.assertEqual(read["values"].to_pylist(), values.tolist())


if __name__ == "__main__":
    unittest.main()
