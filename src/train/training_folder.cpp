#include "train/training_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "error.h"
#include "train/head_trainer.h"

namespace specbound {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxManifest = 1 << 20;
// The key that tells our manifest from others of its name, and what an unfinished one is called.
constexpr const char* kMarker = "specbound";
constexpr const char* kMarkerValue = "training folder";
constexpr const char* kNewManifest = "specbound-manifest.json.new";
// Its name while the folder is emptied: what a kill leaves then is no training to go on with.
constexpr const char* kOldManifest = "specbound-manifest.json.old";

// features-00000.bin and on, as FeatureStore names them, and such a file while it is written.
bool is_features(std::string_view name) {
  constexpr std::string_view kBegin = "features-";
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits >= 5 && (name == ".bin" || name == ".bin.tmp");
}

// What a kill leaves of a small file, as NewFile names it, and of heads that are tuned, whole or
// half.
bool is_half(std::string_view name) {
  return name.starts_with("seconds.txt.tmp-") || name.starts_with("texts.whole.tmp-") ||
         (name.starts_with("tuned.heads.gguf.") && name.find(".tmp") != name.npos);
}

bool is_ours(std::string_view name) {
  for (const char* own :
       {"manifest.json", kNewManifest, kOldManifest, "texts.bin", "texts.bin.damaged",
        "texts.whole", "seconds.txt", "training.checkpoint", "training.checkpoint.new",
        "training.checkpoint.layers", "training.checkpoint.layers.new"}) {
    if (name == own) return true;
  }
  return is_features(name) || is_half(name);
}

// nullopt when there is none of ours.
std::optional<Json> read_manifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxManifest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  Json manifest = Json::parse(text, nullptr, false);
  if (!manifest.is_object()) return std::nullopt;
  const auto marker = manifest.find(kMarker);
  if (marker == manifest.end() || *marker != kMarkerValue) return std::nullopt;
  return manifest;
}

// The first entry that differs, in words; empty when none does.
std::string difference(const Json& manifest, const TrainingFolder::MadeWith& made_with) {
  for (const auto& [key, value] : made_with) {
    const auto it = manifest.find(key);
    const auto* found = it != manifest.end() ? it->get_ptr<const std::string*>() : nullptr;
    if (!found) return format("%s %s, there: none", key.c_str(), value.c_str());
    if (*found != value) {
      return format("%s %s, there: %s", key.c_str(), value.c_str(), printable(*found).c_str());
    }
  }
  for (const auto& entry : manifest.items()) {
    const std::string& key = entry.key();
    if (key == kMarker) continue;
    if (std::ranges::any_of(made_with, [&](const auto& one) { return one.first == key; })) continue;
    const auto* found = entry.value().get_ptr<const std::string*>();
    return format("no %s, there: %s", printable(key).c_str(),
                  printable(found ? *found : entry.value().type_name()).c_str());
  }
  return "";
}

void write_manifest(const std::string& folder, const TrainingFolder::MadeWith& made_with) {
  Json manifest = {{kMarker, kMarkerValue}};
  for (const auto& [key, value] : made_with) manifest[key] = value;
  const std::string text = manifest.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
  const std::string path = folder + "/manifest.json", temporary = folder + "/" + kNewManifest;
  FILE* file = std::fopen(temporary.c_str(), "we");
  bool good = file != nullptr;
  if (file) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
  }
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot write: %s", path.c_str(), std::strerror(errno)));
  }
}

}  // namespace

bool may_go_on_later() {
  try {
    throw;
  } catch (const Diverged&) {
    return true;
  } catch (const Error& e) {
    return e.code() == ErrorCode::kDevice || e.code() == ErrorCode::kLimit ||
           e.code() == ErrorCode::kFile;
  } catch (...) {
    return true;
  }
}

TrainingFolder::TrainingFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  made_ = fs::create_directories(path_, error);
  lock_ = Descriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_) {
    const std::string why = error ? error.message() : std::strerror(errno);
    throw Error(ErrorCode::kFile,
                format("%s: cannot use this folder: %s", path_.c_str(), why.c_str()));
  }
  if (held_by_another(lock_)) {
    throw Error(ErrorCode::kFile,
                path_ +
                    ": another training is at work in this folder: wait for it, or give "
                    "another features_dir");
  }
}

TrainingFolder::~TrainingFolder() {
  if (begun_ && !keep_) remove_files();
  if (begun_ || made_) rmdir(path_.c_str());  // only when empty
}

void TrainingFolder::remove_files() const {
  std::error_code error;
  const fs::path old = fs::path(path_) / kOldManifest;
  fs::rename(path_ + "/manifest.json", old, error);
  std::vector<fs::path> ours;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (entry.path() != old && is_ours(entry.path().filename().string())) {
      ours.push_back(entry.path());
    }
  }
  bool emptied = true;
  for (const fs::path& file : ours) {
    fs::remove(file, error);
    emptied = emptied && !error;
  }
  if (emptied) fs::remove(old, error);
}

bool TrainingFolder::begin(const MadeWith& made_with, Begin begin) {
  const auto manifest = read_manifest(path_ + "/manifest.json");
  if (!manifest && begin == Begin::kResume) {
    throw Error(ErrorCode::kUsage, path_ +
                                       ": expected an interrupted training to go on with, "
                                       "found none: leave resume=on out");
  }
  if (!manifest) {
    std::error_code error;
    const bool emptied = read_manifest(path_ + "/" + kOldManifest).has_value();
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      const std::string name = entry.path().filename().string();
      // Our own first step, when a kill came before the second, or what its last one left.
      if (name == kNewManifest || (emptied && is_ours(name))) continue;
      throw Error(ErrorCode::kUsage,
                  format("%s: expected an empty folder or that of an interrupted training, found "
                         "\"%s\" and no training: give another features_dir",
                         path_.c_str(), printable(name).c_str()));
    }
  }
  if (manifest && begin != Begin::kFresh) {
    if (const std::string what = difference(*manifest, made_with); !what.empty()) {
      throw Error(ErrorCode::kUsage,
                  format("%s holds an interrupted training made otherwise (here: %s): give the "
                         "same options to go on with it, or fresh=on to start over",
                         path_.c_str(), what.c_str()));
    }
    begun_ = true;
    return true;
  }
  begun_ = true;
  remove_files();
  write_manifest(path_, made_with);
  return false;
}

}  // namespace specbound
