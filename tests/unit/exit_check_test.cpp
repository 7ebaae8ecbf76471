// Exit checks against the formulas of model/exit_heads.h, written once more as plainly as they can
// be said: what INT8 defines exactly is compared bit for bit, and so is everything from one
// instruction set, layout and thread count to another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine_rig.h"
#include "int8_reference.h"
#include "model/exit_heads.h"
#include "temp_dir.h"

namespace exit_check_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kDim = 96, kInner = 160, kList = 150;  // three chunks of z, the last one short

// gemma2 caps its logits, heads' too.
TinySpec spec_of(DType type, const char* architecture) {
  TinySpec spec;
  spec.architecture = architecture;
  if (spec.architecture == "gemma2") spec.final_softcap = 0.7f;
  spec.dim = kDim;
  spec.n_layers = 3;
  spec.vocab_size = 300;
  spec.type = type;
  return spec;
}

HeadTensor random_tensor(int n_out, int n_in, uint64_t seed) {
  TinyRandom random(seed);
  HeadTensor tensor{n_out, n_in, std::vector<float>(size_t(n_out) * n_in)};
  for (float& v : tensor.values) v = 2 * random.normal() / std::sqrt(static_cast<float>(n_in));
  return tensor;
}

// A tiny model and heads of every kind beside it; chained ones with and without an inner part.
struct Subject {
  TinyModel model;
  TempDir folder;
  std::string path = folder / "heads.gguf";
  std::optional<ExitHeads> heads;

  explicit Subject(DType type, const char* architecture = "llama")
      : model(spec_of(type, architecture)) {
    NewHeads file;
    file.base = heads_base(model.gguf, model.config);
    for (int i = 0; i < kList; ++i) file.shortlist.push_back((i * 7 + 5) % 300);
    const auto add = [&](int layer, HeadKind kind) -> NewHead& {
      NewHead& head = file.heads.emplace_back();
      head.layer = layer;
      head.kind = kind;
      return head;
    };
    add(1, HeadKind::kFull).map = random_tensor(kDim, kDim, 1);
    add(1, HeadKind::kFolded).folded = random_tensor(kList, kDim, 2);
    add(2, HeadKind::kFolded).folded = random_tensor(kList, kDim, 3);
    NewHead& shallow = add(0, HeadKind::kChained);
    shallow.map = random_tensor(kDim, 2 * kDim, 4);
    NewHead& deep = add(2, HeadKind::kChained);
    deep.map = random_tensor(kDim, 2 * kDim, 5);
    for (NewHead& head : file.heads) {
      if (head.kind != HeadKind::kChained || head.layer == 0) continue;
      head.inner = random_tensor(kInner, 2 * kDim, 6);
      head.outer = random_tensor(kDim, kInner, 7);
    }
    file.defaults.check_layers = {1, 2};
    file.defaults.shortlist = 64;
    write_exit_heads(path, file);
    heads.emplace(ExitHeads::open(path, model.gguf, model.config));
  }

  int index(HeadKind kind, int layer) const {
    const int found = heads->find(kind, layer);
    REQUIRE(found >= 0);
    return found;
  }
};

std::vector<float> times_float(const Matrix& w, int n_out, const std::vector<float>& x) {
  std::vector<float> y(n_out);
  kernels_for(Isa::kPortable)
      .matmul_float(w, 0, n_out, x.data(), w.n_in, 1, y.data(), n_out, false);
  return y;
}

std::vector<float> times(Matrix w, int n_out, const std::vector<float>& x) {
  w.n_out = n_out;
  return takes_int8_rows(w.type) ? formula(w, x, 1) : times_float(w, n_out, x);
}

std::vector<float> normed(std::span<const float> h, const float* weight, float eps) {
  const std::vector<float> ones(h.size(), 1.0f);
  std::vector<float> y(h.size());
  kernels_for(Isa::kPortable)
      .rmsnorm(h.data(), weight ? weight : ones.data(), eps, static_cast<int>(h.size()), y.data());
  return y;
}

// What a backend should find, state by state.
class Reference {
 public:
  Reference(const Subject& subject, int shortlist)
      : subject_(subject), shortlist_(shortlist), states_(kMaxRows + 1) {}

  void keep_state(std::span<const float> h) {
    states_[0] = normed(h, weights().output_norm, config().norm_eps);
  }

  // The logits of `ids`; empty: of the vocabulary.
  std::vector<float> check(int index, int slot, std::span<const float> h,
                           std::span<const int32_t> ids) {
    std::vector<float> z = uncapped(index, slot, h, ids);
    const float cap = config().final_softcap;
    if (cap > 0) kernels_for(Isa::kPortable).softcap(z.data(), cap, static_cast<int>(z.size()));
    return z;
  }

 private:
  std::vector<float> uncapped(int index, int slot, std::span<const float> h,
                              std::span<const int32_t> ids) {
    const HeadWeights& head = subject_.heads->heads()[index];
    const std::vector<float> x = normed(h, nullptr, config().norm_eps);
    if (head.kind == HeadKind::kFolded) return times(head.folded, shortlist_, x);
    if (head.kind == HeadKind::kFull) {
      return times(weights().lm_head, config().vocab_size, times(head.map, kDim, x));
    }
    std::vector<float> u = x;
    u.insert(u.end(), states_[slot].begin(), states_[slot].end());
    std::vector<float> y = times(head.map, kDim, u);
    if (head.inner.n_out) {
      std::vector<float> c = times(head.inner, kInner, u);
      const std::vector<float> ones(c.size(), 1.0f);
      kernels_for(Isa::kPortable).silu_mul(c.data(), ones.data(), kInner);
      const std::vector<float> more = times(head.outer, kDim, c);
      for (int i = 0; i < kDim; ++i) y[i] += more[i];
    }
    states_[slot + 1] = y;
    const std::vector<float> all = times(weights().lm_head, config().vocab_size, y);
    std::vector<float> z;
    for (const int32_t id : ids) z.push_back(all[id]);
    return z;
  }

  const Weights& weights() const { return subject_.model.weights; }
  const ModelConfig& config() const { return subject_.model.config; }

  const Subject& subject_;
  int shortlist_;
  std::vector<std::vector<float>> states_;
};

struct Looked {
  ExitPeak peak;
  std::vector<float> z;
  std::vector<int32_t> ids;
};

// A round and the beginning of the next: three rows that stop at different layers, checked by every
// kind of head, chained ones more than once a row.
std::vector<Looked> look(const Subject& s, Backend& backend, int shortlist, float temperature,
                         Reference* reference) {
  std::vector<Looked> found;
  std::vector<int32_t> met;  // tokens of the text that the list lacks
  const auto embed = [&](int slot, int32_t token) {
    backend.embed(slot, token);
    const auto end = s.heads->shortlist().begin() + shortlist;
    if (std::find(s.heads->shortlist().begin(), end, token) == end) met.push_back(token);
  };
  const auto check = [&](HeadKind kind, int layer, int slot) {
    const int index = s.index(kind, layer);
    Looked& looked = found.emplace_back();
    looked.peak = backend.exit_check(index, slot, temperature);
    looked.z.assign(backend.exit_logits().begin(), backend.exit_logits().end());
    looked.ids.assign(backend.exit_ids().begin(), backend.exit_ids().end());
    if (kind == HeadKind::kFull) {
      CHECK(looked.ids.empty());
    } else {
      std::vector<int32_t> ids(s.heads->shortlist().begin(),
                               s.heads->shortlist().begin() + shortlist);
      if (kind == HeadKind::kChained) ids.insert(ids.end(), met.begin(), met.end());
      CHECK(looked.ids == ids);
    }
    if (!reference) return;
    const std::vector<float> expected =
        reference->check(index, slot, backend.inspect().hidden(slot), looked.ids);
    REQUIRE(looked.z.size() == expected.size());
    CHECK(same_bits(looked.z.data(), expected.data(), expected.size()));
    const auto top = std::max_element(expected.begin(), expected.end());
    const int place = static_cast<int>(top - expected.begin());
    CHECK(looked.peak.token == (kind == HeadKind::kFull ? place : looked.ids[place]));
    double total = 0;
    for (float z : expected) total += std::exp((double{z} - *top) / temperature);
    CHECK(std::fabs(looked.peak.confidence * total - 1) < 1e-5);
  };
  const auto keep = [&](int slot) {
    backend.keep_state(slot);
    if (reference) reference->keep_state(backend.inspect().hidden(slot));
  };
  backend.set_exit_heads(&*s.heads, shortlist);
  backend.truncate(0);
  embed(0, 11);
  backend.run_layers(0, 1, 0, 1, 3);
  keep(0);
  for (int root : {1, 4}) {
    for (int slot = 0; slot < 3; ++slot) {
      embed(slot, 20 + 3 * root + slot);
      check(HeadKind::kChained, 0, slot);
      backend.run_layers(slot, 1, root + slot, 1, 1);
      check(HeadKind::kFolded, 1, slot);
      check(HeadKind::kFull, 1, slot);
      backend.run_layers(slot, 1, root + slot, 2, 2);
      if (slot != 1) check(HeadKind::kChained, 2, slot);
      check(HeadKind::kFolded, 2, slot);
    }
    backend.run_layers(0, 3, root, 3, 3);
    keep(2);
  }
  return found;
}

bool same(const Looked& a, const Looked& b) {
  return a.peak.token == b.peak.token && same_bits(&a.peak.confidence, &b.peak.confidence, 1) &&
         a.ids == b.ids && a.z.size() == b.z.size() &&
         same_bits(a.z.data(), b.z.data(), a.z.size());
}

float* mutable_row(Backend& backend, int slot) {
  return const_cast<float*>(backend.inspect().hidden(slot).data());
}

}  // namespace

TEST_CASE("exit checks follow their formulas, and a prefix of the list is a list") {
  for (const auto& [type, architecture] : {std::pair(DType::kQ8_0, "llama"),
                                           {DType::kF32, "llama"},
                                           {DType::kF16, "llama"},
                                           {DType::kQ4_0, "llama"},
                                           {DType::kQ5_0, "llama"},
                                           {DType::kIQ4_NL, "llama"},
                                           {DType::kQ8_0, "gemma2"}}) {
    const Subject s(type, architecture);
    const auto backend = s.model.backend(Isa::kPortable, 1);
    std::vector<Looked> whole;
    for (int shortlist : {kList, 64, 16}) {
      CAPTURE(shortlist);
      Reference reference(s, shortlist);
      const std::vector<Looked> found = look(s, *backend, shortlist, 1.3f, &reference);
      if (whole.empty()) whole = found;
      for (size_t i = 0; i < found.size(); ++i) {
        const size_t n = found[i].ids.empty() ? found[i].z.size() : shortlist;
        CHECK(same_bits(found[i].z.data(), whole[i].z.data(), n));
      }
    }
  }
}

TEST_CASE("exit checks do not depend on instruction set, layout or thread count") {
  for (const auto& [type, architecture] : {std::pair(DType::kQ8_0, "llama"),
                                           {DType::kBF16, "llama"},
                                           {DType::kQ4_0, "llama"},
                                           {DType::kF16, "gemma2"}}) {
    const Subject s(type, architecture);
    const auto plain = s.model.backend(Isa::kPortable, 1);
    const std::vector<Looked> expected = look(s, *plain, kList, 0.9f, nullptr);
    for (Isa isa : supported_isas()) {
      for (int threads : {1, 2, 3}) {
        for (bool repack : {true, false}) {
          CAPTURE(isa_name(isa));
          CAPTURE(threads);
          CAPTURE(repack);
          const auto backend = s.model.backend(isa, threads, repack);
          const std::vector<Looked> found = look(s, *backend, kList, 0.9f, nullptr);
          REQUIRE(found.size() == expected.size());
          for (size_t i = 0; i < found.size(); ++i) CHECK(same(found[i], expected[i]));
        }
      }
    }
  }
}

TEST_CASE("a chained head goes on from the state before its row, and only from that") {
  const Subject s(DType::kQ8_0);
  const auto backend = s.model.backend(best_isa(), 2);
  backend->set_exit_heads(&*s.heads, 64);
  const int head = s.index(HeadKind::kChained, 2);
  const auto look_at = [&](int slot) {
    backend->exit_check(head, slot, 1);
    return std::vector<float>(backend->exit_logits().begin(), backend->exit_logits().end());
  };
  TinyRandom random(3);
  for (int slot = 0; slot < kMaxRows; ++slot) {
    for (int i = 0; i < kDim; ++i) mutable_row(*backend, slot)[i] = random.normal();
  }
  backend->keep_state(9);
  const std::vector<float> first = look_at(0), second = look_at(1);
  CHECK(look_at(0) == first);
  CHECK(look_at(1) == second);
  CHECK(look_at(1) == second);  // what it left after slot 1 is not what it read
  backend->keep_state(10);
  CHECK(look_at(1) == second);  // nor does slot 1 look at the state before slot 0
  CHECK(look_at(0) != first);
  CHECK(look_at(1) != second);
  backend->keep_state(9);
  CHECK(look_at(0) == first);
  CHECK(look_at(1) == second);
  for (int slot = 2; slot < kMaxRows; ++slot) CHECK(look_at(slot) != second);
}

TEST_CASE("rows of nothing but NaN have no confidence, and others are unharmed") {
  const Subject s(DType::kQ8_0);
  const auto backend = s.model.backend(best_isa(), 2);
  backend->set_exit_heads(&*s.heads, kList);
  backend->embed(0, 3);
  backend->keep_state(0);
  const std::vector<float> row(backend->inspect().hidden(0).begin(),
                               backend->inspect().hidden(0).end());
  for (const HeadWeights& head : s.heads->heads()) {
    const int index = s.index(head.kind, head.layer);
    const ExitPeak good = backend->exit_check(index, 0, 1);
    CHECK(good.confidence > 0);
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      mutable_row(*backend, 0)[5] = bad;
      const ExitPeak none = backend->exit_check(index, 0, 1);
      CHECK(none.confidence == 0);
      CHECK(none.token == (head.kind == HeadKind::kFull ? 0 : s.heads->shortlist()[0]));
      std::copy(row.begin(), row.end(), mutable_row(*backend, 0));
    }
    const ExitPeak again = backend->exit_check(index, 0, 1);
    CHECK(again.confidence == good.confidence);
    CHECK(again.token == good.token);
  }
}

TEST_CASE("exit heads can be taken away and given again") {
  const Subject s(DType::kF32), other(DType::kQ8_0);
  const auto backend = s.model.backend(best_isa(), 2);
  const std::vector<Looked> first = look(s, *backend, kList, 1, nullptr);
  backend->set_exit_heads(nullptr, 0);
  CHECK(backend->exit_logits().empty());
  const std::vector<Looked> again = look(s, *backend, kList, 1, nullptr);
  for (size_t i = 0; i < first.size(); ++i) CHECK(same(first[i], again[i]));
}

}  // namespace exit_check_test
