"""A trainer of one's own as a pod runs it: /app/train.py of the image."""
import os
import signal
import threading
import time

import numpy as np
import weir

UNITS, BATCHES, ROWS = 20, 4, 16

leaving = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: leaving.set())
with weir.connect(units=UNITS, dataset="pods", passes=4, timeout=60) as job:
    assert job.name == os.environ["WEIR_NAME"]
    assert 0 <= int(os.environ["RANK"]) < int(os.environ["WORLD_SIZE"])
    table = job.table("counts", width=2, optimizer={"kind": "sgd", "lr": 1})
    for unit in job.units():
        with unit:
            for batch in unit.batches(BATCHES):
                keys = np.random.default_rng((unit.data_unit, batch.index)).choice(100, ROWS, replace=False).astype(np.uint64)
                batch.pull({table: keys})
                time.sleep(0.1)
                batch.push({table: (keys, -np.ones((ROWS, 2), np.float32))})
        if leaving.is_set():
            break
