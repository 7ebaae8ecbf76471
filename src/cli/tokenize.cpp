// specbound tokenize: text to ids, on one line. specbound detokenize: ids to exactly their text.
// Both need the vocabulary only, so a GGUF file without weights will do.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "error.h"
#include "library/model_path.h"
#include "model/gguf.h"
#include "system/number_text.h"
#include "system/text_input.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "text/tokenizer.h"

namespace specbound::tokenize_command {

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

struct TokenizeFlags {
  std::string model;
  TextFlags text;
  bool no_bos = false, special = false;
};

void declare(Flags& flags, TokenizeFlags& given) {
  add_model_file(flags, given.model);
  add_text_flags(flags, given.text, "the text",
                 "file with the text, - for stdin; one line end at its end is cut, as run does");
  flags.add_switch("--no-bos", given.no_bos,
                   "no BOS in front and no EOS behind, whatever the model asks for");
  flags.add_switch("--special", given.special,
                   "turn the text of control tokens, such as </s>, into those tokens");
}

int run(TokenizeFlags& given) {
  const std::string text = given.text.given();
  const LoadWatcher watcher = terminal_watcher();
  const Gguf gguf = Gguf::open(find_model(given.model, watcher));
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  for (const std::string& note : tokenizer->notes()) watcher.say(note);
  std::string line;
  for (const int32_t id :
       tokenizer->encode(text, {.add_special = !given.no_bos, .parse_special = given.special})) {
    if (!line.empty()) line += ' ';
    line += std::to_string(id);
  }
  return write_stdout(line + "\n") ? 0 : 1;
}

const CommandOf<TokenizeFlags> kTokenize(
    {.rank = 170,
     .name = "tokenize",
     .summary = "text to token ids",
     .text =
         "Turn text into token ids, printed on one line. Reads standard input without -p and -f.",
     .footer = "Examples:\n"
               "  specbound tokenize -m model.gguf -p \"Hello world\"\n"
               "  specbound tokenize -m model.gguf -f book.txt | wc -w"},
    declare, run);

struct DetokenizeFlags {
  std::string model;
  std::vector<std::string> words;
  bool special = false;
};

void declare(Flags& flags, DetokenizeFlags& given) {
  add_model_file(flags, given.model);
  flags.add_switch("--special", given.special, "spell control tokens out, such as </s>");
  flags.add_texts("ids", given.words, "token ids, separated by spaces", Flag::Counts::kMany)
      .type("IDS");
}

int run(DetokenizeFlags& given) {
  const Gguf gguf = Gguf::open(find_model(given.model, terminal_watcher()));
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  std::vector<int32_t> ids;
  if (given.words.empty()) {
    append_ids(ids, read_bytes("-"), *tokenizer);
  } else {
    for (const std::string& word : given.words) append_ids(ids, word, *tokenizer);
  }
  return write_stdout(tokenizer->decode(ids, given.special)) ? 0 : 1;
}

const CommandOf<DetokenizeFlags> kDetokenize(
    {.rank = 180,
     .name = "detokenize",
     .summary = "token ids to text",
     .text =
         "Turn token ids into exactly their text, without a newline behind it. Reads the ids from "
         "standard input when none are given.",
     .footer =
         "Examples:\n"
         "  specbound detokenize -m model.gguf 1 15043 3186\n"
         "  specbound tokenize -m model.gguf -f book.txt | specbound detokenize -m model.gguf"},
    declare, run);

}  // namespace

}  // namespace specbound::tokenize_command
