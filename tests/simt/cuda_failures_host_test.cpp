// A GPU that refuses memory, fails to launch, fails as it runs, or is lost, at many points of
// loading, prefill, drafting, checks and draws: one clear error each, nothing left behind, and a
// conversation that goes on where the device still works.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "drafters/specbound.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "simt/cuda_rig.h"
#include "unit/temp_dir.h"
#include "unit/tiny_heads.h"

namespace cuda_failures_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kContext = 64, kPrompt = 5, kReply = 5, kShortlist = 16;

struct Material {
  TinyModel model;
  ExitHeads heads;
  std::vector<int32_t> prompt;
};

ExitHeads heads_for(const TinyModel& model) {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  NewHeads file = random_heads(heads_base(model.gguf, model.config), kShortlist);
  std::erase_if(file.heads, [](const NewHead& head) { return head.layer > 1; });
  file.defaults.check_layers = {1};
  write_exit_heads(path, file);
  return ExitHeads::open(path, model.gguf, model.config);
}

const Material& material() {
  static const Material all = [] {
    TinySpec spec = q8_0_spec(2);
    spec.dim = spec.ffn_dim = 32;
    spec.n_heads = spec.n_kv_heads = 2;
    spec.vocab_size = 40;
    spec.types["ffn_down.weight"] = DType::kF16;  // both kinds of kernels
    TinyModel model(spec);
    ExitHeads heads = heads_for(model);
    return Material{std::move(model), std::move(heads), token_ids(kPrompt, spec.vocab_size)};
  }();
  return all;
}

SamplingParams sampling(bool filtered) {
  SamplingParams params;
  params.seed = 3;
  params.repeat_penalty = 1.1f;
  if (!filtered) {
    params.top_k = 0;
    params.top_p = 1;
    params.min_p = 0;
  }
  return params;
}

std::unique_ptr<Backend> load(const simt::DeviceOptions& options, bool graphs = true) {
  const Material& m = material();
  CudaOptions cuda;
  cuda.n_ctx = kContext;
  cuda.graphs = graphs;
  auto backend = make_cuda_backend(std::make_unique<simt::SimtDevice>(options), m.model.config,
                                   m.model.weights, cuda);
  backend->set_exit_heads(&m.heads, kShortlist);
  return backend;
}

SpecBoundParams eager() {
  SpecBoundParams params;
  params.w_max = 3;
  params.tau = 0.05f;
  return params;
}

// Drafts eagerly with a kind of heads.
struct Drafter {
  explicit Drafter(HeadKind kind)
      : head(material().heads, kind), speculator(head, eager(), material().model.config.n_layers) {}
  TrainedHead head;
  SpecBound speculator;
};

// The reply as far as the text goes already, and on.
void reply(Session& session, std::span<const int32_t> text) {
  GenerateOptions options;
  options.max_tokens = kPrompt + kReply - static_cast<int>(text.size());
  session.generate(text, options);
}

// Everything a backend is asked for.
void use(Backend& backend) {
  for (const HeadKind kind : {HeadKind::kChained, HeadKind::kFull}) {
    Drafter drafter(kind);
    Session session(backend, Sampler(sampling(kind == HeadKind::kFull)));
    session.set_speculator(&drafter.speculator);
    backend.truncate(0);
    reply(session, material().prompt);
  }
  const ModelConfig& c = backend.config();
  std::vector<float> z(c.vocab_size);
  std::vector<uint16_t> k(c.kv_dim()), v(c.kv_dim());
  backend.logits(0, 1, z.data());
  backend.exit_check(0, 0, 1.0f);
  backend.exit_logits();
  backend.inspect().hidden(0);
  backend.inspect().read_kv(1, 0, k, v);
  backend.keep_state(0);
  backend.set_exit_heads(nullptr, 0);  // while that is under way
  backend.wait();
}

struct Outcome {
  std::optional<ErrorCode> code;
  std::string error;
  simt::DeviceLog log;
};

// Loads, uses and lets go; whatever happens, nothing may be left.
Outcome run_through(simt::DeviceOptions options) {
  Outcome outcome;
  options.log = &outcome.log;
  try {
    const std::unique_ptr<Backend> backend = load(options);
    use(*backend);
  } catch (const Error& e) {
    outcome.code = e.code();
    outcome.error = e.what();
  }
  CHECK(outcome.log.live == 0);
  CHECK(outcome.log.wrong == "");
  return outcome;
}

// What a run takes that nothing disturbs.
const simt::DeviceLog& whole() {
  static const simt::DeviceLog log = run_through({}).log;
  return log;
}

// 1, 2, ... n, or so many of them, with both ends.
std::vector<int> points(int n, int most) {
  std::vector<int> all;
  for (int i = 0; i < std::min(n, most); ++i) {
    all.push_back(1 + static_cast<int>(int64_t{i} * (n - 1) / std::max(1, std::min(n, most) - 1)));
  }
  return all;
}

void check_error(const Outcome& outcome, ErrorCode code) {
  CAPTURE(outcome.error);
  REQUIRE(outcome.code.has_value());
  CHECK(*outcome.code == code);
  CHECK(outcome.error.find('\n') == std::string::npos);
  CHECK(outcome.error.size() > 20);
}

}  // namespace

TEST_CASE("CUDA failures: an allocation refused, each of them, is one kLimit and leaves nothing") {
  REQUIRE(whole().allocations > 40);
  for (int k = 1; k <= whole().allocations; ++k) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.refuse_allocation = k;
    check_error(run_through(options), ErrorCode::kLimit);
  }
  simt::DeviceOptions options;
  options.refuse_allocation = whole().allocations + 1;
  CHECK(!run_through(options).code.has_value());
}

TEST_CASE("CUDA failures: what does not fit is refused before anything is taken") {
  const Material& m = material();
  const MemoryPlan plan =
      plan_memory(m.model.config, m.model.weights, {GpuDtype::kAsStored, kContext});
  simt::DeviceLog log;
  simt::DeviceOptions options;
  options.total_bytes = plan.total() + 1000;
  options.taken_bytes = 1001;
  options.log = &log;
  const auto refusal = [&] {
    try {
      load(options);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kLimit);
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string text = refusal();
  CAPTURE(text);
  CHECK(text.find("not enough memory on the GPU") == 0);
  CHECK(text.find("closing other programs") != std::string::npos);
  CHECK(log.allocations == 0);
  CHECK(log.launches == 0);
  CHECK(log.live == 0);
  options.taken_bytes = 1000;
  CHECK(refusal() == "");
  // No more than was planned: the reserve is for what is not counted.
  CHECK(log.most_device_bytes <= options.total_bytes);
}

TEST_CASE("CUDA failures: what the backend takes is what was planned") {
  const Material& m = material();
  simt::DeviceLog log;
  simt::DeviceOptions options;
  options.log = &log;
  CudaOptions cuda;
  cuda.n_ctx = kContext;
  const auto backend = make_cuda_backend(std::make_unique<simt::SimtDevice>(options),
                                         m.model.config, m.model.weights, cuda);
  const MemoryPlan plan =
      plan_memory(m.model.config, m.model.weights, {GpuDtype::kAsStored, kContext});
  const size_t planned = plan.weights + plan.kv + plan.workspace;
  CHECK(log.device_bytes <= planned + 4096);  // small states
  CHECK(log.device_bytes + 4096 >= planned);
}

TEST_CASE("CUDA failures: a device lost at any point is one kDevice and leaves nothing") {
  for (int k : points(whole().operations, 24)) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.lose_at = k;
    const Outcome outcome = run_through(options);
    // The last operation is the destructor's, which has nobody to tell.
    if (k < whole().operations) check_error(outcome, ErrorCode::kDevice);
  }
}

TEST_CASE("CUDA failures: a kernel that fails as it runs is one kDevice and leaves nothing") {
  for (int k : points(whole().kernels_run, 8)) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.fail_kernel = k;
    check_error(run_through(options), ErrorCode::kDevice);
  }
}

TEST_CASE("CUDA failures: a launch that fails is one kDevice and leaves nothing") {
  for (int k : points(whole().launches, 12)) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.fail_launch = k;
    check_error(run_through(options), ErrorCode::kDevice);
  }
}

TEST_CASE("CUDA failures: after a launch that failed the conversation goes on, byte for byte") {
  const Material& m = material();
  const int n_layers = m.model.config.n_layers;
  for (const HeadKind kind : {HeadKind::kChained, HeadKind::kFolded}) {
    const bool filtered = kind == HeadKind::kFolded, graphs = kind == HeadKind::kChained;
    std::vector<int32_t> expected;
    int launches = 0;
    {
      const auto backend = load({}, graphs);
      const auto& log = static_cast<simt::SimtDevice*>(backend->gpu())->log();
      const int before = log.launches;
      Drafter drafter(kind);
      Session session(*backend, Sampler(sampling(filtered)));
      session.set_speculator(&drafter.speculator);
      reply(session, m.prompt);
      expected.assign(session.tokens().begin(), session.tokens().end());
      launches = log.launches - before;
    }
    REQUIRE(expected.size() == size_t(kPrompt + kReply));
    REQUIRE(launches > 50);
    // One backend for all of them: it has to go on again and again.
    const auto backend = load({}, graphs);
    auto& device = *static_cast<simt::SimtDevice*>(backend->gpu());
    int n_failed = 0, n_emitted = 0;
    for (int k : points(launches, 10)) {
      CAPTURE(k);
      Drafter drafter(kind);
      Session session(*backend, Sampler(sampling(filtered)));
      session.set_speculator(&drafter.speculator);
      backend->truncate(0);
      device.options().fail_launch = device.log().launches + k;
      try {
        reply(session, m.prompt);
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kDevice);
        ++n_failed;
      }
      const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
      REQUIRE(text.size() >= size_t(kPrompt));
      REQUIRE(text.size() <= expected.size());
      CHECK(std::equal(text.begin(), text.end(), expected.begin()));
      const int len = backend->kv_len(1);
      CHECK((len == static_cast<int>(text.size()) - 1 || len == 0));  // 0: in the prefill
      for (int l = 2; l <= n_layers; ++l) CHECK(backend->kv_len(l) == len);
      n_emitted += text.size() > size_t(kPrompt);
      reply(session, text);
      CHECK(std::equal(session.tokens().begin(), session.tokens().end(), expected.begin(),
                       expected.end()));
    }
    // What a graph does already is not launched again.
    CHECK(n_failed >= (graphs ? 2 : 9));
    CHECK(n_emitted > 2);
  }
}

TEST_CASE("CUDA failures: a draw or check whose launch failed, each of them, can be asked again") {
  const Material& m = material();
  const auto backend = load({}, false);
  auto& device = *static_cast<simt::SimtDevice*>(backend->gpu());
  backend->prefill(std::span(m.prompt).first(kPrompt - 1));
  backend->embed(0, m.prompt.back());
  backend->run_layers(0, 1, kPrompt - 1, 1, m.model.config.n_layers);
  // What is left on the device by the rule before must not serve this one.
  const auto rule = [](int number) {
    return DrawRule{.seed = static_cast<uint64_t>(number),
                    .temperature = 1,
                    .repeat_penalty = 1.2f,
                    .repeat_last_n = 64};
  };
  const auto target = [&](int number) {
    RowDraw draw;
    backend->device_sampling()->draw(0, 1, rule(number), m.prompt, &draw);
    return std::pair(draw.token, draw.margin);
  };
  const auto check = [&](int number) {
    std::optional<RowDraw> draw;
    backend->device_sampling()->exit_draw(0, 0, 1, 0, rule(number), m.prompt, draw);
    return std::pair(draw->token, draw->margin);
  };
  const auto each_launch = [&](const auto& ask) {
    int n_failed = 0;
    for (bool failed = true; failed; n_failed += failed) {
      const auto expected = ask(1);
      REQUIRE(ask(2) != expected);  // the margin tells, where the token does not
      failed = false;
      device.options().fail_launch = device.log().launches + n_failed + 1;
      try {
        ask(1);
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kDevice);
        failed = true;
      }
      device.options().fail_launch = 0;
      CHECK(ask(1) == expected);
    }
    return n_failed;
  };
  CHECK(each_launch(target) >= 6);
  CHECK(each_launch(check) >= 6);
}

}  // namespace cuda_failures_host_test
