"""A web server for tests: serves the files of a folder, by ranges, and fails on command.

    web.py FOLDER      prints its port, then serves 127.0.0.1

    POST /-/fail?what=503&count=2&after=0   after `after` requests, `count` fail (what: 503; drop: no
                                            answer; cut: half an answer; whole: ignores the range;
                                            replace: changes the file, keeping its size)
    GET  /-/sent                            bytes of files sent since the last such request
    /-/to/N/PATH                            redirects N times, then to PATH
"""
import os
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder = os.path.realpath(sys.argv[1])
lock = threading.Lock()
state = {"fails": [], "sent": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", headers=(), send=None):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if send is None else body[:send])
        self.close_connection |= send is not None

    def control(self, path, q):
        with lock:
            if path == "/-/fail":
                state["fails"] = ["no"] * int(q.get("after", 0)) + [q["what"]] * int(q["count"])
                return self.say(200)
            if path == "/-/sent":
                sent, state["sent"] = state["sent"], 0
                return self.say(200, b"%d" % sent)
        m = re.fullmatch(r"/-/to/(\d+)/(.*)", path)
        n = int(m[1])
        return self.say(302, b"elsewhere", [("Location", "/-/to/%d/%s" % (n - 1, m[2]) if n > 1 else "/" + m[2])])

    def handle_one(self):
        path, _, query = self.path.partition("?")
        if path.startswith("/-/"):
            return self.control(path, dict(urllib.parse.parse_qsl(query)))
        with lock:
            fail = state["fails"].pop(0) if state["fails"] else "no"
        if fail == "drop":
            self.close_connection = True
            return None
        if fail == "503":
            return self.say(503, b"later")
        file = os.path.realpath(folder + "/" + urllib.parse.unquote(path))
        if not file.startswith(folder + "/") or not os.path.isfile(file):
            return self.say(404, b"<html>not here</html>")
        if fail == "replace":
            replaced = os.stat(file).st_mtime_ns + 1
            os.utime(file, ns=(replaced, replaced))
        data = open(file, "rb").read()
        status, stat = 200, os.stat(file)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if span and fail != "whole":
            if int(span[1]) >= len(data):
                return self.say(416)
            status, data = 206, data[int(span[1]):int(span[2]) + 1]
        send = len(data) // 2 if fail == "cut" else None
        with lock:
            state["sent"] += 0 if self.command == "HEAD" else len(data) if send is None else send
        return self.say(status, data, [("ETag", '"%d-%d"' % (stat.st_size, stat.st_mtime_ns))], send)

    do_GET = do_HEAD = do_POST = handle_one


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
