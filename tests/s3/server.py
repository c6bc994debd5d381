"""A strict S3 server for tests: a few operations, in memory.

It checks more strictly than real servers: the signature (AWS Signature Version 4, recomputed from
the request), that every relevant header is signed, the body against its signed hash, the region,
part sizes, and the ETags of a completed upload. It answers errors as S3 does.

    server.py ACCESS_KEY SECRET_KEY REGION BUCKET [SESSION_TOKEN]

Prints its port, then serves 127.0.0.1.

    POST /-/fail?what=503&count=2&after=0   after `after` requests, `count` fail (what: 503; drop: no
                                            answer; cut: half an answer; lose: executes it without
                                            an answer; forget: answers 200 and keeps nothing; halve:
                                            answers 200 and keeps half)
    GET  /-/requests                        the number of requests, and the open uploads
    POST /-/objects/KEY                     adds an object with this body
"""
import hashlib
import hmac
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape
import re

ACCESS, SECRET, REGION, BUCKET = sys.argv[1:5]
TOKEN = sys.argv[5] if len(sys.argv) > 5 else None
PART_MIN = 5 << 20
PAGE = 7  # keys per page of a list: small, so that lists have several pages

lock = threading.Lock()
objects = {}
uploads = {}
state = {"requests": 0, "fails": []}


class Refused(Exception):
    def __init__(self, status, code, message, extra=""):
        self.status, self.code, self.message, self.extra = status, code, message, extra


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def check_signature(method, raw_path, headers, body):
    auth = headers.get("Authorization")
    if not auth:
        raise Refused(403, "AccessDenied", "the request is not signed")
    m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", auth)
    if not m:
        raise Refused(400, "AuthorizationHeaderMalformed", "not a signature of version 4: " + auth)
    access, date, region, service, signed, signature = m.groups()
    if access != ACCESS:
        raise Refused(403, "InvalidAccessKeyId", "no such key: " + access)
    if region != REGION:
        raise Refused(400, "AuthorizationHeaderMalformed", "the region '%s' is wrong; expecting '%s'" % (region, REGION), "<Region>%s</Region>" % REGION)
    signed = signed.split(";")
    must = {"host", "x-amz-date", "x-amz-content-sha256"} | {k.lower() for k in headers if k.lower().startswith("x-amz-")}
    if service != "s3" or signed != sorted(signed) or not must <= set(signed):
        raise Refused(403, "AccessDenied", "not all of %s are signed: %s" % (sorted(must), signed))
    if TOKEN and headers.get("x-amz-security-token") != TOKEN:
        raise Refused(403, "InvalidToken", "the session token is wrong")
    stamp, digest = headers["x-amz-date"], headers["x-amz-content-sha256"]
    if not stamp.startswith(date):
        raise Refused(403, "AccessDenied", "the dates differ")
    if digest != hashlib.sha256(body).hexdigest():
        raise Refused(400, "XAmzContentSHA256Mismatch", "the body is not what was signed: " + digest)
    path, _, query = raw_path.partition("?")
    pairs = sorted(tuple((p.split("=", 1) + [""])[:2]) for p in query.split("&")) if query else []
    encode = lambda s: urllib.parse.quote(urllib.parse.unquote(s), safe="-_.~")
    canonical = "\n".join([
        method,
        urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
        "&".join(encode(k) + "=" + encode(v) for k, v in pairs),
        "".join("%s:%s\n" % (h, " ".join((headers.get(h) or "").split())) for h in signed),
        ";".join(signed),
        digest,
    ])
    scope = "%s/%s/s3/aws4_request" % (date, region)
    text = "AWS4-HMAC-SHA256\n%s\n%s\n%s" % (stamp, scope, hashlib.sha256(canonical.encode()).hexdigest())
    key = mac(mac(mac(mac(("AWS4" + SECRET).encode(), date), region), "s3"), "aws4_request")
    if hmac.new(key, text.encode(), hashlib.sha256).hexdigest() != signature:
        raise Refused(403, "SignatureDoesNotMatch", "the signature is not of this request and key")


def list_page(q):
    prefix, delimiter, after = q.get("prefix", ""), q.get("delimiter", ""), q.get("continuation-token", "")
    if q.get("list-type") != "2":
        raise Refused(400, "InvalidArgument", "list-type")
    keys = sorted(k for k in objects if k.startswith(prefix) and k > after)
    keys = [k for k in keys if not delimiter or delimiter not in k[len(prefix):]]
    page, more = keys[:PAGE], len(keys) > PAGE
    items = "".join("<Contents><Key>%s</Key><Size>%d</Size></Contents>" % (escape(k), len(objects[k])) for k in page)
    token = "<NextContinuationToken>%s</NextContinuationToken>" % escape(page[-1]) if more else ""
    return "<ListBucketResult><IsTruncated>%s</IsTruncated>%s%s</ListBucketResult>" % (str(more).lower(), items, token)


def complete(key, upload, body):
    if upload not in uploads:
        raise Refused(404, "NoSuchUpload", "there is no such upload")
    parts = uploads[upload][1]
    named = re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag></Part>", body.decode())
    numbers = [int(n) for n, _ in named]
    if not numbers or numbers != sorted(set(numbers)):
        raise Refused(400, "InvalidPartOrder", "parts must rise")
    for n, etag in named:
        if int(n) not in parts or parts[int(n)][0] != etag.replace("&quot;", '"'):
            raise Refused(400, "InvalidPart", "part %s is not that one" % n)
    if any(len(parts[n][1]) < PART_MIN for n in numbers[:-1]):
        raise Refused(400, "EntityTooSmall", "a part but the last has less than 5 MiB")
    objects[key] = b"".join(parts[n][1] for n in numbers)
    del uploads[upload]
    return "<CompleteMultipartUploadResult><ETag>&quot;x&quot;</ETag></CompleteMultipartUploadResult>"


def act(method, key, q, body, headers):
    """Returns the status, the answer's headers and its body."""
    etag = lambda data: '"' + hashlib.md5(data).hexdigest() + '"'
    if key is None:
        if method != "GET":
            raise Refused(405, "MethodNotAllowed", method)
        return 200, {}, list_page(q).encode()
    if method == "PUT" and "partNumber" in q:
        if q["uploadId"] not in uploads:
            raise Refused(404, "NoSuchUpload", "there is no such upload")
        uploads[q["uploadId"]][1][int(q["partNumber"])] = (etag(body), body)
        return 200, {"ETag": etag(body)}, b""
    if method == "PUT":
        objects[key] = body
        return 200, {"ETag": etag(body)}, b""
    if method == "POST" and "uploads" in q:
        upload = "id+/%d" % (len(uploads) + state["requests"])
        uploads[upload] = (key, {})
        return 200, {}, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" % upload).encode()
    if method == "POST" and "uploadId" in q:
        return 200, {}, complete(key, q["uploadId"], body).encode()
    if method == "DELETE" and "uploadId" in q:
        uploads.pop(q["uploadId"], None)
        return 204, {}, b""
    if method == "DELETE":
        objects.pop(key, None)
        return 204, {}, b""
    if key not in objects:
        raise Refused(404, "NoSuchKey", "there is no " + key)
    data = objects[key]
    if method == "HEAD":
        return 200, {"Content-Length": str(len(data)), "ETag": etag(data)}, b""
    span = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("Range", ""))
    if not span:
        return 200, {}, data
    first, last = int(span[1]), int(span[2])
    if first >= len(data):
        raise Refused(416, "InvalidRange", "behind the end")
    return 206, {}, data[first:last + 1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, headers, body, half=False):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if half else body)
        self.close_connection |= half

    def control(self, path, q, body):
        if path.startswith("/-/objects/"):
            objects[urllib.parse.unquote(path)[len("/-/objects/"):]] = body
            return self.say(200, {}, b"")
        if path == "/-/fail":
            state["fails"] = ["no"] * int(q.get("after", 0)) + [q["what"]] * int(q["count"])
            return self.say(200, {}, b"")
        return self.say(200, {}, b"%d %d" % (state["requests"], len(uploads)))

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        q = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if path.startswith("/-/"):
            return self.control(path, q, body)
        with lock:
            state["requests"] += 1
            fail = state["fails"].pop(0) if state["fails"] else "no"
            if fail == "drop":
                self.close_connection = True
                return None
            if fail == "503":
                return self.say(503, {}, b"<Error><Code>SlowDown</Code><Message>later</Message></Error>")
            try:
                check_signature(self.command, self.path, self.headers, body)
                bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
                if bucket != BUCKET:
                    raise Refused(404, "NoSuchBucket", "there is no bucket " + bucket)
                before = objects.get(key)
                status, headers, answer = act(self.command, key or None, q, body, self.headers)
                if fail == "halve" and key in objects:
                    objects[key] = objects[key][:len(objects[key]) // 2]
                elif fail == "forget":
                    objects.pop(key, None) if before is None else objects.__setitem__(key, before)
            except Refused as r:
                text = "<Error><Code>%s</Code><Message>%s</Message>%s</Error>" % (r.code, escape(r.message), r.extra)
                return self.say(r.status, {}, text.encode())
        if fail == "lose":
            self.close_connection = True
            return None
        return self.say(status, headers, answer, half=fail == "cut")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
