// specbound: a table of subcommands; each lives in its own file.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "app/commands.h"
#include "app/interrupt.h"
#include "app/terminal_text.h"
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
    {"gui", "the same in a window, and watch each token leave the network", specbound::command_gui},
    {"verify", "prove that speculation changes no byte of the text", specbound::command_verify},
    {"train-heads", "train exit heads, which make a model fast, on texts like yours",
     specbound::command_train_heads},
    {"tune", "find the fastest settings of speculation on this machine", specbound::command_tune},
    {"theory", "what speculation can give: measured costs, ceilings, predicted against measured",
     specbound::command_theory},
    {"bench", "how fast models of some size run here, without a file", specbound::command_bench},
    {"lens", "what each layer would say: the token it has in mind, and how sure",
     specbound::command_lens},
    {"convert", "write a Hugging Face model as a GGUF file", specbound::command_convert},
    {"quantize", "write a model as a smaller file: 16, 8 or 4 bits a weight",
     specbound::command_quantize},
    {"info", "what a GGUF file holds, and whether it can run here", specbound::command_info},
    {"doctor", "what this machine offers: CPU, GPU, memory, bandwidth", specbound::command_doctor},
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
               "\nExamples:\n"
               "  specbound chat                       with the bundled demo model\n"
               "  specbound chat -m model.gguf\n"
               "  specbound run -p \"I need a table for two tonight.\" -n 64\n"
               "  specbound info model.gguf\n");
}

// Descriptors 0 to 2 that the caller closed would become whatever is opened next, such as the pipe
// that wakes chat. Reading from them then gives the end of the input, writing still fails.
void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDONLY);
  }
}

// True if everything that was printed arrived; else says so.
bool flush_stdout(const char* name) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return true;
  std::fprintf(stderr, "%s: stdout: cannot write%s%s\n", name, errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  return false;
}

int run_command(const Command& c, int argc, char** argv) {
  using specbound::terminal_text;
  try {
    return c.run(argc, argv);
  } catch (const specbound::Error& e) {
    std::fprintf(stderr, "specbound %s: %s\n", c.name, terminal_text(e.what()).c_str());
    return e.code() == specbound::ErrorCode::kUsage ? 2 : 1;
  } catch (const specbound::Interrupted& e) {
    std::fprintf(stderr, "specbound %s: %s\n", c.name, e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "specbound %s: out of memory\n", c.name);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "specbound %s: unexpected failure: %s\n", c.name,
                 terminal_text(e.what()).c_str());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  if (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h")) {
    print_help(stdout);
    return flush_stdout("specbound") ? 0 : 1;
  }
  if (!std::strcmp(argv[1], "--version")) {
    std::printf("specbound %s\n", SPECBOUND_VERSION);
    return flush_stdout("specbound") ? 0 : 1;
  }
  for (const Command& c : kCommands) {
    if (std::strcmp(argv[1], c.name) != 0) continue;
    const int status = run_command(c, argc - 1, argv + 1);
    if (status != 0) return status;  // what went wrong has been told
    return flush_stdout((std::string("specbound ") + c.name).c_str()) ? 0 : 1;
  }
  std::fprintf(stderr, "specbound: unknown command '%s'; specbound --help lists them\n",
               specbound::printable(argv[1]).c_str());
  return 2;
}
