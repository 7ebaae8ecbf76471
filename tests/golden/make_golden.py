#!/usr/bin/env python3
"""Makes the golden models, prompts and logits in this directory.

    python make_golden.py [--only CASE ...] [output directory]

For each case NAME.gguf, the logits of all positions (positions, vocab_size) in little-endian FP32,
and an entry in golden.json with the prompt, the bars and what was measured here. The tests read
these files; nothing is generated at test time. All randomness comes from one seed per case, its
place in CASES: new ones go to the end.

NAME.hf.f32, float files: a random model is given to Hugging Face transformers (FP32, CPU, eager
attention), whose logits these are, and written as llama.cpp's convert_hf_to_gguf.py would write it
(F16 and BF16 cases round the matrices before either side sees them). Bar 1e-4: our engines keep K
and V in FP16, Hugging Face does not, and the difference is that rounding; `predicted_ratio` is its
size by the FP64 reference. Were every layer to matter as much as the embedding, this rounding alone
would give 4e-4: so the layers of these models add about a tenth of a unit row each.

NAME.ref.f32, all files: reference.py, FP64 with an FP16 cache and, for what is quantized, the INT8
formula. Types that the gguf package cannot encode are random blocks (quantized.py). It agrees with
Hugging Face to 1e-6 when its cache is not rounded (asserted here). Bar 1e-5.

Rounding to FP16 and to integers is a step function: a value on the edge is moved by a whole step by
FP32 noise of 1e-7, in a correct engine too, and an integer step moves the logits by more than the
bar. Such a prompt would test luck. So prompts are drawn token by token, and a token with any value
nearer to an edge than QUANT_MARGIN or HALF_MARGIN (well above the noise of FP32, far below the
effect of a wrong scale) is drawn again, and so is one whose experts are nearly others; golden.json
says how often. No engine's result is seen.

needs: pip install torch transformers gguf numpy
"""

import argparse
import json
import math
import pathlib

import gguf
import numpy as np
import torch
import transformers

import quantized
import reference

HF_BAR = 1e-4
REF_BAR = 1e-5
QUANT_MARGIN = 3e-4  # quantization steps; FP32 noise is about 2e-5 of one
HALF_MARGIN = 2e-3   # FP16 spacings; FP32 noise is about 5e-4 of one
ROUTE_MARGIN = 1e-4  # of a router's scores; FP32 noise is about 1e-6

LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=32)


# Factors of 6 frequencies, such that short and long differ.
LONG_ROPE = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                 original_max_position_embeddings=32,
                 short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5],
                 long_factor=[1.0, 1.3, 1.9, 2.6, 3.4, 4.0])


def default_rope(theta, **more):
    return dict(rope_type="default", rope_theta=theta, **more)


# Small, but numbers that could be confused differ, and norm epsilons are large enough to be seen
# beside rows of mean square 1.
CASES = [
    dict(name="llama_gqa", arch="llama", type="F32", positions=300, config=dict(
        vocab_size=80, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-3,
        max_position_embeddings=512, rope_parameters=default_rope(10000.0))),
    dict(name="llama_rope_llama3_tied", arch="llama", type="F32", positions=48, config=dict(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=True,
        max_position_embeddings=256, rope_parameters=LLAMA3_ROPE)),
    dict(name="llama_rope_linear_head_dim", arch="llama", type="F32", positions=48, config=dict(
        vocab_size=96, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=24, rms_norm_eps=2e-3,
        attention_bias=True, max_position_embeddings=128,
        rope_parameters=dict(rope_type="linear", rope_theta=5000.0, factor=2.5))),
    dict(name="llama_mha_odd", arch="llama", type="F32", positions=48, config=dict(
        vocab_size=157, hidden_size=64, intermediate_size=76, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(10000.0))),
    dict(name="qwen2", arch="qwen2", type="F32", positions=48, config=dict(
        vocab_size=101, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=2e-3, tie_word_embeddings=True,
        max_position_embeddings=64, rope_parameters=default_rope(1000000.0))),
    dict(name="qwen3", arch="qwen3", type="F32", positions=48, config=dict(
        vocab_size=99, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-3,
        tie_word_embeddings=False, max_position_embeddings=64,
        rope_parameters=default_rope(500000.0))),
    dict(name="llama_gqa_f16", arch="llama", type="F16", positions=48, like="llama_gqa",
         n_layers=2),
    dict(name="qwen3_bf16", arch="qwen3", type="BF16", positions=48, like="qwen3"),
    dict(name="llama_gqa_q8_0", arch="llama", type="Q8_0", positions=48, like="llama_gqa"),
    dict(name="llama_rope_llama3_tied_q8_0", arch="llama", type="Q8_0", positions=48,
         like="llama_rope_llama3_tied"),
    dict(name="qwen2_q8_0", arch="qwen2", type="Q8_0", positions=48, like="qwen2"),
    dict(name="qwen3_q8_0", arch="qwen3", type="Q8_0", positions=48, like="qwen3"),
    dict(name="gemma", arch="gemma", type="F32", positions=48, config=dict(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=24, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(10000.0))),
    # Scores of about 4 under a cap of 5. The window leaves out a whole attention chunk at the end.
    dict(name="gemma2", arch="gemma2", type="F32", positions=90, query_deviation=4.0, config=dict(
        vocab_size=61, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16,
        rms_norm_eps=1e-3, sliding_window=20, attn_logit_softcapping=5.0,
        final_logit_softcapping=2.0, max_position_embeddings=128,
        rope_parameters=default_rope(10000.0))),
    dict(name="phi3", arch="phi3", type="F32", positions=48, config=dict(
        vocab_size=59, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-3, sliding_window=24,
        max_position_embeddings=64, original_max_position_embeddings=64, pad_token_id=0,
        rope_parameters=default_rope(10000.0, partial_rotary_factor=0.5))),
    dict(name="phi3_long_rope", arch="phi3", type="F32", positions=48, config=dict(
        vocab_size=56, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, rms_norm_eps=1e-3, tie_word_embeddings=True,
        max_position_embeddings=128, original_max_position_embeddings=32, pad_token_id=0,
        rope_parameters=LONG_ROPE)),
    dict(name="phi3_short_rope", arch="phi3", type="F32", positions=32, n_ctx=32,
         like="phi3_long_rope"),
    dict(name="smollm3", arch="smollm3", type="F32", positions=48, config=dict(
        vocab_size=58, hidden_size=32, intermediate_size=48, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-3, tie_word_embeddings=True,
        max_position_embeddings=64, pad_token_id=0, rope_parameters=default_rope(50000.0))),
    dict(name="mistral_window", arch="llama", hf="mistral", type="F32", positions=90, config=dict(
        vocab_size=57, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-3, sliding_window=20,
        max_position_embeddings=128, rope_parameters=default_rope(10000.0))),
    dict(name="gemma2_q8_0", arch="gemma2", type="Q8_0", positions=90, like="gemma2"),
    dict(name="phi3_q8_0", arch="phi3", type="Q8_0", positions=48, like="phi3"),
    dict(name="llama_gqa_q4_0", arch="llama", type="Q4_0", positions=48, like="llama_gqa"),
    # Rows of one superblock and of two.
    dict(name="llama_q4_k", arch="llama", type="Q4_K", positions=32, config=dict(
        vocab_size=64, hidden_size=256, intermediate_size=512, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(10000.0))),
    dict(name="llama_converted", arch="llama", type="CONVERTED", positions=32, config=dict(
        vocab_size=64, hidden_size=256, intermediate_size=256, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(10000.0))),
    dict(name="ernie4_5", arch="ernie4_5", type="F32", positions=48, config=dict(
        vocab_size=62, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(500000.0))),
    # The sixth layer sees all and has angles of its own, divided by the factor.
    dict(name="gemma3", arch="gemma3", type="F32", positions=90, config=dict(
        vocab_size=63, hidden_size=32, intermediate_size=64, num_hidden_layers=7,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16,
        rms_norm_eps=1e-3, sliding_window=20, max_position_embeddings=128,
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=50000.0, factor=4.0),
            sliding_attention=default_rope(3000.0)))),
    dict(name="gemma3_q8_0", arch="gemma3", type="Q8_0", positions=90, like="gemma3"),
    dict(name="llama_yarn", arch="llama", type="F32", positions=48, config=dict(
        vocab_size=55, hidden_size=64, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=True,
        max_position_embeddings=1024, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0,
            original_max_position_embeddings=256))),
    dict(name="qwen3_yarn", arch="qwen3", type="F32", positions=48, config=dict(
        vocab_size=53, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=24, rms_norm_eps=1e-3,
        tie_word_embeddings=True, max_position_embeddings=512, rope_parameters=dict(
            rope_type="yarn", rope_theta=500.0, factor=8.0, beta_fast=4.0, beta_slow=0.5,
            attention_factor=0.9, original_max_position_embeddings=64))),
    dict(name="qwen3moe", arch="qwen3moe", type="F32", positions=48, config=dict(
        vocab_size=51, hidden_size=32, intermediate_size=80, moe_intermediate_size=64,
        num_experts=6, num_experts_per_tok=3, norm_topk_prob=True, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3,
        max_position_embeddings=64, rope_parameters=default_rope(500000.0))),
    dict(name="qwen3moe_q8_0", arch="qwen3moe", type="Q8_0", positions=48, like="qwen3moe"),
    # Layers enough for what EAGLE-3 takes of them.
    dict(name="llama_deep", arch="llama", type="F32", positions=24, config=dict(
        vocab_size=75, hidden_size=32, intermediate_size=48, num_hidden_layers=8,
        num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-3,
        max_position_embeddings=256, rope_parameters=LLAMA3_ROPE)),
]
FLOATS = ("F32", "F16", "BF16")

CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "qwen3moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
    "gemma": (transformers.GemmaConfig, transformers.GemmaForCausalLM),
    "gemma2": (transformers.Gemma2Config, transformers.Gemma2ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
    "phi3": (transformers.Phi3Config, transformers.Phi3ForCausalLM),
    "smollm3": (transformers.SmolLM3Config, transformers.SmolLM3ForCausalLM),
    "ernie4_5": (transformers.Ernie4_5Config, transformers.Ernie4_5ForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
}

# Hugging Face name (inside a layer) -> GGUF name.
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
POST_NORMS = ("gemma2", "gemma3")  # architectures that have them
POST_NORM_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(hf_name, arch):
    stem, suffix = hf_name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    names = LAYER_NAMES | (POST_NORM_NAMES if arch in POST_NORMS else {})
    return f"blk.{layer}.{names[rest]}.{suffix}"


def random_parameter(case, name, shape, rng):
    """Norms and biases that matter; matrices that keep the variance of a row (see the top)."""
    gemma = case["arch"].startswith("gemma")
    if len(shape) == 1 and name.endswith("norm.weight"):
        # Gemma's are offsets from 1. Its post norms decide what a layer adds.
        post_norm = case["arch"] in POST_NORMS and ".post_" in name
        low, high = (0.05, 0.15) if post_norm else (0.5, 1.5)
        offset = 1.0 if gemma else 0.0
        return rng.uniform(low - offset, high - offset, shape)
    if len(shape) == 1:
        return rng.normal(0.0, 0.3, shape)
    if "embed_tokens" in name:
        return rng.normal(0.0, 1.0 / math.sqrt(shape[1]) if gemma else 1.0, shape)
    deviation = 0.1 if "o_proj" in name or "down_proj" in name else 1.0  # those into the residual
    if "q_proj" in name:
        deviation = case.get("query_deviation", 1.0)
    return rng.normal(0.0, deviation / math.sqrt(shape[-1]), shape)


def stored(values, type_name):
    """What is left of FP32 `values` in a file of this float type."""
    if type_name == "F16":
        return values.astype(np.float16).astype(np.float32)
    if type_name == "BF16":
        return torch.from_numpy(values).bfloat16().float().numpy()
    return values


def make_hf_model(case, rng):
    config_class, model_class = CLASSES[case.get("hf", case["arch"])]
    config = config_class(**case["config"], attn_implementation="eager", use_cache=False,
                          bos_token_id=1, eos_token_id=2)
    model = model_class(config).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = random_parameter(case, name, tuple(parameter.shape), rng).astype(np.float32)
            if values.ndim == 2:
                kind = quantized.type_of(case["type"], gguf_name(name, case["arch"]))
                if case["type"] in quantized.RANDOM_BLOCKS:
                    case.setdefault("blocks", {})[name] = blocks = quantized.random_blocks(
                        kind, values.shape, values.std(), rng)
                    values = gguf.quants.dequantize(blocks, kind)
                values = stored(values, case["type"])
            parameter.copy_(torch.from_numpy(values))
    return model


def permute(weight, n_heads):
    """Rows of a query or key head from halves to interleaved pairs, as the converter does."""
    halves = weight.reshape(n_heads, 2, weight.shape[0] // n_heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def rope_factors(rope, head_dim):
    """Frequency divisors of llama3 scaling: (head_dim / 2), the tensor rope_freqs.weight."""
    original = rope["original_max_position_embeddings"]
    longest = original / rope["low_freq_factor"]
    shortest = original / rope["high_freq_factor"]
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        if wavelength < shortest:
            factors.append(1.0)
        elif wavelength > longest:
            factors.append(rope["factor"])
        else:
            smooth = (original / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def add_vocabulary(writer, arch, vocab_size):
    """Names without meaning: the tests feed ids. Enough for any GGUF reader to load the file."""
    Type = gguf.TokenType
    tokens, types = ["<unk>", "<s>", "</s>"], [Type.UNKNOWN, Type.CONTROL, Type.CONTROL]
    if arch == "phi3":  # llama.cpp looks for it
        tokens, types = tokens + ["<|endoftext|>"], types + [Type.CONTROL]
    tokens += ["a", "b", "ab"]
    tokens += [f"\u2581w{i}" for i in range(len(tokens), vocab_size)]
    types += [Type.NORMAL] * (vocab_size - len(types))
    sentencepiece = arch not in ("qwen2", "qwen3")
    writer.add_tokenizer_model("llama" if sentencepiece else "gpt2")
    writer.add_tokenizer_pre("default" if sentencepiece else "qwen2")
    writer.add_token_list(tokens)
    if sentencepiece:
        writer.add_token_scores([-float(i) for i in range(vocab_size)])
    writer.add_token_types(types)
    if not sentencepiece:
        writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def rope_parameters(case):
    """Those of layers that see all, where there are others."""
    parameters = case["config"]["rope_parameters"]
    return parameters.get("full_attention", parameters)


def add_architecture(writer, case, head_dim):
    """What sets a file apart from plain llama's."""
    config, rope = case["config"], rope_parameters(case)
    if "attn_logit_softcapping" in config:
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if case["arch"] == "gemma3":
        local = config["rope_parameters"]["sliding_attention"]
        writer.add_rope_freq_base_swa(local["rope_theta"])
    if case["arch"] == "phi3" or "sliding_window" in config:
        writer.add_sliding_window(config.get("sliding_window", 0))
    if case["arch"] == "phi3":
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head_dim))
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for key in ("beta_fast", "beta_slow"):
            if key in rope:
                writer.add_float32(f"{case['arch']}.rope.scaling.yarn_{key}", rope[key])
        if "attention_factor" in rope:
            writer.add_rope_scaling_attn_factors(
                rope["attention_factor"] / (1 + 0.1 * math.log(rope["factor"])))
    if rope["rope_type"] == "longrope":
        stretch = config["max_position_embeddings"] / config["original_max_position_embeddings"]
        writer.add_rope_scaling_attn_factors(math.sqrt(
            1 + math.log(stretch) / math.log(config["original_max_position_embeddings"])))


def parameters(model):
    """Names and values; of experts, which are (n_experts, n_out, n_in), as converters store them. A
    tied head is listed once, as the embedding."""
    for name, parameter in model.named_parameters():
        values = np.ascontiguousarray(parameter.detach().numpy())
        if name.endswith("experts.gate_up_proj"):
            for part, half in zip(("gate", "up"), np.split(values, 2, axis=1)):
                yield name.replace("gate_up", part) + ".weight", np.ascontiguousarray(half)
        elif values.ndim == 3:
            yield name + ".weight", values
        else:
            yield name, values


def write_gguf(case, model, path):
    arch, config = case["arch"], model.config
    rope = rope_parameters(case)
    n_heads, n_kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = case["config"].get("head_dim", config.hidden_size // n_heads)
    file_type = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16,
                 "BF16": gguf.LlamaFileType.MOSTLY_BF16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
                 "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "Q4_K": gguf.LlamaFileType.MOSTLY_Q4_K_S,
                 "CONVERTED": gguf.LlamaFileType.MOSTLY_Q4_K_M}

    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(case["name"])
    writer.add_file_type(file_type[case["type"]])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    if arch == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(n_kv_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if arch not in ("gemma", "gemma2"):
        writer.add_rope_freq_base(rope["rope_theta"])
    if "head_dim" in case["config"]:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch in ("llama", "smollm3"):
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(head_dim)
    add_architecture(writer, case, head_dim)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    add_vocabulary(writer, arch, config.vocab_size)

    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(rope, head_dim))
    if rope["rope_type"] == "longrope":
        for which in ("long", "short"):
            factors = np.array(rope[which + "_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{which}.weight", factors)
    for name, values in parameters(model):
        blocks = case.get("blocks", {}).get(name)
        values = values if blocks is None else blocks  # rows all the same
        if arch in ("llama", "smollm3") and ".q_proj." in name:
            values = permute(values, n_heads)
        if arch in ("llama", "smollm3") and ".k_proj." in name:
            values = permute(values, n_kv_heads)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            values = values + np.float32(1)
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name, arch), values)
        else:
            router = name.endswith("mlp.gate.weight")
            kind = quantized.type_of("F32" if router else case["type"], gguf_name(name, arch))
            quants = values if blocks is not None else gguf.quants.quantize(values, kind)
            writer.add_tensor(gguf_name(name, arch), quants, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def max_ratio(logits, expected):
    """Max over positions of max |difference| / max |expected logit|."""
    return float((np.abs(logits - expected).max(axis=1) / np.abs(expected).max(axis=1)).max())


def hf_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def draw_prompt(case, path, rng):
    """ids, reference logits of every position, and how it was drawn."""
    model = reference.Model(path, half_cache=True, n_ctx=case.get("n_ctx"))
    ids, rows, redrawn, least = [], [], 0, reference.Margins()
    while len(ids) < case["positions"]:
        token, margins = int(rng.integers(3, model.vocab_size)), reference.Margins()
        row = model.step(token, margins)
        if (margins.quant < QUANT_MARGIN or margins.half < HALF_MARGIN
                or margins.route < ROUTE_MARGIN):
            model.truncate(len(ids))
            redrawn += 1
            assert redrawn < 10000, f"{case['name']}: no prompt keeps the margins"
            continue
        ids.append(token)
        rows.append(row)
        least.quant, least.half = min(least.quant, margins.quant), min(least.half, margins.half)
    facts = dict(redrawn_tokens=redrawn, least_half_margin=least.half)
    if case["type"] not in FLOATS:
        facts["least_quant_margin"] = least.quant
    return ids, np.stack(rows), facts


def make_case(index, case, directory):
    if "like" in case:
        like = next(c for c in CASES if c["name"] == case["like"])
        case["config"] = dict(like["config"])
        case.setdefault("query_deviation", like.get("query_deviation", 1.0))
        if "n_layers" in case:
            case["config"]["num_hidden_layers"] = case["n_layers"]
    name, rng = case["name"], np.random.default_rng(202600 + index)
    model = make_hf_model(case, rng)
    path = directory / f"{name}.gguf"
    write_gguf(case, model, path)

    ids, ref, facts = draw_prompt(case, path, rng)
    hf = hf_logits(model, ids)
    ref.astype("<f4").tofile(directory / f"{name}.ref.f32")
    entry = dict(name=name, vocab_size=model.config.vocab_size, ref_bar=REF_BAR)
    if "n_ctx" in case:
        entry["n_ctx"] = case["n_ctx"]
    if case["type"] not in FLOATS:  # quantization moves it: no bar, but nonsense shows
        facts["quantization_ratio"] = max_ratio(ref, hf)
    else:
        textbook, _ = reference.Model(path, half_cache=False, n_ctx=case.get("n_ctx")).forward(ids)
        facts["file_vs_hf_ratio"] = max_ratio(textbook, hf)
        facts["predicted_ratio"] = max_ratio(ref, hf)
        assert facts["file_vs_hf_ratio"] < 2e-6, f"{name}: file and Hugging Face disagree: {facts}"
        assert facts["predicted_ratio"] < HF_BAR, f"{name}: the FP16 cache alone exceeds: {facts}"
        hf.astype("<f4").tofile(directory / f"{name}.hf.f32")
        entry["hf_bar"] = HF_BAR
    print(name, path.stat().st_size, facts)
    return dict(**entry, measured=facts, ids=ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="CASE",
                        help="make this case (again), keep what golden.json says of the others")
    parser.add_argument("directory", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent)
    options = parser.parse_args()
    manifest = options.directory / "golden.json"
    kept = {}
    if options.only:
        kept = {case["name"]: case for case in json.loads(manifest.read_text())["cases"]}
    torch.set_num_threads(1)
    cases = []
    for index, case in enumerate(CASES):
        if options.only and case["name"] not in options.only:
            cases.append(kept[case["name"]])
        else:
            cases.append(make_case(index, case, options.directory))
    made_with = dict(torch=torch.__version__, transformers=transformers.__version__,
                     numpy=np.__version__)
    lines = ",\n".join(json.dumps(case) for case in cases)  # a case a line
    manifest.write_text(f'{{"made_with": {json.dumps(made_with)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
