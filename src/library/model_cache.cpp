#include "library/model_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "error.h"
#include "json/json_reader.h"
#include "json/json_writer.h"
#include "library/model_path.h"
#include "library/tile_cache.h"
#include "model/exit_heads.h"
#include "model/gguf_split.h"
#include "system/file_output.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kVersion = 1;
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

struct IndexedFile {
  std::string path;  // inside the repository's folder
  uint64_t bytes;
};
struct IndexedModel {
  std::string quantization;
  bool is_default;
  std::vector<IndexedFile> files;
};

std::string repository_folder(const HubName& name) {
  return model_cache_folder() + "/" + name.repository();
}

std::string index_path(const HubName& name) {
  return repository_folder(name) + "/index.json";
}

IndexedModel read_model(const nlohmann::json& value, const std::string& path) {
  const JsonObject model(value, path);
  IndexedModel read{
      model.text("quantization").value_or(""), model.flag("default").value_or(false), {}};
  const nlohmann::json* files = model.find("files");
  if (!files || !files->is_array() || files->empty()) model.refuse("files", "a list of files");
  for (const nlohmann::json& entry : *files) {
    const JsonObject file(entry, path);
    const std::string name = file.text("path").value_or("");
    if (!is_safe_path(name)) file.refuse("path", "a path inside the folder");
    read.files.push_back({name, file.bounded("bytes", 0, kMostBytes)});
  }
  return read;
}

// Nothing where there is no index, or none of this version: it is made again by the next pull.
std::vector<IndexedModel> read_index(const HubName& name) {
  const std::string path = index_path(name);
  std::vector<IndexedModel> models;
  std::error_code error;
  const uint64_t bytes = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (error || bytes == 0 || bytes > kMostIndexBytes) return models;
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) return models;
  try {
    const nlohmann::json json = parse_json(text, path);
    const JsonObject index(json, path);
    if (index.whole("version") != kVersion) return models;
    const nlohmann::json* list = index.find("models");
    if (!list || !list->is_array()) return models;
    for (const nlohmann::json& value : *list) models.push_back(read_model(value, path));
  } catch (const Error&) {
    models.clear();
  }
  return models;
}

void write_index(const HubName& name, const std::vector<IndexedModel>& models) {
  Json list = Json::array();
  for (const IndexedModel& model : models) {
    Json files = Json::array();
    for (const IndexedFile& file : model.files) {
      files.push_back({{"path", file.path}, {"bytes", file.bytes}});
    }
    list.push_back(
        {{"quantization", model.quantization}, {"default", model.is_default}, {"files", files}});
  }
  write_file(index_path(name), dump(Json{{"version", kVersion}, {"models", list}}, 1) + "\n");
}

int64_t time_of(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_mtime) : 0;
}

// What -m takes and people know.
std::string name_of(const HubName& hub) {
  const std::string text = hub.text();
  for (const ShortName& known : short_names()) {
    if (text == known.hub) return known.name;
  }
  return text;
}

// nullopt: a file is not there, or not as long as it was.
std::optional<CachedModel> whole_model(const HubName& repository, const IndexedModel& indexed,
                                       bool alone) {
  CachedModel model;
  model.hub = repository;
  // Of two with one quantization, or none, the file is the name.
  model.hub->quantization =
      alone && !indexed.quantization.empty() ? indexed.quantization : indexed.files.front().path;
  model.is_default = indexed.is_default;
  model.quantization = indexed.quantization;
  for (const IndexedFile& file : indexed.files) {
    const std::string path = repository_folder(repository) + "/" + file.path;
    std::error_code error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != file.bytes || error) {
      return std::nullopt;
    }
    model.files.push_back(path);
    model.bytes += file.bytes;
  }
  model.time = time_of(model.files.front());
  model.name = name_of(*model.hub);
  return model;
}

std::vector<CachedModel> models_of(const HubName& repository) {
  std::vector<CachedModel> models;
  const std::vector<IndexedModel> indexed = read_index(repository);
  for (const IndexedModel& model : indexed) {
    const bool alone =
        std::ranges::count(indexed, model.quantization, &IndexedModel::quantization) == 1;
    if (auto whole = whole_model(repository, model, alone)) models.push_back(std::move(*whole));
  }
  return models;
}

// "x.gguf" of "x.gguf.0123456789ab.part", as a file is named while it comes; others as they are.
std::string without_part(const std::string& path) {
  constexpr std::string_view kEnding = ".part";
  if (!path.ends_with(kEnding)) return path;
  return path.substr(0, path.rfind('.', path.size() - kEnding.size() - 1));
}

// What the files of a split model have in common; of another file its path.
std::string model_of_file(const std::string& path) {
  constexpr std::string_view kFirst = "-00001-of-00001.gguf";
  const size_t ending = path.size() - std::min(path.size(), kFirst.size());
  constexpr size_t kSame = std::string_view("-00001-of-").size();
  const bool split = is_later_part(path) || path.compare(ending, kSame, kFirst, 0, kSame) == 0;
  return split ? path.substr(0, ending) : path;
}

// Those of which a part lies in the folder and which are not whole, by their files.
std::vector<CachedModel> unfinished_of(const HubName& repository) {
  const std::string folder = repository_folder(repository);
  const std::vector<CachedModel> there = models_of(repository);
  std::set<std::string> whole;
  for (const CachedModel& model : there) whole.insert(model.files.begin(), model.files.end());
  std::map<std::string, CachedModel> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string(), file = without_part(path);
    std::error_code ignored;
    if (!file.ends_with(".gguf") || whole.contains(file) || !it->is_regular_file(ignored)) continue;
    CachedModel& model = found[model_of_file(file)];
    model.files.push_back(path);
    model.whole = model.whole && path == file;
    model.bytes += fs::file_size(path, ignored);
    model.time = std::max(model.time, time_of(path));
  }
  std::vector<CachedModel> models;
  for (auto& [of, model] : found) {
    std::ranges::sort(model.files);
    // One that was cut off between two of its files has no part of a file.
    const std::string& first = model.files.front();
    model.whole =
        model.whole && !is_later_part(first) && model.files.size() == files_of_model(first).size();
    if (model.whole) continue;  // no download that was cut off
    model.hub = repository;
    model.hub->quantization = without_part(model.files.front()).substr(folder.size() + 1);
    model.quantization = quantization_of(model.hub->quantization);
    models.push_back(std::move(model));
  }
  const auto alone = [&](const CachedModel& model) {
    return std::ranges::count(there, model.quantization, &CachedModel::quantization) == 0 &&
           std::ranges::count(models, model.quantization, &CachedModel::quantization) == 1;
  };
  for (CachedModel& model : models) {
    if (!model.quantization.empty() && alone(model)) model.hub->quantization = model.quantization;
    model.name = name_of(*model.hub);
  }
  return models;
}

// NAME.gguf, straight in the folder.
std::optional<CachedModel> loose_model(const fs::path& path) {
  const std::string file = path.filename().string();
  std::error_code error;
  if (!file.ends_with(".gguf") || file.ends_with(".heads.gguf") || is_later_part(file) ||
      !is_safe_path(file) || !fs::is_regular_file(path, error)) {
    return std::nullopt;
  }
  CachedModel model;
  model.name = path.stem().string();
  for (const ShortName& known : short_names()) {
    if (known.fetched && model.name == known.fetched) model.name = known.name;
  }
  model.quantization = quantization_of(file);
  for (std::string& part : files_of_model(path.string())) {
    if (!fs::is_regular_file(part, error)) continue;
    model.bytes += fs::file_size(part, error);
    model.files.push_back(std::move(part));
  }
  model.time = time_of(path.string());
  return model;
}

// The same file as this one of the hub, brought by models/fetch.py.
std::optional<CachedModel> fetched_model(const HubName& name) {
  for (const ShortName& known : short_names()) {
    if (!known.fetched || name.text() != known.hub) continue;
    return loose_model(model_cache_folder() + "/" + known.fetched + ".gguf");
  }
  return std::nullopt;
}

// What lies in a folder; nothing where it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  return paths;
}

std::optional<HubName> repository_at(const fs::path& folder) {
  const std::string text =
      "hf:" + folder.parent_path().filename().string() + "/" + folder.filename().string();
  try {
    HubName name = parse_hub_name(text);
    if (!name.quantization.empty()) return std::nullopt;
    return name;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Those that `of` has of each repository, by name.
std::vector<CachedModel> models_of_repositories(std::vector<CachedModel> (*of)(const HubName&)) {
  std::vector<CachedModel> models;
  const std::string folder = model_cache_folder();
  if (folder.empty()) return models;
  for (const fs::path& owner : entries(folder)) {
    for (const fs::path& inner : entries(owner)) {
      const std::optional<HubName> repository = repository_at(inner);
      if (repository) std::ranges::move(of(*repository), std::back_inserter(models));
    }
  }
  std::ranges::sort(models, {}, &CachedModel::name);
  return models;
}

// Of its repository's models those that `name` may mean.
std::vector<CachedModel> matching(std::vector<CachedModel> found, const HubName& name) {
  if (name.names_file()) {
    const size_t n_folder = repository_folder(name).size() + 1;
    keep_named(found, name.quantization, [&](const CachedModel& model, const auto& is_it) {
      return std::ranges::any_of(model.files, [&](const std::string& file) {
        return is_it(without_part(file).substr(n_folder));
      });
    });
  } else if (!name.quantization.empty()) {
    std::erase_if(
        found, [&](const CachedModel& model) { return model.quantization != name.quantization; });
  }
  return found;
}

// What was kept of a model's weights; what is no model has none.
void remove_repacked(const std::string& path) {
  try {
    remove_tiles(model_fingerprint(Gguf::open(path)));
  } catch (const Error&) {
    return;
  }
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorCode::kFile, path + ": cannot be removed: " + std::strerror(errno));
  }
}

}  // namespace

std::string model_cache_folder() {
  return user_path("XDG_CACHE_HOME", ".cache", "models");
}

std::vector<CachedModel> cached_models() {
  std::vector<CachedModel> models = models_of_repositories(models_of);
  const std::string folder = model_cache_folder();
  if (folder.empty()) return models;
  for (const fs::path& entry : entries(folder)) {
    if (auto loose = loose_model(entry)) models.push_back(std::move(*loose));
  }
  std::ranges::sort(models, {}, &CachedModel::name);
  return models;
}

std::vector<CachedModel> unfinished_models() {
  return models_of_repositories(unfinished_of);
}

std::vector<CachedModel> find_unfinished(const std::string& name) {
  const std::optional<HubName> hub = find_hub_name(name);
  return hub ? matching(unfinished_of(*hub), *hub) : std::vector<CachedModel>();
}

std::vector<CachedModel> find_cached(const std::string& name) {
  const std::optional<HubName> hub = find_hub_name(name);
  std::vector<CachedModel> found = hub ? matching(models_of(*hub), *hub) : cached_models();
  if (!hub) {
    std::erase_if(found, [&](const CachedModel& model) {
      return model.hub || fs::path(model.files.front()).stem() != name;
    });
  } else if (found.empty()) {
    if (auto fetched = fetched_model(*hub)) found.push_back(std::move(*fetched));
  }
  return found;
}

std::optional<CachedModel> find_cached(const HubName& name) {
  std::vector<CachedModel> found = matching(models_of(name), name);
  if (name.quantization.empty()) {
    std::erase_if(found, [](const CachedModel& model) { return !model.is_default; });
  }
  if (found.empty()) return fetched_model(name);
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

RepositoryLock::RepositoryLock(const HubName& name, const LoadWatcher& watcher)
    : folder_(repository_folder(name)) {
  if (model_cache_folder().empty()) {
    throw Error(ErrorCode::kFile, "no folder for models: set HOME or XDG_CACHE_HOME");
  }
  const std::string path = folder_ + "/lock";
  for (bool told = false;;) {
    if (watcher.abort && *watcher.abort) return;
    std::error_code error;
    fs::create_directories(folder_, error);
    constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    Descriptor file(error ? -1 : open(path.c_str(), kFlags, 0666));
    if (!file) {
      const std::string why = error ? error.message() : std::strerror(errno);
      throw Error(ErrorCode::kFile, path + ": cannot write: " + why);
    }
    const bool locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
    const int why = locked ? 0 : errno;
    // Who removed the folder removed its lock: another may hold a new one.
    if (locked && is_at(file, path)) {
      file_ = std::move(file);
      return;
    }
    if (locked || why == EINTR) continue;
    if (why != EWOULDBLOCK) {  // a file system without locks
      throw Error(ErrorCode::kFile, path + ": cannot be locked: " + std::strerror(why));
    }
    if (!std::exchange(told, true)) {
      watcher.say("another program changes " + name.repository() + " in the cache: waiting for it");
    }
    if (watcher.progress) watcher.progress("waiting", 0, 1);  // it may end the waiting
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void add_to_cache(const HubName& name, const HubModel& model, bool is_default) {
  std::vector<IndexedModel> models = read_index(name);
  std::erase_if(models, [&](const IndexedModel& known) {
    return known.files.front().path == model.files.front().path;
  });
  if (is_default) {
    for (IndexedModel& known : models) known.is_default = false;
  }
  IndexedModel added{model.quantization, is_default, {}};
  for (const HubFile& file : model.files) added.files.push_back({file.path, file.bytes});
  models.push_back(std::move(added));
  write_index(name, models);
}

std::vector<std::string> remove_cached(const CachedModel& model, const LoadWatcher& watcher) {
  std::vector<std::string> stayed;
  remove_repacked(model.files.front());
  const std::string heads = sidecar_heads(model.files.front());
  std::error_code error;
  if (fs::exists(heads, error)) stayed.push_back(heads);
  if (!model.hub) {
    for (const std::string& file : model.files) remove_file(file);
    return stayed;
  }
  const RepositoryLock lock(*model.hub, watcher);
  if (!lock.held()) throw Interrupted("interrupted: nothing was removed");
  std::vector<IndexedModel> models = read_index(*model.hub);
  std::erase_if(models, [&](const IndexedModel& known) {
    return lock.folder() + "/" + known.files.front().path == without_part(model.files.front());
  });
  // The files first, on a disk that may be full: what is not there is not listed.
  for (const std::string& file : model.files) {
    remove_file(file);
    for (const fs::path& entry : entries(fs::path(file).parent_path())) {
      const std::string path = entry.string();
      if (path.starts_with(file + ".") && path.ends_with(".part")) remove_file(path);
    }
  }
  if (models.empty()) {
    remove_file(index_path(*model.hub));
  } else {
    write_index(*model.hub, models);
  }
  // Folders in which nothing is left go too, the lock last.
  for (const std::string& file : model.files) {
    fs::path folder = fs::path(file).parent_path();
    while (folder != lock.folder() && rmdir(folder.c_str()) == 0) folder = folder.parent_path();
  }
  if (models.empty() && entries(lock.folder()).size() == 1) {
    remove_file(lock.folder() + "/lock");
    if (rmdir(lock.folder().c_str()) == 0) {
      rmdir(fs::path(lock.folder()).parent_path().c_str());
    }
  }
  return stayed;
}

}  // namespace specbound
