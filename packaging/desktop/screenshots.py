"""The pictures that screenshots.sh takes: a conversation with SmolLM2 and its layer map, in the
dark; a comparison, on a prompt that was not asked before, in the light. One thread: the other core
draws."""
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = subprocess.run([sys.executable, ROOT / "models/fetch.py", "smollm2-135m-instruct-q4_1"],
                       check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
sys.path.insert(0, str(ROOT / "tests/e2e"))  # whose programs have a cache of their own
import gui_window  # noqa: E402

MESSAGES = ("Who are you?", "Correct the spelling: The qick brown fox jumps over the lazy dog, and "
            "the lazy dog sleeps. Then write it again in capitals.")
COMPARED = "List three fruits and say what each tastes like."
SETTLE = 1.5  # seconds: guesses of all layers, and the caret away from the picture


def ask(window, message):
    replies = float(window.value("chat.replies"))
    window.click("chat.input")
    window.type(message)
    window.key("Return")
    window.wait(lambda ui: float(ui["values"]["chat.replies"]) == replies + 1
                and ui["values"]["chat.busy"] == "no", "end of the reply")


def take(screen, folder, name, arguments, act):
    with tempfile.TemporaryDirectory() as home:
        window = gui_window.Window(screen, home, "-m", MODEL, "-t", "1", "--temp", "0", "--size",
                                   "1280x800", "--scale", "1", *arguments)
        try:
            window.wait_value("model.state", "ready")
            act(window)
            window.move((1400, 900))  # beside the window
            time.sleep(SETTLE)
            path = folder / f"{name}.png"
            window.picture().write_png(path)
            print(path)
        finally:
            window.close()


def chat(window):
    for message in MESSAGES:
        ask(window, message)


def comparison(window):
    ask(window, MESSAGES[0])
    window.click("tab.compare")
    window.click("compare.prompt")
    window.key("ctrl+a")
    window.type(COMPARED)
    window.click("compare.start")
    window.wait_value("compare.identical", "yes")


def main():
    reason = gui_window.missing()
    if reason:
        sys.exit(f"screenshots: {reason}")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    screen = gui_window.Screen()
    try:
        take(screen, folder, "chat", ["--theme", "dark"], chat)
        take(screen, folder, "race", ["--theme", "light"], comparison)
    finally:
        screen.close()


if __name__ == "__main__":
    main()
