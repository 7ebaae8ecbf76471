#include "cli/train_heads_summary.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "error.h"
#include "library/model_path.h"
#include "model/exit_heads.h"
#include "system/number_text.h"
#include "terminal/terminal_text.h"
#include "tools/cost_report.h"

namespace specbound::train_heads_command {

namespace {

std::string layer_table(const TrainedHeads& trained, const TrainOptions& options,
                        double HeadReport::*share) {
  std::vector<HeadKind> kinds = options.kinds;
  std::erase_if(kinds, [&](HeadKind kind) {  // those that stand elsewhere
    return std::ranges::none_of(trained.reports, [&](const HeadReport& r) {
      return r.kind == kind && std::ranges::binary_search(options.layers, r.layer);
    });
  });
  std::string out = format("%8s", "layer");
  for (const HeadKind kind : kinds) out += format("  %9s", head_kind_name(kind));
  out += "\n";
  for (const int layer : options.layers) {
    out += format("%8d", layer);
    for (const HeadKind kind : kinds) {
      const auto report = std::ranges::find_if(
          trained.reports, [&](const HeadReport& r) { return r.kind == kind && r.layer == layer; });
      out += report != trained.reports.end() ? format("  %7.1f %%", 100 * (*report).*share)
                                             : format("  %9s", "-");
    }
    out += "\n";
  }
  return out;
}

std::string step_table(const TrainedHeads& trained) {
  std::string out;
  for (const HeadReport& report : trained.reports) {
    if (report.depth_agreement.empty()) continue;
    out += format("%8s at %-3d", head_kind_name(report.kind), report.layer);
    for (const double agreement : report.depth_agreement) {
      out += format("  %6.1f %%", 100 * agreement);
    }
    out += "\n";
  }
  return out.empty()
             ? out
             : "\nand each of several guesses in a row, those before it being right:\n\n" + out;
}

// Which heads are not those of the end of the training.
std::string best_heads(const TrainedHeads& trained) {
  std::string out;
  for (const HeadReport& report : trained.reports) {
    if (report.taken_after == 0) continue;
    out += format("best       %s at %d after %.1f of %.1f passes: later it was right less often\n",
                  head_kind_name(report.kind), report.layer, report.taken_after, report.passes);
  }
  return out;
}

// How often the guess of each head is the model's token, and how much of the model's distribution
// it has, layers in rows, kinds in columns; of heads that guess several tokens on, by step too.
std::string agreement_table(const TrainedHeads& trained, const TrainOptions& options) {
  std::string out;
  if (!options.layers.empty()) {
    out += "\nhow often a head's guess is the model's token, of the tokens for validation:\n\n";
    out += layer_table(trained, options, &HeadReport::agreement);
    out += "\nand what rejection sampling would accept of it at temperature 1 (1 - TV):\n\n";
    out += layer_table(trained, options, &HeadReport::overlap);
  }
  return out + step_table(trained);
}

}  // namespace

bool nothing_to_tune(const TrainedHeads& trained) {
  return std::ranges::all_of(trained.heads.heads,
                             [](const NewHead& head) { return !is_replayed(head.kind); });
}

std::string size_text(size_t bytes) {
  const double mega = 1e-6 * static_cast<double>(bytes);
  return mega >= 1000 ? format("%.1f GB", 1e-3 * mega) : format("%.1f MB", mega);
}

std::string time_text(double seconds) {
  const long whole = static_cast<long>(seconds);
  return whole < 60 ? format("%.1f s", seconds) : format("%ld:%02ld min", whole / 60, whole % 60);
}

std::string training_summary(const TrainingSummary& of) {
  const auto& [flags, corpus, trained, model_path, seconds, shortlist, settings_from] = of;
  const bool learnt = !flags.train.kinds.empty();
  std::string out = format("data       %s dialogues, %s pieces of plain text%s\n",
                           grouped(corpus.dialogues).c_str(),
                           grouped(std::ssize(corpus.texts) - corpus.dialogues).c_str(),
                           flags.self_generate > 0 ? "; replies written by the model" : "");
  if (learnt) {
    out += format("learnt     %s tokens; %s more kept for validation\n",
                  grouped(trained.rows).c_str(), grouped(trained.validation_rows).c_str());
    out += best_heads(trained);
  }
  out += format("time       %s in all runs, training %s of it\n", time_text(seconds).c_str(),
                time_text(trained.seconds).c_str());
  if (learnt) out += agreement_table(trained, flags.train);
  if (!trained.heads.text.empty()) {
    out += format("\ntext       %s tokens to look up in\n",
                  grouped(std::ssize(trained.heads.text)).c_str());
  }
  std::error_code error;
  const auto bytes = std::filesystem::file_size(flags.out, error);
  out += format("\nheads      %s, %s%s\n", terminal_text(flags.out).c_str(),
                size_text(error ? 0 : bytes).c_str(),
                shortlist == 0 ? "" : format(", shortlist of %zu tokens", shortlist).c_str());
  const bool tunable = !nothing_to_tune(trained);
  if (tunable) {
    out += format("settings   %s (%s)\n", describe_settings(trained.heads.defaults).c_str(),
                  terminal_text(settings_from).c_str());
  }
  const bool beside = flags.out == sidecar_heads(model_path);
  const std::string model = flags.model.model.empty() ? "" : " -m " + shell_word(flags.model.model);
  return out + format("next       specbound %s", tunable ? "tune" : "chat") + terminal_text(model) +
         (beside ? "" : " --heads " + terminal_text(shell_word(flags.out))) + "\n";
}

}  // namespace specbound::train_heads_command
