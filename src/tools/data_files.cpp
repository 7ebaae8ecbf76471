#include "tools/data_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "system/number_text.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"

namespace specbound {

Corpus read_data_files(const std::vector<std::string>& paths, const std::string& interrupted,
                       const char* label) {
  // A stream may stay silent for as long as it likes.
  const auto wait = [&](int fd) {
    wait_for_input(fd);
    check_interrupt(interrupted);
  };
  Corpus corpus;
  {
    Progress bar("reading text", Progress::Unit::kBytes);
    size_t total = 1;
    for (const std::string& path : paths) {
      std::error_code error;
      const auto size = std::filesystem::file_size(path, error);
      if (!error) total += size;
    }
    const auto told = [&](size_t done) {
      check_interrupt(interrupted);
      bar.update(std::min(done, total), total);
    };
    corpus = read_corpus(paths, told, wait);
  }
  std::fprintf(stderr, "%s: %s dialogues, %s pieces of plain text\n", label,
               grouped(corpus.dialogues).c_str(),
               grouped(std::ssize(corpus.texts) - corpus.dialogues).c_str());
  if (corpus.skipped > 0) {
    std::fprintf(stderr, "%s: skipped %s of %s lines; the first: %s\n", label,
                 grouped(corpus.skipped).c_str(), grouped(corpus.lines).c_str(),
                 terminal_text(corpus.first_skipped).c_str());
  }
  return corpus;
}

}  // namespace specbound
