#!/usr/bin/env python3
"""Writes the inputs of llm.c's train_gpt2 to FOLDER: gpt2_124M.bin (its checkpoint format, version
3) with random weights, and token files of random tokens.

    make_llm_c_inputs.py FOLDER
"""
import os
import sys

import numpy as np

POSITIONS, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED = 1024, 50257, 12, 12, 768, 50304


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, rng = sys.argv[1], np.random.default_rng(1)
    with open(os.path.join(folder, "gpt2_124M.bin"), "wb") as f:

        def header(*numbers):
            np.array(numbers + (0,) * (256 - len(numbers)), np.int32).tofile(f)

        def normal(*shape):
            (0.02 * rng.standard_normal(shape, dtype=np.float32)).tofile(f)

        def constant(value, *shape):
            np.full(shape, value, np.float32).tofile(f)

        header(20240326, 3, POSITIONS, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED)
        normal(PADDED, WIDTH)  # token and position embeddings
        normal(POSITIONS, WIDTH)
        for shape, bias in (((3 * WIDTH, WIDTH), 3 * WIDTH), ((WIDTH, WIDTH), WIDTH), ((4 * WIDTH, WIDTH), 4 * WIDTH), ((WIDTH, 4 * WIDTH), WIDTH)):
            # The norm before qkv, or before fc.
            if shape in ((3 * WIDTH, WIDTH), (4 * WIDTH, WIDTH)):
                constant(1, LAYERS, WIDTH)
                constant(0, LAYERS, WIDTH)
            normal(LAYERS, *shape)
            constant(0, LAYERS, bias)
        constant(1, WIDTH)
        constant(0, WIDTH)
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data, exist_ok=True)
    for part, tokens in (("train", 100_000), ("val", 20_000)):
        with open(os.path.join(data, f"tiny_shakespeare_{part}.bin"), "wb") as f:
            np.array((20240520, 1, tokens) + (0,) * 253, np.int32).tofile(f)
            rng.integers(0, VOCABULARY, tokens).astype(np.uint16).tofile(f)


if __name__ == "__main__":
    main()
