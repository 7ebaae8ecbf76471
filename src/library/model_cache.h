// Models that were downloaded: $XDG_CACHE_HOME/specbound/models (or ~/.cache/specbound/models).
//
//   NAME.gguf                what models/fetch.py brings
//   OWNER/REPO/FILE.gguf     what is pulled from the hub, as it lies in the repository
//   OWNER/REPO/index.json    what of it is whole: {"version": 1, "models": [{"quantization": ..,
//                            "default": .., "files": [{"path": .., "bytes": ..}]}]}
//   OWNER/REPO/lock          held by who changes the folder
//
// Hugging Face's own cache of blobs and links is the better-known layout; here each file is there
// under its name, once, for people and other programs too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"
#include "library/hub_models.h"
#include "library/load_watcher.h"
#include "library/model_name.h"

namespace specbound {

// Empty without a home.
std::string model_cache_folder();

struct CachedModel {
  std::string name;  // what -m takes: hf:OWNER/REPO:QUANT, a short name, or NAME of NAME.gguf
  std::optional<HubName> hub;      // none: it is not from there
  bool is_default = false;         // of its repository
  std::string quantization;        // may be empty
  std::vector<std::string> files;  // in order; the first is opened
  uint64_t bytes = 0;
  int64_t time = 0;  // when it came, in seconds since 1970
  bool whole = true;
};

// By name, those that are whole. What makes no sense in the folder is passed over.
std::vector<CachedModel> cached_models();
// Downloads that were cut off, or that another program is at: what came of them.
std::vector<CachedModel> unfinished_models();
std::vector<CachedModel> find_unfinished(const std::string& name);
// Those that `name` may mean, a short name among them.
std::vector<CachedModel> find_cached(const std::string& name);
// The one that `name` means; nullopt: none, or more than one.
std::optional<CachedModel> find_cached(const HubName& name);

// One program at a time changes the folder of a repository.
class RepositoryLock {
 public:
  // Waits where it must, and says so. Throws Error(kFile) where the folder cannot be made, written
  // or locked.
  RepositoryLock(const HubName& name, const LoadWatcher& watcher);

  bool held() const { return bool(file_); }  // false: aborted
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  Descriptor file_;
};

// Under the lock: `model` is whole in the folder. Throws Error(kFile).
void add_to_cache(const HubName& name, const HubModel& model, bool is_default);

// Deletes its files, and what unfinished downloads left beside them; exit heads stay. Returns the
// heads files that stayed. Throws Error(kFile), Interrupted where it was to wait no longer.
std::vector<std::string> remove_cached(const CachedModel& model, const LoadWatcher& watcher);

}  // namespace specbound
