"""curve.py EVENTS [TIME...]: the training loss that a run has written for TensorBoard. Prints its points, and in a last line by how much the mean of the POINTS behind a
TIME (seconds since 1970) is above that of as many before it, at worst, as a share. Fails where there are none behind one."""
import glob
import struct
import sys

POINTS = 5


def fields(message):
    """(number, value) of a protobuf message; bytes, or an int of what has 1, 4 or 8 bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
        yield key >> 3, message[at : at + size]
        at += size


def records(data):
    at = 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        yield data[at + 12 : at + 12 + size]
        at += size + 16


def points(folder):
    """(time, loss), of all runs that have written there"""
    for name in sorted(glob.glob(folder + "/*tfevents*")):
        for record in records(open(name, "rb").read()):
            event = dict(fields(record))
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                if value.get(1) == b"train/loss":
                    yield struct.unpack("<d", event[1])[0], struct.unpack("<f", value[2])[0]


def mean(values):
    return sum(values) / len(values)


curve = sorted(points(sys.argv[1]))
rises = []
for t in map(float, sys.argv[2:]):
    before = [loss for at, loss in curve if at <= t][-POINTS:]
    after = [loss for at, loss in curve if at > t][:POINTS]
    if not before or not after:
        sys.exit(f"no loss is told around {t}")
    rises.append(mean(after) / mean(before) - 1)
print(*(f"{loss:.3f}" for _, loss in curve))
print(f"{max(rises, default=0.0):.4f}")
