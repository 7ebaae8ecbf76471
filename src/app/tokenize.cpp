// specbound tokenize: text to ids, on one line. specbound detokenize: ids to exactly their text.
// Both need the vocabulary only, so a GGUF file without weights will do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "app/commands.h"
#include "app/model_path.h"
#include "app/standard_output.h"
#include "app/text_input.h"
#include "error.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace specbound {

namespace {

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

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app(
      "Turn text into token ids, printed on one line. Reads standard input without -p and -f.",
      "specbound tokenize");
  std::string model;
  TextFlags text;
  bool no_bos = false, special = false;
  add_model_file(app, model);
  add_text_flags(app, text, "the text", "file with the text, - for stdin, taken byte for byte");
  app.add_flag("--no-bos", no_bos,
               "no BOS in front and no EOS behind, whatever the model asks for");
  app.add_flag("--special", special,
               "turn the text of control tokens, such as </s>, into those tokens");
  app.footer(
      "Examples:\n"
      "  specbound tokenize -m model.gguf -p \"Hello world\"\n"
      "  specbound tokenize -m model.gguf -f book.txt | wc -w");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;

  const std::string bytes = text.bytes();
  const Gguf gguf = Gguf::open(find_model(model));
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  std::string line;
  for (const int32_t id :
       tokenizer->encode(bytes, {.add_special = !no_bos, .parse_special = special})) {
    if (!line.empty()) line += ' ';
    line += std::to_string(id);
  }
  return write_stdout(line + "\n") ? 0 : 1;
}

int command_detokenize(int argc, char** argv) {
  CLI::App app(
      "Turn token ids into exactly their text, without a newline behind it. Reads the ids from "
      "standard input when none are given.",
      "specbound detokenize");
  std::string model;
  std::vector<std::string> words;
  bool special = false;
  add_model_file(app, model);
  app.add_flag("--special", special, "spell control tokens out, such as </s>");
  app.add_option("ids", words, "token ids, separated by spaces")->type_name("IDS");
  app.footer(
      "Examples:\n"
      "  specbound detokenize -m model.gguf 1 15043 3186\n"
      "  specbound tokenize -m model.gguf -f book.txt | specbound detokenize -m model.gguf");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;

  const Gguf gguf = Gguf::open(find_model(model));
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  std::vector<int32_t> ids;
  if (words.empty()) {
    append_ids(ids, read_bytes("-"), *tokenizer);
  } else {
    for (const std::string& word : words) append_ids(ids, word, *tokenizer);
  }
  return write_stdout(tokenizer->decode(ids, special)) ? 0 : 1;
}

}  // namespace specbound
