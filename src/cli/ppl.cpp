// specbound ppl: what tools/ppl.h is asked for.
#include "tools/ppl.h"

#include <unistd.h>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "error.h"

namespace specbound::ppl_command {

namespace {

constexpr const char* kAbout =
    "The perplexity of a text under a model: e to the mean of -log p over the tokens scored. Lower "
    "is better, and figures compare only where the text, the vocabulary and what is scored are the "
    "same.\n\n"
    "Plain text is cut into windows of -c tokens (default here 512, or the model's context where "
    "that is shorter), and each is read on its own with BOS, if the vocabulary starts texts with "
    "one, in place of its first token. Of a window of c tokens those from number c/2 + 1 on are "
    "scored, counted from 0, each behind all that stand before it in the window; a last window "
    "that is not full is left out. That is the definition of llama.cpp's llama-perplexity, for the "
    "same GGUF file to be compared.\n\n"
    "JSON lines, {\"messages\": [...]}, the bare list of messages or {\"text\": ...}, are scored "
    "each as a text of its own, from its second token on and as far as the context -c reaches. "
    "Dialogues are written as the model's chat template has them, up to their last reply.\n\n"
    "\"+-\" is the standard error where every token counts as one independent draw.";

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound ppl -m model.gguf -f wiki.test.raw\n"
    "  specbound ppl -m model.gguf -f wiki.test.raw -c 2048 --chunks 20\n"
    "  specbound ppl -f dialogues.jsonl.xz --through both --json ppl.json\n"
    "  specbound ppl -m model.gguf -f story.txt --whole";

void add_flags(Flags& flags, PplOptions& given) {
  flags
      .add_file("-f,--file", given.file,
                "the text: plain, or JSON lines; packed if it is .xz; - for stdin")
      .command_line_only();
  flags.add_choice("--through", given.through,
                   {{"prefill", "prefill"}, {"decode", "decode"}, {"both", "both"}},
                   "by the kernels that read prompts, by those that write replies, 16 rows at a "
                   "time, or by both, held against each other (default prefill; on a CPU they give "
                   "the same bits, on a GPU prefill is faster)");
  flags
      .add_int("--chunks", given.chunks, 1, 1 << 30,
               "only the first N windows, or texts of JSON lines (default: all)")
      .command_line_only();
  flags
      .add_int(
          "--stride,--ppl-stride", given.stride, 1, 1 << 24,
          "windows begin N tokens apart, and the last N of each are scored: as llama-perplexity's, "
          "which however makes its windows N/2 longer than -c and puts BOS before the first alone "
          "(default: end to end)")
      .command_line_only();
  flags
      .add_switch(
          "--whole", given.whole,
          "plain text is one text, scored from its second token as far as the context reaches")
      .command_line_only();
  flags.add_output_file("--json", given.json, "write the figures, and those of each text, as JSON");
  add_model_flags(flags, given.model);
  flags["--ctx-size"].description(
      "tokens of a window of plain text (default 512); of JSON lines and --whole the context "
      "(default: as trained, at most 4096)");
}

int run(PplOptions& given) {
  if (given.file.empty() && isatty(STDIN_FILENO)) {
    throw Error(ErrorCode::kUsage, "no text: give -f FILE, or pipe text in");
  }
  return ppl(given) ? 0 : 1;
}

const CommandOf<PplOptions> kPpl(
    {.rank = 110,
     .name = "ppl",
     .summary = "the perplexity of a text: how well the model tells what comes next",
     .text = kAbout,
     .footer = kExamples},
    add_flags, run);

}  // namespace

}  // namespace specbound::ppl_command
