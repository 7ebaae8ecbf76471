// specbound: picks the subcommand, and turns what it throws into one line and an exit status.
#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "error.h"
#include "library/load_watcher.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"

namespace {

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

int run_command(const specbound::Command& c, int argc, char** argv) {
  using specbound::terminal_text, specbound::with_flags;
  try {
    return c.run(argc, argv);
  } catch (const specbound::Error& e) {
    std::fprintf(stderr, "specbound %s: %s\n", c.about().name,
                 with_flags(terminal_text(e.what())).c_str());
    return e.code() == specbound::ErrorCode::kUsage ? 2 : 1;
  } catch (const specbound::Interrupted& e) {
    std::fprintf(stderr, "specbound %s: %s\n", c.about().name, e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "specbound %s: out of memory\n", c.about().name);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "specbound %s: unexpected failure: %s\n", c.about().name,
                 terminal_text(e.what()).c_str());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  signal(SIGCHLD, SIG_DFL);  // whoever started this may ignore it: how a child ends would be lost
  if (argc < 2) {
    std::fputs(specbound::overview().c_str(), stderr);
    return 2;
  }
  if (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h")) {
    std::fputs(specbound::overview().c_str(), stdout);
    return flush_stdout("specbound") ? 0 : 1;
  }
  if (!std::strcmp(argv[1], "--version")) {
    std::printf("specbound %s\n", SPECBOUND_VERSION);
    return flush_stdout("specbound") ? 0 : 1;
  }
  // Flags without a command are those of a chat: specbound -m model.gguf.
  std::string chat = "chat";
  std::vector<char*> words(argv + 1, argv + argc);
  if (argv[1][0] == '-') words.insert(words.begin(), chat.data());
  const specbound::Command* command = specbound::find_command(words[0]);
  if (!command) {
    std::fprintf(stderr, "specbound: %s specbound --help lists them\n",
                 specbound::unknown_command(words[0]).c_str());
    return 2;
  }
  const int status = run_command(*command, static_cast<int>(words.size()), words.data());
  if (status != 0) return status;  // what went wrong has been told
  return flush_stdout((std::string("specbound ") + command->about().name).c_str()) ? 0 : 1;
}
