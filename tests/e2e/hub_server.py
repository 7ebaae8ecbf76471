"""A server that behaves as Hugging Face's hub does: lists of repositories, and files behind a
redirect to another host name. What it should do wrong is set on it; what was asked is recorded."""
import hashlib
import http.server
import json
import threading
import time
import urllib.parse


class Hub:
    def __init__(self):
        self.files = {}     # "OWNER/REPO" -> {path: bytes}
        self.listed = {}    # path -> what the list says of it in place of the truth
        self.lists = {}     # "OWNER/REPO" -> bytes in place of its list
        self.page = None    # entries on a page of a list, with a link to the next one
        self.next_page = None  # link to the next page, in place of the right one
        self.serves = {}    # path -> bytes in place of the file's
        self.asked = []     # (method of asking: "list", "resolve", "cdn", path, headers)
        self.statuses = {}  # kind of asking -> statuses that come first
        self.moved = {}     # "OWNER/REPO" -> its new name
        self.needs_token = None
        self.cut = []       # so many bytes of a file, then the end: for each answer in turn
        self.ranges = True
        self.pages = 0      # answers with a page in place of a whole file
        self.lengths = True  # a file's answer says how long it is
        self.misranged = []  # statuses of answers to ranges that are not what was asked for
        self.stall = 0      # seconds without a byte, of the first answer with a file
        self.piece = None   # (bytes, seconds): how slow a file comes
        self.redirect_to = None  # of a file, in place of the other host name
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_GET(self):
                try:
                    hub.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # who asks may leave at any time

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def url(self, host="127.0.0.1"):
        return f"http://{host}:{self.port}"

    def count(self, kind):
        return sum(1 for asked in self.asked if asked[0] == kind)

    def headers(self, kind):
        return [headers for asked, _, headers in self.asked if asked == kind]

    # ---- answers ----

    def list_of(self, repository):
        entries = [{"type": "directory", "oid": "0", "size": 0, "path": "folder"}]
        for path, data in self.files[repository].items():
            entry = {"type": "file", "oid": "1", "size": len(data), "path": path,
                     "lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data),
                             "pointerSize": 134}}
            entry.update(self.listed.get(path, {}))
            entries.append(entry)
        return json.dumps(entries).encode()

    def answer(self, request):
        path, _, query = urllib.parse.unquote(request.path).partition("?")
        parts = path.strip("/").split("/")
        headers = {name.lower(): value for name, value in request.headers.items()}
        if parts[:2] == ["api", "models"]:
            kind, repository = "list", "/".join(parts[2:4])
        elif parts[2:4] == ["resolve", "main"]:
            kind, repository = "resolve", "/".join(parts[:2])
        else:
            kind, repository = "cdn", "/".join(parts[1:3])
        self.asked.append((kind, path, headers))
        if self.statuses.get(kind):
            status = self.statuses[kind].pop(0)
            return self.send(request, status, b"<html>wait</html>", {"Retry-After": "0"})
        if self.needs_token and kind != "cdn":
            if headers.get("authorization") != "Bearer " + self.needs_token:
                return self.send(request, 401, b"Invalid username or password.")
        if repository in self.moved:
            to = self.moved[repository]
            return self.send(request, 307, b"", {"Location": path.replace(repository, to) +
                                                 ("?" + query if query else "")})
        if repository not in self.files:
            # As the hub: who shows no token does not learn what there is.
            status = 404 if "authorization" in headers else 401
            return self.send(request, status, b"Repository not found")
        if kind == "list":
            data = self.lists.get(repository)
            data = self.list_of(repository) if data is None else data
            return self.send_page(request, path, query, data)
        if kind == "resolve":
            name = "/".join(parts[4:])
            to = self.redirect_to or self.url("localhost") + f"/cdn/{repository}/"
            return self.send(request, 302, b"Found. Redirecting to elsewhere",
                             {"Location": to + urllib.parse.quote(name)})
        return self.send_file(request, "/".join(parts[3:]), repository, headers)

    def send_page(self, request, path, query, data):
        if not self.page:
            return self.send(request, 200, data)
        at = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        entries, end = json.loads(data), at + self.page
        link = self.next_page or self.url() + f"{path}?recursive=true&cursor={end}"
        more = {"Link": f'<{link}>; rel="next"'} if self.next_page or end < len(entries) else {}
        return self.send(request, 200, json.dumps(entries[at:end]).encode(), more)

    def send(self, request, status, data, more=None):
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(more or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    def send_file(self, request, name, repository, headers):
        data = self.serves.get(name, self.files[repository].get(name))
        if data is None:
            return self.send(request, 404, b"not found")
        begin, all_bytes = 0, len(data)
        if "range" in headers and self.ranges:
            begin = int(headers["range"].removeprefix("bytes=").rstrip("-"))
            if begin >= all_bytes:
                return self.send(request, 416, b"", {"Content-Range": f"bytes */{all_bytes}"})
        if not begin and self.pages:
            self.pages -= 1
            return self.send(request, 200, b"<html>proxy</html>")
        if begin and self.misranged:
            return self.send(request, self.misranged.pop(0), b"<html>proxy</html>",
                             {"Content-Range": f"bytes 0-{all_bytes - 1}/{all_bytes}"})
        request.send_response(206 if begin else 200)
        if self.lengths:
            request.send_header("Content-Length", str(all_bytes - begin))
        else:
            request.send_header("Connection", "close")
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{all_bytes - 1}/{all_bytes}")
        request.end_headers()
        if self.stall:
            seconds, self.stall = self.stall, 0
            time.sleep(seconds)
        data = data[begin:]
        if self.cut:
            data = data[:self.cut.pop(0)]
            request.close_connection = True
        size, pause = self.piece or (1 << 16, 0)
        for at in range(0, len(data), size):
            request.wfile.write(data[at:at + size])
            time.sleep(pause)
