#include "library/model_pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "download/fetch.h"
#include "download/http.h"
#include "download/sha256.h"
#include "error.h"
#include "library/hub_models.h"
#include "system/file_output.h"
#include "system/number_text.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHub = "https://huggingface.co";
constexpr size_t kMostPages = 64;                     // of a list
constexpr uint64_t kSpareBytes = uint64_t{16} << 20;  // left free on the disk

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Hub {
  std::string url;  // without a slash at its end
  Server server;
};

// Throws Error(kUsage) for variables that make no sense.
Hub hub_of_environment() {
  Hub hub;
  hub.url = environment("HF_ENDPOINT");
  if (hub.url.empty()) hub.url = kHub;
  while (hub.url.ends_with("/")) hub.url.pop_back();
  try {
    // Plain HTTP only where somebody wrote it down.
    hub.server.plain = url_origin(hub.url).starts_with("http://");
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUsage) throw;
    throw Error(e.code(), std::string("HF_ENDPOINT: ") + e.what());
  }
  hub.server.token = environment("HF_TOKEN");
  const auto prints = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  if (!std::ranges::all_of(hub.server.token, prints)) {
    throw Error(ErrorCode::kUsage, "HF_TOKEN: expected a token, found other characters in it");
  }
  if (const std::string text = environment("HF_HUB_DOWNLOAD_TIMEOUT"); !text.empty()) {
    const std::optional<int64_t> seconds = parse_int(text);
    if (!seconds || *seconds < 1 || *seconds > 3600) {
      throw Error(ErrorCode::kUsage,
                  format("HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to 3600 seconds, found \"%s\"",
                         printable(text).c_str()));
    }
    hub.server.patience = static_cast<int>(*seconds);
  }
  return hub;
}

// Of a path in a URL: what stands for itself there, and slashes.
std::string url_path(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view("/-_.~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : format("%%%02X", static_cast<unsigned char>(c));
  }
  return out;
}

[[noreturn]] void interrupted() {
  throw Interrupted("interrupted while downloading: what came is kept");
}

FetchWatcher fetch_watcher(const LoadWatcher& watcher) {
  FetchWatcher fetch;
  fetch.note = watcher.note;
  fetch.abort = watcher.abort;
  return fetch;
}

// The model that was asked for, and whether a name without a quantization means it.
struct Found {
  HubModel model;
  bool is_default;
};

bool is_default(const std::vector<HubModel>& models, const HubModel& model, HubName name) {
  name.quantization.clear();
  try {
    return &choose_model(models, name) == &model;
  } catch (const Error&) {
    return false;  // there is no default
  }
}

bool has_origin(const std::string& url, const std::string& origin) {
  try {
    return url_origin(url) == origin;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUsage) throw;
    return false;  // no URL
  }
}

// All pages of a list. Throws Error: kFormat for a page elsewhere, kLimit for too much of them.
std::vector<std::string> fetch_pages(const Hub& hub, const std::string& url,
                                     const LoadWatcher& watcher) {
  std::vector<std::string> pages;
  size_t left = kMostListBytes;
  for (std::string next = url; !next.empty();) {
    // The token goes with it, and a list from elsewhere is not the hub's.
    if (!has_origin(next, url_origin(url))) {
      throw Error(ErrorCode::kFormat, format("%s: expected its next page on the same server, found "
                                             "%s",
                                             url.c_str(), printable(next).c_str()));
    }
    if (pages.size() == kMostPages) {
      throw Error(ErrorCode::kLimit,
                  format("%s: expected at most %zu pages, found more", url.c_str(), kMostPages));
    }
    FetchedText page;
    if (!fetch_text(hub.server, next, left, fetch_watcher(watcher), page)) interrupted();
    left -= page.text.size();
    pages.push_back(std::move(page.text));
    next = page.next;
  }
  return pages;
}

Found find_on_hub(const Hub& hub, const HubName& name, const LoadWatcher& watcher) {
  const std::string url =
      hub.url + "/api/models/" + name.repository() + "/tree/main?recursive=true";
  const std::vector<HubModel> models = read_hub_list(fetch_pages(hub, url, watcher), url);
  const HubModel& model = choose_model(models, name);
  for (const HubFile& file : model.files) {
    if (is_sha256(file.sha256)) continue;
    throw Error(ErrorCode::kFormat, format("%s: %s: expected a sha256 of it, found none",
                                           url.c_str(), file.path.c_str()));
  }
  return {model, is_default(models, model, name)};
}

// Where the hub cannot be asked, what is there of the repository may do.
[[noreturn]] void refuse_unreached(const Error& error, const HubName& name) {
  HubName any = name;
  any.quantization.clear();
  const std::vector<CachedModel> there = find_cached(any.text());
  const std::string names = joined(there, ", ", [](const CachedModel& m) { return m.name; });
  throw Error(error.code(), error.what() + (names.empty() ? "" : "; in the cache: " + names));
}

// Whole under its name already, as after an index that was lost. Throws Interrupted.
bool is_there(const FetchedFile& file, const std::function<void(uint64_t done)>& checked,
              const LoadWatcher& watcher) {
  std::error_code error;
  if (!fs::is_regular_file(file.path, error) || fs::file_size(file.path, error) != file.bytes) {
    return false;
  }
  return file_sha256(file.path, [&](uint64_t done) {
           if (watcher.abort && *watcher.abort) interrupted();
           checked(done);
         }) == file.sha256;
}

void check_space(const std::string& folder, uint64_t bytes) {
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) != 0) return;  // a disk that does not say may have room
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (bytes + kSpareBytes <= free) return;
  throw Error(ErrorCode::kLimit,
              format("%s: expected %s of free disk, found %s", folder.c_str(),
                     megabytes(bytes + kSpareBytes).c_str(), megabytes(free).c_str()));
}

void fetch_model(const Hub& hub, const HubName& name, const HubModel& model,
                 const std::string& folder, const LoadWatcher& watcher) {
  std::vector<FetchedFile> files;
  uint64_t there = 0, missing = 0;
  const uint64_t total = model.bytes();
  const auto telling = [&](const char* label) {
    return [&watcher, &there, total, label](uint64_t done) {
      if (watcher.progress) watcher.progress(label, there + done, total);
    };
  };
  const auto checked = telling("checking what is there");
  for (const HubFile& file : model.files) {
    FetchedFile fetched{hub.url + "/" + name.repository() + "/resolve/main/" + url_path(file.path),
                        folder + "/" + file.path, file.bytes, file.sha256};
    make_folder_of(fetched.path);
    if (is_there(fetched, checked, watcher)) {
      there += file.bytes;
      continue;
    }
    missing += file.bytes - std::min(bytes_left_of(fetched), file.bytes);
    files.push_back(std::move(fetched));
  }
  check_space(folder, missing);
  for (const FetchedFile& file : files) {
    FetchWatcher fetch = fetch_watcher(watcher);
    fetch.checked = checked;
    fetch.progress = telling("downloading");
    if (!fetch_file(hub.server, file, fetch)) interrupted();
    there += file.bytes;
  }
}

}  // namespace

CachedModel pull_model(const HubName& name, const LoadWatcher& watcher) {
  if (auto cached = find_cached(name)) return *cached;
  const Hub hub = hub_of_environment();
  std::optional<Found> found;
  try {
    found = find_on_hub(hub, name, watcher);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kFile) throw;
    refuse_unreached(error, name);
  }
  const HubModel& model = found->model;
  const RepositoryLock lock(name, watcher);
  if (!lock.held()) interrupted();
  // While this one waited it may have come.
  if (auto cached = find_cached(name)) return *cached;
  const std::string& first = model.files.front().path;
  watcher.describe(format("pulling %s: %s, %s", name.text().c_str(), first.c_str(),
                          megabytes(model.bytes()).c_str()));
  fetch_model(hub, name, model, lock.folder(), watcher);
  add_to_cache(name, model, found->is_default);
  // By its file: two of one quantization may be there now.
  HubName file = name;
  file.quantization = first;
  auto cached = find_cached(file);
  if (!cached) {
    throw Error(ErrorCode::kFile, lock.folder() + "/" + first + ": it was there and is gone");
  }
  return *cached;
}

}  // namespace specbound
