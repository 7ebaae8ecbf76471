// `specbound rm`: deletes a model from the cache.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "cli/command.h"
#include "error.h"
#include "library/model_cache.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"

namespace specbound::rm_command {
namespace {

struct RmFlags {
  std::string name;
  bool yes = false;
};

void declare(Flags& flags, RmFlags& given) {
  flags.add_text("NAME", given.name, "the model, as list has it").required();
  flags.add_switch("-y,--yes", given.yes, "ask nothing").command_line_only();
}

// Throws Error(kUsage) unless it is one.
CachedModel the_one(const std::string& name) {
  std::vector<CachedModel> found = find_cached(name);
  if (found.empty()) found = find_unfinished(name);
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw Error(ErrorCode::kUsage, format("no model \"%s\" is in the cache; specbound list shows "
                                          "what is",
                                          printable(name).c_str()));
  }
  throw Error(ErrorCode::kUsage,
              format("%s: expected one model, found %zu: ", printable(name).c_str(), found.size()) +
                  joined(found, ", ", [](const CachedModel& model) { return model.name; }));
}

bool is_confirmed(const CachedModel& model) {
  if (!isatty(STDIN_FILENO)) {
    throw Error(ErrorCode::kUsage, "nobody can be asked: --yes removes without a question");
  }
  std::fprintf(stderr, "remove %s (%.1f MB%s)? [y/N] ", terminal_text(model.name).c_str(),
               1e-6 * static_cast<double>(model.bytes), model.whole ? "" : ", not whole");
  char answer[16] = "";
  return std::fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

int run(RmFlags& given) {
  const CachedModel model = the_one(given.name);
  if (!given.yes && !is_confirmed(model)) {
    say("nothing was removed");
    return 1;
  }
  catch_interrupts();
  for (const std::string& heads : remove_cached(model, terminal_watcher())) {
    say("its exit heads stay: " + heads);
  }
  std::printf("removed %s, %.1f MB\n", terminal_text(model.name).c_str(),
              1e-6 * static_cast<double>(model.bytes));
  return 0;
}

const CommandOf<RmFlags> kRm({.rank = 128,
                              .name = "rm",
                              .summary = "delete a model from the cache",
                              .text = "Delete a model from the cache, or what a download that "
                                      "was cut off left of it. Exit heads that lie beside "
                                      "it stay: they take long to train.",
                              .footer = "Examples:\n"
                                        "  specbound rm smollm2\n"
                                        "  specbound rm hf:Qwen/Qwen3-0.6B-GGUF:Q8_0 --yes"},
                             declare, run);

}  // namespace
}  // namespace specbound::rm_command
