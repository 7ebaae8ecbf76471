#include "tools/bench_measure.h"

#include <algorithm>
#include <chrono>

#include "decode/generate.h"
#include "engine/cuda/device.h"
#include "error.h"
#include "model/random_model.h"
#include "numerics/float_mode.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr float kTemperature = 1.2f;  // of checks; costs nothing
constexpr int kDraftedRows = 8;       // that follow each other in a sample
constexpr int kExits[] = {1, 2, 4, 6, 8, 10};

// Prefixes of a shortlist of the whole vocabulary that folded checks are measured with.
std::vector<int> shortlists(int vocab_size) {
  std::vector<int> sizes;
  for (const int n : {2048, 4096, 8192, 16384}) {
    if (n < vocab_size) sizes.push_back(n);
  }
  sizes.push_back(vocab_size);
  return sizes;
}

std::vector<int> exits_below(int n_layers) {
  std::vector<int> layers;
  for (const int l : kExits) {
    if (l < n_layers) layers.push_back(l);
  }
  return layers;
}

}  // namespace

size_t bench_heads_bytes(const ModelConfig& config, int shortlist) {
  const auto bytes = [&](HeadKind kind, int tokens) {
    return random_head_bytes(config, kind, tokens);
  };
  // Chained heads bring the shortlist's rows of lm_head.
  return std::max({std::size(kExits) * bytes(HeadKind::kFolded, shortlist),
                   bytes(HeadKind::kFolded, config.vocab_size), bytes(HeadKind::kFull, 0),
                   bytes(HeadKind::kChained, 0) + bytes(HeadKind::kFolded, shortlist)});
}

BenchMeasure::BenchMeasure(Backend& backend, const ShapeCostOptions& options)
    : backend_(backend),
      options_(options),
      n_layers_(backend.config().n_layers),
      vocab_size_(backend.config().vocab_size),
      shortlist_(std::min(options.shortlist, vocab_size_)),
      tokens_(any_tokens(backend.n_ctx(), vocab_size_)),
      greedy_(greedy_sampling()) {
  if (!backend.samples_on_device()) z_.resize(static_cast<size_t>(kMaxRows) * vocab_size_);
}

void BenchMeasure::step(const std::string& what) const {
  if (options_.step) options_.step(what);
}

// Nothing is under way before it and nothing after it.
template <class F>
double BenchMeasure::timed(F work) {
  backend_.wait();
  const Clock::time_point start = Clock::now();
  work();
  backend_.wait();
  return since(start);
}

// H[slot], the row behind the context and the slots before it, after `layer`.
void BenchMeasure::bring_row(int layer, int slot) {
  backend_.truncate(context_ + slot);
  backend_.embed(slot, tokens_[static_cast<size_t>(context_ + slot)]);
  if (layer > 0) backend_.run_layers(slot, 1, context_ + slot, 1, layer);
}

// The greedy draws after H[0..rows).
void BenchMeasure::finish_rows(int rows) {
  const auto text = std::span(tokens_).first(static_cast<size_t>(context_ + rows));
  if (DeviceSampling* device = backend_.device_sampling()) {
    RowDraw draws[kMaxRows];
    device->draw(0, rows, greedy_.rule(0), text, draws);
    return;
  }
  backend_.logits(0, rows, z_.data());
  const size_t n = static_cast<size_t>(vocab_size_);
  for (int r = 0; r < rows; ++r) {
    greedy_.sample(std::span(z_).subspan(r * n, n), text.first(text.size() - rows + r + 1), {});
  }
}

ContextCosts BenchMeasure::at_context(int context) {
  const FloatMode mode;
  SB_CHECK(context >= 0 && context + std::max(options_.n_gen, kMaxRows) + 1 <= backend_.n_ctx());
  context_ = context;
  ContextCosts costs;
  costs.context = context;

  Session session(backend_, Sampler(greedy_sampling()));
  const auto prompt = std::span<const int32_t>(tokens_).first(static_cast<size_t>(context) + 1);
  GenerateOptions generate;
  const auto seconds_a_token = [&](int n) {
    generate.max_tokens = n;
    return session.generate(prompt, generate).decode_seconds / n;
  };
  if (context > 0) step(format("a context of %d tokens", context));
  seconds_a_token(options_.n_gen);  // warms up; the context is read but once
  std::vector<double> tokens, layers;
  for (int i = 0; i < options_.repeats; ++i) {
    step(format("decoding at context %d", context));
    tokens.push_back(seconds_a_token(options_.n_gen));
  }
  costs.token = spread_of(tokens);

  // A sample of a fast pass is some passes.
  batch_ = std::clamp(static_cast<int>(0.02 / costs.token.median), 1, 16);
  for (int i = 0; i <= options_.repeats; ++i) {
    step(format("layers at context %d", context));
    const double seconds = timed([&] {
      for (int k = 0; k < batch_; ++k) bring_row(n_layers_);
    });
    if (i > 0) layers.push_back(seconds / (batch_ * n_layers_));
  }
  costs.layer = spread_of(layers);

  // Row counts take turns, so that a slow spell of the machine touches all of them.
  std::array<std::vector<double>, kMaxRows + 1> verify;
  for (int i = 0; i <= options_.repeats; ++i) {
    for (int rows = 1; rows <= kMaxRows; ++rows) {
      step(format("verifying at context %d", context));
      const int passes = std::min(batch_, 4);
      const double seconds = timed([&] {
        for (int k = 0; k < passes; ++k) {
          backend_.truncate(context);
          for (int r = 0; r < rows; ++r) {
            backend_.embed(r, tokens_[static_cast<size_t>(context + r)]);
          }
          backend_.run_layers(0, rows, context, 1, n_layers_);
          finish_rows(rows);
        }
      });
      if (i > 0) verify[rows].push_back(seconds / passes);
    }
  }
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.verify[rows] = spread_of(verify[rows]);
  return costs;
}

// A row that has come to `layer` is checked again and again.
CheckTime BenchMeasure::time_check(HeadKind kind, int head, int layer, int tokens) {
  CheckTime check{kind, tokens, {}, {}};
  std::vector<double> device, call;
  // Enough layers that the check is queued before they are done.
  const int before = std::min(n_layers_, std::max(layer, 4));
  for (int i = 0; i <= 4 * options_.repeats; ++i) {
    bring_row(layer);
    const double asked = timed([&] { backend_.exit_check(head, 0, kTemperature); });
    double worked = asked;
    if (backend_.gpu()) {  // both are waited for once, so that the waiting cancels out
      const double layers = timed([&] { bring_row(before); });
      const double all = timed([&] {
        bring_row(before);
        backend_.exit_check(head, 0, kTemperature);
      });
      worked = std::max(0.0, all - layers);
    }
    if (i == 0) continue;  // warms up
    call.push_back(asked);
    device.push_back(worked);
  }
  check.device = spread_of(device);
  check.call = spread_of(call);
  return check;
}

Spread BenchMeasure::drafted_row(const ExitHeads& heads, const std::vector<int>& check_layers) {
  std::vector<double> seconds;
  for (int i = 0; i <= 2 * options_.repeats; ++i) {
    backend_.truncate(context_);
    const double all = timed([&] {
      for (int slot = 0; slot < kDraftedRows; ++slot) {
        const int pos = context_ + slot;
        backend_.embed(slot, tokens_[static_cast<size_t>(pos)]);
        int done = 0;
        for (const int layer : check_layers) {
          backend_.run_layers(slot, 1, pos, done + 1, layer);
          backend_.exit_check(heads.find(HeadKind::kFolded, layer), slot, kTemperature);
          done = layer;
        }
      }
    });
    if (i > 0) seconds.push_back(all / kDraftedRows);
  }
  return spread_of(seconds);
}

DraftCosts BenchMeasure::drafted_rows(int context) {
  const FloatMode mode;
  const std::vector<int> exits = exits_below(n_layers_);
  DraftCosts costs;
  if (exits.empty()) return costs;
  context_ = context;
  step(format("drafted rows at context %d", context));
  std::vector<RandomHeads::Head> wanted;
  for (const int layer : exits) wanted.push_back({HeadKind::kFolded, layer});
  const RandomHeads random(backend_.config(), wanted, shortlist_);
  backend_.set_exit_heads(&random.heads(), shortlist_);
  const int first = random.heads().find(HeadKind::kFolded, exits[0]);
  costs.check = time_check(HeadKind::kFolded, first, exits[0], shortlist_);
  for (const int exit : exits) {
    std::vector<std::vector<int>> ways = {{exit}};
    if (exit > 1) ways.push_back({std::max(1, exit - 2), exit});
    for (const std::vector<int>& layers : ways) {
      step(format("drafted rows at context %d", context));
      costs.rows.push_back({exit, layers, drafted_row(random.heads(), layers)});
    }
  }
  backend_.set_exit_heads(nullptr, 0);
  backend_.truncate(context);
  return costs;
}

std::vector<CheckTime> BenchMeasure::checks() {
  const FloatMode mode;
  std::vector<CheckTime> found;
  if (n_layers_ < 2) return found;
  const auto measure = [&](HeadKind kind, int all, const std::vector<int>& sizes) {
    step(format("%s checks", head_kind_name(kind)));
    const RandomHeads random(backend_.config(), {{kind, 1}}, all);
    for (const int tokens : sizes) {
      step(format("%s checks", head_kind_name(kind)));
      backend_.set_exit_heads(&random.heads(), kind == HeadKind::kFull ? all : tokens);
      if (kind == HeadKind::kChained) {
        bring_row(n_layers_);
        backend_.keep_state(0);
      }
      found.push_back(time_check(kind, random.heads().find(kind, 1), 1, tokens));
    }
    backend_.set_exit_heads(nullptr, 0);
  };
  measure(HeadKind::kFolded, vocab_size_, shortlists(vocab_size_));
  measure(HeadKind::kChained, shortlist_, {shortlist_});
  measure(HeadKind::kFull, shortlist_, {vocab_size_});
  return found;
}

std::optional<LaunchCosts> BenchMeasure::launches() {
  Device* gpu = backend_.gpu();
  if (!gpu) return std::nullopt;
  step("launches");
  context_ = 0;
  const DeviceMemory<uint32_t> word(*gpu, 1);
  const auto graph = gpu->record([&] { gpu->clear(word.data(), sizeof(uint32_t)); });
  std::vector<double> launch, whole, layer;
  for (int i = 0; i <= 20 * options_.repeats; ++i) {
    gpu->synchronize();
    const Clock::time_point start = Clock::now();
    gpu->launch(*graph);
    const double launched = since(start);
    gpu->synchronize();
    const double done = since(start);
    const double called = timed([&] { bring_row(1); });
    if (i == 0) continue;  // warms up
    launch.push_back(launched);
    whole.push_back(done);
    layer.push_back(called);
  }
  return LaunchCosts{spread_of(launch), spread_of(whole), spread_of(layer)};
}

}  // namespace specbound
