// specbound forget: deletes what was kept of replies to draft from, and what was learnt while idle.
#include <cstdio>

#include "cli/command.h"
#include "error.h"
#include "runtime/learning_folder.h"
#include "runtime/reply_memory.h"

namespace specbound::forget_command {

namespace {

struct ForgetFlags {};

void declare(Flags&, ForgetFlags&) {}

int run(ForgetFlags&) {
  const uint64_t replies = forget_replies();
  const ForgottenLearning learning = forget_learning();
  const uint64_t learnt = learning.bytes;
  if (replies > 0)
    std::printf("forgotten: %.1f kB of replies\n", static_cast<double>(replies) / 1e3);
  if (learnt > 0) {
    std::printf("forgotten: %.1f MB of what was learnt while idle\n",
                static_cast<double>(learnt) / 1e6);
  }
  if (!learning.at_work.empty()) {
    throw Error(ErrorCode::kLimit,
                joined(learning.at_work, ", ") +
                    ": not deleted: a chat, a server or the window is learning there: end it, "
                    "or say /learn off there or press \"Stop learning\", and forget then");
  }
  if (replies + learnt == 0) std::printf("nothing was kept\n");
  return 0;
}

const CommandOf<ForgetFlags> kForget(
    {.rank = 145,
     .name = "forget",
     .summary = "delete what was kept of earlier replies to draft from",
     .text = "Delete the memories of replies that chats keep to draft from, and all that idle "
             "learning keeps, of all models.",
     .footer = "Examples:\n"
               "  specbound forget"},
    declare, run);

}  // namespace

}  // namespace specbound::forget_command
