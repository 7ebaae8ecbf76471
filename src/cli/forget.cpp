// specbound forget: deletes what was kept of replies to draft from.
#include <cstdio>

#include "cli/command.h"
#include "runtime/reply_memory.h"

namespace specbound::forget_command {

namespace {

struct ForgetFlags {};

void declare(Flags&, ForgetFlags&) {}

int run(ForgetFlags&) {
  const uint64_t bytes = forget_replies();
  if (bytes == 0) {
    std::printf("nothing was kept\n");
  } else {
    std::printf("forgotten: %.1f kB of replies\n", static_cast<double>(bytes) / 1e3);
  }
  return 0;
}

const CommandOf<ForgetFlags> kForget(
    {.rank = 145,
     .name = "forget",
     .summary = "delete what was kept of earlier replies to draft from",
     .text = "Delete the memories of replies that chats keep to draft from, of all models.",
     .footer = "Examples:\n"
               "  specbound forget"},
    declare, run);

}  // namespace

}  // namespace specbound::forget_command
