// libFuzzer target: any bytes as a conversation with speculation: settings, prompt, and for every
// row where it leaves and with which token, when to stop and when to abort. Whatever they say, the
// text is the plain one and the cache holds one position less than the text at every layer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "../unit/tiny_gguf.h"
#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine/cpu/cpu_backend.h"

using namespace specbound;

namespace {

constexpr int kLayers = 4, kVocab = 40, kContext = 48;

struct Engine {
  std::vector<std::byte> bytes;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  std::unique_ptr<Backend> backend;

  explicit Engine(const test::TinySpec& spec)
      : bytes(test::tiny_model(spec)),
        gguf(Gguf::parse(bytes, "tiny")),
        config(read_config(gguf)),
        weights(map_weights(gguf, config)) {
    CpuOptions options;
    options.n_threads = 1;
    options.n_ctx = kContext;
    backend = make_cpu_backend(config, weights, options);
  }
};

Backend& backend() {
  static const Engine engine([] {
    test::TinySpec spec;
    spec.n_layers = kLayers;
    spec.dim = spec.ffn_dim = spec.head_dim = 32;
    spec.n_heads = spec.n_kv_heads = 1;
    spec.vocab_size = kVocab;
    spec.type = DType::kQ8_0;
    return spec;
  }());
  return *engine.backend;
}

// The input, byte by byte; zeros after its end.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  int below(int n) {
    if (data_.empty()) return 0;
    const int value = data_.front() % n;
    data_ = data_.subspan(1);
    return value;
  }

 private:
  std::span<const uint8_t> data_;
};

// K and V of every position and layer.
std::vector<uint16_t> all_kv(const Backend& backend, int positions) {
  const size_t kv_dim = backend.config().kv_dim();
  std::vector<uint16_t> all(2 * kv_dim * kLayers * positions);
  uint16_t* at = all.data();
  for (int pos = 0; pos < positions; ++pos) {
    for (int l = 1; l <= kLayers; ++l, at += 2 * kv_dim) {
      backend.inspect().read_kv(l, pos, {at, kv_dim}, {at + kv_dim, kv_dim});
    }
  }
  return all;
}

void expect(bool what, const char* message) {
  if (what) return;
  std::fprintf(stderr, "fuzz_round: %s\n", message);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in({data, size});
  constexpr float kTemperatures[] = {0, 0.3f, 1, 1.5f};
  SamplingParams sampling;
  sampling.temperature = kTemperatures[in.below(4)];
  sampling.top_k = in.below(kVocab);
  sampling.repeat_penalty = in.below(2) ? 1.3f : 1.0f;
  sampling.repeat_last_n = in.below(20) - 1;
  sampling.seed = in.below(256);
  SpecBoundParams params;
  params.w_max = 1 + in.below(kMaxRows);
  params.d_max = 1 + in.below(kLayers);
  params.tau = 0.5f;
  params.depth_bound = in.below(2) == 0;
  params.width_bound = in.below(2) == 0;
  for (int l = 1, mask = in.below(8); l < kLayers; ++l) {
    if (mask >> (l - 1) & 1) params.check_layers.push_back(l);
  }
  GenerateOptions options;
  options.max_tokens = in.below(kContext + 4) - 1;
  options.reply = in.below(3);
  options.measure_plain = in.below(2) == 1;
  const int end = in.below(kVocab), stop = in.below(kVocab), abort_after = in.below(32);
  if (in.below(2)) options.is_end = [&](int32_t token) { return token == end; };
  if (in.below(2)) {  // two equal tokens of the reply, the second of them `stop`
    options.is_stop = [&](std::span<const int32_t> reply) {
      return reply.size() > 1 && reply.back() == stop && reply[reply.size() - 2] == stop;
    };
  }
  std::vector<int32_t> prompt(1 + in.below(kContext));
  for (int32_t& token : prompt) token = in.below(kVocab);

  Backend& engine = backend();
  Session plain(engine, Sampler(sampling));
  engine.truncate(0);
  const GenerateStats expected = plain.generate(prompt, options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

  const int cached = static_cast<int>(text.size()) - 1;
  const std::vector<uint16_t> expected_kv = all_kv(engine, cached);

  engine.truncate(0);
  int rows = 0;
  std::atomic<bool> abort{false};
  ForcedHead head([&](const Round& round) {
    if (abort_after > 0 && ++rows == abort_after) abort = true;
    const size_t next = round.history(round.newest()).size();
    const int wrong = in.below(4) == 3 ? 1 + in.below(kVocab - 1) : 0;
    const int32_t right = next < text.size() ? text[next] : 0;
    return ForcedExit{.layer = in.empty() ? 0 : in.below(kLayers),
                      .token = (right + wrong) % kVocab};
  });
  validate(params, kLayers);
  SpecBound speculator(head, params, kLayers);
  Session session(engine, Sampler(sampling));
  session.set_speculator(&speculator);
  options.abort = &abort;
  GenerateStats stats = session.generate(prompt, options);
  if (abort) {
    const std::span<const int32_t> part = session.tokens();
    expect(part.size() <= text.size() && std::equal(part.begin(), part.end(), text.begin()),
           "an aborted reply is no beginning of the plain one");
    abort = false;
    stats = session.generate(prompt, options);
  }
  expect(std::equal(session.tokens().begin(), session.tokens().end(), text.begin(), text.end()),
         "the text differs from the plain one");
  expect(stats.stop == expected.stop, "the reply stopped for another reason than the plain one");
  expect(stats.generated_tokens == expected.generated_tokens, "another number of tokens");
  for (int l = 1; l <= kLayers; ++l) {
    expect(engine.kv_len(l) == cached, "kv_len is not N - 1");
  }
  expect(all_kv(engine, cached) == expected_kv, "K/V differ from those of plain decoding");
  return 0;
}
