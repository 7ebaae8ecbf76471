"""A Llama-family forward pass in FP64, read from a GGUF file and run one row at a time.

make_golden.py uses it twice. On F32 files it must agree with Hugging Face transformers, which shows
that the file says what the converter's rules say. Then it is itself the reference for engines: with
K and V rounded to FP16, and on quantized files by the INT8 formula of src/numerics/int8_formula.h,
sums in FP64:

    per row and 32-block   amax = max |x|   dx = f32(amax / 127)   q = rne(x * f32(127 / amax))
    y = sum over blocks of  isum * dw * dx - xsum * mw * dx     (mw: the mins of Q4_1, Q4_K, ...)

with the scale of each 16 of Q6_K in the integers.

What the engine stores in a narrower type is rounded here at the same place: x to FP32 where it is
quantized (normed rows, attention output, the gated product), K (after RoPE) and V to FP16 in the
cache.

needs: pip install gguf numpy
"""

import math

import gguf
import numpy as np

import quantized

QUANT_BLOCK = 32
QUANT_FLOOR = np.float32(1e-30)


class Margins:
    """How near the rounding decisions of some rows came to a tie.

    quant: least distance of x * 127 / amax from a half-integer, in quantization steps.
    half:  least distance of a K or V from the middle of two FP16 numbers, in their spacings.
    route: least distance of the scores of the last expert taken and the first left out.
    A result further from a tie than FP32 noise rounds the same way in every correct engine.
    """

    def __init__(self):
        self.quant = 0.5
        self.half = 0.5
        self.route = math.inf

    def see_quant(self, steps):
        self.quant = min(self.quant, float(np.abs(np.abs(steps - np.floor(steps)) - 0.5).min()))

    def see_half(self, x):
        exponent = np.maximum(np.frexp(np.abs(x))[1] - 1, -14)  # below 2^-14: subnormal spacing
        ulps = x / np.ldexp(1.0, exponent - 10)
        self.half = min(self.half, float(np.abs(np.abs(ulps - np.floor(ulps)) - 0.5).min()))


class Matrix:
    """(n_out, n_in). Float types multiply in FP64, quantized ones by the INT8 formula."""

    def __init__(self, data, kind, n_in):
        self.values = gguf.quants.dequantize(data, kind).astype(np.float64).reshape(-1, n_in)
        self.quantized = kind.name.startswith("Q")
        if self.quantized:
            self.ints, self.scales, self.mins = quantized.int8_form(data, kind)

    def row(self, i):
        return self.values[i]

    def times(self, x, margins):
        if not self.quantized:
            return self.values @ x
        ints, scale = quantize_row(x, margins)
        isum = np.einsum("obk,bk->ob", self.ints, ints)  # exact: small integers in FP64
        return ((isum * self.scales - ints.sum(axis=1) * self.mins) * scale).sum(axis=1)


def quantize_row(x, margins):
    """x (n) -> integers (n/32, 32) and scales (n/32), every step in FP32."""
    x32 = x.astype(np.float32).reshape(-1, QUANT_BLOCK)
    amax = np.abs(x32).max(axis=1)
    live = amax >= QUANT_FLOOR
    safe = np.where(live, amax, np.float32(1))
    inverse = np.float32(127) / safe
    scale = np.where(live, amax / np.float32(127), np.float32(0))
    ints = np.where(live[:, None], np.rint(x32 * inverse[:, None]), np.float32(0))
    assert ints.dtype == np.float32 and scale.dtype == np.float32
    exact = x.reshape(-1, QUANT_BLOCK)
    margins.see_quant(exact * (127.0 / np.abs(exact).max(axis=1, initial=1e-300, keepdims=True)))
    return ints.astype(np.float64), scale.astype(np.float64)


def norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softcap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu(x):
    """The tanh approximation."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))


class Model:
    """half_cache: K and V rounded to FP16, as our engines store them; False is the textbook.
    n_ctx: the context that long and short RoPE factors are chosen by; None for the file's."""

    def __init__(self, path, half_cache, n_ctx=None):
        reader = gguf.GGUFReader(path)
        self.arch = reader.get_field("general.architecture").contents()

        def number(key, default=None):
            found = reader.get_field(f"{self.arch}.{key}")
            return default if found is None else found.contents()

        self.dim = number("embedding_length")
        self.n_layers = number("block_count")
        self.n_heads = number("attention.head_count")
        self.n_kv_heads = number("attention.head_count_kv")
        self.head_dim = number("attention.key_length", self.dim // self.n_heads)
        self.eps = number("attention.layer_norm_rms_epsilon")
        self.half_cache = half_cache
        self.interleaved = self.arch in ("llama", "smollm3", "ernie4_5")
        self.rope_dim = number("rope.dimension_count", self.head_dim)
        self.rope_factor = number("rope.scaling.attn_factor", 1.0)
        self.window = number("attention.sliding_window", 0)
        self.attn_softcap = number("attn_logit_softcapping", 0.0)
        self.final_softcap = number("final_logit_softcapping", 0.0)
        gemma = self.arch in ("gemma", "gemma2", "gemma3")
        self.embedding_scale = math.sqrt(self.dim) if gemma else 1.0
        self.activation = gelu if gemma else silu

        self.n_experts_used = number("expert_used_count", 0)
        self.vectors, self.matrices, self.experts = {}, {}, {}
        for tensor in reader.tensors:
            if len(tensor.shape) == 1:
                self.vectors[tensor.name] = np.array(tensor.data, dtype=np.float64)
            elif len(tensor.shape) == 3:
                self.experts[tensor.name] = [
                    Matrix(data, tensor.tensor_type, int(tensor.shape[0])) for data in tensor.data]
            else:
                self.matrices[tensor.name] = Matrix(tensor.data, tensor.tensor_type,
                                                    int(tensor.shape[0]))
            if tensor.name == "token_embd.weight":
                self.vocab_size = int(tensor.shape[1])

        exponents = -np.arange(0, self.rope_dim, 2) / self.rope_dim
        self.windowed_frequency = number("rope.freq_base_swa", 10000.0) ** exponents  # gemma3's
        self.rope_theta = number("rope.freq_base", 10000.0)
        frequency = self.rope_theta ** exponents
        longest = number("context_length") if n_ctx is None else n_ctx
        is_long = longest > number("rope.scaling.original_context_length", math.inf)
        for name in ("rope_freqs", "rope_factors_long" if is_long else "rope_factors_short"):
            if name + ".weight" in self.vectors:
                frequency = frequency / self.vectors[name + ".weight"]
        factor = number("rope.scaling.factor", 1.0)
        if number("rope.scaling.type") == "yarn":
            part = self.yarn_part(number)
            self.frequency = frequency * (part / factor + 1 - part)
            self.rope_factor *= 1 + 0.1 * math.log(factor)
        else:
            self.frequency = frequency / factor
        self.truncate(0)

    def yarn_part(self, number):
        """How much of the factor slows each pair."""
        context = number("rope.scaling.original_context_length")
        low, high = (self.rope_dim * math.log(context / (number(f"rope.scaling.yarn_{key}", usual)
                                                         * 2 * math.pi))
                     / (2 * math.log(number("rope.freq_base")))
                     for key, usual in (("beta_fast", 32.0), ("beta_slow", 1.0)))
        low, high = max(math.floor(low), 0), min(math.ceil(high), self.rope_dim - 1)
        return np.clip((np.arange(self.rope_dim // 2) - low) / max(high - low, 1e-3), 0.0, 1.0)

    def truncate(self, length):
        """Forgets every position from `length` on."""
        if length == 0:
            self.keys = [[] for _ in range(self.n_layers)]  # [layer][pos] (n_kv_heads, head_dim)
            self.values = [[] for _ in range(self.n_layers)]
        for cache in self.keys + self.values:
            del cache[length:]

    def window_of(self, layer):
        """Positions that a row of this layer (from 0) sees; 0 for all."""
        step = {"gemma2": 2, "gemma3": 6}.get(self.arch, self.n_layers + 1)
        return 0 if layer % step == step - 1 else self.window

    def rope(self, x, pos, layer):  # x (heads, head_dim)
        if self.arch == "smollm3" and layer % 4 == 3:
            return x
        local = self.arch == "gemma3" and self.window_of(layer) > 0
        angles = pos * (self.windowed_frequency if local else self.frequency)
        cos, sin = np.cos(angles), np.sin(angles)
        cos, sin = cos * self.rope_factor, sin * self.rope_factor
        n, half = self.rope_dim, self.rope_dim // 2
        a, b = (x[:, 0:n:2], x[:, 1:n:2]) if self.interleaved else (x[:, :half], x[:, half:n])
        out = x.copy()
        if self.interleaved:
            out[:, 0:n:2], out[:, 1:n:2] = a * cos - b * sin, a * sin + b * cos
        else:
            out[:, :half], out[:, half:n] = a * cos - b * sin, a * sin + b * cos
        return out

    def to_cache(self, x, margins):
        if not self.half_cache:
            return x
        margins.see_half(x)
        return x.astype(np.float32).astype(np.float16).astype(np.float64)

    def attention(self, q, layer):  # q (n_heads, head_dim) -> (q_dim)
        seen = slice(-self.window_of(layer), None)  # -0: all
        keys = np.stack(self.keys[layer][seen], 1)
        values = np.stack(self.values[layer][seen], 1)
        group = self.n_heads // self.n_kv_heads
        out = np.empty_like(q)
        for head in range(self.n_heads):
            scores = keys[head // group] @ q[head] / math.sqrt(self.head_dim)
            scores = softcap(scores, self.attn_softcap)
            weights = np.exp(scores - scores.max())
            out[head] = weights / weights.sum() @ values[head // group]
        return out.reshape(-1)

    def linear(self, name, x, margins):
        y = self.matrices[name + ".weight"].times(x, margins)
        return y + self.vectors.get(name + ".bias", 0.0)

    def qkv(self, name, x, margins):  # (heads, head_dim) each; phi3's matrix holds all three
        if name + "attn_qkv.weight" in self.matrices:
            heads = self.linear(name + "attn_qkv", x, margins).reshape(-1, self.head_dim)
            return np.split(heads, [self.n_heads, self.n_heads + self.n_kv_heads])
        return [self.linear(name + part, x, margins).reshape(-1, self.head_dim)
                for part in ("attn_q", "attn_k", "attn_v")]

    def gate_up(self, name, x, margins):  # (ffn_dim) each; phi3's matrix holds both
        if name + "ffn_gate.weight" not in self.matrices:
            return np.split(self.linear(name + "ffn_up", x, margins), 2)
        return self.linear(name + "ffn_gate", x, margins), self.linear(name + "ffn_up", x, margins)

    def added(self, name, matrix, post_norm, x, margins):
        """What a half of a layer adds to a row."""
        y = self.linear(name + matrix, x, margins)
        weight = self.vectors.get(f"{name}{post_norm}.weight")
        return y if weight is None else norm(y, weight, self.eps)

    def mixture(self, name, x, margins):
        """The highest of a softmax over all experts, divided by their sum."""
        scores = self.linear(name + "ffn_gate_inp", x, margins)
        order = np.argsort(-scores, kind="stable")
        taken, left = order[:self.n_experts_used], order[self.n_experts_used:]
        if len(left) > 0:
            margins.route = min(margins.route, float(scores[taken[-1]] - scores[left[0]]))
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        total = 0.0
        for expert in taken:
            gate, up, down = (self.experts[f"{name}ffn_{part}_exps.weight"][expert]
                              for part in ("gate", "up", "down"))
            act = self.activation(gate.times(x, margins)) * up.times(x, margins)
            total = total + weights[expert] * down.times(act, margins)
        return total / weights[taken].sum()

    def step(self, token, margins):
        """Logits (vocab_size) of `token` at the next position, whose last row stays in `state`,
        and its rows behind each layer in `passed`."""
        pos = len(self.keys[0])
        h = self.matrices["token_embd.weight"].row(token) * self.embedding_scale
        self.passed = []
        for layer in range(self.n_layers):
            name = f"blk.{layer}."
            x = norm(h, self.vectors[name + "attn_norm.weight"], self.eps)
            q, k, v = self.qkv(name, x, margins)
            if name + "attn_q_norm.weight" in self.vectors:
                q = norm(q, self.vectors[name + "attn_q_norm.weight"], self.eps)
                k = norm(k, self.vectors[name + "attn_k_norm.weight"], self.eps)
            self.keys[layer].append(self.to_cache(self.rope(k, pos, layer), margins))
            self.values[layer].append(self.to_cache(v, margins))
            x = self.attention(self.rope(q, pos, layer), layer)
            h += self.added(name, "attn_output", "post_attention_norm", x, margins)

            x = norm(h, self.vectors[name + "ffn_norm.weight"], self.eps)
            if self.n_experts_used:
                h += self.mixture(name, x, margins)
                continue
            gate, up = self.gate_up(name, x, margins)
            x = self.activation(gate) * up
            h += self.added(name, "ffn_down", "post_ffw_norm", x, margins)
            self.passed.append(h.copy())
        x = self.state = norm(h, self.vectors["output_norm.weight"], self.eps)
        head = "output" if "output.weight" in self.matrices else "token_embd"
        return softcap(self.linear(head, x, margins), self.final_softcap)

    def forward(self, ids):
        """Logits (len(ids), vocab_size) from an empty cache, and the margins of all rows."""
        self.truncate(0)
        margins = Margins()
        return np.stack([self.step(token, margins) for token in ids]), margins
