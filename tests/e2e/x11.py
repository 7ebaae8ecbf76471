"""What xdotool cannot do, with Xlib through ctypes: closing a window as a window manager does, and
dropping files into it (XDND)."""
import ctypes
import ctypes.util
import time
from ctypes import c_char_p, c_int, c_long, c_ulong, c_void_p

CLIENT_MESSAGE, SELECTION_NOTIFY, SELECTION_REQUEST = 33, 31, 30
XDND_VERSION = 5


class ClientMessage(ctypes.Structure):
    _fields_ = [("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p),
                ("window", c_ulong), ("message_type", c_ulong), ("format", c_int),
                ("data", c_long * 5)]


class SelectionRequest(ctypes.Structure):
    _fields_ = [("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p),
                ("owner", c_ulong), ("requestor", c_ulong), ("selection", c_ulong),
                ("target", c_ulong), ("property", c_ulong), ("time", c_ulong)]


class Selection(ctypes.Structure):
    _fields_ = [("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p),
                ("requestor", c_ulong), ("selection", c_ulong), ("target", c_ulong),
                ("property", c_ulong), ("time", c_ulong)]


class Event(ctypes.Union):
    _fields_ = [("type", c_int), ("client", ClientMessage), ("request", SelectionRequest),
                ("selection", Selection), ("room", c_long * 24)]


def load():
    name = ctypes.util.find_library("X11")
    if not name:
        return None
    x = ctypes.CDLL(name)
    x.XOpenDisplay.restype = c_void_p
    x.XOpenDisplay.argtypes = [c_char_p]
    x.XDefaultRootWindow.restype = x.XCreateSimpleWindow.restype = c_ulong
    x.XDefaultRootWindow.argtypes = [c_void_p]
    x.XCreateSimpleWindow.argtypes = [c_void_p, c_ulong] + [c_int] * 5 + [c_ulong] * 2
    x.XInternAtom.restype = c_ulong
    x.XInternAtom.argtypes = [c_void_p, c_char_p, c_int]
    x.XSendEvent.argtypes = [c_void_p, c_ulong, c_int, c_long, ctypes.POINTER(Event)]
    x.XSetSelectionOwner.argtypes = [c_void_p, c_ulong, c_ulong, c_ulong]
    x.XChangeProperty.argtypes = [c_void_p, *[c_ulong] * 3, c_int, c_int, c_char_p, c_int]
    x.XNextEvent.argtypes = [c_void_p, ctypes.POINTER(Event)]
    for name in ("XPending", "XFlush", "XCloseDisplay"):
        getattr(x, name).argtypes = [c_void_p]
    return x


class Client:
    """A client of a display; a window's id as xdotool prints it."""

    def __init__(self, display):
        self.x = load()
        if not self.x:
            raise OSError("no libX11")
        self.display = self.x.XOpenDisplay(display.encode())
        if not self.display:
            raise OSError(f"no display {display}")
        root = self.x.XDefaultRootWindow(self.display)
        self.window = self.x.XCreateSimpleWindow(self.display, root, 0, 0, 1, 1, 0, 0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.x.XCloseDisplay(self.display)

    def atom(self, name):
        return self.x.XInternAtom(self.display, name.encode(), 0)

    def send(self, target, kind, *data):
        event = Event()
        event.client = ClientMessage(CLIENT_MESSAGE, 0, 1, self.display, target, self.atom(kind),
                                     32, (c_long * 5)(*data))
        self.x.XSendEvent(self.display, target, 0, 0, ctypes.byref(event))
        self.x.XFlush(self.display)

    def ask_to_close(self, target):
        self.send(int(target), "WM_PROTOCOLS", self.atom("WM_DELETE_WINDOW"), 0)

    def drop(self, target, at, uris, timeout=30):
        """Drops files where the window stands at `at`; whether the window took them."""
        target, wanted = int(target), self.atom("text/uri-list")
        text = "".join(uri + "\r\n" for uri in uris).encode()
        self.x.XSetSelectionOwner(self.display, self.atom("XdndSelection"), self.window, 0)
        self.send(target, "XdndEnter", self.window, XDND_VERSION << 24, wanted, 0, 0)
        self.send(target, "XdndPosition", self.window, 0, int(at[0]) << 16 | int(at[1]), 0,
                  self.atom("XdndActionCopy"))
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not self.x.XPending(self.display):
                time.sleep(0.01)
                continue
            event = Event()
            self.x.XNextEvent(self.display, ctypes.byref(event))
            if event.type == SELECTION_REQUEST:
                self.hand_over(event.request, text)
            elif event.type == CLIENT_MESSAGE:
                kind, data = event.client.message_type, event.client.data
                if kind == self.atom("XdndStatus"):
                    if not data[1] & 1:
                        return False
                    self.send(target, "XdndDrop", self.window, 0, 0, 0, 0)
                elif kind == self.atom("XdndFinished"):
                    return True
        return False

    def hand_over(self, request, text):
        self.x.XChangeProperty(self.display, request.requestor, request.property, request.target, 8,
                               0, text, len(text))
        answer = Event()
        answer.selection = Selection(SELECTION_NOTIFY, 0, 1, self.display, request.requestor,
                                     request.selection, request.target, request.property,
                                     request.time)
        self.x.XSendEvent(self.display, request.requestor, 0, 0, ctypes.byref(answer))
        self.x.XFlush(self.display)
