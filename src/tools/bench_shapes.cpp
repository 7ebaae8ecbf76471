#include "tools/bench_shapes.h"

#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "error.h"
#include "model/config.h"
#include "system/number_text.h"

namespace specbound {

namespace {

// Far beyond what any memory holds, and products of them stay within 64 bits.
constexpr int kMostLayers = 1024, kMostDim = 1 << 16, kMostVocab = 1 << 20;

[[noreturn]] void refuse(const std::string& shape, const std::string& why) {
  throw Error(ErrorCode::kUsage, format("--shape %s: %s", printable(shape).c_str(), why.c_str()));
}

ModelConfig config_of(const BenchShape& s, const std::string& name) {
  ModelConfig config;
  config.architecture = "llama";
  config.name = name;
  config.dim = s.dim;
  config.ffn_dim = s.ffn_dim;
  config.n_layers = s.n_layers;
  config.n_heads = s.n_heads;
  config.n_kv_heads = s.n_kv_heads;
  config.head_dim = config.rope_dim = s.head_dim;
  config.score_scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  config.vocab_size = s.vocab_size;
  config.max_seq_len = 1 << 17;
  config.norm_eps = 1e-5f;
  return config;
}

// "4x256x704" -> {4, 256, 704}; empty for anything else than whole numbers with an x between.
std::vector<int64_t> numbers(std::string_view text) {
  std::vector<int64_t> found;
  for (;;) {
    const size_t end = text.find('x');
    const std::optional<int64_t> number = parse_int(text.substr(0, end));
    if (!number) return {};
    found.push_back(*number);
    if (end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

ModelConfig bench_config(const std::string& shape) {
  for (const BenchShape& s : kBenchShapes) {
    if (shape == s.name) return config_of(s, shape);
  }
  const std::vector<int64_t> n = numbers(shape);
  if (n.size() != 6) refuse(shape, format("expected %s", kBenchShapeHelp));
  const auto check = [&](const char* what, int64_t value, int64_t low, int64_t high, int multiple) {
    if (value >= low && value <= high && value % multiple == 0) return static_cast<int>(value);
    refuse(shape, format("%s: expected %lld to %lld%s, found %lld", what,
                         static_cast<long long>(low), static_cast<long long>(high),
                         multiple > 1 ? format(", a multiple of %d", multiple).c_str() : "",
                         static_cast<long long>(value)));
  };
  BenchShape s{};
  s.n_layers = check("layers", n[0], 1, kMostLayers, 1);
  s.dim = check("dim", n[1], 32, kMostDim, 32);
  s.ffn_dim = check("ffn", n[2], 32, kMostDim, 32);
  s.n_heads = check("heads", n[3], 1, 1024, 1);
  s.n_kv_heads = check("K/V heads", n[4], 1, s.n_heads, 1);
  s.vocab_size = check("vocabulary", n[5], 32, kMostVocab, 1);
  if (s.dim % s.n_heads != 0 || s.dim / s.n_heads % 2 != 0) {
    refuse(shape, format("expected heads of an even whole number of values, found %d / %d", s.dim,
                         s.n_heads));
  }
  if (s.n_heads % s.n_kv_heads != 0) {
    refuse(shape, format("expected K/V heads that divide the heads, found %d and %d", s.n_kv_heads,
                         s.n_heads));
  }
  s.head_dim = s.dim / s.n_heads;
  return config_of(s, shape);
}

}  // namespace specbound
