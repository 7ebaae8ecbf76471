// `specbound pull`: a model from Hugging Face into the cache. stdout carries its path.
#include <chrono>
#include <cstdio>
#include <string>

#include "cli/command.h"
#include "error.h"
#include "library/model_name.h"
#include "library/model_path.h"
#include "library/model_pull.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace specbound::pull_command {
namespace {

std::string explained() {
  std::string text =
      "Download a model from Hugging Face, once: -m takes the same names, and downloads what is "
      "not "
      "there yet. hf:OWNER/REPO is a repository of GGUF files; :Q8_0 behind it chooses among them, "
      "or :FILE.gguf. Without that the first of these that is there is taken: Q4_K_M, Q4_0, "
      "Q4_K_S, Q8_0, then others that run here. Short names:\n\n";
  for (const ShortName& known : short_names()) {
    text += format("  %-19s %-7s %s\n", known.name, size_text(known).c_str(), known.hub);
  }
  return text +
         "\nA download that was cut off goes on where it was, and every file is held against the "
         "checksum that the hub has. Where all is there no network is used. Models lie in "
         "$XDG_CACHE_HOME/specbound/models (or ~/.cache/specbound/models). HF_TOKEN is an access "
         "token for repositories that ask for one, HF_ENDPOINT another server that answers as "
         "huggingface.co does, HF_HUB_DOWNLOAD_TIMEOUT the seconds to wait for an answer (30).";
}
const std::string kExplained = explained();

struct PullFlags {
  std::string name;
  bool quiet = false;
};

void declare(Flags& flags, PullFlags& given) {
  flags.add_text("NAME", given.name, "hf:OWNER/REPO[:QUANT], or a short name").required();
  flags.add_switch("--quiet", given.quiet, "tell errors and warnings alone").command_line_only();
}

int run(PullFlags& given) {
  const std::optional<HubName> name = find_hub_name(given.name);
  if (!name) {
    throw Error(
        ErrorCode::kUsage,
        format("expected hf:OWNER/REPO[:QUANT] or a short name, found \"%s\"; short names "
               "are %s",
               printable(given.name).c_str(),
               joined(short_names(), ", ", [](const ShortName& n) { return n.name; }).c_str()));
  }
  catch_interrupts();
  const auto start = std::chrono::steady_clock::now();
  const bool there = find_cached(*name).has_value();
  const CachedModel model = pull_model(*name, terminal_watcher(given.quiet));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!given.quiet) {
    say(there ? model.name + " was there already"
              : format("pulled %s in %.1f s: specbound chat -m %s", model.name.c_str(), seconds,
                       shell_word(model.name).c_str()));
  }
  std::printf("%s\n", model.files.front().c_str());
  return 0;
}

const CommandOf<PullFlags> kPull({.rank = 124,
                                  .name = "pull",
                                  .summary = "download a model from Hugging Face by its name",
                                  .text = kExplained.c_str(),
                                  .footer = "Examples:\n"
                                            "  specbound pull smollm2\n"
                                            "  specbound pull "
                                            "hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_0\n"
                                            "  specbound chat -m qwen2.5-coder:1.5b"},
                                 declare, run);

}  // namespace
}  // namespace specbound::pull_command
