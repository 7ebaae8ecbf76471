// specbound: a table of subcommands; each lives in its own file.
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "app/commands.h"
#include "error.h"

namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"run", "complete one prompt and print the text", specbound::command_run},
    {"chat", "talk with a model in the terminal", specbound::command_chat},
    {"info", "what a GGUF file holds, and whether it can run here", specbound::command_info},
    {"doctor", "what this machine offers: CPU, SIMD, memory, bandwidth", specbound::command_doctor},
    {"tokenize", "text to token ids", specbound::command_tokenize},
    {"detokenize", "token ids to text", specbound::command_detokenize},
};

void print_help(FILE* out) {
  std::fprintf(out,
               "specbound %s: Llama-family models on one machine, the same bytes every time\n\n"
               "usage: specbound COMMAND [options]      specbound COMMAND --help\n\n",
               SPECBOUND_VERSION);
  for (const Command& c : kCommands) std::fprintf(out, "  %-12s %s\n", c.name, c.summary);
  std::fprintf(out,
               "\nexamples:\n"
               "  specbound chat                       with the bundled demo model\n"
               "  specbound chat -m model.gguf\n"
               "  specbound run -p \"I need a table for two tonight.\" -n 64\n"
               "  specbound info model.gguf\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  if (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h")) {
    print_help(stdout);
    return 0;
  }
  if (!std::strcmp(argv[1], "--version")) {
    std::printf("specbound %s\n", SPECBOUND_VERSION);
    return 0;
  }
  for (const Command& c : kCommands) {
    if (std::strcmp(argv[1], c.name) != 0) continue;
    try {
      return c.run(argc - 1, argv + 1);
    } catch (const specbound::Error& e) {
      std::fprintf(stderr, "specbound %s: %s\n", c.name, e.what());
      return e.code() == specbound::ErrorCode::kUsage ? 2 : 1;
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "specbound %s: out of memory\n", c.name);
      return 1;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "specbound %s: unexpected failure: %s\n", c.name, e.what());
      return 1;
    }
  }
  std::fprintf(stderr, "specbound: unknown command '%s'; specbound --help lists them\n",
               specbound::printable(argv[1]).c_str());
  return 2;
}
