"""What end-to-end tests of train-heads have in common: data, and a folder to train in."""
import json
import os

from specbound_process import STORIES, FolderCase, specbound

DIALOGUES = [
    [{"role": "user", "content": f"I need a table for {n} tonight."},
     {"role": "assistant", "content": f"For which restaurant? A table for {n} is fine."},
     {"role": "user", "content": "The Italian one, please."},
     {"role": "assistant", "content": f"Done: {n} people at seven."}]
    for n in ("two", "three", "four", "five", "six", "ten")]
STORY = "Once upon a time there was a little girl called Lily. She had a red ball. " * 40


def jsonl(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects).encode()


class TrainHeads(FolderCase):
    def put(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def train(self, *flags, model=STORIES, out="heads.gguf", status=0):
        result = specbound("train-heads", "-m", model, "-o", self.path(out), *flags)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertFalse(os.path.exists(self.path(out) + ".training"), result.stderr)
        return result

    def small(self):
        return ("--data", self.put("story.txt", STORY.encode()), "--layers", "0-2", "--epochs",
                "1", "--shortlist", "64")

    def refuse(self, *flags, says, status=1, model=STORIES):
        result = specbound("train-heads", "-m", model, "-o", self.path("heads.gguf"), *flags)
        self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
        last = result.stderr.rstrip(b"\n").split(b"\n")[-1]
        self.assertTrue(last.startswith(b"specbound train-heads: "), result.stderr)
        self.assertIn(says, last)
        self.assertFalse(os.path.exists(self.path("heads.gguf")))
        self.assertFalse(os.path.exists(self.path("heads.gguf.training")))
