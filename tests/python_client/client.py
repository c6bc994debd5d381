"""A trainer in Python over gRPC alone, as docs/PROTOCOL.md says: joins a job, trains one number towards 3 with SGD, in every unit of every pass that it gets, and leaves.

    client.py HOST:PORT      of the server that has the ledger; weir_pb2 and weir_pb2_grpc must be importable (run.sh makes them)
"""
import struct
import sys

import grpc
import weir_pb2 as pb
import weir_pb2_grpc as rpc

PUSH, PULL, INDEX_RAW, DENSE, CHUNK, MASK = 1, 3, 0, 1, 65536, (1 << 64) - 1


def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def with_crc(header, at, rest=b""):
    return header[:at] + struct.pack("<I", crc32c(header + rest)) + header[at + 4:] + rest


def pass_of(unit):
    return getattr(unit, "pass")  # a word of Python's own


def frame(job, kind, partition, table, values, unit=None, batch=0, seen=0):
    """One record with one section: chunk 0 of a dense table, and what is pushed to it."""
    data = struct.pack(f"<{len(values)}f", *values)
    section = struct.pack("<HBBHHIIIIQ", table, 0, INDEX_RAW, 0, 0, 1, CHUNK, 8, len(data), 0) + bytes(8) + data + bytes(-len(data) % 8)
    identity = (pass_of(unit), unit.unit, unit.attempt, batch) if unit else (0, 0, 0, 0)
    record = with_crc(struct.pack("<IIBBHHHQIIIIQQII", 64 + len(section), 0, kind, 0, partition, 1, 0, 1, *identity, seen, 0, 0, 0), 4, section)
    return pb.Data(frame=with_crc(struct.pack("<IBBHIIQQ16s", 0x31524957, 1, 0, 0, 1, 0, len(record), job.generation, job.uuid), 12, b"") + record)


def reply(data):
    """Of its one record: status, applied index, and the section's values."""
    status, = struct.unpack_from("<I", data.frame, 48 + 56)
    applied, = struct.unpack_from("<Q", data.frame, 48 + 40)
    assert status == 0, f"refused: status {status}"
    size = len(data.frame) - 48 - 64 - 32
    return applied, struct.unpack_from(f"<{size // 4}f", data.frame, 48 + 64 + 32) if size > 0 else ()


def hash_u64(x):
    for _ in range(2):
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & MASK
    return x ^ x >> 32


def identity_hash(p, unit, batch, part=0):
    return hash_u64(hash_u64((p << 32 | unit) + 0x9E3779B97F4A7C15 & MASK) ^ hash_u64((batch << 32 | part) + 0xBF58476D1CE4E5B9 & MASK))


def main(address, units=4, batches=5):
    ledger = rpc.LedgerStub(grpc.insecure_channel(address))
    hello = ledger.Join(pb.JoinRequest(wire_version=1, name="python", host="here", dataset=pb.Dataset(fingerprint=42, units=units)))
    me = dict(job=hello.job, worker=hello.worker, incarnation=hello.incarnation)
    servers = [rpc.ParameterServerStub(grpc.insecure_channel(a)) for a in hello.map.servers]
    table = ledger.CreateTable(pb.CreateTableRequest(job=hello.job, table=pb.Table(name="number", kind=DENSE, elements=2, optimizer=pb.Optimizer(lr=0.5),
                                                                                    segments=[pb.InitSegment(elements=2)]))).table
    for server in servers:
        server.RegisterTable(pb.RegisterTableRequest(job=hello.job, table=table))
    partition = table.id % hello.partitions  # of chunk 0
    server, value, sequence = servers[hello.map.server[partition]], (), 1
    while (lease := ledger.Lease(pb.LeaseRequest(sequence=sequence, **me))).state != pb.FINISHED:
        assert lease.status.code == 0, lease.status.text
        if lease.state != pb.UNIT:
            continue
        unit, sequence, count, fingerprint = lease.unit, sequence + 1, [0] * hello.partitions, [0] * hello.partitions
        for batch in range(batches):
            seen, value = reply(server.Pull(frame(hello.job, PULL, partition, table.id, ())))
            reply(server.Push(frame(hello.job, PUSH, partition, table.id, [v - 3 for v in value], unit, batch, seen)))
            count[partition] += 1
            fingerprint[partition] = fingerprint[partition] + identity_hash(pass_of(unit), unit.unit, batch) & MASK
        done = ledger.Commit(pb.CommitRequest(unit=unit.unit, attempt=unit.attempt, batches=batches, totals=pb.PartTotals(count=count, fingerprint=fingerprint),
                                              **{"pass": pass_of(unit)}, **me))
        assert done.status.code == 0, done.status.text
    ledger.Leave(pb.LeaveRequest(**me))
    print("learnt", value)
    return max(abs(v - 3) for v in value) < 1e-3


sys.exit(not main(sys.argv[1]))
