"""curve.py EVENTS [TIME...]: the training loss in a run's TensorBoard events. Prints its points.
The last line compares the mean of the POINTS after each TIME (seconds since 1970) with that of as
many before it, and gives the largest increase, as a share. Fails if a TIME has no points after
it."""
import glob
import struct
import sys

POINTS = 5


def fields(message):
    """(number, value) of a protobuf message; bytes, or an int for fields of 1, 4 or 8 bytes."""
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
    """(time, loss) of all runs in the folder"""
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
