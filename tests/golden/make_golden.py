#!/usr/bin/env python3
"""Makes the golden models, prompts and logits in this directory.

    python make_golden.py [output directory]

For each case NAME.gguf, the logits of all positions (positions, vocab_size) in little-endian FP32,
and an entry in golden.json with the prompt, the bars and what was measured here. The tests read
these files; nothing is generated at test time. All randomness comes from one seed per case.

NAME.hf.f32, float files: a random model is given to Hugging Face transformers (FP32, CPU, eager
attention), whose logits these are, and written as llama.cpp's convert_hf_to_gguf.py would write it
(F16 and BF16 cases round the matrices before either side sees them). Bar 1e-4: our engines keep K
and V in FP16, Hugging Face does not, and the difference is that rounding; `predicted_ratio` is its
size by the FP64 reference. Were every layer to matter as much as the embedding, this rounding alone
would give 4e-4: so the layers of these models add about a tenth of a unit row each.

NAME.ref.f32, all files: reference.py, FP64 with an FP16 cache and, for Q8_0, the INT8 formula. It
agrees with Hugging Face to 1e-6 when its cache is not rounded (asserted here). Bar 1e-5.

Rounding to FP16 and to integers is a step function: a value on the edge is moved by a whole step by
FP32 noise of 1e-7, in a correct engine too, and an integer step moves the logits by more than the
bar. Such a prompt would test luck. So prompts are drawn token by token, and a token with any value
nearer to an edge than QUANT_MARGIN or HALF_MARGIN (well above the noise of FP32, far below the
effect of a wrong scale) is drawn again; golden.json says how often. No engine's result is seen.

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

import reference

HF_BAR = 1e-4
REF_BAR = 1e-5
QUANT_MARGIN = 3e-4  # quantization steps; FP32 noise is about 2e-5 of one
HALF_MARGIN = 2e-3   # FP16 spacings; FP32 noise is about 5e-4 of one

LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=32)


def default_rope(theta):
    return dict(rope_type="default", rope_theta=theta)


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
]

CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
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
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(hf_name):
    stem, suffix = hf_name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest]}.{suffix}"


def random_parameter(name, shape, rng):
    """Norms and biases that matter; matrices that keep the variance of a row (see the top)."""
    if len(shape) == 1 and name.endswith("norm.weight"):
        return rng.uniform(0.5, 1.5, shape)
    if len(shape) == 1:
        return rng.normal(0.0, 0.3, shape)
    if "embed_tokens" in name:
        return rng.normal(0.0, 1.0, shape)
    into_residual = "o_proj" in name or "down_proj" in name
    return rng.normal(0.0, (0.1 if into_residual else 1.0) / math.sqrt(shape[1]), shape)


def stored(values, type_name):
    """What is left of FP32 `values` in a file of this float type."""
    if type_name == "F16":
        return values.astype(np.float16).astype(np.float32)
    if type_name == "BF16":
        return torch.from_numpy(values).bfloat16().float().numpy()
    return values


def make_hf_model(case, rng):
    config_class, model_class = CLASSES[case["arch"]]
    config = config_class(**case["config"], attn_implementation="eager", use_cache=False,
                          bos_token_id=1, eos_token_id=2)
    model = model_class(config).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = random_parameter(name, tuple(parameter.shape), rng).astype(np.float32)
            if values.ndim == 2:
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
    tokens += ["a", "b", "ab"]
    tokens += [f"\u2581w{i}" for i in range(len(tokens), vocab_size)]
    types += [Type.NORMAL] * (vocab_size - len(types))
    writer.add_tokenizer_model("llama" if arch == "llama" else "gpt2")
    writer.add_tokenizer_pre("default" if arch == "llama" else "qwen2")
    writer.add_token_list(tokens)
    if arch == "llama":
        writer.add_token_scores([-float(i) for i in range(vocab_size)])
    writer.add_token_types(types)
    if arch != "llama":
        writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_gguf(case, model, path):
    arch, config = case["arch"], model.config
    rope = case["config"]["rope_parameters"]
    n_heads, n_kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = case["config"].get("head_dim", config.hidden_size // n_heads)
    file_type = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16,
                 "BF16": gguf.LlamaFileType.MOSTLY_BF16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    tensor_type = getattr(gguf.GGMLQuantizationType, case["type"])

    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(case["name"])
    writer.add_file_type(file_type[case["type"]])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(n_kv_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if "head_dim" in case["config"]:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(head_dim)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    add_vocabulary(writer, arch, config.vocab_size)

    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(rope, head_dim))
    for name, parameter in model.named_parameters():  # a tied head is listed once, as the embedding
        values = np.ascontiguousarray(parameter.detach().numpy())
        if arch == "llama" and ".q_proj." in name:
            values = permute(values, n_heads)
        if arch == "llama" and ".k_proj." in name:
            values = permute(values, n_kv_heads)
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
        else:
            quants = gguf.quants.quantize(values, tensor_type)
            writer.add_tensor(gguf_name(name), quants, raw_dtype=tensor_type)
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
    model = reference.Model(path, half_cache=True)
    ids, rows, redrawn, least = [], [], 0, reference.Margins()
    while len(ids) < case["positions"]:
        token, margins = int(rng.integers(3, model.vocab_size)), reference.Margins()
        row = model.step(token, margins)
        if margins.quant < QUANT_MARGIN or margins.half < HALF_MARGIN:
            model.truncate(len(ids))
            redrawn += 1
            assert redrawn < 10000, f"{case['name']}: no prompt keeps the margins"
            continue
        ids.append(token)
        rows.append(row)
        least.quant, least.half = min(least.quant, margins.quant), min(least.half, margins.half)
    facts = dict(redrawn_tokens=redrawn, least_half_margin=least.half)
    if case["type"] == "Q8_0":
        facts["least_quant_margin"] = least.quant
    return ids, np.stack(rows), facts


def make_case(index, case, directory):
    if "like" in case:
        case["config"] = dict(next(c for c in CASES if c["name"] == case["like"])["config"])
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
    if case["type"] == "Q8_0":  # quantization moves it from the model: no bar, but nonsense shows
        facts["quantization_ratio"] = max_ratio(ref, hf)
    else:
        textbook, _ = reference.Model(path, half_cache=False).forward(ids)
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
    parser.add_argument("directory", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent)
    directory = parser.parse_args().directory
    torch.set_num_threads(1)
    cases = [make_case(index, case, directory) for index, case in enumerate(CASES)]
    made_with = dict(torch=torch.__version__, transformers=transformers.__version__,
                     numpy=np.__version__)
    lines = ",\n".join(json.dumps(case) for case in cases)  # a case a line
    (directory / "golden.json").write_text(
        f'{{"made_with": {json.dumps(made_with)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
