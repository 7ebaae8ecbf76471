#include "cli/tuning_flags.h"

#include "cli/verify.h"
#include "error.h"

namespace specbound {

void add_tuning_texts(Flags& flags, TuningTextOptions& options) {
  const auto read_data = [&options](const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      if (file.empty()) {
        throw Error(ErrorCode::kUsage, "--data: expected the name of a file, found none");
      }
    }
    options.data = files;
  };
  flags
      .add_values("--data", Flag::Counts::kMany, read_data,
                  "dialogues whose turns the model answers: .jsonl, .txt, .xz (default: a few "
                  "openers)")
      .type("FILE");
  const auto read_temperatures = [&options](const std::vector<std::string>& values) {
    options.temperatures = parse_temperatures(values.back());
  };
  flags
      .add_values("--temps", Flag::Counts::kLast, read_temperatures,
                  "temperatures of the replies (default 0,0.7)")
      .type("LIST");
}

}  // namespace specbound
