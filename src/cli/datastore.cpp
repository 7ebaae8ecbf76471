// specbound datastore build: texts as a file to draft from. stdout carries the summary, stderr the
// rest.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "error.h"
#include "model/datastore.h"
#include "runtime/loaded_model.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "templates/chat_template.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "terminal/terminal_text.h"
#include "tools/data_files.h"

namespace specbound::datastore_command {

namespace {

constexpr const char* kInterrupted = "interrupted: no datastore was written";

struct DatastoreFlags {
  std::string action;
  ModelOptions model;
  std::vector<std::string> data;
  std::string out;
};

void declare(Flags& flags, DatastoreFlags& given) {
  flags.add_word("ACTION", given.action, {"build"}, "build: make a datastore of --data")
      .type("build");
  add_model_file(flags, given.model.model);
  add_data_files(flags, given.data, "texts to look up in").command_line_only();
  add_chat_template(flags, given.model.chat_template);
  flags.add_output_file("-o,--output", given.out, "the file to write, a new one")
      .type("FILE.datastore");
}

// All texts as tokens, each with an end behind it. Each goes once it has been read.
std::vector<int32_t> tokens_of(Corpus corpus, const LoadedModel& model) {
  const ChatTemplate* const chat_template = corpus.dialogues > 0 ? &model.chat_template() : nullptr;
  Progress bar("tokens", Progress::Unit::kWork);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < corpus.texts.size(); ++i) {
    check_interrupt(kInterrupted);
    bar.update(i, corpus.texts.size());
    const CorpusText text = std::move(corpus.texts[i]);
    const std::vector<int32_t> some =
        text.messages.empty() ? model.tokenizer().encode(text.text, {.add_special = false})
                              : chat_template->encode(model.tokenizer(), text.messages);
    tokens.insert(tokens.end(), some.begin(), some.end());
    tokens.push_back(Datastore::kBetween);
  }
  return tokens;
}

int run(DatastoreFlags& given) {
  if (given.action.empty() || given.data.empty() || given.out.empty()) {
    throw Error(ErrorCode::kUsage,
                "expected texts and the file to write: specbound datastore build --data FILE "
                "-o FILE.datastore");
  }
  catch_interrupts();
  check_new_file(given.out, Datastore::kMagic);
  const auto start = std::chrono::steady_clock::now();
  given.model.device.where = DeviceOptions::Where::kCpu;
  const LoadedModel model(given.model, terminal_watcher());
  const std::vector<int32_t> tokens = tokens_of(read_data_files(given.data, kInterrupted), model);
  {
    Progress bar("sorting", Progress::Unit::kWork);
    write_datastore(given.out, {model.config().vocab_size, vocabulary_fingerprint(model.gguf())},
                    tokens, [&](int done, int total) {
                      check_interrupt(kInterrupted);
                      bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
                    });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::string summary =
      format("%s: %s tokens, %.1f MB, in %.1f s\n", terminal_text(given.out).c_str(),
             grouped(std::ssize(tokens)).c_str(),
             1e-6 * static_cast<double>(std::filesystem::file_size(given.out)), took.count());
  return write_stdout(summary) ? 0 : 1;
}

const CommandOf<DatastoreFlags> kDatastore(
    {.rank = 65,
     .name = "datastore",
     .summary = "texts to look drafts up in",
     .text =
         "Make a datastore of texts: their tokens, and where each run of them stands, sorted. "
         "--datastore FILE then has drafts looked up there, by auto beside all else or by "
         "--speculator rest alone. It brings something where replies repeat what the texts say: "
         "code of a project, answers like earlier ones, a manual. A datastore serves every model "
         "with the same vocabulary and takes 8 bytes a token; making it takes 20 a token of "
         "memory. The texts can be read out of it.",
     .footer =
         "Examples:\n"
         "  specbound datastore build -m model.gguf --data manual.txt -o manual.datastore\n"
         "  specbound datastore build --data chat.jsonl.xz --data notes.txt -o all.datastore\n"
         "  specbound chat -m model.gguf --datastore manual.datastore"},
    declare, run);

}  // namespace

}  // namespace specbound::datastore_command
