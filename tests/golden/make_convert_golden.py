#!/usr/bin/env python3
"""Makes the Hugging Face model directories in convert/ and what they must become.

    python make_convert_golden.py [--only CASE ...] [output directory]

For each case a directory NAME: a tiny random model and a tiny tokenizer, saved by transformers,
tokenizers and sentencepiece, as their users save them. What they must become:

NAME.hf.f32      logits of the last positions of a prompt: the directory as transformers reads it
                 (FP32, CPU, eager attention)
convert.json     the prompts; what tokenizers make of some texts; and each tensor that llama.cpp's
                 converter writes: names by the `gguf` package's TensorNameMap, shapes, and bytes
                 with which a row begins, as F32 (vectors), F16 and Q8_0 by gguf.quants

Text goes to ids by the `tokenizers` library, which here must agree with sentencepiece, or with
AutoTokenizer, whichever reads the directory as it is.

Phi-3 has two prompts: up to the original context transformers takes the short factors of its rotary
embedding, past it the long ones.

needs: pip install torch transformers tokenizers sentencepiece gguf numpy protobuf
"""

import argparse
import io
import json
import math
import pathlib
import shutil

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's 2026, and they're here: 12345!",
    "A table for two, please; we'll be there at 7 o'clock. Don't worry about the weather.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "the the the there then they them these those that this",
    "who what when where why how which whose whom whether",
    "  indented   text\twith tabs\n\n\nand many lines\n",
] * 4
TEXTS = [
    "Hello world", " Hello  world ", "", "It's 12345 o'clock, isn't it?",
    "def f(x):\n    return x\n\n\n", "über den großen Deich 🦙🚀", "\tthe\n there  \n",
    "中文 и русский",
    "they're the THEM those", "<s>the</s> <|end|>",
]
TEMPLATE = ("{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}"
            "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}")


def byte_level(pattern, ignore_merges=False, bos=None, specials=("<|endoftext|>", "<|im_end|>")):
    """A byte-level BPE tokenizer; pattern None: GPT-2's own."""
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    steps = [plain]
    if pattern is not None:
        steps = [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"), plain]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else plain
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=plain.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(list(specials))
    tokenizer.add_tokens(["<think>"])
    if bos is not None:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A",
                                          special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer


def train_sentencepiece(path, user_defined=(), prepend=True):
    """tokenizer.model at `path`, as the Llama family's are made."""
    model = io.BytesIO()  # by name, it would hold the path
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.split("\n")),
        model_writer=model, model_type="bpe", vocab_size=380, byte_fallback=True,
        add_dummy_prefix=prepend, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        user_defined_symbols=list(user_defined), minloglevel=2, num_threads=1)
    path.write_bytes(model.getvalue())


def sentencepiece_as_json(path, prepend, rstrip):
    """The same vocabulary as a tokenizer.json with byte fallback: every way to put a piece together
    is a merge, by the score of what it makes, as transformers converts such models."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    scores = {piece: processor.get_score(i) for i, piece in enumerate(pieces)}
    normal = {p for i, p in enumerate(pieces) if not (
        processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))}
    merges = [(scores[piece], len(piece[:cut]), piece[:cut], piece[cut:])
              for piece in normal for cut in range(1, len(piece))
              if piece[:cut] in normal and piece[cut:] in normal]
    merges.sort(key=lambda m: (-m[0], m[1]))
    tokenizer = tokenizers.Tokenizer(models.BPE(
        vocab={piece: i for i, piece in enumerate(pieces)},
        merges=[(left, right) for _, _, left, right in merges],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [normalizers.Replace(" ", "\u2581")]
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581")] + steps) if prepend else steps[0]
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if prepend else []))
    tokenizer.add_special_tokens(["<unk>", "<s>",
                                  tokenizers.AddedToken("</s>", rstrip=rstrip, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


STORED_POSITIONS = 6
BASE = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, rms_norm_eps=1e-3, max_position_embeddings=128)


def rope(theta, **more):
    return dict(rope_type="default", rope_theta=theta) | more


CASES = [
    dict(name="llama", cls="Llama", tokenizer="spm", shards="24KB", dtype="float16",
         config=dict(BASE, attention_bias=True, rope_parameters=rope(
             10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
             original_max_position_embeddings=32))),
    # Rows of 48 cannot be Q8_0; the configuration is spelled as older versions did.
    dict(name="llama_json", cls="Llama", tokenizer="spm_json", dtype="float32", old=True,
         config=dict(BASE, num_hidden_layers=1, num_key_value_heads=4, intermediate_size=48,
                     tie_word_embeddings=True, rope_parameters=rope(
                         5000.0, rope_type="linear", factor=2.5))),
    dict(name="mistral", cls="Mistral", tokenizer="llama3", dtype="bfloat16",
         config=dict(BASE, head_dim=16, sliding_window=8, tie_word_embeddings=True,
                     rope_parameters=rope(10000.0))),
    dict(name="qwen2", cls="Qwen2", tokenizer="qwen2", dtype="bfloat16",
         config=dict(BASE, tie_word_embeddings=True, rope_parameters=rope(1000000.0))),
    dict(name="qwen3", cls="Qwen3", tokenizer="qwen2", dtype="float16",
         config=dict(BASE, head_dim=16, tie_word_embeddings=True,
                     rope_parameters=rope(500000.0))),
    dict(name="gemma", cls="Gemma", tokenizer="spm_gemma", dtype="bfloat16",
         config=dict(BASE, head_dim=16, hidden_act="gelu_pytorch_tanh",
                     rope_parameters=rope(10000.0))),
    dict(name="gemma2", cls="Gemma2", tokenizer="spm_gemma", dtype="bfloat16",
         config=dict(BASE, head_dim=16, query_pre_attn_scalar=16, sliding_window=8,
                     attn_logit_softcapping=5.0, final_logit_softcapping=3.0,
                     rope_parameters=rope(10000.0))),
    dict(name="phi3", cls="Phi3", tokenizer="spm_phi3", dtype="bfloat16", long_prompt=44,
         config=dict(BASE, num_attention_heads=2, num_key_value_heads=1, sliding_window=16,
                     original_max_position_embeddings=32, rope_parameters=rope(
                         10000.0, rope_type="longrope", partial_rotary_factor=0.75,
                         short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
                         long_factor=[1.5, 2.0, 3.0, 4.0, 4.5, 5.0],
                         original_max_position_embeddings=32))),
    dict(name="smollm3", cls="SmolLM3", tokenizer="gpt2", dtype="bfloat16",
         config=dict(BASE, num_hidden_layers=4, rope_parameters=rope(2000000.0))),
    dict(name="ernie4_5", cls="Ernie4_5", tokenizer="spm", dtype="bfloat16",
         config=dict(BASE, head_dim=16, rope_parameters=rope(500000.0))),
    dict(name="gemma3", cls="Gemma3", tokenizer="spm_gemma", dtype="bfloat16",
         config=dict(BASE, num_hidden_layers=6, head_dim=16, query_pre_attn_scalar=16,
                     sliding_window=8, rope_parameters=dict(
                         full_attention=rope(1000000.0, rope_type="linear", factor=8.0),
                         sliding_attention=rope(5000.0)))),
    dict(name="qwen3_yarn", cls="Qwen3", tokenizer="qwen2", dtype="bfloat16",
         config=dict(BASE, num_hidden_layers=1, head_dim=16, tie_word_embeddings=True,
                     rope_parameters=rope(
                         10000.0, rope_type="yarn", factor=4.0, beta_fast=8.0,
                         attention_factor=1.3, original_max_position_embeddings=32))),
    dict(name="qwen3moe", cls="Qwen3Moe", tokenizer="qwen2", dtype="bfloat16",
         config=dict(BASE, num_hidden_layers=1, head_dim=16, moe_intermediate_size=64,
                     num_experts=5, num_experts_per_tok=2, norm_topk_prob=True,
                     rope_parameters=rope(500000.0))),
]
POST_NORMS = ("Gemma2", "Gemma3")
CONFIGS = {"Gemma3": "Gemma3TextConfig"}  # where the name is not the class's


def make_tokenizer(kind, directory):
    """Writes the tokenizer's files and returns encode(text) -> ids, and the number of tokens."""
    directory.mkdir(parents=True)
    if kind in ("llama3", "qwen2", "gpt2"):
        bos = "<|begin_of_text|>" if kind == "llama3" else None
        specials = ["<|endoftext|>", "<|im_end|>"] + ([bos] if bos else [])
        tokenizer = byte_level({"llama3": LLAMA3_SPLIT, "qwen2": QWEN2_SPLIT, "gpt2": None}[kind],
                               kind == "llama3", bos, specials)
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=bos, eos_token="<|im_end|>",
            pad_token="<|endoftext|>", chat_template=TEMPLATE)
        fast.save_pretrained(directory)
        read = transformers.AutoTokenizer.from_pretrained(directory)
        for text in TEXTS:
            assert read(text).input_ids == tokenizer.encode(text).ids, text
        return lambda text: tokenizer.encode(text).ids, tokenizer.get_vocab_size()
    path = directory / "tokenizer.model"
    if kind == "spm_gemma":
        train_sentencepiece(path, user_defined=["\n\n", "\u2581\u2581", "<start_of_turn>"],
                            prepend=False)
        prepend = False
    else:
        train_sentencepiece(path)
        prepend = True
    # Phi-3's special tokens drop white space behind them, but for the first ones.
    tokenizer = sentencepiece_as_json(path, prepend, rstrip=kind == "spm_phi3")
    if kind == "spm_gemma":
        tokenizer.add_tokens(["\n\n", tokenizers.AddedToken("\u2581\u2581", normalized=True)])
        tokenizer.add_special_tokens(["<start_of_turn>"])
    if kind == "spm_phi3":
        tokenizer.add_special_tokens(["<|endoftext|>"])
        tokenizer.add_tokens([tokenizers.AddedToken("<|end|>", rstrip=True, special=True)])
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for text in TEXTS:
        if "<" not in text:
            assert [1] + processor.encode(text) == tokenizer.encode(text).ids, text
    if kind == "spm_json":
        path.unlink()
        tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True,
                  add_eos_token=False, chat_template=[dict(name="default", template=TEMPLATE)],
                  tokenizer_class="LlamaTokenizer")
    added = tokenizer.get_added_tokens_decoder()
    config["added_tokens_decoder"] = {str(i): dict(
        content=token.content, special=token.special, rstrip=token.rstrip, lstrip=token.lstrip,
        normalized=token.normalized, single_word=token.single_word) for i, token in added.items()}
    if kind == "spm_gemma":
        config["chat_template"] = TEMPLATE
    if kind == "spm_phi3":
        del config["chat_template"]
        (directory / "chat_template.jinja").write_text(TEMPLATE)
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return lambda text: tokenizer.encode(text).ids, tokenizer.get_vocab_size()


def random_parameter(name, shape, rng, offset, post_norms):
    """As in make_golden.py: each part of a layer adds about a tenth of a unit row, so that the
    rounding of the K/V cache stays below the bar."""
    if post_norms and ("post_attention_" in name or "post_feedforward_" in name):
        return rng.uniform(0.05, 0.15, shape) - offset
    if len(shape) == 1 and name.endswith("norm.weight"):
        return rng.uniform(0.5, 1.5, shape) - offset
    if len(shape) == 1:
        return rng.normal(0.0, 0.3, shape)
    if "embed_tokens" in name:
        return rng.normal(0.0, 1.0, shape)
    into_residual = "o_proj" in name or "down_proj" in name
    return rng.normal(0.0, (0.1 if into_residual else 1.0) / math.sqrt(shape[-1]), shape)


def make_model(case, n_tokens, rng):
    config_class = getattr(transformers, CONFIGS.get(case["cls"], case["cls"] + "Config"))
    config = config_class(**case["config"], vocab_size=n_tokens + 3, attn_implementation="eager",
                          bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = getattr(transformers, case["cls"] + "ForCausalLM")(config).eval()
    dtype, offset = getattr(torch, case["dtype"]), 1.0 if case["cls"].startswith("Gemma") else 0.0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = random_parameter(name, tuple(parameter.shape), rng, offset,
                                      case["cls"] in POST_NORMS)
            parameter.copy_(torch.from_numpy(values).to(dtype).float())
    return model


def parameters(model):
    """Names, and values as FP32; of experts, (n_experts, n_out, n_in), as converters store them. A
    tied head is listed once."""
    for name, parameter in model.named_parameters():
        values = parameter.detach().float().numpy()
        if name.endswith("experts.gate_up_proj"):
            for part, half in zip(("gate", "up"), np.split(values, 2, axis=1)):
                yield name.replace("gate_up", part) + ".weight", half
        elif values.ndim == 3:
            yield name + ".weight", values
        else:
            yield name, values


def expected_tensors(case, model):
    """What the converter must write, by name: the shape, fastest-varying first, and the bytes of
    one row or vector, or how it begins."""
    arch = {"Llama": "llama", "Mistral": "llama"}.get(case["cls"], case["cls"].lower())
    number = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(number, model.config.num_hidden_layers)
    n_heads, n_kv_heads = model.config.num_attention_heads, model.config.num_key_value_heads
    tensors = {}
    for name, values in parameters(model):
        if arch in ("llama", "smollm3") and (".q_proj." in name or ".k_proj." in name):
            heads = n_heads if ".q_proj." in name else n_kv_heads
            halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            values = values + np.float32(1)
        entry = dict(shape=list(reversed(values.shape)))
        if values.ndim == 1:
            entry["F32"] = values[:8].astype("<f4").tobytes().hex()
        elif name.endswith("mlp.gate.weight"):  # routers stay F32
            entry["F32"] = values[-1, :8].astype("<f4").tobytes().hex()
        else:
            row = values[5:6] if values.ndim == 2 else values[1, 5:6]  # of the second expert
            entry["F16"] = row[0, :16].astype("<f2").tobytes().hex()
            if row.shape[1] % 32 == 0:
                blocks = gguf.quants.quantize(row, gguf.GGMLQuantizationType.Q8_0)
                entry["Q8_0"] = blocks[0, :34].tobytes().hex()
        tensors[names.get_name(name, (".weight", ".bias"))] = entry
    return tensors


def spell_as_before(folder):
    """config.json as transformers 4 wrote it, special tokens in a file of their own."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope_parameters = config.pop("rope_parameters")
    config["rope_theta"] = rope_parameters["rope_theta"]
    config["rope_scaling"] = dict(type=rope_parameters["rope_type"],
                                  factor=rope_parameters["factor"])
    config["torch_dtype"] = config.pop("dtype")
    del config["head_dim"]
    path.write_text(json.dumps(config, indent=1))
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    special = {key: config.pop(key) for key in ("bos_token", "eos_token", "unk_token")}
    path.write_text(json.dumps(config, indent=1))
    (folder / "special_tokens_map.json").write_text(json.dumps(special))


def logits_of(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -STORED_POSITIONS:].float().numpy()


def make_case(index, case, directory):
    rng = np.random.default_rng(202700 + index)
    folder = directory / case["name"]
    shutil.rmtree(folder, ignore_errors=True)
    encode, n_tokens = make_tokenizer(case["tokenizer"], folder)
    model = make_model(case, n_tokens, rng)
    tensors = expected_tensors(case, model)
    model.to(getattr(torch, case["dtype"])).save_pretrained(
        folder, max_shard_size=case.get("shards", "5GB"))
    if case["name"] == "mistral":  # a chat model's list of ends
        path = folder / "generation_config.json"
        generation = json.loads(path.read_text())
        generation["eos_token_id"] = [encode("<|im_end|>")[-1], encode("<|endoftext|>")[-1]]
        path.write_text(json.dumps(generation, indent=1))
    if case.get("old"):
        spell_as_before(folder)
    for file in folder.iterdir():
        file.chmod(0o644)

    prompts = []
    for length in (24, case.get("long_prompt")):
        if length is None:
            continue
        ids = [int(i) for i in rng.integers(3, n_tokens, length)]
        prompts.append(dict(ids=ids))
    logits = np.concatenate([logits_of(folder, prompt["ids"]) for prompt in prompts])
    logits.astype("<f4").tofile(directory / f"{case['name']}.hf.f32")
    print(case["name"], sum(f.stat().st_size for f in folder.iterdir()),
          sorted(f.name for f in folder.iterdir()))
    return dict(name=case["name"], dtype=case["dtype"], vocab_size=model.config.vocab_size,
                prompts=prompts, texts=[[text, encode(text)] for text in TEXTS], tensors=tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="CASE",
                        help="make this case (again), keep what convert.json says of the others")
    parser.add_argument("directory", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "convert")
    options = parser.parse_args()
    directory, manifest = options.directory, options.directory / "convert.json"
    kept = {}
    if options.only:
        kept = {case["name"]: case for case in json.loads(manifest.read_text())["cases"]}
    torch.set_num_threads(1)
    cases = [kept[case["name"]] if options.only and case["name"] not in options.only
             else make_case(index, case, directory) for index, case in enumerate(CASES)]
    made_with = dict(torch=torch.__version__, transformers=transformers.__version__,
                     tokenizers=tokenizers.__version__, sentencepiece=sentencepiece.__version__)
    lines = ",\n".join(json.dumps(case) for case in cases)  # a case a line
    manifest.write_text(f'{{"made_with": {json.dumps(made_with)}, '
                        f'"template": {json.dumps(TEMPLATE)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
