"""A headless Chromium, driven through its remote debugging pipe: JSON ended by zero bytes on file
descriptors 3 (to it) and 4 (from it). Standard library only."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


class Page:
    """One page at `url`, shown to nobody."""

    def __init__(self, url, timeout=60):
        self.timeout, self.number, self.rest = timeout, 0, b""
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.to = os.pipe()
        self.source, theirs_out = os.pipe()

        def take_pipes():  # from above: neither may lie where the other goes
            high = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        # As root, which tests in containers run as, it has no sandbox.
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}",
             "--window-size=1280,800"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=take_pipes, close_fds=False, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.session = None
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                data = os.read(self.source, 1 << 16)
                if not data:
                    raise AssertionError("Chromium went away")
                self.rest += data
            line, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        """What JavaScript gives, a promise's value too."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression):
        """Its first value that is true."""
        deadline = time.monotonic() + self.timeout
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"after {self.timeout} s still not: {expression}; the page: "
                                     + self.value("document.body.innerText"))
            time.sleep(0.02)
        return value

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key):
        code = {"Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text="\r",
                      windowsVirtualKeyCode=code)

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its helpers too, which write to the folder
        self.process.wait()
        os.close(self.to)
        while os.read(self.source, 1 << 16):  # until the last of them is gone
            pass
        os.close(self.source)
        self.folder.cleanup()
