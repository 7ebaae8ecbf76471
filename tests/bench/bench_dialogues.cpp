// Replies to the turns of reference dialogues, decoded plainly and with each of some speculative
// settings in turn. The job is a JSON file, the result one JSON object on stdout. All of them must
// write the same tokens. Prompts that do not fit are cut in the middle. bench_dialogues JOB.json
//
// Job: {"model": path, "threads": N, "dialogues": path of JSON lines, each a list of {"role",
// "content"}, "count": dialogues at most, "n_predict": N, "min_tokens": shorter replies are left
// out, "temperature": T, "repeats": R, "settings": [{"name": ..., "flags": [as run takes them]}],
// "ignore_end": whether replies go on behind their end, "outline": name of a setting whose rounds
// are told, for bench_replay}
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench_model.h"
#include "cli/speculation_flags.h"
#include "decode/generate.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "spec_bench/spec_bench_questions.h"
#include "spec_bench/spec_bench_run.h"
#include "templates/chat_template.h"
#include "terminal/progress.h"

using namespace specbound;
using nlohmann::json;

namespace {

struct Setting {
  std::string name;
  std::unique_ptr<Speculation> speculation;
};

struct Reply {
  std::vector<int32_t> prompt, text;  // text: prompt and reply
};

// The prompts of a dialogue: what is before each of the assistant's turns.
std::vector<std::vector<int32_t>> prompts(const LoadedModel& model, const ChatTemplate& style,
                                          const json& dialogue) {
  std::vector<std::vector<int32_t>> found;
  std::vector<ChatMessage> messages;
  for (const json& message : dialogue) {
    const bool assistant = message.at("role") == "assistant";
    if (assistant && !messages.empty()) found.push_back(style.encode(model.tokenizer(), messages));
    messages.push_back({assistant ? ChatMessage::Role::kAssistant : ChatMessage::Role::kUser,
                        message.at("content").get<std::string>()});
  }
  return found;
}

std::vector<Setting> read_settings(const json& job, LoadedModel& model) {
  std::vector<Setting> settings;
  for (const json& setting : job.at("settings")) {
    Flags flags;
    SpeculationOptions options;
    add_speculation_flags(flags, options);
    parse_words(flags, setting.at("flags").get<std::vector<std::string>>());
    settings.push_back({setting.at("name"), std::make_unique<Speculation>(options, model)});
  }
  return settings;
}

// What bench_replay must know of a setting.
json drafting(const Speculation& speculation, int n_layers) {
  const SpecBound* drafter = speculation.specbound();
  if (!drafter) return nullptr;
  return {{"kind", drafter->head().name()},
          {"n_layers", n_layers},
          {"check_layers", drafter->check_layers()},
          {"w_max", drafter->width()},
          {"shortlist", speculation.shortlist()}};
}

// A round as another model can replay it: where its drafts left, how many were right, and whether
// more were looked for.
json outline(const RoundEvent& round) {
  json exits = json::array();
  for (int i = 0; i < round.drafted(); ++i) exits.push_back(round.rows[i].exit_layer);
  return {{"exits", exits},
          {"accepted", round.tokens.size() - 1},
          {"end", kDraftEndNames[static_cast<int>(round.draft_end)]}};
}

json counted(const GenerateStats& stats) {
  const Counters& c = stats.counters;
  return {{"rounds", c.rounds}, {"decoded", c.decoded_tokens},   {"drafted", c.drafted_tokens},
          {"checks", c.checks}, {"accepted", c.accepted_tokens}, {"accepted_at", c.accepted_at},
          {"nanoseconds", c.ns}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw Error(ErrorCode::kUsage, "usage: bench_dialogues JOB.json");
  const json job = json::parse(std::ifstream(argv[1]));
  ModelOptions model_flags;
  model_flags.model = job.at("model");
  model_flags.n_threads = job.at("threads");
  LoadedModel model(model_flags, terminal_watcher());
  model.load();
  const std::unique_ptr<ChatTemplate> style = ChatTemplate::from_gguf(model.gguf());
  const std::vector<Setting> settings = read_settings(job, model);
  // What rows cost is measured where nothing has been read yet.
  for (const Setting& setting : settings) setting.speculation->attach(model.backend());

  SamplingParams sampling;
  sampling.temperature = job.at("temperature");
  sampling.seed = 1;
  Session session(model.backend(), Sampler(sampling));
  GenerateOptions options;
  options.max_tokens = job.at("n_predict");
  if (!job.value("ignore_end", false)) {
    options.is_end = [&](int32_t id) { return model.ends_reply(id); };
  }

  const Setting* attached = nullptr;
  const auto decode = [&](std::span<const int32_t> prompt, const Setting* setting) {
    if (setting && std::exchange(attached, setting) != setting) {
      setting->speculation->attach(model.backend());
    }
    // Whatever was before, repacked heads too: a few plain tokens leave the caches alike.
    GenerateOptions few = options;
    few.max_tokens = 2;
    few.on_round = nullptr;
    session.set_speculator(nullptr);
    session.generate(prompt, few);
    session.set_speculator(setting ? setting->speculation->speculator() : nullptr);
    return session.generate(prompt, options);
  };

  std::vector<Reply> texts;
  json replies = json::array();
  std::ifstream lines(job.at("dialogues").get<std::string>());
  std::string line;
  for (int dialogue = 0; dialogue < job.at("count") && std::getline(lines, line); ++dialogue) {
    int turn = -1;
    for (std::vector<int32_t>& prompt : prompts(model, *style, json::parse(line))) {
      ++turn;
      cut_middle(prompt, spec_bench_room(model.n_ctx(), options.max_tokens));
      const GenerateStats first = decode(prompt, nullptr);
      const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
      if (first.generated_tokens < job.at("min_tokens")) continue;
      json entries = json::object();
      for (const Setting& setting : settings) {
        json& entry = entries[setting.name] = {{"seconds", json::array()}};
        if (setting.name != job.value("outline", "")) continue;
        options.on_round = [&](const RoundEvent& r) { entry["outline"].push_back(outline(r)); };
        decode(prompt, &setting);
        options.on_round = nullptr;
      }
      replies.push_back({{"dialogue", dialogue},
                         {"turn", turn},
                         {"prompt_tokens", prompt.size()},
                         {"tokens", first.generated_tokens},
                         {"plain_seconds", json::array()},
                         {"settings", entries}});
      texts.push_back({std::move(prompt), text});
    }
  }
  // Plain decoding and then every setting, each time and for each reply from another one on. All
  // texts come before any comes again: what learns has not just seen it.
  for (int i = 0; i < job.at("repeats"); ++i) {
    for (size_t r = 0; r < texts.size(); ++r) {
      replies[r]["plain_seconds"].push_back(decode(texts[r].prompt, nullptr).decode_seconds);
      for (size_t k = 0; k < settings.size(); ++k) {
        const Setting& setting = settings[(r + i + k) % settings.size()];
        const GenerateStats stats = decode(texts[r].prompt, &setting);
        if (!std::ranges::equal(texts[r].text, session.tokens())) {
          throw Error(ErrorCode::kLimit, setting.name + " wrote other tokens than plain decoding");
        }
        json& entry = replies[r]["settings"][setting.name];
        entry["seconds"].push_back(stats.decode_seconds);
        entry.update(counted(stats));
      }
    }
  }
  json described = json::object(), drafters = json::object();
  for (const Setting& s : settings) {
    described[s.name] = s.speculation->description();
    drafters[s.name] = drafting(*s.speculation, model.config().n_layers);
  }
  const json out = {{"backend", model.backend().description()},
                    {"settings", described},
                    {"drafting", drafters},
                    {"replies", replies}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_dialogues: %s\n", e.what());
  return 1;
}
