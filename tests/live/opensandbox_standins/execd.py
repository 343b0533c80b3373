#!/usr/bin/python3 -I
"""Stand-in for `execd`, the daemon in each sandbox: commands, by server-sent events, and uploads."""

import http.client
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from pathlib import Path

PORT = 44772
HANG_UP_S = 3.0
"""Between asking a command to end and ending it."""

HOP_BY_HOP = ("host", "connection", "transfer-encoding", "content-length")

commands = {}
"""Running ones, by id."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def route(self):
        path = self.path
        if path.startswith("/proxy/"):
            _, _, port, rest = path.split("/", 3)
            if int(port) != PORT:
                self.forward(int(port), f"/{rest}")
                return
            path = f"/{rest}"
        url = urllib.parse.urlsplit(path)
        query = urllib.parse.parse_qs(url.query)
        try:
            if (self.command, url.path) == ("GET", "/ping"):
                self.answer(200, {})
            elif (self.command, url.path) == ("POST", "/command"):
                self.run(json.loads(self.body()))
            elif (self.command, url.path) == ("DELETE", "/command"):
                self.interrupt(query["id"][0])
            elif (self.command, url.path) == ("DELETE", "/files"):
                for name in query["path"]:
                    Path(name).unlink()
                self.answer(200, {})
            elif (self.command, url.path) == ("POST", "/files/upload"):
                self.upload(self.body())
            else:
                self.answer(404, {"code": "NOT_FOUND", "message": url.path})
        except (KeyError, ValueError) as error:
            self.answer(400, {"code": "INVALID_REQUEST_BODY", "message": repr(error)})
        except OSError as error:
            self.answer(500, {"code": "RUNTIME_ERROR", "message": str(error)})

    do_GET = do_POST = do_DELETE = route

    def forward(self, port, path):
        """The one published port leads to every other one in the sandbox's network."""
        there = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        there.request(self.command, path, self.body(), headers)
        reply = there.getresponse()
        self.answer(reply.status, json.loads(reply.read() or b"null"))
        there.close()

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(content)

    def run(self, request):
        options = {"cwd": request.get("cwd") or None, "env": os.environ | (request.get("envs") or {})}
        if request.get("uid") is not None:
            options |= {"user": request["uid"], "group": request.get("gid", request["uid"]), "extra_groups": []}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        name = uuid.uuid4().hex
        self.event(type="init", text=name)
        try:
            process = subprocess.Popen(
                request["argv"],
                **options,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.event(type="error", error={"ename": "CommandExecError", "evalue": str(error), "traceback": []})
            return
        commands[name] = process
        timer = threading.Timer(request["timeout"] / 1000, end, [process]) if request.get("timeout") else None
        if timer:
            timer.start()
        try:
            self.relay(process)
        finally:
            commands.pop(name, None)
            if timer:
                timer.cancel()

    def relay(self, process):
        lock = threading.Lock()

        def pass_on(stream, kind):
            for line in stream:
                with lock:
                    self.event(type=kind, text=line.decode("utf-8", "replace").rstrip("\n"))

        readers = [
            threading.Thread(target=pass_on, args=words, daemon=True)
            for words in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        for reader in readers:
            reader.start()
        code = process.wait()
        for reader in readers:
            reader.join(2)
        with lock:
            if code:
                error = {"ename": "CommandExecError", "evalue": str(code), "traceback": []}
                self.event(type="error", error=error)
            else:
                self.event(type="execution_complete", execution_time=1)

    def event(self, **fields):
        fields["timestamp"] = int(time.time() * 1000)
        try:
            self.wfile.write(b"data: " + json.dumps(fields).encode() + b"\n\n")
            self.wfile.flush()
        except OSError:
            pass  # whoever asked has gone; the command goes on until it is interrupted

    def interrupt(self, name):
        process = commands.get(name)
        if process is None:
            self.answer(400, {"code": "NOT_FOUND", "message": name})
            return
        end(process)
        self.answer(200, {})

    def upload(self, body):
        boundary = b"--" + self.headers["Content-Type"].split("boundary=")[1].strip('"').encode()
        about = {}
        for part in body.split(boundary)[1:-1]:
            head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
            if b'name="metadata"' in head:
                about = json.loads(content)
                continue
            path = Path(about["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.removesuffix(b"\r\n"))
            path.chmod(int(str(about["mode"]), 8))
        self.answer(200, {})


def end(process):
    """As the real one does: the group is asked first."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(HANG_UP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    sys.exit(Server(("0.0.0.0", PORT), Handler).serve_forever())
