import unittest

import numpy as np
from support import BATCHES, ROWS, connect, keys_of, servers

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None


@unittest.skipUnless(jax, "no JAX here")
class Jax(unittest.TestCase):
    """The recipe of docs/PYTHON.md: arrays go both ways through DLPack."""

    def test_recipe(self):
        @jax.jit
        def step(rows, labels):
            return jax.value_and_grad(lambda r: jnp.mean((r.sum(1) - labels) ** 2))(rows)

        with servers(passes=10) as s, connect(s) as job:
            table = job.table("rows", width=4, optimizer={"kind": "adam", "lr": 0.05})
            losses = []
            for unit in job.units():
                with unit:
                    for batch in unit.batches(BATCHES):
                        keys = keys_of(unit, batch)
                        rows = jax.dlpack.from_dlpack(batch.pull({table: keys})[table])
                        loss, gradient = step(rows, np.float32(keys % 2))
                        self.assertEqual(gradient.shape, (ROWS, 4))
                        batch.push({table: (keys, gradient)}, copy=False)
                        losses.append(float(loss))
            self.assertLess(np.mean(losses[-10:]), np.mean(losses[:10]) / 10)
            self.assertEqual(job.status().audit, "exact")


if __name__ == "__main__":
    unittest.main()
