// Any bytes as a file of a Hugging Face model directory; the first byte of an input says which:
//   0 safetensors, 1 tokenizer.model, 2 tokenizer.json, 3 config.json,
//   4 published draft heads for a small model: u16 size of config.json | it | safetensors
// A tokenizer.json is its own tokenizer_config.json, too.
// What is accepted is converted as far as it goes without weights, and read back.
//
// Started with an empty corpus directory, it fills it with the small files of tests/golden/convert
// first, and with some of its own.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/hf_config.h"
#include "convert/hf_files.h"
#include "convert/hf_tokenizer.h"
#include "convert/hf_vocabulary.h"
#include "convert/published_heads.h"
#include "convert/safetensors.h"
#include "convert/sentencepiece_model.h"
#include "empty_corpus.h"
#include "error.h"
#include "json/json_reader.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "text/tokenizer.h"

namespace {

using namespace specbound;

void fuzz_safetensors(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  const Safetensors file = Safetensors::parse(bytes, "fuzz");
  for (const SafeTensor& tensor : file.tensors()) {
    SB_CHECK(tensor.bytes.empty() || tensor.bytes.data() >= bytes.data());
    sum += tensor.bytes.size();
    if (!tensor.bytes.empty()) sum += static_cast<uint64_t>(tensor.bytes.back());
  }
  SB_CHECK(sum <= bytes.size() * 257);
}

void fuzz_sentencepiece(std::span<const std::byte> bytes) {
  const SentencePieceModel model = read_sentencepiece(bytes, "fuzz");
  SB_CHECK(!model.pieces.empty() && model.pieces.size() <= bytes.size());
}

void read_back(const GgufWriter& writer) {
  const std::vector<std::byte> file = writer.serialize();
  const Gguf gguf = Gguf::parse(file, "fuzz");
  if (gguf.find("general.architecture")) {
    read_config(gguf);
  } else {
    Tokenizer::from_gguf(gguf)->encode("Hello world 123");
  }
}

void fuzz_tokenizer(std::string_view text) {
  const nlohmann::json json = parse_json(text, "fuzz");
  HfFiles files;
  files.directory = SPECBOUND_GOLDEN "/convert/llama_json";  // has a tokenizer.json and no template
  files.tokenizer = files.tokenizer_config = json;
  files.config = files.special_tokens = files.added_tokens = files.generation =
      nlohmann::json::object();
  const HfVocabulary vocabulary = read_hf_tokenizer(files, 1000, std::nullopt, false);
  SB_CHECK(vocabulary.tokens.size() == 1000);
  GgufWriter writer;
  add_vocabulary_keys(vocabulary, writer);
  read_back(writer);
}

void fuzz_config(std::string_view text) {
  const nlohmann::json json = parse_json(text, "fuzz");
  GgufWriter writer;
  add_config_keys(read_hf_config(json, "fuzz"), writer);
  read_back(writer);
}

const Gguf& model() {
  static const Gguf model = Gguf::open(SPECBOUND_GOLDEN "/smollm3.gguf");
  return model;
}

// Read as they are and as Q8_0; what is read must be a file that opens.
void fuzz_heads(std::span<const std::byte> bytes) {
  uint16_t size = 0;
  if (bytes.size() < sizeof(size)) return;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(size));
  if (size > rest.size()) return;
  const nlohmann::json config =
      parse_json({reinterpret_cast<const char*>(rest.data()), size}, "fuzz");
  const Checkpoint checkpoint = Checkpoint::of(Safetensors::parse(rest.subspan(size), "f"), "d");
  for (const std::optional<DType> type : {std::optional<DType>(), std::optional(DType::kQ8_0)}) {
    exit_heads_file("out", read_published_heads(config, "fuzz", checkpoint, model(), type));
  }
}

// Published heads, as small as the model lets them be; weights are all the same.
struct SeedTensor {
  const char* name;
  std::vector<size_t> shape;
  const char* dtype = "BF16";
};

std::string small_heads(const std::string& config, const std::vector<SeedTensor>& tensors) {
  nlohmann::json header;
  std::string data;
  for (const SeedTensor& tensor : tensors) {
    const bool whole = std::string_view(tensor.dtype) == "I64";
    size_t bytes = whole ? sizeof(int64_t) : sizeof(uint16_t);
    for (const size_t n : tensor.shape) bytes *= n;
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + bytes}}};
    data += std::string(bytes, whole ? '\0' : '<');
  }
  const auto of_size = [](auto size, const std::string& text) {
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
  };
  const std::string text = header.dump();
  return of_size(static_cast<uint16_t>(config.size()), config) +
         of_size(static_cast<uint64_t>(text.size()), text) + data;
}

// Of a layer: k and v of 16, all else of 32.
std::vector<SeedTensor> block_tensors(std::vector<SeedTensor> tensors,
                                      const std::array<const char*, 7>& names, size_t n_in) {
  const std::vector<size_t> shapes[] = {{32, n_in}, {16, n_in}, {16, n_in}, {32, 32},
                                        {32, 32},   {32, 32},   {32, 32}};
  for (size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], shapes[i]});
  return tensors;
}

std::vector<std::string> small_heads() {
  return {
      small_heads(R"({"medusa_num_heads":1,"medusa_num_layers":0})", {{"0.0.weight", {58, 32}}}),
      small_heads(R"({"hydra_num_heads":1,"grounded_heads":true})",
                  {{"hydra_mlp.0.0.linear.weight", {32, 64}},
                   {"hydra_mlp.0.0.linear.bias", {32}},
                   {"hydra_mlp.0.0.res_connection.weight", {32, 64}},
                   {"hydra_mlp.0.0.res_connection.bias", {32}},
                   {"hydra_lm_head.0.weight", {58, 32}},
                   {"hydra_lm_head.0.bias", {58}}}),
      small_heads(R"({"intermediate_size":32,"rope_theta":50000})",
                  block_tensors(
                      {{"fc.weight", {32, 64}}, {"layers.0.post_attention_layernorm.weight", {32}}},
                      {"layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight",
                       "layers.0.self_attn.v_proj.weight", "layers.0.self_attn.o_proj.weight",
                       "layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight",
                       "layers.0.mlp.down_proj.weight"},
                      32)),
      small_heads(
          R"({"intermediate_size":32,"draft_vocab_size":1,)"
          R"("eagle_config":{"eagle_aux_hidden_state_layer_ids":[0,1,2]}})",
          block_tensors({{"fc.weight", {32, 96}},
                         {"midlayer.hidden_norm.weight", {32}},
                         {"midlayer.input_layernorm.weight", {32}},
                         {"midlayer.post_attention_layernorm.weight", {32}},
                         {"norm.weight", {32}},
                         {"lm_head.weight", {1, 32}},
                         {"d2t", {1}, "I64"}},
                        {"midlayer.self_attn.q_proj.weight", "midlayer.self_attn.k_proj.weight",
                         "midlayer.self_attn.v_proj.weight", "midlayer.self_attn.o_proj.weight",
                         "midlayer.mlp.gate_proj.weight", "midlayer.mlp.up_proj.weight",
                         "midlayer.mlp.down_proj.weight"},
                        64)),
      small_heads(R"({"intermediate_size":32})",
                  block_tensors({{"model.mtp_layers.0.input_proj.weight", {32, 64}},
                                 {"model.mtp_layers.0.token_layernorm.weight", {32}},
                                 {"model.mtp_layers.0.hidden_layernorm.weight", {32}},
                                 {"model.mtp_layers.0.input_layernorm.weight", {32}},
                                 {"model.mtp_layers.0.post_attention_layernorm.weight", {32}},
                                 {"model.mtp_layers.0.final_layernorm.weight", {32}}},
                                {"model.mtp_layers.0.self_attn.q_proj.weight",
                                 "model.mtp_layers.0.self_attn.k_proj.weight",
                                 "model.mtp_layers.0.self_attn.v_proj.weight",
                                 "model.mtp_layers.0.self_attn.o_proj.weight",
                                 "model.mtp_layers.0.mlp.gate_proj.weight",
                                 "model.mtp_layers.0.mlp.up_proj.weight",
                                 "model.mtp_layers.0.mlp.down_proj.weight"},
                                32)),
      small_heads(R"({"exit_layer":1,"num_hidden_layers":1})",
                  {{"layers.0.input_layernorm.weight", {32}},
                   {"layers.0.self_attn.q_proj.weight", {32, 32}},
                   {"layers.0.self_attn.k_proj.weight", {16, 32}},
                   {"layers.0.self_attn.v_proj.weight", {16, 32}},
                   {"layers.0.self_attn.o_proj.weight", {32, 32}},
                   {"norm.weight", {32}}})};
}

constexpr size_t kMaxSeed = 32768;  // packaging/test.sh's longest input: more would be cut

std::string small_safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header +
         std::string(22, 'x');
}

constexpr const char* kByteFallback =
    R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},)"
    R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},"model":{"type":"BPE",)"
    R"("byte_fallback":true,"unk_token":"<unk>","vocab":{"<unk>":0,"<0x0A>":1,"a":2,"b":3,)"
    R"("ab":4},"merges":["a b"]}})";

constexpr char kOther = '\5';
char kind_of(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return '\0';
  if (path.filename() == "tokenizer.model") return '\1';
  if (path.filename() == "tokenizer.json") return '\2';
  return path.filename() == "config.json" ? '\3' : kOther;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  namespace fs = std::filesystem;
  std::vector<std::string> seeds = {'\0' + small_safetensors(), '\2' + std::string(kByteFallback)};
  for (const std::string& heads : small_heads()) seeds.push_back('\4' + heads);
  for (const auto& entry : fs::recursive_directory_iterator(SPECBOUND_GOLDEN "/convert")) {
    const char kind = kind_of(entry.path());
    if (kind == kOther || !entry.is_regular_file() || entry.file_size() >= kMaxSeed) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    seeds.push_back(kind + std::string(std::istreambuf_iterator<char>(in), {}));
  }
  test::fill_empty_corpus(*argc, *argv, seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 5) {
      case 0:
        fuzz_safetensors(bytes);
        break;
      case 1:
        fuzz_sentencepiece(bytes);
        break;
      case 2:
        fuzz_tokenizer(text);
        break;
      case 3:
        fuzz_config(text);
        break;
      case 4:
        fuzz_heads(bytes);
        break;
    }
  } catch (const Error&) {
  }
  return 0;
}
