#!/usr/bin/env python3
"""A Criteo file as JSON lines, Parquet and Arrow, and how fast pyarrow reads it, for
tests/claims/data 1. Needs pyarrow.

    same_tables.py make ROWS.tsv FOLDER    writes FOLDER/rows.jsonl, snappy.parquet, zstd.parquet and rows.arrow
    same_tables.py read FILE.parquet       prints the seconds of processor time of reading all columns on one core
"""
import json
import os
import sys
import time

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

NAMES = ["clicked"] + [f"n{i}" for i in range(1, 14)] + [f"c{i}" for i in range(1, 27)]
TYPES = {n: pa.int8() if n == "clicked" else pa.int32() if n[0] == "n" else pa.string() for n in NAMES}
GROUP_ROWS, BATCH_ROWS = 200000, 16384


def make(tsv, folder):
    reader = pyarrow.csv.open_csv(
        tsv, read_options=pyarrow.csv.ReadOptions(column_names=NAMES), parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
        convert_options=pyarrow.csv.ConvertOptions(column_types=TYPES, strings_can_be_null=True, null_values=[""]))
    schema = pa.schema(list(TYPES.items()))
    path = lambda name: os.path.join(folder, name)
    with (pq.ParquetWriter(path("snappy.parquet"), schema, compression="snappy") as snappy,
          pq.ParquetWriter(path("zstd.parquet"), schema, compression="zstd") as zstd,
          pa.ipc.new_file(path("rows.arrow"), schema) as arrow, open(path("rows.jsonl"), "w") as lines):
        for batch in reader:
            table = pa.Table.from_batches([batch]).cast(schema)
            snappy.write_table(table, row_group_size=GROUP_ROWS)
            zstd.write_table(table, row_group_size=GROUP_ROWS)
            arrow.write_table(table)
            for row in zip(*table.to_pydict().values()):
                lines.write(json.dumps({k: v for k, v in zip(NAMES, row) if v is not None}, separators=(",", ":")) + "\n")


def read(path):
    pa.set_cpu_count(1)
    began = time.process_time()
    for _ in pq.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS, use_threads=False):
        pass
    print(f"{time.process_time() - began:.3f}")


{"make": make, "read": read}[sys.argv[1]](*sys.argv[2:])
