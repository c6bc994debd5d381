"""Reads a token file (see the byte diagram in worker/data/tokens/token_file.h)."""
import struct
import sys


def read(path):
    """A dict of the header, and its documents: lists of (id, whether it counts)."""
    b = open(path, "rb").read()
    names = ("magic", "version", "crc", "fingerprint", "tokens", "documents", "vocabulary", "width", "flags", "eos", "ends_at", "counted_at", "checksums_at",
             "checksums", "checksums_crc", "counted", "identity", "bad_records", "replaced")
    h = dict(zip(names, struct.unpack_from("<8sII16sQQIIIIQQQIIQQQQ", b)))
    assert h["magic"] == b"WEIRTOKS" and h["version"] == 1, path
    ids = struct.unpack_from("<%d%s" % (h["tokens"], "H" if h["width"] == 2 else "I"), b, 128)
    ends = struct.unpack_from("<%dQ" % h["documents"], b, h["ends_at"])
    counts = [not h["flags"] & 1 or b[h["counted_at"] + i // 8] >> i % 8 & 1 for i in range(h["tokens"])]
    return h, [list(zip(ids[first:end], counts[first:end])) for first, end in zip((0, *ends), ends)]


if __name__ == "__main__":
    header, documents = read(sys.argv[1])
    for document in documents:
        print(" ".join(str(i) for i, _ in document))
