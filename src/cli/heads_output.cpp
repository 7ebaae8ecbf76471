#include "cli/heads_output.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "error.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "runtime/file_output.h"

namespace specbound {

namespace fs = std::filesystem;

void check_heads_output(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    throw Error(ErrorCode::kFile,
                path + ": expected the name of a file to write, found a device or a pipe");
  }
  bool heads = false;
  try {
    heads = fs::is_regular_file(status) &&
            Gguf::open(path).get_string("general.architecture") == kHeadsArchitecture;
  } catch (const Error&) {
    // No GGUF file, or half of one: check_writable() knows what to do with it.
  }
  if (!heads) return check_writable(path);
  if (access(path.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::kFile, path + ": cannot write: the file is read-only");
  }
}

TemporaryFile::TemporaryFile(const std::string& target)
    : path_(target + format(".%d.tmp", static_cast<int>(getpid()))) {}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

namespace {

std::string layer_table(const TrainedHeads& trained, const TrainOptions& options,
                        double HeadReport::*share) {
  std::string out = format("%8s", "layer");
  for (const HeadKind kind : options.kinds) out += format("  %9s", head_kind_name(kind));
  out += "\n";
  for (const int layer : options.layers) {
    out += format("%8d", layer);
    for (const HeadKind kind : options.kinds) {
      const auto report = std::ranges::find_if(
          trained.reports, [&](const HeadReport& r) { return r.kind == kind && r.layer == layer; });
      out += report != trained.reports.end() ? format("  %7.1f %%", 100 * (*report).*share)
                                             : format("  %9s", "-");
    }
    out += "\n";
  }
  return out;
}

std::string step_table(const TrainedHeads& trained) {
  std::string out;
  for (const HeadReport& report : trained.reports) {
    if (report.depth_agreement.empty()) continue;
    out += format("%8s at %-3d", head_kind_name(report.kind), report.layer);
    for (const double agreement : report.depth_agreement) {
      out += format("  %6.1f %%", 100 * agreement);
    }
    out += "\n";
  }
  return out.empty()
             ? out
             : "\nand each of several guesses in a row, those before it being right:\n\n" + out;
}

}  // namespace

std::string agreement_table(const TrainedHeads& trained, const TrainOptions& options) {
  std::string out;
  if (!options.layers.empty()) {
    out += "\nhow often a head's guess is the model's token, of the tokens for validation:\n\n";
    out += layer_table(trained, options, &HeadReport::agreement);
    out += "\nand what rejection sampling would accept of it at temperature 1 (1 - TV):\n\n";
    out += layer_table(trained, options, &HeadReport::overlap);
  }
  return out + step_table(trained);
}

}  // namespace specbound
