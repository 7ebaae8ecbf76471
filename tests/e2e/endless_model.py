"""The demo model as one that never ends a reply by itself: replies as long as a test needs. Its
heads fit: they are bound to the tensors, which stay."""
import os
import shutil

from gguf_file import GgufFile
from specbound_process import DEMO

CONTEXT = 16384
# Both end a reply; in their places stand bytes that no text has.
BEGIN, END, NO_BEGIN, NO_END = 1, 2, 4, 3


def make_endless_model(folder):
    """Path of the model, with its heads beside it."""
    path = os.path.join(folder, "endless.gguf")
    model = GgufFile(DEMO)
    for name in model.entries:
        if name.endswith(".context_length"):
            model.put(name, CONTEXT)
    model.put("tokenizer.ggml.bos_token_id", NO_BEGIN)
    model.put("tokenizer.ggml.eos_token_id", NO_END)
    texts = list(model.entries["tokenizer.ggml.tokens"][1][1])
    texts[BEGIN], texts[END] = b"[begin]", b"[end]"
    model.put("tokenizer.ggml.tokens", texts)
    with open(path, "wb") as file:
        file.write(model.bytes())
    shutil.copy(DEMO.replace(".gguf", ".heads.gguf"), path.replace(".gguf", ".heads.gguf"))
    return path
