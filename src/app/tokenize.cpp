// specbound tokenize: text to ids, on one line. specbound detokenize: ids to exactly their text.
// Both need the vocabulary only, so a GGUF file without weights will do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "app/commands.h"
#include "error.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace specbound {

namespace {

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

std::string read_all(FILE* file, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof(buffer), file)) > 0) text.append(buffer, n);
  if (std::ferror(file)) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot be read: %s", name.c_str(), std::strerror(errno)));
  }
  return text;
}

std::string read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot be opened: %s", path.c_str(), std::strerror(errno)));
  }
  return read_all(file.get(), path);
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::kFile,
                format("standard output: cannot be written: %s", std::strerror(errno)));
  }
}

int32_t parse_id(std::string_view word, const Tokenizer& tokenizer) {
  const std::optional<int64_t> id = parse_int(word);
  if (!id || *id < 0 || *id >= tokenizer.vocab_size()) {
    throw Error(ErrorCode::kUsage, format("\"%s\" is no token id; the vocabulary has ids 0 to %d",
                                          printable(word).c_str(), tokenizer.vocab_size() - 1));
  }
  return static_cast<int32_t>(*id);
}

void append_ids(std::vector<int32_t>& ids, std::string_view words, const Tokenizer& tokenizer) {
  constexpr std::string_view kSeparators = " \t\r\n";
  for (;;) {
    const size_t begin = words.find_first_not_of(kSeparators);
    if (begin == words.npos) return;
    words.remove_prefix(begin);
    const size_t end = std::min(words.find_first_of(kSeparators), words.size());
    ids.push_back(parse_id(words.substr(0, end), tokenizer));
    words.remove_prefix(end);
  }
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model, "GGUF file; one with a vocabulary and no weights will do")
      ->required()
      ->type_name("FILE");
}

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app(
      "Turns text into token ids, printed on one line. Reads standard input without -p and -f.",
      "specbound tokenize");
  std::string model, prompt, file;
  bool no_bos = false, special = false;
  add_model(app, model);
  CLI::Option* text_option = app.add_option("-p,--prompt", prompt, "the text")->type_name("TEXT");
  CLI::Option* file_option =
      app.add_option("-f,--file", file, "file with the text, taken byte for byte")
          ->type_name("FILE")
          ->excludes(text_option);
  app.add_flag("--no-bos", no_bos,
               "no BOS in front and no EOS behind, whatever the model asks for");
  app.add_flag("--special", special,
               "turn the text of control tokens, such as </s>, into those tokens");
  app.footer(
      "examples:\n"
      "  specbound tokenize -m model.gguf -p \"Hello world\"\n"
      "  specbound tokenize -m model.gguf -f book.txt | wc -w");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;

  const Gguf gguf = Gguf::open(model);
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  const std::string text = text_option->count()   ? prompt
                           : file_option->count() ? read_file(file)
                                                  : read_all(stdin, "standard input");
  std::string line;
  for (const int32_t id :
       tokenizer->encode(text, {.add_special = !no_bos, .parse_special = special})) {
    if (!line.empty()) line += ' ';
    line += std::to_string(id);
  }
  write_out(line + "\n");
  return 0;
}

int command_detokenize(int argc, char** argv) {
  CLI::App app(
      "Turns token ids into exactly their text, without a newline behind it. Reads the ids from "
      "standard "
      "input when none are given.",
      "specbound detokenize");
  std::string model;
  std::vector<std::string> words;
  bool special = false;
  add_model(app, model);
  app.add_flag("--special", special, "spell control tokens out, such as </s>");
  app.add_option("ids", words, "token ids, separated by spaces")->type_name("IDS");
  app.footer(
      "examples:\n"
      "  specbound detokenize -m model.gguf 1 15043 3186\n"
      "  specbound tokenize -m model.gguf -f book.txt | specbound detokenize -m model.gguf");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;

  const Gguf gguf = Gguf::open(model);
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  std::vector<int32_t> ids;
  if (words.empty()) {
    append_ids(ids, read_all(stdin, "standard input"), *tokenizer);
  } else {
    for (const std::string& word : words) append_ids(ids, word, *tokenizer);
  }
  write_out(tokenizer->decode(ids, special));
  return 0;
}

}  // namespace specbound
