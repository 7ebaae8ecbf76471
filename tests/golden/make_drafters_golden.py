#!/usr/bin/env python3
"""Random draft heads as their authors publish them, and what they draft by plain PyTorch.

Nobody's weights and nobody's code: tests/golden/drafters/NAME/ is a checkpoint in the published
layout, drafters.json what its paper makes of it, in FP64, for the states of a model beside it
(reference.py's, FP16 cache and all). NAME.f32 holds logits (what, vocab_size).

    medusa   arXiv 2401.10774: head k is blocks x + silu(W x + b), then V, over the final state
             behind which the root came; its candidates are for the token k places behind the root.
             The tree is the product of the heads' 10 likeliest, of which the 15 nodes are taken
             whose product of shares is highest.
    hydra    arXiv 2402.05109: head k is a block R x + c + silu(W x + b), further blocks as Medusa's
             and V with a bias, over the final state and the embeddings of the path from the root.
             The chain follows its likeliest token; the tree is best first, as Medusa's is.
    eagle    arXiv 2401.15077 and 2406.16858: fc of [embedding, state] and one Llama layer without
             its first norm, over each token but the first and the state of the one before it, then
             the model's head. The chain follows its likeliest token. The tree is EAGLE-2's: on
             each of 6 levels the 10 nodes of the highest joint share are expanded by 10, then the
             15 best of all nodes are taken.
    eagle3   arXiv 2503.01840: fc of the states behind three layers, and one Llama layer whose
             attention is over [norm of embedding, norm of that], with a rotation of its own; then a
             norm and a head of its own, of some tokens (d2t) or of all. Its drafts' states take the
             place of fc's. Chain and tree are as EAGLE-2's.
    mtp      MiMo (arXiv 2505.07608) and its modeling_mimo.py: input_proj of [hidden_layernorm of
             the state behind the last layer, token_layernorm of embedding], a layer of the model's
             own kind, final_layernorm, the model's head. Drafts run it on what it said. Chain and
             tree are as EAGLE-2's.
    kangaroo arXiv 2404.18911 and its adapter.py: behind an early layer of the model a block of
             attention alone, with its own norm before it, over that layer's rows of the whole text;
             then a norm and the model's head. The chain follows its likeliest token.

Trees are lists of (parent, token), parents by their place in the list, -1 for the root, in the
order in which they were ranked. Where a rounding could exchange ranks, the next seed is taken.

needs: pip install torch safetensors gguf numpy
usage: make_drafters_golden.py [directory]
"""

import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

import reference

ROWS = 15  # behind the root
SIBLINGS = 10
LEAST_GAP = 1e-3  # between the logarithms of joint shares that rank nodes
HERE = pathlib.Path(__file__).resolve().parent
CASES = [
    dict(name="medusa", kind="medusa", base="llama_gqa", dtype="float32", heads=3,
         layers=1, file="medusa_lm_head.safetensors"),
    dict(name="medusa_bf16", kind="medusa", base="qwen2", dtype="bfloat16", heads=2,
         layers=2, file="model.safetensors"),
    dict(name="eagle", kind="eagle", base="llama_gqa", dtype="float16", inner=96,
         bias=True, qkv_bias=False, deviation=0.1, file="model.safetensors"),
    dict(name="eagle_qkv", kind="eagle", base="qwen2", dtype="float32", inner=64,
         bias=False, qkv_bias=True, deviation=0.06, file="model.safetensors"),
    dict(name="eagle3", kind="eagle3", base="llama_deep", dtype="float16", inner=64, tokens=50,
         theta=None, layers=None, deviation=0.12, file="model.safetensors"),
    dict(name="eagle3_all", kind="eagle3", base="gemma3", dtype="float32", inner=32, tokens=63,
         theta=2000.0, layers=[0, 4, 6], deviation=0.12, file="model.safetensors"),
    dict(name="hydra", kind="hydra", base="llama_deep", dtype="float32", heads=4, layers=1,
         tied=False, file="hydra_lm_head.safetensors"),
    dict(name="hydra_tied", kind="hydra", base="gemma3", dtype="bfloat16", heads=2, layers=3,
         tied=True, file="model.safetensors"),
    dict(name="mtp", kind="mtp", base="qwen2", dtype="bfloat16", inner=64, biases=True,
         deviation=0.12, file="model.safetensors"),
    dict(name="mtp_pairs", kind="mtp", base="llama_gqa", dtype="float32", inner=32, biases=False,
         deviation=0.12, file="model.safetensors"),
    dict(name="kangaroo", kind="kangaroo", base="llama_deep", dtype="float16", layer=2, theta=None,
         deviation=0.3, file="model.safetensors"),
    dict(name="kangaroo_halves", kind="kangaroo", base="qwen2", dtype="bfloat16", layer=1,
         theta=500.0, deviation=0.3, file="model.safetensors"),
]
SEEDS_APART = 4


def states_of(model, ids, layers=None):
    """The final states, normed, or those behind some layers, beside each other."""
    model.truncate(0)
    rows = []
    for token in ids:
        model.step(token, reference.Margins())
        rows.append(np.concatenate([model.passed[layer - 1] for layer in layers]) if layers
                    else model.state)
    return torch.tensor(np.stack(rows))


def random_tensor(rng, dtype, deviation, *shape):
    return torch.tensor(deviation * rng.standard_normal(shape)).to(dtype).contiguous()


def rank(candidates):
    """The ROWS best of (log share, path), best first; a node's parent is always before it."""
    best = sorted(candidates, key=lambda one: -one[0])[:ROWS + 1]
    if min(a[0] - b[0] for a, b in zip(best, best[1:])) < LEAST_GAP:
        return None
    places = {(): -1}
    tree = []
    for _, path in best[:ROWS]:
        places[path] = len(tree)
        tree.append([places[path[:-1]], path[-1]])
    return tree


def top(logits):
    shares = torch.log_softmax(logits, -1)
    best = torch.topk(shares, SIBLINGS)
    return list(zip(best.values.tolist(), best.indices.tolist()))


# ---- Medusa ----

def make_medusa(case, model, rng, dtype):
    tensors = {}
    for i in range(case["heads"]):
        for j in range(case["layers"]):
            linear = f"{i}.{j}.linear."
            tensors[linear + "weight"] = random_tensor(rng, dtype, 0.1, model.dim, model.dim)
            tensors[linear + "bias"] = random_tensor(rng, dtype, 0.1, model.dim)
        tensors[f"{i}.{case['layers']}.weight"] = random_tensor(rng, dtype, 0.3, model.vocab_size,
                                                                model.dim)
    config = dict(medusa_num_heads=case["heads"], medusa_num_layers=case["layers"],
                  base_model_name_or_path="random")
    return config, tensors


class Medusa(torch.nn.Module):
    def __init__(self, case, weights):
        super().__init__()
        self.heads, self.layers, self.weights = case["heads"], case["layers"], weights

    def forward(self, x):  # (dim) -> (heads, vocab_size)
        rows = []
        for i in range(self.heads):
            y = x
            for j in range(self.layers):
                linear = f"{i}.{j}.linear."
                y = y + torch.nn.functional.silu(self.weights[linear + "weight"] @ y
                                                 + self.weights[linear + "bias"])
            rows.append(self.weights[f"{i}.{self.layers}.weight"] @ y)
        return torch.stack(rows)


def draft_medusa(case, model, weights, ids):
    state = states_of(model, ids)[-2]
    logits = Medusa(case, weights)(state)
    candidates, level = [], [(0.0, ())]
    for row in logits:
        level = [(above + share, path + (token,)) for above, path in level
                 for share, token in top(row)]
        candidates += level
    return logits, {"tree": rank(candidates)}


# ---- Hydra ----

def make_hydra(case, model, rng, dtype):
    """Further layers are one: the second name of it may be left out."""
    dim, tensors = model.dim, {}
    for i in range(case["heads"]):
        for j in range(case["layers"]):
            linear = f"hydra_mlp.{i}.{j}.linear."
            if j > 1:
                if not case["tied"]:
                    for part in ("weight", "bias"):
                        tensors[linear + part] = \
                            tensors[f"hydra_mlp.{i}.1.linear." + part].clone()
                continue
            n_in = (i + 2) * dim if j == 0 else dim
            tensors[linear + "weight"] = random_tensor(rng, dtype, 0.15, dim, n_in)
            tensors[linear + "bias"] = random_tensor(rng, dtype, 0.1, dim)
            if j == 0:
                residual = f"hydra_mlp.{i}.0.res_connection."
                tensors[residual + "weight"] = random_tensor(rng, dtype, 0.15, dim, n_in)
                tensors[residual + "bias"] = random_tensor(rng, dtype, 0.1, dim)
        tensors[f"hydra_lm_head.{i}.weight"] = random_tensor(rng, dtype, 0.4, model.vocab_size,
                                                             dim)
        tensors[f"hydra_lm_head.{i}.bias"] = random_tensor(rng, dtype, 0.5, model.vocab_size)
    config = dict(hydra_num_heads=case["heads"], hydra_num_layers=case["layers"],
                  hydra_head_arch="mlp", grounded_heads=True, hidden_state_offset=0,
                  base_model_name_or_path="random")
    return config, tensors


class Hydra(torch.nn.Module):
    def __init__(self, case, model, weights):
        super().__init__()
        self.layers, self.weights = case["layers"], weights
        self.embedding = torch.tensor(model.matrices["token_embd.weight"].values)

    def linear(self, name, x):
        return self.weights[name + ".weight"] @ x + self.weights[name + ".bias"]

    def forward(self, state, tokens):  # (dim), the root and the path behind it -> (vocab_size)
        i = len(tokens) - 1
        x = torch.cat([state] + [self.embedding[token] for token in tokens])
        for j in range(self.layers):
            name = f"hydra_mlp.{i}.{min(j, 1)}."
            rest = self.linear(name + "res_connection", x) if j == 0 else x
            x = rest + torch.nn.functional.silu(self.linear(name + "linear", x))
        return self.linear(f"hydra_lm_head.{i}", x)


def draft_hydra(case, model, weights, ids):
    hydra, state = Hydra(case, model, weights), states_of(model, ids)[-2]
    logits, chain = [], []
    for _ in range(case["heads"]):
        logits.append(hydra(state, [ids[-1]] + chain))
        chain.append(int(logits[-1].argmax()))
    candidates, level = [], [(0.0, ())]
    for _ in range(case["heads"]):
        level = [(above + share, path + (token,)) for above, path in level
                 for share, token in top(hydra(state, [ids[-1]] + list(path)))]
        level = sorted(level, key=lambda one: -one[0])[:ROWS + 1]
        candidates += level
    return torch.stack(logits), {"chain": chain, "tree": rank(candidates)}


# ---- EAGLE ----

LEVELS = 6
CHAIN = 5


def make_eagle(case, model, rng, dtype):
    dim, q_dim = model.dim, model.n_heads * model.head_dim
    kv_dim, inner = model.n_kv_heads * model.head_dim, case["inner"]
    attention, mlp = "layers.0.self_attn.", "layers.0.mlp."
    shapes = {"fc.weight": (dim, 2 * dim), attention + "q_proj.weight": (q_dim, dim),
              attention + "k_proj.weight": (kv_dim, dim),
              attention + "v_proj.weight": (kv_dim, dim),
              attention + "o_proj.weight": (dim, q_dim), mlp + "gate_proj.weight": (inner, dim),
              mlp + "up_proj.weight": (inner, dim), mlp + "down_proj.weight": (dim, inner)}
    if case["bias"]:
        shapes["fc.bias"] = (dim,)
    if case["qkv_bias"]:
        shapes |= {attention + "q_proj.bias": (q_dim,), attention + "k_proj.bias": (kv_dim,),
                   attention + "v_proj.bias": (kv_dim,)}
    tensors = {name: random_tensor(rng, dtype, case["deviation"], *shape)
               for name, shape in shapes.items()}
    tensors["layers.0.post_attention_layernorm.weight"] = \
        1 + random_tensor(rng, dtype, 0.2, dim)
    tensors["embed_tokens.weight"] = torch.tensor(
        model.matrices["token_embd.weight"].values).to(dtype).contiguous()
    config = dict(architectures=["LlamaForCausalLM"], hidden_size=dim, intermediate_size=inner,
                  num_attention_heads=model.n_heads, num_key_value_heads=model.n_kv_heads,
                  num_hidden_layers=1, hidden_act="silu", vocab_size=model.vocab_size,
                  rms_norm_eps=round(model.eps, 9), rope_theta=model.rope_theta,
                  rope_scaling=None, bias=case["bias"], qkv_bias=case["qkv_bias"])
    return config, tensors


class Eagle(torch.nn.Module):
    """Over a whole text at once: no cache, positions from 0."""

    layer = "layers.0."

    def __init__(self, model, weights):
        super().__init__()
        self.model, self.weights = model, weights
        self.embedding = torch.tensor(model.matrices["token_embd.weight"].values)
        head = "output.weight" if "output.weight" in model.matrices else "token_embd.weight"
        self.lm_head = torch.tensor(model.matrices[head].values)
        self.turn(model.rope_theta)

    def turn(self, theta):
        head_dim = self.model.head_dim
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.frequency = theta ** -exponents

    def norm(self, name, x):
        return (x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.model.eps)
                * self.weights[name + ".weight"])

    def linear(self, name, x):
        y = x @ self.weights[name + ".weight"].T
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def rotated(self, x):  # (n, heads, head_dim), as transformers: pairs are half a head apart
        angles = torch.outer(torch.arange(len(x), dtype=torch.float64), self.frequency)
        cos = torch.cat([angles.cos()] * 2, -1)[:, None]
        sin = torch.cat([angles.sin()] * 2, -1)[:, None]
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def features(self, states):
        return states

    def forward(self, tokens, features):  # (n), (n, dim) -> (n, dim)
        h = self.linear("fc", torch.cat([self.embedding[tokens], features], -1))
        return self.block(h, h)

    def logits(self, state):
        return self.lm_head @ state

    def token(self, place):
        return int(place)

    def attended(self, x):  # (n, dim): what attention with these rows adds
        m, n = self.model, len(x)
        name = self.layer + "self_attn."
        q = self.rotated(self.linear(name + "q_proj", x).view(n, m.n_heads, m.head_dim))
        k = self.rotated(self.linear(name + "k_proj", x).view(n, m.n_kv_heads, m.head_dim))
        v = self.linear(name + "v_proj", x).view(n, m.n_kv_heads, m.head_dim)
        k, v = k.half().double(), v.half().double()  # as engines keep them
        group = m.n_heads // m.n_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / m.head_dim ** 0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, -1)
        return self.linear(name + "o_proj", mixed)

    def block(self, x, h):  # what is attended with, and what is added to
        h = h + self.attended(x)
        x = self.norm(self.layer + "post_attention_layernorm", h)
        name = self.layer + "mlp."
        gate = torch.nn.functional.silu(self.linear(name + "gate_proj", x))
        return h + self.linear(name + "down_proj", gate * self.linear(name + "up_proj", x))


# ---- EAGLE-3 ----

def eagle3_layers(case, model):
    if case["layers"]:
        return [layer + 1 for layer in case["layers"]]
    return [2, model.n_layers // 2, model.n_layers - 3]


def make_eagle3(case, model, rng, dtype):
    dim, q_dim = model.dim, model.n_heads * model.head_dim
    kv_dim, inner = model.n_kv_heads * model.head_dim, case["inner"]
    attention, mlp = "midlayer.self_attn.", "midlayer.mlp."
    shapes = {"fc.weight": (dim, 3 * dim), attention + "q_proj.weight": (q_dim, 2 * dim),
              attention + "k_proj.weight": (kv_dim, 2 * dim),
              attention + "v_proj.weight": (kv_dim, 2 * dim),
              attention + "o_proj.weight": (dim, q_dim), mlp + "gate_proj.weight": (inner, dim),
              mlp + "up_proj.weight": (inner, dim), mlp + "down_proj.weight": (dim, inner),
              "lm_head.weight": (case["tokens"], dim)}
    tensors = {name: random_tensor(rng, dtype, 2.5 * case["deviation"] if "lm_head" in name
                                   else case["deviation"], *shape)
               for name, shape in shapes.items()}
    for name in ("midlayer.hidden_norm", "midlayer.input_layernorm",
                 "midlayer.post_attention_layernorm", "norm"):
        tensors[name + ".weight"] = 1 + random_tensor(rng, dtype, 0.2, dim)
    known = np.sort(rng.permutation(model.vocab_size)[:case["tokens"]])
    some = case["tokens"] < model.vocab_size
    offsets = known - np.arange(len(known)) if some else np.zeros(len(known), int)
    tensors["d2t"] = torch.tensor(offsets, dtype=torch.int64)
    tensors["t2d"] = torch.zeros(model.vocab_size, dtype=torch.bool)
    if some:
        tensors["t2d"][torch.tensor(known)] = True
    config = dict(architectures=["LlamaForCausalLMEagle3"], hidden_size=dim,
                  intermediate_size=inner, num_attention_heads=model.n_heads,
                  num_key_value_heads=model.n_kv_heads, num_hidden_layers=1, hidden_act="silu",
                  head_dim=model.head_dim, vocab_size=model.vocab_size,
                  draft_vocab_size=case["tokens"], rms_norm_eps=round(model.eps, 9))
    if case["theta"]:
        config["rope_theta"] = case["theta"]
    if case["layers"]:
        config["eagle_config"] = dict(eagle_aux_hidden_state_layer_ids=case["layers"],
                                      use_aux_hidden_state=True)
    return config, tensors


class Eagle3(Eagle):
    layer = "midlayer."

    def __init__(self, case, model, weights):
        super().__init__(model, weights)
        self.turn(case["theta"] or 10000.0)

    def features(self, states):
        return self.linear("fc", states)

    def forward(self, tokens, features):
        e = self.norm("midlayer.input_layernorm", self.embedding[tokens])
        x = torch.cat([e, self.norm("midlayer.hidden_norm", features)], -1)
        return self.block(x, features)

    def logits(self, state):
        return self.weights["lm_head.weight"] @ self.norm("norm", state)

    def token(self, place):
        return int(place) + int(self.weights["d2t"][place])


def draft_eagle3(case, model, weights, ids):
    states = states_of(model, ids, eagle3_layers(case, model))
    return draft_by(Eagle3(case, model, weights), states, ids)


def draft_eagle(case, model, weights, ids):
    return draft_by(Eagle(model, weights), states_of(model, ids), ids)


def draft_by(eagle, states, ids):
    features = eagle.features(states[:-1])

    def after(path, own):
        """The state after `path`, the states behind its tokens but the last being `own`."""
        tokens = torch.tensor(ids[1:] + list(path))
        return eagle(tokens, torch.cat([features] + [one[None] for one in own]))[-1]

    logits, chain, own = [], [], []
    for _ in range(CHAIN):
        own.append(after(chain, own))
        logits.append(eagle.logits(own[-1]))
        chain.append(eagle.token(int(logits[-1].argmax())))

    candidates, level = [], [(0.0, (), [])]
    for _ in range(LEVELS):
        children = []
        for above, path, own in level:
            state = after(path, own)
            children += [(above + share, path + (eagle.token(place),), own + [state])
                         for share, place in top(eagle.logits(state))]
        candidates += [(share, path) for share, path, _ in children]
        level = sorted(children, key=lambda one: -one[0])[:SIBLINGS]
    return torch.stack(logits), {"chain": chain, "tree": rank(candidates)}


# ---- multi-token prediction ----

def make_mtp(case, model, rng, dtype):
    dim, q_dim = model.dim, model.n_heads * model.head_dim
    kv_dim, inner = model.n_kv_heads * model.head_dim, case["inner"]
    attention, mlp = Mtp.layer + "self_attn.", Mtp.layer + "mlp."
    shapes = {Mtp.layer + "input_proj.weight": (dim, 2 * dim),
              attention + "q_proj.weight": (q_dim, dim), attention + "k_proj.weight": (kv_dim, dim),
              attention + "v_proj.weight": (kv_dim, dim),
              attention + "o_proj.weight": (dim, q_dim), mlp + "gate_proj.weight": (inner, dim),
              mlp + "up_proj.weight": (inner, dim), mlp + "down_proj.weight": (dim, inner)}
    if case["biases"]:
        shapes |= {attention + "q_proj.bias": (q_dim,), attention + "k_proj.bias": (kv_dim,),
                   attention + "v_proj.bias": (kv_dim,)}
    tensors = {name: random_tensor(rng, dtype, case["deviation"], *shape)
               for name, shape in shapes.items()}
    for name in ("token_layernorm", "hidden_layernorm", "input_layernorm",
                 "post_attention_layernorm", "final_layernorm"):
        tensors[f"{Mtp.layer}{name}.weight"] = 1 + random_tensor(rng, dtype, 0.2, dim)
    tensors["model.embed_tokens.weight"] = torch.tensor(
        model.matrices["token_embd.weight"].values).to(dtype).contiguous()
    config = dict(architectures=["MiMoForCausalLM"], attention_bias=case["biases"],
                  hidden_size=dim, intermediate_size=inner, num_attention_heads=model.n_heads,
                  num_key_value_heads=model.n_kv_heads, head_dim=model.head_dim,
                  num_hidden_layers=model.n_layers, hidden_act="silu",
                  vocab_size=model.vocab_size, rms_norm_eps=round(model.eps, 9),
                  rope_theta=model.rope_theta, num_nextn_predict_layers=1)
    return config, tensors


class Mtp(Eagle):
    layer = "model.mtp_layers.0."

    def forward(self, tokens, states):
        e = self.norm(self.layer + "token_layernorm", self.embedding[tokens])
        s = self.norm(self.layer + "hidden_layernorm", states)
        h = self.linear(self.layer + "input_proj", torch.cat([s, e], -1))
        h = self.block(self.norm(self.layer + "input_layernorm", h), h)
        return self.norm(self.layer + "final_layernorm", h)


def draft_mtp(case, model, weights, ids):
    return draft_by(Mtp(model, weights), states_of(model, ids, [model.n_layers]), ids)


# ---- Kangaroo ----

def make_kangaroo(case, model, rng, dtype):
    dim, q_dim = model.dim, model.n_heads * model.head_dim
    kv_dim, attention = model.n_kv_heads * model.head_dim, "layers.0.self_attn."
    shapes = {attention + "q_proj.weight": (q_dim, dim), attention + "k_proj.weight": (kv_dim, dim),
              attention + "v_proj.weight": (kv_dim, dim),
              attention + "o_proj.weight": (dim, q_dim)}
    tensors = {name: random_tensor(rng, dtype, case["deviation"], *shape)
               for name, shape in shapes.items()}
    for name in ("layers.0.input_layernorm", "norm"):
        tensors[name + ".weight"] = 1 + random_tensor(rng, dtype, 0.2, dim)
    config = dict(architectures=["LlamaForCausalLM"], hidden_size=dim, hidden_act="silu",
                  num_attention_heads=model.n_heads, num_key_value_heads=model.n_kv_heads,
                  num_hidden_layers=1, vocab_size=model.vocab_size,
                  rms_norm_eps=round(model.eps, 9), exit_layer=case["layer"])
    if case["theta"]:
        config["rope_theta"] = case["theta"]
    return config, tensors


class Kangaroo(Eagle):
    def __init__(self, case, model, weights):
        super().__init__(model, weights)
        self.turn(case["theta"] or 10000.0)

    def forward(self, h):  # (n, dim), behind the model's layer -> (vocab_size) of the last of them
        h = h + self.attended(self.norm("layers.0.input_layernorm", h))
        return self.logits(self.norm("norm", h)[-1])


def draft_kangaroo(case, model, weights, ids):
    adapter, logits, chain = Kangaroo(case, model, weights), [], []
    for _ in range(CHAIN):
        logits.append(adapter(states_of(model, ids + chain, [case["layer"]])))
        chain.append(int(logits[-1].argmax()))
    return torch.stack(logits), {"chain": chain}


def make_case(case, directory, seed):
    rng = np.random.default_rng(seed)
    model = reference.Model(str(HERE / f"{case['base']}.gguf"), half_cache=True)
    dtype = getattr(torch, case["dtype"])
    make, draft = {"medusa": (make_medusa, draft_medusa),
                   "hydra": (make_hydra, draft_hydra),
                   "eagle": (make_eagle, draft_eagle),
                   "eagle3": (make_eagle3, draft_eagle3),
                   "mtp": (make_mtp, draft_mtp),
                   "kangaroo": (make_kangaroo, draft_kangaroo)}[case["kind"]]
    config, tensors = make(case, model, rng, dtype)
    ids = [int(i) for i in rng.integers(3, model.vocab_size, 24)]
    weights = {name: tensor.double() for name, tensor in tensors.items()}
    logits, found = draft(case, model, weights, ids)
    if found.get("tree", True) is None:
        return make_case(case, directory, seed + SEEDS_APART)
    folder = directory / case["name"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(tensors, str(folder / case["file"]), metadata={"format": "pt"})
    logits.numpy().astype(np.float32).tofile(directory / f"{case['name']}.f32")
    return dict(name=case["name"], kind=case["kind"], base=case["base"],
                vocab_size=model.vocab_size, rows=len(logits), ids=ids, **found)


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "drafters"
    cases = [make_case(case, directory, seed) for seed, case in enumerate(CASES)]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (directory / "drafters.json").write_text('{"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
