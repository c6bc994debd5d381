"""A trainer in Python that only uses gRPC and docs/PROTOCOL.md: client.py HOST:PORT joins that job,
trains two numbers towards 3 by SGD in each unit that it gets, and leaves."""
import struct
import sys

import grpc
import weir_pb2 as pb
import weir_pb2_grpc as rpc

PUSH, PULL, UNITS, BATCHES, MASK = 1, 3, 4, 5, 2**64 - 1


def with_crc(header, at, rest=b""):
    crc = 2**32 - 1
    for bit in (byte >> i & 1 for byte in header + rest for i in range(8)):
        crc = crc >> 1 ^ 0x82F63B78 * ((crc ^ bit) & 1)
    return header[:at] + struct.pack("<I", crc ^ 2**32 - 1) + header[at + 4:] + rest


def hash64(x):
    for _ in range(2):
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & MASK
    return x ^ x >> 32


def ask(call, kind, job, partition, table, seen=0, identity=(0, 0, 0, 0), values=b""):
    """Sends a frame of one record with one section, for chunk 0 of a dense table. Returns the log
    index and the section's values from the answer."""
    section = struct.pack("<HBBHHIIIIQQ", table, 0, 0, 0, 0, 1, 65536, 8, len(values), 0, 0) + values
    record = with_crc(struct.pack("<IIBBHHHQ4IQQII", 64 + len(section), 0, kind, 0, partition, 1, 0, 1, *identity, seen, 0, 0, 0), 4, section)
    frame = with_crc(struct.pack("<IBBHIIQQ16s", 0x31524957, 1, 0, 0, 1, 0, len(record), job.generation, job.uuid), 12) + record
    answer = call(pb.Data(frame=frame)).frame
    index, _, status = struct.unpack_from("<QQI", answer, 48 + 40)
    assert status == 0, f"refused: status {status}"
    return index, answer[48 + 64 + 32:]


def train(ledger):
    joined = ledger.Join(pb.JoinRequest(wire_version=1, name="python", dataset=pb.Dataset(fingerprint=42, units=UNITS)))
    job, me = joined.job, dict(job=joined.job, worker=joined.worker, incarnation=joined.incarnation)
    # Dense, by SGD, from 0.
    numbers = pb.Table(name="numbers", kind=1, elements=2, optimizer=pb.Optimizer(lr=0.5), segments=[pb.InitSegment(elements=2)])
    table = ledger.CreateTable(pb.CreateTableRequest(job=job, table=numbers)).table
    servers = [rpc.ParameterServerStub(grpc.insecure_channel(address)) for address in joined.map.servers]
    for server in servers:
        server.RegisterTable(pb.RegisterTableRequest(job=job, table=table))
    mine = table.id % joined.partitions  # the partition of chunk 0
    server, sequence = servers[joined.map.server[mine]], 1
    while (lease := ledger.Lease(pb.LeaseRequest(sequence=sequence, **me))).state in (pb.UNIT, pb.WAIT):
        if lease.state == pb.WAIT:
            continue
        # `pass` is a Python keyword.
        unit, number, hashes, sequence = lease.unit, getattr(lease.unit, "pass"), 0, sequence + 1
        for batch in range(BATCHES):
            seen, data = ask(server.Pull, PULL, job, mine, table.id)
            value = struct.unpack("<2f", data)
            ask(server.Push, PUSH, job, mine, table.id, seen, (number, unit.unit, unit.attempt, batch), struct.pack("<2f", *(v - 3 for v in value)))
            hashes += hash64(hash64((number << 32 | unit.unit) + 0x9E3779B97F4A7C15 & MASK) ^ hash64((batch << 32) + 0xBF58476D1CE4E5B9 & MASK))
        own = [p == mine for p in range(joined.partitions)]
        totals = pb.PartTotals(count=[BATCHES * is_mine for is_mine in own], fingerprint=[(hashes & MASK) * is_mine for is_mine in own])
        done = ledger.Commit(pb.CommitRequest(unit=unit.unit, attempt=unit.attempt, batches=BATCHES, totals=totals, **{"pass": number}, **me))
        assert done.status.code == 0, done.status.text
    ledger.Leave(pb.LeaveRequest(**me))
    print("learnt", value)
    return lease.state == pb.FINISHED and max(abs(v - 3) for v in value) < 1e-3


sys.exit(not train(rpc.LedgerStub(grpc.insecure_channel(sys.argv[1]))))
