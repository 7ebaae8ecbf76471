"""A model that says what a test wants: behind a control token of its own each script follows, piece
by piece, to the end token. One layer that adds nothing: the embedding of a token alone decides
which is next."""
import os
import struct

from gguf_file import F32, STRING, GgufFile, Tensor
from specbound_process import DEMO

DIM, FFN = 256, 32
NORMAL, CONTROL, END = 1, 3, 2
WEIGHT = 4.0  # of the one that is next: its logit stands alone


def one_hot_rows(rows, places):
    """`rows` rows of DIM floats, row i with WEIGHT at places[i]."""
    data = bytearray(4 * DIM * rows)
    for row, place in places.items():
        struct.pack_into("<f", data, 4 * (DIM * row + place), WEIGHT)
    return bytes(data)


def make_scripted_model(folder, template, scripts, name="scripted.gguf"):
    """Path of the model. `scripts`: from the control token that ends a prompt to the pieces behind
    it; a piece in a tuple is a control token, too. No piece comes twice, and none is in the demo
    model's vocabulary. Whatever else ends a prompt goes on with the first of them."""
    path = os.path.join(folder, name)
    model = GgufFile(DEMO)
    tokens = list(model.entries["tokenizer.ggml.tokens"][1][1])
    kinds = list(model.entries["tokenizer.ggml.token_type"][1][1])

    def add(piece):
        control = isinstance(piece, tuple)
        tokens.append((piece[0] if control else piece.replace(" ", "\u2581")).encode())
        kinds.append(CONTROL if control else NORMAL)
        return len(tokens) - 1

    embedding, output, state = {}, {}, 0
    for start, pieces in scripts.items():
        ids = [add((start,)), *map(add, pieces)]
        for here, following in zip(ids, ids[1:] + [None]):
            state += 1
            embedding[here] = state
            if following is not None:
                output[following] = state
            else:
                embedding[here] = DIM - 1
    output[END] = DIM - 1
    if state >= DIM - 1:
        raise ValueError(f"{state} pieces, at most {DIM - 2}")
    first = 1  # the state of the first start
    for token in range(len(tokens)):
        embedding.setdefault(token, first)
    model.put("tokenizer.ggml.tokens", tokens)
    model.put("tokenizer.ggml.token_type", kinds)
    model.put("tokenizer.ggml.scores", [0.0] * len(tokens))
    model.put("llama.block_count", 1)
    model.put("llama.feed_forward_length", FFN)
    model.put("llama.context_length", 2048)
    model.put("llama.vocab_size", len(tokens))
    model.entries["tokenizer.chat_template"] = STRING, template.encode()
    shapes = {"attn_q": (DIM, DIM), "attn_k": (DIM, DIM // 2), "attn_v": (DIM, DIM // 2),
              "attn_output": (DIM, DIM), "ffn_gate": (DIM, FFN), "ffn_up": (DIM, FFN),
              "ffn_down": (FFN, DIM)}
    ones = struct.pack(f"<{DIM}f", *[1.0] * DIM)
    rows = (DIM, len(tokens))
    model.tensors = {
        "token_embd.weight": Tensor(rows, F32, one_hot_rows(len(tokens), embedding)),
        "output.weight": Tensor(rows, F32, one_hot_rows(len(tokens), output)),
        "output_norm.weight": Tensor((DIM,), F32, ones),
        "blk.0.attn_norm.weight": Tensor((DIM,), F32, ones),
        "blk.0.ffn_norm.weight": Tensor((DIM,), F32, ones)}
    for tensor, shape in shapes.items():
        model.tensors[f"blk.0.{tensor}.weight"] = Tensor(shape, F32,
                                                         bytes(4 * shape[0] * shape[1]))
    with open(path, "wb") as file:
        file.write(model.bytes())
    return path
