// The draft layer: its formula against one written in double precision, what it finds after any
// rounds against what it finds in a text read at once, and the file that holds it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "decode/generate.h"
#include "decode/sessions.h"
#include "drafters/exit_head.h"
#include "drafters/lookup.h"
#include "drafters/specbound.h"
#include "drafters/tree_speculator.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "tiny_heads.h"

namespace draft_layer_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
using Vector = std::vector<double>;
constexpr int kVocab = 97, kList = 48, kInner = 64;

struct Subject {
  TinyModel model;
  std::vector<std::byte> bytes;
  std::optional<ExitHeads> heads;

  explicit Subject(TinySpec spec = q8_0_spec(3), KvType kv = KvType::kFp16)
      : model(std::move(spec), kv) {
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHeads file;
    file.base = base;
    for (int i = 0; i < kList; ++i) file.shortlist.push_back((i * 7 + 5) % kVocab);
    file.heads = {random_layer(base, kInner, 3)};
    file.defaults.kind = HeadKind::kLayer;
    file.defaults.shortlist = kList;
    bytes = exit_heads_file("heads", file);
    heads.emplace(ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base));
  }

  std::unique_ptr<Backend> backend(Isa isa = best_isa(), int threads = 1, int shortlist = kList,
                                   int n_ctx = 0) const {
    auto made = model.backend(isa, threads, true, n_ctx);
    made->set_exit_heads(&*heads, shortlist);
    return made;
  }
};

const Subject& subject(KvType kv = KvType::kFp16) {
  static const Subject fp16, int8(q8_0_spec(3), KvType::kInt8);
  return kv == KvType::kInt8 ? int8 : fp16;
}

// Everything of `text` but its last token, which row 0 then is.
void read(Backend& backend, const Text& text) {
  backend.prefill(std::span(text).first(text.size() - 1));
  backend.embed(0, text.back());
}

// z of all that it may say, or of the first `n` tokens of the list alone.
Vector look(Backend& backend, int slot, std::optional<int> n = std::nullopt) {
  backend.exit_check(0, slot, 1);
  std::span<const float> z = backend.exit_logits();
  if (n) z = z.first(*n);
  return Vector(z.begin(), z.end());
}

// Decoded, in passes of several rows.
void decode(Backend& backend, std::span<const int32_t> ids) {
  for (size_t done = 0; done < ids.size();) {
    const int pos = backend.kv_len(1), n = std::min(kMaxRows, static_cast<int>(ids.size() - done));
    for (int slot = 0; slot < n; ++slot) backend.embed(slot, ids[done + slot]);
    backend.run_layers(0, n, pos, 1, backend.config().n_layers);
    done += static_cast<size_t>(n);
  }
}

// ---- the formula ----

Vector times(const Matrix& w, const Vector& x) {
  const std::vector<float> values = matrix_floats(w);
  Vector y(w.n_out, 0.0);
  for (int o = 0; o < w.n_out; ++o) {
    for (int i = 0; i < w.n_in; ++i) y[o] += double{values[size_t(o) * w.n_in + i]} * x[i];
  }
  return y;
}

Vector over_rms(const Vector& x, double eps) {
  double squares = 0;
  for (double v : x) squares += v * v;
  Vector y = x;
  for (double& v : y) v /= std::sqrt(squares / static_cast<double>(x.size()) + eps);
  return y;
}

Vector sum(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// One block over a text; states come with the tokens.
class Reference {
 public:
  explicit Reference(const Subject& subject)
      : s_(subject), head_(subject.heads->heads()[0]), config_(subject.model.config) {}

  // y at the next position, whose token and state before it are these.
  Vector next(int32_t token, const Vector& state) {
    const double eps = config_.norm_eps;
    const Matrix& e = s_.model.weights.token_embd;
    std::vector<float> row(config_.dim);
    const std::vector<float> table = matrix_floats(e);
    std::copy_n(table.begin() + size_t(token) * config_.dim, config_.dim, row.begin());
    Vector in = over_rms(Vector(row.begin(), row.end()), eps);
    const Vector second = over_rms(state, eps);
    in.insert(in.end(), second.begin(), second.end());
    Vector u = times(head_.map, in);

    const Vector x = over_rms(u, eps);
    const int pos = static_cast<int>(k_.size());
    const Vector q = rotated(times(head_.block.wq, x), config_.n_heads, pos);
    k_.push_back(rotated(times(head_.block.wk, x), config_.n_kv_heads, pos));
    v_.push_back(times(head_.block.wv, x));
    u = sum(u, times(head_.block.wo, attended(q)));

    const Vector f = over_rms(u, eps);
    Vector gate = times(head_.block.w_gate, f);
    const Vector up = times(head_.block.w_up, f);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    u = sum(u, times(head_.block.w_down, gate));
    Vector y = over_rms(u, eps);
    for (int i = 0; i < config_.dim; ++i) y[i] *= head_.norm[i];
    return y;
  }
  void forget_last() {
    k_.pop_back();
    v_.pop_back();
  }
  Vector logits(const Vector& y, std::span<const int32_t> ids) const {
    const Vector all = times(s_.model.weights.lm_head, y);
    Vector z;
    for (int32_t id : ids) z.push_back(all[id]);
    return z;
  }

 private:
  Vector rotated(Vector x, int heads, int pos) const {
    const int n = config_.head_dim;
    for (int h = 0; h < heads; ++h) {
      for (int i = 0; i < n; i += 2) {
        const double angle = pos * std::pow(config_.rope_theta, -double(i) / n);
        double &a = x[h * n + i], &b = x[h * n + i + 1];
        const double first = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = first;
      }
    }
    return x;
  }
  Vector attended(const Vector& q) const {
    const int n = config_.head_dim, group = config_.n_heads / config_.n_kv_heads;
    Vector out(q.size(), 0.0);
    for (int h = 0; h < config_.n_heads; ++h) {
      const int kv = h / group * n;
      Vector weights;
      double total = 0;
      for (const Vector& k : k_) {
        double score = 0;
        for (int i = 0; i < n; ++i) score += q[h * n + i] * k[kv + i];
        weights.push_back(std::exp(score / std::sqrt(double(n))));
        total += weights.back();
      }
      for (size_t p = 0; p < weights.size(); ++p) {
        for (int i = 0; i < n; ++i) out[h * n + i] += weights[p] / total * v_[p][kv + i];
      }
    }
    return out;
  }

  const Subject& s_;
  const HeadWeights& head_;
  const ModelConfig& config_;
  std::vector<Vector> k_, v_;
};

// norm(h_L) of every position.
std::vector<Vector> states_of(const Subject& s, const Text& text) {
  const auto backend = s.model.backend(best_isa(), 1);
  std::vector<Vector> states;
  for (size_t i = 0; i < text.size(); ++i) {
    backend->embed(0, text[i]);
    backend->run_layers(0, 1, static_cast<int>(i), 1, s.model.config.n_layers);
    const std::span<const float> h = backend->inspect().hidden(0);
    Vector y = over_rms(Vector(h.begin(), h.end()), s.model.config.norm_eps);
    for (size_t d = 0; d < y.size(); ++d) y[d] *= s.model.weights.output_norm[d];
    states.push_back(y);
  }
  return states;
}

// Of what the row spreads over.
double distance(const Vector& found, const Vector& expected) {
  REQUIRE(found.size() == expected.size());
  double spread = 0, off = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    spread += expected[i] * expected[i];
    off += (found[i] - expected[i]) * (found[i] - expected[i]);
  }
  return std::sqrt(off / spread);
}
constexpr double kNear = 0.05;  // INT8 rows and FP16 keys, state by state

}  // namespace

TEST_CASE("draft layer: the formula, on true states, on its own, and beside the path") {
  const Subject& s = subject();
  const Text text = token_ids(41, kVocab);
  const std::vector<Vector> states = states_of(s, text);
  Reference reference(s);
  Vector y;
  for (size_t i = 0; i < text.size(); ++i) {
    y = reference.next(text[i], i > 0 ? states[i - 1] : Vector(s.model.config.dim, 0.0));
  }
  const auto backend = s.backend();
  read(*backend, text);
  const auto logits = [&](const Vector& state) {
    return reference.logits(state, backend->exit_ids());
  };
  Vector found = look(*backend, 0);
  CHECK_GT(found.size(), kList);  // tokens of the text too
  CHECK_LT(distance(found, logits(y)), kNear);
  // A chain of two rows, then a second row behind the root.
  const Vector root = y;
  for (int slot = 1; slot <= 2; ++slot) {
    backend->embed(slot, 10 + slot);
    y = reference.next(10 + slot, y);
    found = look(*backend, slot);
    CHECK_LT(distance(found, logits(y)), kNear);
  }
  reference.forget_last();
  reference.forget_last();
  backend->embed(3, 77);
  backend->follow(3, 0);
  const Vector beside = look(*backend, 3);
  CHECK_LT(distance(beside, logits(reference.next(77, root))), kNear);
  CHECK_GT(distance(beside, logits(reference.next(77, root))), 2 * kNear);  // a key more
  CHECK_GT(distance(beside, logits(y)), 2 * kNear);
}

TEST_CASE("draft layer: the same bits on every instruction set and number of threads") {
  const Text text = token_ids(23, kVocab);
  for (const KvType kv : kKvTypesTested) {
    std::optional<Vector> first;
    for (Isa isa : supported_isas()) {
      for (int threads : {1, 2, 3}) {
        const auto backend = subject(kv).backend(isa, threads);
        read(*backend, text);
        Vector z = look(*backend, 0);
        backend->embed(1, 5);
        const Vector behind = look(*backend, 1);
        z.insert(z.end(), behind.begin(), behind.end());
        if (!first) first = z;
        CHECK(z == *first);
      }
    }
  }
}

TEST_CASE("draft layer: after any rounds what it finds is what a text read at once has") {
  KvType kv = KvType::kFp16;
  SUBCASE("K/V FP16") {}
  SUBCASE("K/V INT8") {
    kv = KvType::kInt8;
  }
  const Subject& s = subject(kv);
  const int layers = s.model.config.n_layers;
  const auto backend = s.backend();
  TinyRandom random(5);
  Text text = token_ids(3, kVocab, 11);
  read(*backend, text);
  for (int round = 0; round < 60; ++round) {
    const int pos = static_cast<int>(text.size()) - 1;
    if (round % 3 != 1) {  // some rounds do not ask
      const auto fresh = s.backend();
      read(*fresh, text);
      CHECK(look(*backend, 0, kList) == look(*fresh, 0, kList));  // drafts were met too
    }
    // A random tree, asked about along the way; a random row of it is accepted.
    const int rows = 1 + static_cast<int>(random.next() % 6);
    std::vector<int> parents = {-1};
    Text tokens = {text.back()};
    RowPaths paths;
    for (int slot = 1; slot < rows; ++slot) {
      const int parent = static_cast<int>(random.next() % slot);
      tokens.push_back(static_cast<int32_t>(random.next() % kVocab));
      parents.push_back(parent);
      backend->embed(slot, tokens[slot]);
      backend->follow(slot, parent);
      paths.follow(slot, parent);
      if (round % 3 == 0) look(*backend, slot);
    }
    backend->run_layers(0, rows, pos, 1, layers);
    const int last = static_cast<int>(random.next() % rows);
    Text path;
    for (int slot = last; slot > 0; slot = parents[slot]) path.insert(path.begin(), tokens[slot]);
    backend->keep_path(pos, paths[last]);
    text.insert(text.end(), path.begin(), path.end());
    text.push_back(static_cast<int32_t>(random.next() % kVocab));
    backend->embed(0, text.back());
    if (round % 17 == 16) {  // the reply is taken back to the middle
      text.resize(text.size() / 2);
      backend->truncate(static_cast<int>(text.size()) - 1);
      backend->embed(0, text.back());
    }
    if (text.size() > 200) text.resize(100);
    backend->truncate(static_cast<int>(text.size()) - 1);
    backend->embed(0, text.back());
  }
}

void check_any_rounds(const NewHead& head) {
  const Subject& s = subject();
  const int layer = head.layer;
  const HeadsBase base = heads_base(s.model.gguf, s.model.config);
  NewHeads file;
  file.base = base;
  file.heads = {head};
  file.defaults.kind = head.kind;
  const std::vector<std::byte> bytes = exit_heads_file("heads", file);
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);
  const auto fresh = [&] {
    auto made = s.model.backend(best_isa(), 1);
    made->set_exit_heads(&heads, 0);
    return made;
  };
  const auto backend = fresh();
  TinyRandom random(9);
  Text text = token_ids(2, kVocab, 11);
  read(*backend, text);
  for (int round = 0; round < 60; ++round) {
    const int pos = static_cast<int>(text.size()) - 1;
    if (round % 3 != 1) {
      const auto other = fresh();
      read(*other, text);
      bring(*backend, layer, pos, 0);
      bring(*other, layer, pos, 0);
      CHECK(look(*backend, 0) == look(*other, 0));
    }
    const int rows = 1 + static_cast<int>(random.next() % 6);
    std::vector<int> parents = {-1};
    Text tokens = {text.back()};
    RowPaths paths;
    for (int slot = 1; slot < rows; ++slot) {
      const int parent = static_cast<int>(random.next() % slot);
      tokens.push_back(static_cast<int32_t>(random.next() % kVocab));
      parents.push_back(parent);
      backend->embed(slot, tokens[slot]);
      backend->follow(slot, parent);
      paths.follow(slot, parent);
      if (round % 3 != 0) continue;
      bring(*backend, layer, pos, slot);
      look(*backend, slot);
    }
    bring(*backend, layer, pos, rows - 1);
    backend->run_layers(0, rows, pos, layer + 1, s.model.config.n_layers);
    const int last = static_cast<int>(random.next() % rows);
    Text path;
    for (int slot = last; slot > 0; slot = parents[slot]) path.insert(path.begin(), tokens[slot]);
    backend->keep_path(pos, paths[last]);
    text.insert(text.end(), path.begin(), path.end());
    text.push_back(static_cast<int32_t>(random.next() % kVocab));
    // Now and then the reply is taken back, as far as to its first token.
    if (round % 9 == 8) text.resize(round % 2 ? 1 : text.size() / 2);
    backend->truncate(static_cast<int>(text.size()) - 1);
    backend->embed(0, text.back());
  }
}

TEST_CASE("published layers: after any rounds what they find is what a text read at once has") {
  const HeadsBase base = heads_base(subject().model.gguf, subject().model.config);
  check_any_rounds(random_eagle(base, kInner, true, 3));
  check_any_rounds(random_eagle3(base, kInner, 4));
  check_any_rounds(random_mtp(base, kInner, true, 5));
  check_any_rounds(random_kangaroo(base, 1, 6));
  check_any_rounds(random_kangaroo(base, 2, 7));
}

// The same weights but for how many experts a row goes through: only states differ.
TEST_CASE("eagle layers: the states behind experts are taken") {
  std::vector<Vector> found;
  for (const int used : {1, 3}) {
    TinySpec spec = q8_0_spec(4);
    spec.architecture = "qwen3moe";
    spec.n_experts_used = used;
    const TinyModel model(spec);
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHeads file;
    file.base = base;
    file.heads = {random_eagle3(base, kInner, 4)};
    file.defaults.kind = HeadKind::kEagle3;
    const std::vector<std::byte> bytes = exit_heads_file("heads", file);
    const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);
    const auto backend = model.backend(best_isa(), 1);
    backend->set_exit_heads(&heads, 0);
    read(*backend, token_ids(5, kVocab));
    found.push_back(look(*backend, 0));
  }
  CHECK(found[0] != found[1]);
}

TEST_CASE("draft layer: prompts of several chunks, cut anywhere and decoded, behind windows too") {
  TinySpec windowed = q8_0_spec(3);
  windowed.architecture = "gemma2";
  windowed.tied = true;
  windowed.window = 20;
  for (TinySpec spec : {q8_0_spec(3), windowed}) {
    CAPTURE(spec.architecture);
    spec.max_seq_len = 2 * kPrefillChunk + 100;
    const Subject s(spec);
    const Text text = token_ids(2 * kPrefillChunk + 77, kVocab);
    const auto whole = s.backend();
    read(*whole, text);
    const Vector expected = look(*whole, 0);
    for (const int cut : {1, kPrefillChunk - 1, kPrefillChunk, 700}) {
      CAPTURE(cut);
      const auto parts = s.backend(), decoded = s.backend();
      const auto [first, rest] =
          std::pair(std::span(text).first(cut), std::span(text).subspan(cut));
      parts->prefill(first);
      parts->prefill(rest.first(rest.size() - 1));
      decode(*decoded, first);
      decoded->prefill(rest.first(rest.size() - 1));
      for (Backend* backend : {parts.get(), decoded.get()}) {
        backend->embed(0, text.back());
        CHECK(look(*backend, 0) == expected);
      }
    }
  }
}

TEST_CASE("draft layer: set in the middle of a text it begins there") {
  const Text text = token_ids(30, kVocab);
  const auto late = subject().model.backend(best_isa(), 1);
  late->prefill(std::span(text).first(20));
  late->set_exit_heads(&*subject().heads, 16);
  late->embed(0, text[20]);
  CHECK(look(*late, 0).size() <= 16 + 1);  // of nothing before it
  late->prefill(std::span(text).subspan(20, 9));
  late->embed(0, text.back());
  const Vector z = look(*late, 0);
  CHECK(std::ranges::all_of(z, [](double v) { return std::isfinite(v); }));
  // From the beginning on, it is as if it had always been there.
  late->truncate(0);
  read(*late, text);
  const auto fresh = subject().backend(best_isa(), 1, 16);
  read(*fresh, text);
  CHECK(look(*late, 0) == look(*fresh, 0));
}

TEST_CASE("draft layer: replies are the same with it, up to the end of the context") {
  KvType kv = KvType::kFp16;
  SUBCASE("K/V FP16") {}
  SUBCASE("K/V INT8") {
    kv = KvType::kInt8;
  }
  const Subject& s = subject(kv);
  for (float temperature : {0.0f, 0.8f}) {
    const Sampler sampler(SamplingParams{.temperature = temperature, .seed = 3});
    GenerateOptions options;
    options.max_tokens = 100;
    const auto reply = [&](Speculator* speculator) {
      const auto backend = s.backend(best_isa(), 2, kList, 64);
      Session session(*backend, sampler);
      session.set_speculator(speculator);
      session.generate(token_ids(9, kVocab), options);
      return Text(session.tokens().begin(), session.tokens().end());
    };
    const Text plain = reply(nullptr);
    TrainedHead head(*s.heads, HeadKind::kLayer);
    SpecBoundParams params;
    params.check_layers = {0};
    params.tau = 0;
    SpecBound rule(head, params, s.model.config.n_layers);
    CHECK(reply(&rule) == plain);
    TreeSpeculator tree(&rule, nullptr, kMaxRows, true);
    CHECK(reply(&tree) == plain);
  }
}

TEST_CASE("draft layer: replies in turns of several conversations are the same with it") {
  const Subject& s = subject();
  CpuOptions cpu;
  cpu.n_threads = 1;
  cpu.n_ctx = 160;
  cpu.n_sequences = 3;
  const auto backend = make_cpu_backend(s.model.config, s.model.weights, cpu);
  backend->set_exit_heads(&*s.heads, kList);
  Sessions sessions(*backend);
  const auto plain = s.model.backend(best_isa(), 1, true, 160);
  TrainedHead head(*s.heads, HeadKind::kLayer);
  SpecBoundParams params;
  params.check_layers = {0};
  params.tau = 0;
  SpecBound rule(head, params, s.model.config.n_layers);
  LookupMemory memory;
  TreeSpeculator tree(&rule, &memory, kMaxRows, true);
  TinyRandom random(17);
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  std::vector<Text> chats;
  for (int i = 0; i < 5; ++i) {  // with a beginning in common
    Text text = token_ids(20, kVocab, 3);
    for (const int32_t id : token_ids(4 + 3 * i, kVocab, 30 + i)) text.push_back(id);
    chats.push_back(text);
  }
  int drafted = 0;
  for (int turn = 0; turn < 60; ++turn) {
    Text& text = chats[below(5)];
    if (text.size() > 120) text.resize(24);
    const SamplingParams sampling{.temperature = turn % 2 ? 0.8f : 0.0f, .seed = uint64_t(turn)};
    GenerateOptions options;
    options.max_tokens = 4 + below(12);
    options.reply = static_cast<uint32_t>(turn);
    Session& session = turn % 7 == 6 ? sessions.for_other_text() : sessions.for_prompt(text);
    session.set_sampling(sampling);
    session.set_speculator(&tree);
    if (turn % 5 == 4) {  // ended soon: nothing of it is kept by anybody
      int left = below(3);
      options.unwanted = [&left] { return left-- == 0; };
      session.generate(text, options);
      continue;
    }
    drafted += session.generate(text, options).counters.drafted_tokens;
    plain->truncate(0);
    Session alone(*plain, Sampler(sampling));
    alone.generate(text, options);
    CHECK(std::ranges::equal(session.tokens(), alone.tokens()));
    text.assign(session.tokens().begin(), session.tokens().end());
    if (turn % 3 == 2) text.resize(text.size() - below(10));
  }
  CHECK(drafted > 50);
}

TEST_CASE("draft layer: files that do not fit are refused") {
  const Subject& s = subject();
  const HeadsBase base = heads_base(s.model.gguf, s.model.config);
  HeadsFile good(Gguf::parse(s.bytes, "heads"));
  const auto refused = [&](const HeadsFile& file, std::initializer_list<std::string_view> parts) {
    const std::vector<std::byte> bytes = file.bytes();
    check_mentions(expect_error(ErrorCode::kFormat,
                                [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base); }),
                   parts);
  };
  HeadsFile file = good;
  file.integers["specbound.head_layers"] = {1};
  refused(file, {"layers from 0 to 0 for layer heads", "found 1"});
  for (const char* name : {"map", "q", "k", "v", "o", "gate", "up", "down", "norm"}) {
    const std::string tensor = format("exit.0.layer.%s.weight", name);
    file = good;
    file.remove(tensor);
    refused(file, {tensor, "none of this name"});
    file = good;
    TinyTensor& half = file.tensor(tensor);
    half.shape[0] /= 2;
    half.bytes.resize(half.bytes.size() / 2);
    refused(file, {tensor, "shape"});
  }
  file = good;
  TinyTensor& list = file.tensor("exit.shortlist");
  list.shape = {8};
  list.bytes.resize(8 * sizeof(int32_t));
  file.numbers["specbound.shortlist_size"] = 8;
  refused(file, {"exit.shortlist", "16 tokens or more", "found 8"});
}

}  // namespace draft_layer_test
