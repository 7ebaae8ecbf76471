#include "app/command_table.h"

#include <algorithm>

#include "app/commands.h"

namespace specbound {

namespace {

constexpr Command kCommands[] = {
    {"run", "complete one prompt and print the text", command_run},
    {"chat", "talk with a model in the terminal", command_chat},
    {"gui", "the same in a window, and watch each token leave the network", command_gui},
    {"serve", "the same for other programs, over HTTP as OpenAI's API has it", command_serve},
    {"verify", "prove that speculation changes no byte of the text", command_verify},
    {"train-heads", "train exit heads, which make a model fast, on texts like yours",
     command_train_heads},
    {"tune", "find the fastest settings of speculation on this machine", command_tune},
    {"theory", "what speculation can give: measured costs, ceilings, predicted against measured",
     command_theory},
    {"bench", "how fast models run here, and what speculation gives them", command_bench},
    {"spec-bench", "Spec-Bench's questions, plainly and speculatively: the paper's tables",
     command_spec_bench},
    {"ppl", "the perplexity of a text: how well the model tells what comes next", command_ppl},
    {"lens", "what each layer would say: the token it has in mind, and how sure", command_lens},
    {"convert", "write a Hugging Face model as a GGUF file", command_convert},
    {"quantize", "write a model as a smaller file: 16, 8 or 4 bits a weight", command_quantize},
    {"info", "what a GGUF file holds, and whether it can run here", command_info},
    {"doctor", "what this machine offers: CPU, GPU, memory, bandwidth", command_doctor},
    {"tokenize", "text to token ids", command_tokenize},
    {"detokenize", "token ids to text", command_detokenize},
    {"help", "how a command is used: its options, their defaults, examples", command_help},
    {"man", "the manual page, for man(1)", command_man},
    {"completion", "a script that completes commands and options in bash, zsh or fish",
     command_completion},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const Command& c) { return c.name == name; });
  return found != std::end(kCommands) ? found : nullptr;
}

}  // namespace specbound
