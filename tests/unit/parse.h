// A command line as parse_cli() takes it, and what came of it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace specbound::test {

struct Parse {
  std::optional<int> status;  // what parse_cli gave
  std::string out, err;       // what it printed
};

// `arguments` without the program's name. What parse_cli throws passes through.
inline void parse_into(Flags& flags, std::vector<std::string> arguments, Parse& parse,
                       const char* command = "test") {
  arguments.insert(arguments.begin(), command);
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  char *out_text = nullptr, *err_text = nullptr;
  size_t out_size = 0, err_size = 0;
  FILE* out = open_memstream(&out_text, &out_size);
  FILE* err = open_memstream(&err_text, &err_size);
  const auto close = [&] {
    std::fclose(out);
    std::fclose(err);
    parse.out.assign(out_text, out_size);
    parse.err.assign(err_text, err_size);
    std::free(out_text);
    std::free(err_text);
  };
  try {
    parse.status = parse_cli(flags, static_cast<int>(argv.size()), argv.data(), out, err);
  } catch (...) {
    close();
    throw;
  }
  close();
}

}  // namespace specbound::test
