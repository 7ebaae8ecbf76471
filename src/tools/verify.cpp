#include "tools/verify.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "decode/side_by_side.h"
#include "engine/pages.h"
#include "error.h"
#include "json/json_writer.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

struct Prompts {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
  size_t longest = 0;
};

Prompts make_prompts(const LoadedModel& model, const VerifyOptions& options,
                     std::vector<std::string> texts) {
  Prompts prompts;
  prompts.texts = std::move(texts);
  for (size_t i = 0; i < prompts.texts.size(); ++i) {
    try {
      prompts.ids.push_back(make_prompt(model, options.prompt, "", prompts.texts[i]).ids);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      throw Error(e.code(), format("prompt %zu: %s", i + 1, e.what()));
    }
    prompts.longest = std::max(prompts.longest, prompts.ids.back().size());
  }
  return prompts;
}

// Room for the bits of the longest text.
std::unique_ptr<DifferentialBackend> make_differential(Backend& backend, const Prompts& prompts,
                                                       int n_predict) {
  const int n_prompt = static_cast<int>(prompts.longest);
  const int rows = std::min(n_predict, backend.n_ctx());
  const int positions = std::min(n_prompt + rows, backend.n_ctx());
  const size_t needed = DifferentialBackend::bytes_needed(backend.config(), positions, rows);
  if (const size_t available = memory_free(); needed > available) {
    throw Error(
        ErrorCode::kLimit,
        format("--bits: keeping every bit of %d tokens (-n) takes %.1f MB, %.1f MB are "
               "free: give a smaller -n",
               rows, static_cast<double>(needed) / 1e6, static_cast<double>(available) / 1e6));
  }
  return std::make_unique<DifferentialBackend>(backend, positions, rows);
}

// What drafts for one reply after another.
class Drafter {
 public:
  // Throws what Speculation throws.
  Drafter(const VerifyOptions& options, const LoadedModel& model)
      : options_(options), config_(model.config()) {
    if (options.forced()) {
      params_ = options.drafting.specbound.resolve(config_.n_layers);
    } else {
      SpeculationOptions drafting = options.drafting;
      drafting.controller = false;  // what is verified must draft
      // A controller's trees have as many rows as pay; here they have all.
      std::optional<int>& width = drafting.specbound.w_max;
      if (drafting.looks_up() && !drafting.specbound.no_width_bound && !width) width = kMaxRows;
      speculation_ = std::make_unique<Speculation>(drafting, model);
      speculation_->set_active(true);
    }
  }

  const ExitHeads* heads() const { return speculation_ ? speculation_->heads() : nullptr; }
  void attach(Backend& backend) {
    if (speculation_) speculation_->attach(backend);
  }

  // `seed` is for forced drafts, which know the plain text. nullptr: the settings never draft.
  Speculator* make(std::span<const int32_t> text, uint64_t seed) {
    if (speculation_) return speculation_->speculator();
    forced_.emplace(forced_by_chance(text, bounded_check_layers(params_, config_.n_layers),
                                     config_.vocab_size, options_.rates, seed));
    speculator_.emplace(*forced_, params_, config_.n_layers);
    return &*speculator_;
  }

  std::string description() const {
    if (speculation_) return speculation_->drafter();
    return format("chance (%g%% of rows, %g%% right)", 100 * options_.rates.exit,
                  100 * options_.rates.right);
  }
  int width() const {
    if (!speculation_) return params_.width_bound ? params_.w_max : kMaxRows;
    const Speculator* speculator = speculation_->speculator();
    return speculator ? speculator->width() : 1;
  }
  // What is special to the drafter, for the JSON.
  void add_settings(Json& settings) const {
    settings["w_max"] = width();
    if (options_.drafting.speculator == "ngram") {
      settings["ngram_max"] = options_.drafting.ngram_max;
      return;
    }
    if (const DraftVerify* drafter = speculation_ ? speculation_->draft_verify() : nullptr) {
      settings["skip_layers"] = drafter->params().skipped;
      settings["tau"] = shortest_decimal(drafter->params().tau);
      return;
    }
    if (const Kangaroo* drafter = speculation_ ? speculation_->kangaroo() : nullptr) {
      settings["tau"] = shortest_decimal(drafter->params().eta);
      return;
    }
    if (const DraftModel* drafter = speculation_ ? speculation_->draft_model() : nullptr) {
      settings["model_draft"] = options_.drafting.draft_model;
      settings["tau"] = shortest_decimal(drafter->tau());
      return;
    }
    const SpecBound* specbound = speculation_ ? speculation_->specbound() : nullptr;
    if (speculation_ && !specbound) return;
    const SpecBoundParams& p = specbound ? specbound->params() : params_;
    settings["head"] = specbound ? specbound->head().name() : options_.forced() ? "forced" : "none";
    settings["check_layers"] = bounded_check_layers(p, config_.n_layers);
    settings["alpha"] = p.anneal && !p.learned ? shortest_decimal(p.alpha) : 0;
    if (p.learned) settings["anneal_learned"] = true;
    settings["tau"] = shortest_decimal(p.tau);
    if (!options_.forced()) return;
    settings["forced_exit"] = options_.rates.exit;
    settings["forced_right"] = options_.rates.right;
  }

 private:
  const VerifyOptions& options_;
  const ModelConfig& config_;
  std::unique_ptr<Speculation> speculation_;  // none with forced drafts
  SpecBoundParams params_;                    // of forced drafts
  std::optional<ForcedHead> forced_;
  std::optional<SpecBound> speculator_;
};

// Figures of one reply, of a prompt's, or of all.
struct Figures {
  int64_t replies = 0, tokens = 0, rounds = 0, drafted = 0, accepted = 0;
  int64_t rows_compared = 0, kv_compared = 0;
  std::array<int64_t, kMaxRows + 1> rows_in_passes_of{};

  void add(const Figures& other) {
    replies += other.replies;
    tokens += other.tokens;
    rounds += other.rounds;
    drafted += other.drafted;
    accepted += other.accepted;
    rows_compared += other.rows_compared;
    kv_compared += other.kv_compared;
    for (int n = 0; n <= kMaxRows; ++n) rows_in_passes_of[n] += other.rows_in_passes_of[n];
  }
  // Tokens a round; 0 without rounds.
  double compression_rate() const {
    return rounds > 0 ? static_cast<double>(tokens) / static_cast<double>(rounds) : 0;
  }
  Json json() const {
    return {{"tokens", tokens},
            {"rounds", rounds},
            {"drafted_tokens", drafted},
            {"accepted_tokens", accepted},
            {"compression_rate", rounds > 0 ? Json(compression_rate()) : Json()},
            {"rows_compared", rows_compared},
            {"kv_compared", kv_compared}};
  }
};

Figures figures_of(const SideBySide& reply, const DifferentialBackend* differential) {
  const Counters& counters = reply.speculative.counters;
  Figures figures;
  figures.replies = 1;
  figures.tokens = counters.decoded_tokens;
  figures.rounds = counters.rounds;
  figures.drafted = counters.drafted_tokens;
  figures.accepted = counters.accepted_tokens;
  if (differential) {
    figures.rows_compared = differential->rows_compared();
    figures.kv_compared = differential->kv_compared();
    figures.rows_in_passes_of = differential->rows_in_passes_of();
  }
  return figures;
}

std::string counted(size_t n, const char* one, const char* many) {
  return format("%zu %s", n, n == 1 ? one : many);
}

// The beginning of a text, for a line.
std::string beginning(const std::string& text) {
  constexpr size_t kMost = 40;  // characters
  const std::string shown = terminal_text(text);
  size_t characters = 0, at = 0;
  for (; at < shown.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(shown[at]) & 0xc0) != 0x80;
    if (starts && characters++ == kMost) break;
  }
  return '"' + shown.substr(0, at) + (at < shown.size() ? "...\"" : "\"");
}

class Verification {
 public:
  Verification(const VerifyOptions& options, LoadedModel& model, const Prompts& prompts,
               Drafter& drafter, std::shared_ptr<const TokenGrammar> grammar)
      : options_(options),
        model_(model),
        prompts_(prompts),
        drafter_(drafter),
        grammar_(std::move(grammar)) {
    if (options.bits)
      differential_ = make_differential(model.backend(), prompts, options.n_predict);
  }

  void announce() const;
  // To the first difference; or until nobody reads the report, unless a file is to have it.
  void run();
  void report(const std::string& line) { read_ = read_ && write_stdout(line + '\n'); }
  bool read() const { return read_; }
  bool identical() const { return difference_.is_null(); }
  bool drafted() const { return total_.drafted > 0; }
  std::string summary() const;
  Json json() const;

 private:
  void run_prompt(size_t prompt);
  SideBySide run_reply(size_t prompt, float temperature, uint64_t seed);
  std::string what_differs(size_t prompt, float temperature, uint64_t seed,
                           const Difference& difference) const;
  size_t replies_in_all() const {
    return prompts_.ids.size() * options_.temperatures.size() * options_.seeds.size();
  }

  const VerifyOptions& options_;
  LoadedModel& model_;
  const Prompts& prompts_;
  Drafter& drafter_;
  std::shared_ptr<const TokenGrammar> grammar_;
  std::unique_ptr<DifferentialBackend> differential_;
  std::optional<Progress> bar_;
  size_t n_prompts_ = 0;  // that were begun
  bool read_ = true;      // the report's lines so far
  Figures total_;
  Json replies_ = Json::array();
  Json difference_;
};

void Verification::announce() const {
  std::string temperatures, seeds;
  for (const float t : options_.temperatures) temperatures += format(" %g", t);
  for (const uint64_t s : options_.seeds) seeds += " " + std::to_string(s);
  std::fprintf(stderr,
               "%s x temperature%s x seed%s: %s of at most %s, each plain and drafted by %s, up to "
               "%s\n",
               counted(prompts_.ids.size(), "prompt", "prompts").c_str(), temperatures.c_str(),
               seeds.c_str(), counted(replies_in_all(), "reply", "replies").c_str(),
               counted(options_.n_predict, "token", "tokens").c_str(),
               drafter_.description().c_str(), counted(drafter_.width(), "row", "rows").c_str());
}

SideBySide Verification::run_reply(size_t prompt, float temperature, uint64_t seed) {
  SamplingParams sampling = options_.sampling.params;
  sampling.temperature = temperature;
  sampling.seed = seed;
  sampling.grammar = grammar_;
  GenerateOptions generate;
  generate.max_tokens = options_.n_predict;
  generate.abort = &interrupt_flag();
  if (!options_.ignore_eos) generate.is_end = [&](int32_t id) { return model_.ends_reply(id); };
  generate.on_token = [&](const TokenEvent&) { bar_->update(total_.replies, replies_in_all()); };
  const uint64_t fate = seed * 0x9e3779b97f4a7c15u + total_.replies;  // other exits for each reply
  return decode_side_by_side(
      model_.backend(), differential_.get(), sampling, prompts_.ids[prompt], generate,
      [&](std::span<const int32_t> text) { return drafter_.make(text, fate); });
}

// All temperatures and seeds.
void Verification::run_prompt(size_t prompt) {
  ++n_prompts_;
  Figures figures;
  for (const float temperature : options_.temperatures) {
    for (const uint64_t seed : options_.seeds) {
      if (!bar_) bar_.emplace("verifying", Progress::Unit::kItems);
      const SideBySide reply = run_reply(prompt, temperature, seed);
      if (reply.aborted) {
        bar_.reset();
        throw Interrupted(format("interrupted after %lld of %s; until then nothing differed",
                                 static_cast<long long>(total_.replies),
                                 counted(replies_in_all(), "reply", "replies").c_str()));
      }
      const Figures one = figures_of(reply, differential_.get());
      figures.add(one);
      total_.add(one);
      Json entry = {{"prompt", prompt + 1},
                    {"temperature", shortest_decimal(temperature)},
                    {"seed", seed},
                    {"stop_reason", stop_reason_name(reply.speculative.stop)},
                    {"identical", !reply.difference}};
      entry.update(one.json());
      replies_.push_back(std::move(entry));
      if (reply.difference) {
        bar_.reset();
        report(what_differs(prompt, temperature, seed, *reply.difference));
        const Difference& d = *reply.difference;
        difference_ = {{"prompt", prompt + 1},
                       {"temperature", shortest_decimal(temperature)},
                       {"seed", seed},
                       {"what", kDifferenceNames[static_cast<int>(d.what)]},
                       {"position", d.pos},
                       {"rows", d.rows},
                       {"slot", d.slot},
                       {"from_layer", d.from},
                       {"to_layer", d.to},
                       {"element", d.element},
                       {"expected", describe_value(d.what, d.expected)},
                       {"found", describe_value(d.what, d.found)}};
        return;
      }
    }
  }
  const size_t n = prompts_.ids.size();
  std::string line =
      format("%*zu/%zu  %s  %5lld tokens  CR %5.2f", static_cast<int>(std::to_string(n).size()),
             prompt + 1, n, counted(figures.replies, "reply", "replies").c_str(),
             static_cast<long long>(figures.tokens), figures.compression_rate());
  if (differential_) line += format("  %6lld rows", static_cast<long long>(figures.rows_compared));
  bar_.reset();
  report(line + "  ok  " + beginning(prompts_.texts[prompt]));
}

std::string Verification::what_differs(size_t prompt, float temperature, uint64_t seed,
                                       const Difference& difference) const {
  std::string text = format("DIFFERENT: prompt %zu (%s), temperature %g, seed %llu: ", prompt + 1,
                            beginning(prompts_.texts[prompt]).c_str(), temperature,
                            static_cast<unsigned long long>(seed)) +
                     describe(difference);
  const bool bits = difference.what != Difference::What::kToken &&
                    difference.what != Difference::What::kCount &&
                    difference.what != Difference::What::kStop;
  if (bits) return text;
  return text + (differential_
                     ? "; every row before it has the same bits, so it was drawn differently"
                     : "; tokens differ but no bits were compared: run with --bits");
}

void Verification::run() {
  for (size_t prompt = 0; prompt < prompts_.ids.size(); ++prompt) {
    run_prompt(prompt);
    if (!identical() || (!read_ && options_.json.empty())) return;
  }
}

std::string Verification::summary() const {
  std::string text = counted(n_prompts_, "prompt", "prompts") + ", " +
                     counted(total_.replies, "reply", "replies") + ", " +
                     counted(total_.tokens, "token", "tokens");
  text += differential_ ? format(", %lld rows and %lld K/V compared",
                                 static_cast<long long>(total_.rows_compared),
                                 static_cast<long long>(total_.kv_compared))
                        : " compared (with --bits the bits too)";
  return text + format(", %lld of %lld drafts accepted, mean CR %.2f: %s",
                       static_cast<long long>(total_.accepted),
                       static_cast<long long>(total_.drafted), total_.compression_rate(),
                       identical() ? "identical" : "DIFFERENT");
}

Json Verification::json() const {
  const SamplingParams& s = options_.sampling.params;
  Json prompts = Json::array();
  for (size_t i = 0; i < prompts_.ids.size(); ++i) {
    prompts.push_back({{"text", prompts_.texts[i]}, {"prompt_tokens", prompts_.ids[i].size()}});
  }
  Json temperatures = Json::array();
  for (const float t : options_.temperatures) temperatures.push_back(shortest_decimal(t));
  Json rows = Json::object();
  for (int n = 1; n <= kMaxRows; ++n) rows[std::to_string(n)] = total_.rows_in_passes_of[n];
  Json json = {{"model", model_.path()},
               {"backend", model_.backend().description()},
               {"speculator", options_.drafting.speculator},
               {"settings",
                {{"n_predict", options_.n_predict},
                 {"ignore_eos", options_.ignore_eos},
                 {"raw", options_.prompt.raw},
                 {"temperatures", temperatures},
                 {"seeds", options_.seeds},
                 {"top_k", s.top_k},
                 {"top_p", shortest_decimal(s.top_p)},
                 {"min_p", shortest_decimal(s.min_p)},
                 {"presence_penalty", shortest_decimal(s.presence_penalty)},
                 {"frequency_penalty", shortest_decimal(s.frequency_penalty)},
                 {"repeat_penalty", shortest_decimal(s.repeat_penalty)},
                 {"repeat_last_n", s.repeat_last_n}}},
               {"bits", options_.bits},
               {"identical", identical()},
               {"replies", total_.replies}};
  drafter_.add_settings(json["settings"]);
  json.update(total_.json());
  if (options_.bits) json["rows_in_passes_of"] = std::move(rows);
  json["difference"] = difference_;
  json["prompts"] = std::move(prompts);
  json["results"] = replies_;
  return json;
}

}  // namespace

bool verify(const VerifyOptions& options, std::vector<std::string> texts) {
  const Grammar::Shared grammar = options.grammar.read();
  LoadedModel model(options.model, terminal_watcher());
  Drafter drafter(options, model);
  const Prompts prompts = make_prompts(model, options, std::move(texts));
  model.load(drafter.heads());
  drafter.attach(model.backend());

  Verification verification(options, model, prompts, drafter, model.constrain(grammar));
  verification.announce();
  verification.run();
  verification.report(verification.summary());
  if (verification.identical() && !verification.drafted()) {
    std::fprintf(stderr, "warning: nothing was drafted: plain decoding was compared with itself\n");
  }
  if (!options.json.empty()) {
    // A prompt need not be UTF-8.
    write_file(options.json, dump(verification.json(), 1) + "\n");
  }
  return verification.read() && verification.identical();
}

}  // namespace specbound
