// What `ppl` scores, from a file to tokens: windows of plain text, or texts each as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "templates/chat_template.h"
#include "text/tokenizer.h"
#include "tools/perplexity.h"

namespace specbound {

struct PplTextOptions {
  int window = 512;    // of plain text in windows
  int n_ctx = 512;     // tokens of a whole text at most: the rest is left out, and counted
  int stride = 0;      // see cut_windows()
  int64_t most = 0;    // windows or texts; 0: all
  bool whole = false;  // plain text is one text
};

struct PplTexts {
  std::vector<int32_t> tokens;  // of all texts, one behind the other
  std::vector<ScoredRun> runs;  // windows of them, or the texts
  std::optional<int32_t> bos;   // stands in place of the first token of each run
  bool windows = false;
  int64_t lines = 0;          // of JSON that were not blank, as far as they were read
  int64_t skipped = 0;        // of these, lines that are no text
  std::string first_skipped;  // "line 17: why"
  int64_t too_short = 0;      // texts of one token or none
  int64_t cut = 0;            // texts longer than the context

  int64_t scored() const;
  int64_t rows() const;  // tokens that are read: of all runs
  // Tokens of a run as they are read.
  std::vector<int32_t> text(const ScoredRun& run) const;
};

// The contents of a file, unpacked if it is .xz, of stdin for "-", and whether they are JSON lines
// (corpus/corpus.h). Throws Error(kFile | kFormat | kLimit), Interrupted on Ctrl-C.
struct PplFile {
  std::string name, bytes;
  bool json_lines = false;
};
PplFile read_ppl_file(const std::string& path);

// Dialogues are written as `chat_template`, asked for when there is one, has them; plain text
// begins with BOS if the vocabulary starts texts with one. Throws Error(kUsage) for options that
// contradict the file, Error(kFormat) when there is nothing to score, Error(kLimit) for plain text
// shorter than a window.
PplTexts make_ppl_texts(const PplFile& file, const Tokenizer& tokenizer,
                        const std::function<const ChatTemplate&()>& chat_template,
                        const PplTextOptions& options);

}  // namespace specbound
