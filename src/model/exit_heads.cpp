#include "model/exit_heads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

// Bounds that no model reaches, so that products of them fit.
constexpr uint64_t kMostLayers = 4096, kMostDim = 1 << 17, kMostVocab = 1 << 23,
                   kMostInner = 1 << 20;
// The ranges of the speculator's settings.
constexpr uint64_t kMaxWidth = 16;
constexpr double kMaxAlpha = 100;
constexpr const char* kText = "exit.text";

unsigned long long ull(uint64_t value) {
  return value;
}

// The first value of a matrix that is infinite or no number, as a text; empty: none.
std::string first_not_finite(const Matrix& m) {
  // All exponent bits set.
  const auto half = [](uint16_t bits) { return (bits & 0x7c00u) == 0x7c00u; };
  const auto find = [&](size_t n, auto&& bad) -> std::string {
    const size_t per_row = n / m.n_out;
    for (size_t i = 0; i < n; ++i) {
      if (bad(i)) return format("row %zu", i / per_row);
    }
    return "";
  };
  const size_t n = static_cast<size_t>(m.n_out) * m.n_in;
  if (m.type == DType::kQ8_0) {
    return find(n / 32, [&](size_t i) {
      uint16_t d;
      std::memcpy(&d, m.data + i * sizeof(BlockQ8_0), sizeof(d));
      return half(d);
    });
  }
  if (m.type == DType::kF16) {
    return find(n, [&](size_t i) {
      uint16_t bits;
      std::memcpy(&bits, m.data + i * sizeof(bits), sizeof(bits));
      return half(bits);
    });
  }
  SB_CHECK(m.type == DType::kF32);
  return find(n, [&](size_t i) {
    uint32_t bits;
    std::memcpy(&bits, m.data + i * sizeof(bits), sizeof(bits));
    return (bits & 0x7f800000u) == 0x7f800000u;
  });
}

// Keys and tensors of a heads file, each checked where it is read.
class Reader {
 public:
  explicit Reader(const Gguf& file) : file_(file) {}

  std::string_view text(const char* key) const {
    const auto value = file_.get_string(key);
    if (!value) missing(key, "a text");
    return *value;
  }
  int number(const char* key, uint64_t low, uint64_t high) const {
    const auto value = file_.get_uint(key);
    const std::string expected = format("%llu to %llu", ull(low), ull(high));
    if (!value) missing(key, expected);
    if (*value < low || *value > high) bad(key, expected, format("%llu", ull(*value)));
    return static_cast<int>(*value);
  }
  int64_t count(const char* key, uint64_t most) const {
    const auto value = file_.get_uint(key);
    if (!value || *value > most) {
      bad(key, format("0 to %llu", ull(most)), value ? format("%llu", ull(*value)) : "no number");
    }
    return static_cast<int64_t>(*value);
  }
  float real(const char* key, double low, double high) const {
    const auto value = file_.get_float(key);
    const std::string expected = format("%g to %g", low, high);
    if (!value) missing(key, expected);
    if (!(*value >= low && *value <= high)) bad(key, expected, format("%g", *value));
    return static_cast<float>(*value);
  }
  std::vector<int32_t> integers(const char* key) const {
    auto values = file_.get_ints(key);
    if (!values) missing(key, "an array of i32");
    return std::move(*values);
  }
  std::vector<float> finite_reals(const char* key, size_t count) const {
    auto values = file_.get_floats(key);
    if (!values) missing(key, "an array of f32");
    check_count(key, values->size(), count);
    for (float value : *values) {
      if (!std::isfinite(value)) bad(key, "finite numbers", format("%g", value));
    }
    return std::move(*values);
  }
  std::vector<std::string_view> texts(const char* key, size_t count) const {
    auto values = file_.get_strings(key);
    if (!values) missing(key, "an array of string");
    check_count(key, values->size(), count);
    return std::move(*values);
  }
  HeadKind kind(const char* key, std::string_view name) const {
    const auto kind = parse_head_kind(name);
    if (!kind) bad(key, "full, folded, chained or layer", "'" + printable(name) + "'");
    return *kind;
  }

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  // n_out 0: as many as the tensor has, whole blocks of 32.
  Matrix matrix(const std::string& name, int n_out, int n_in, std::initializer_list<DType> types) {
    const GgufTensor& tensor = take(name);
    const std::vector<uint64_t>& shape = tensor.shape;
    const uint64_t rows = shape.size() == 2 ? shape[1] : 1;
    const bool free = n_out == 0;
    if (shape.size() > 2 || shape[0] != static_cast<uint64_t>(n_in) ||
        (free ? rows % 32 != 0 || rows > kMostInner : rows != static_cast<uint64_t>(n_out))) {
      const std::string expected =
          free ? format("(%d, a multiple of 32)", n_in) : format("(%d, %d)", n_in, n_out);
      bad_tensor(name, "shape " + expected, shape_text(shape));
    }
    for (const DType type : types) {
      if (type == tensor.type) {
        const Matrix m = {type, static_cast<int>(rows), n_in, tensor.bytes.data()};
        const std::string place = first_not_finite(m);
        if (!place.empty()) bad_tensor(name, "finite values", "a value that is none in " + place);
        return m;
      }
    }
    bad_tensor(name, joined(types, " or ", [](DType type) { return dtype_info(type)->name; }),
               dtype_info(tensor.type)->name);
  }

  std::vector<int32_t> integers_of(const std::string& name, size_t most) {
    const GgufTensor& tensor = take(name);
    if (tensor.type != DType::kI32) bad_tensor(name, "I32", dtype_info(tensor.type)->name);
    if (tensor.shape.size() != 1 || tensor.shape[0] > most) {
      bad_tensor(name, format("shape (up to %zu)", most), shape_text(tensor.shape));
    }
    std::vector<int32_t> values(tensor.shape[0]);
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  // Distinct token ids; none when there is no such tensor.
  std::vector<int32_t> tokens(const std::string& name, int vocab_size) {
    if (!has(name)) return {};
    std::vector<int32_t> ids = integers_of(name, static_cast<size_t>(vocab_size));
    std::vector<bool> seen(vocab_size, false);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_size) {
        bad_tensor(name, format("token ids from 0 to %d", vocab_size - 1),
                   format("%d at %zu", ids[i], i));
      }
      if (seen[ids[i]]) bad_tensor(name, "each token once", format("%d again at %zu", ids[i], i));
      seen[ids[i]] = true;
    }
    return ids;
  }

  // None when there is no such tensor.
  std::vector<int32_t> text_tokens(int vocab_size) {
    const std::string name = kText;
    if (!has(name)) return {};
    std::vector<int32_t> ids = integers_of(name, kMostTextTokens);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < -1 || ids[i] >= vocab_size) {
        bad_tensor(name, format("token ids from 0 to %d, or -1", vocab_size - 1),
                   format("%d at %zu", ids[i], i));
      }
    }
    return ids;
  }

  // Draft tables, alone or with a chained head (`hybrid`), are what files held before `exit.text`.
  void refuse_table() const {
    const auto refuse = [this](const std::string& found) {
      throw Error(ErrorCode::kFormat,
                  format("%s: expected heads and a text to look up in, found %s of a draft table, "
                         "which specbound no longer reads",
                         file_.path().c_str(), found.c_str()));
    };
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with("exit.table.")) {
        refuse("tensor '" + printable(tensor.name) + "'");
      }
    }
    for (const char* key : {"specbound.table.max_context", "specbound.table_tau"}) {
      if (file_.find(key)) refuse(format("key '%s'", key));
    }
    const auto kind = file_.get_string("specbound.kind");
    if (kind == "table" || kind == "hybrid") {
      refuse("key 'specbound.kind' = '" + std::string(*kind) + "'");
    }
  }

  void refuse_leftovers() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.count(tensor.name)) {
        bad_tensor(std::string(tensor.name), "only tensors of the heads it names", "this one");
      }
    }
  }

  [[noreturn]] void bad(const char* key, const std::string& expected,
                        const std::string& found) const {
    throw Error(ErrorCode::kFormat,
                format("%s: key '%s': expected %s, found %s", file_.path().c_str(), key,
                       expected.c_str(), found.c_str()));
  }
  [[noreturn]] void bad_tensor(const std::string& name, const std::string& expected,
                               const std::string& found) const {
    throw Error(ErrorCode::kFormat,
                format("%s: tensor '%s': expected %s, found %s", file_.path().c_str(),
                       printable(name).c_str(), expected.c_str(), found.c_str()));
  }

 private:
  [[noreturn]] void missing(const char* key, const std::string& expected) const {
    bad(key, expected, "no such key");
  }
  void check_count(const char* key, size_t found, size_t expected) const {
    if (found == expected) return;
    bad(key, format("%zu entries, one a head", expected), format("%zu", found));
  }
  const GgufTensor& take(const std::string& name) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (!tensor) bad_tensor(name, "a tensor", "none of this name");
    taken_.insert(tensor->name);
    return *tensor;
  }

  const Gguf& file_;
  std::set<std::string_view> taken_;
};

HeadsBase read_base(const Reader& in) {
  HeadsBase base;
  base.architecture = in.text("specbound.base.architecture");
  base.n_layers = in.number("specbound.base.n_layers", 1, kMostLayers);
  base.dim = in.number("specbound.base.dim", 1, kMostDim);
  base.vocab_size = in.number("specbound.base.vocab_size", 1, kMostVocab);
  base.fingerprint = in.text("specbound.base.fingerprint");
  return base;
}

void check_made_for(const std::string& path, const HeadsBase& model, const HeadsBase& found) {
  const auto refuse = [&](const std::string& expected_text, const std::string& found_text) {
    throw Error(ErrorCode::kFormat,
                format("%s: made for another model: expected %s, found %s", path.c_str(),
                       expected_text.c_str(), found_text.c_str()));
  };
  if (found.architecture != model.architecture) {
    refuse("architecture " + model.architecture, printable(found.architecture));
  }
  const auto check = [&](const char* pattern_name, int expected_value, int found_value) {
    if (found_value == expected_value) return;
    refuse(format("%s %d", pattern_name, expected_value), format("%d", found_value));
  };
  check("number of layers", model.n_layers, found.n_layers);
  check("dim", model.dim, found.dim);
  check("vocabulary size", model.vocab_size, found.vocab_size);
  if (found.fingerprint != model.fingerprint) {
    refuse("fingerprint " + model.fingerprint, printable(found.fingerprint));
  }
}

// Which heads there are, by kind, then layer; their weights are still to be found.
std::vector<HeadWeights> read_directory(const Reader& in, const HeadsBase& base) {
  constexpr const char *kLayers = "specbound.head_layers", *kKinds = "specbound.head_kinds";
  const std::vector<int32_t> layers = in.integers(kLayers);
  if (layers.empty() && !in.has(kText)) in.bad(kLayers, "at least one head or a text", "none");
  const auto kinds = in.texts(kKinds, layers.size());
  const auto scales = in.finite_reals("specbound.margin_scale", layers.size());
  const auto offsets = in.finite_reals("specbound.margin_offset", layers.size());
  std::vector<HeadWeights> heads;
  for (size_t i = 0; i < layers.size(); ++i) {
    HeadWeights head;
    head.layer = layers[i];
    head.kind = in.kind(kKinds, kinds[i]);
    head.margin_scale = scales[i];
    head.margin_offset = offsets[i];
    const int first = has_state(head.kind) ? 0 : 1;
    const int last = head.kind == HeadKind::kLayer ? 0 : base.n_layers - 1;
    if (head.layer < first || head.layer > last) {
      in.bad(kLayers,
             format("layers from %d to %d for %s heads", first, last, head_kind_name(head.kind)),
             format("%d", head.layer));
    }
    heads.push_back(head);
  }
  const auto place = [](const HeadWeights& head) { return std::pair(head.kind, head.layer); };
  std::sort(heads.begin(), heads.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
  const auto twice =
      std::adjacent_find(heads.begin(), heads.end(),
                         [&](const auto& a, const auto& b) { return place(a) == place(b); });
  if (twice != heads.end()) {
    in.bad(kLayers, "one head of a kind at a layer",
           format("two %s heads at layer %d", head_kind_name(twice->kind), twice->layer));
  }
  return heads;
}

// base.q_dim is 0 where the model is not known; as many heads then as the tensors have.
void read_block(Reader& in, const std::string& prefix, const HeadsBase& base, HeadWeights& head) {
  const int dim = base.dim;
  const auto matrix = [&](const char* name, int n_out, int n_in) {
    return in.matrix(prefix + name + ".weight", n_out, n_in, {DType::kQ8_0});
  };
  LayerWeights& block = head.block;
  head.map = matrix("map", dim, 2 * dim);
  block.wq = matrix("q", base.q_dim, dim);
  block.wk = matrix("k", base.kv_dim, dim);
  block.wv = matrix("v", block.wk.n_out, dim);
  block.wo = matrix("o", dim, block.wq.n_out);
  block.w_gate = matrix("gate", 0, dim);
  block.w_up = matrix("up", block.w_gate.n_out, dim);
  block.w_down = matrix("down", dim, block.w_gate.n_out);
  const Matrix norm = in.matrix(prefix + "norm.weight", 1, dim, {DType::kF32});
  head.norm = reinterpret_cast<const float*>(norm.data);
}

void read_weights(Reader& in, const HeadsBase& base, int n_shortlist, HeadWeights& head) {
  const int dim = base.dim;
  const std::string prefix = format("exit.%d.%s.", head.layer, head_kind_name(head.kind));
  if (head.kind != HeadKind::kFull && n_shortlist == 0) {
    in.bad_tensor("exit.shortlist", format("the tokens of %s heads", head_kind_name(head.kind)),
                  "no such tensor");
  }
  constexpr int kLeastTokens = 16;  // of a layer: as many as a round has rows
  if (head.kind == HeadKind::kLayer && n_shortlist < kLeastTokens) {
    in.bad_tensor("exit.shortlist", format("%d tokens or more for a layer", kLeastTokens),
                  format("%d", n_shortlist));
  }
  switch (head.kind) {
    case HeadKind::kFull:
      head.map = in.matrix(prefix + "weight", dim, dim, {DType::kF16, DType::kF32});
      break;
    case HeadKind::kFolded:
      head.folded = in.matrix(prefix + "weight", n_shortlist, dim, {DType::kQ8_0});
      break;
    case HeadKind::kChained:
      head.map = in.matrix(prefix + "map.weight", dim, 2 * dim, {DType::kQ8_0});
      // Both or none: D of a missing C has no shape.
      if (!in.has(prefix + "inner.weight") && !in.has(prefix + "outer.weight")) break;
      head.inner = in.matrix(prefix + "inner.weight", 0, 2 * dim, {DType::kQ8_0});
      head.outer = in.matrix(prefix + "outer.weight", dim, head.inner.n_out, {DType::kQ8_0});
      break;
    case HeadKind::kLayer:
      read_block(in, prefix, base, head);
  }
}

HeadDefaults read_defaults(const Reader& in, const ExitHeads& heads) {
  constexpr const char* kCheckLayers = "specbound.check_layers";
  constexpr const char* kShortlist = "specbound.shortlist_size";
  HeadDefaults d;
  d.kind = in.kind("specbound.kind", in.text("specbound.kind"));
  const std::vector<int> layers = heads.layers(d.kind);
  if (layers.empty()) {
    in.bad("specbound.kind", "a kind of which there are heads", head_kind_name(d.kind));
  }
  d.check_layers = in.integers(kCheckLayers);
  int before = -1;
  for (const int layer : d.check_layers) {
    if (!std::binary_search(layers.begin(), layers.end(), layer)) {
      in.bad(kCheckLayers, format("layers with a %s head", head_kind_name(d.kind)),
             format("%d", layer));
    }
    if (layer <= before) {
      in.bad(kCheckLayers, "ascending layers", format("%d after %d", layer, before));
    }
    before = layer;
  }
  if (d.check_layers.empty()) d.check_layers = layers;
  const int all = static_cast<int>(heads.shortlist().size());
  d.shortlist = in.number(kShortlist, 0, all);
  if (d.shortlist == 0) d.shortlist = all;
  if (d.shortlist != all && d.shortlist % 16 != 0) {
    in.bad(kShortlist, format("a multiple of 16, or all %d tokens", all),
           format("%d", d.shortlist));
  }
  d.alpha = in.real("specbound.alpha", 0, kMaxAlpha);
  d.tau = in.real("specbound.tau", 0, 1);
  d.d_max = in.number("specbound.d_max", 1, INT32_MAX);
  d.w_max = in.number("specbound.w_max", 1, kMaxWidth);
  return d;
}

}  // namespace

const char* head_kind_name(HeadKind kind) {
  constexpr const char* kNames[] = {"full", "folded", "chained", "layer"};
  static_assert(std::size(kNames) == std::size(kHeadKinds));
  return kNames[static_cast<size_t>(kind)];
}

std::optional<HeadKind> parse_head_kind(std::string_view name) {
  for (HeadKind kind : kHeadKinds) {
    if (name == head_kind_name(kind)) return kind;
  }
  return std::nullopt;
}

ExitHeads ExitHeads::open(const std::string& path, const Gguf& model, const ModelConfig& config) {
  Gguf file = Gguf::open(path);
  const HeadsBase base = heads_base(model, config);
  return from_gguf(std::move(file), &base);
}

ExitHeads ExitHeads::from_gguf(Gguf file, const HeadsBase* model) {
  ExitHeads heads;
  heads.gguf_ = std::move(file);
  Reader in(heads.gguf_);
  if (const auto architecture = in.text("general.architecture");
      architecture != kHeadsArchitecture) {
    in.bad("general.architecture", format("'%s', a file of exit heads", kHeadsArchitecture),
           "'" + printable(architecture) + "'");
  }
  heads.base_ = read_base(in);
  if (model) {
    check_made_for(heads.path(), *model, heads.base_);
    heads.base_.q_dim = model->q_dim;
    heads.base_.kv_dim = model->kv_dim;
  }
  in.refuse_table();
  heads.heads_ = read_directory(in, heads.base_);
  heads.shortlist_ = in.tokens("exit.shortlist", heads.base_.vocab_size);
  for (HeadWeights& head : heads.heads_) {
    read_weights(in, heads.base_, static_cast<int>(heads.shortlist_.size()), head);
  }
  heads.text_ = in.text_tokens(heads.base_.vocab_size);
  in.refuse_leftovers();
  if (heads.can_guess()) heads.defaults_ = read_defaults(in, heads);
  if (heads.gguf_.find(kLearntKey)) heads.learnt_ = in.count(kLearntKey, UINT32_MAX);
  return heads;
}

int ExitHeads::find(HeadKind kind, int layer) const {
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].kind == kind && heads_[i].layer == layer) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> ExitHeads::layers(HeadKind kind) const {
  std::vector<int> layers;
  for (const HeadWeights& head : heads_) {
    if (head.kind == kind) layers.push_back(head.layer);
  }
  return layers;
}

size_t ExitHeads::bytes() const {
  return gguf_.file_size();
}

}  // namespace specbound
