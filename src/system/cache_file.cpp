#include "system/cache_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "error.h"
#include "json/json_reader.h"
#include "json/json_writer.h"
#include "system/file_output.h"
#include "system/machine.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxValues = 10'000;

}  // namespace

std::string cache_file(const CacheKey& key) {
  std::string name = std::string(key.what) + "-" + name_digits(key.model_fingerprint);
  if (key.device) name += "-" + name_digits(cpu_model() + "\n" + *key.device);
  return user_path("XDG_CACHE_HOME", ".cache", name + ".json");
}

void refuse_cached(const std::string& what) {
  throw Error(ErrorCode::kFormat, what);
}

const Json& cached_value(const Json& json, const char* key) {
  const auto at = json.find(key);  // the end for what is no object
  if (at == json.end()) refuse_cached(format("\"%s\": expected it, found none", key));
  return *at;
}

std::string cached_text(const Json& json, const char* key) {
  const Json& value = cached_value(json, key);
  if (!value.is_string()) refuse_cached(format("\"%s\": expected a string", key));
  return value.get<std::string>();
}

double cached_number(const Json& json, const char* key, double low, double high) {
  const Json& value = cached_value(json, key);
  if (!value.is_number()) refuse_cached(format("\"%s\": expected a number", key));
  const double x = value.get<double>();
  if (!(x >= low && x <= high)) {
    refuse_cached(format("\"%s\": expected %g to %g, found %g", key, low, high, x));
  }
  return x;
}

int cached_whole(const Json& json, const char* key, int low, int high) {
  const double x = cached_number(json, key, low, high);
  if (x != std::floor(x))
    refuse_cached(format("\"%s\": expected a whole number, found %g", key, x));
  return static_cast<int>(x);
}

std::optional<Json> read_cache_file(const CacheKey& key) {
  const std::string path = cache_file(key);
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::nullopt;
  if (!fs::is_regular_file(path, error)) refuse_cached("expected a file");
  const auto bytes = fs::file_size(path, error);
  if (error || bytes > kMaxBytes) refuse_cached(format("expected at most %zu bytes", kMaxBytes));
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!file) refuse_cached("cannot be read");
  Json json = parse_ordered_json(text, "the file", {.values = kMaxValues});
  if (!json.is_object()) refuse_cached("expected an object");
  if (cached_whole(json, "version", 0, 1 << 30) != kVersion ||
      cached_text(json, "model_fingerprint") != key.model_fingerprint ||
      (key.device && cached_text(json, "device") != *key.device)) {
    return std::nullopt;
  }
  return json;
}

std::string write_cache_file(const CacheKey& key, const Json& more) {
  const std::string path = cache_file(key);
  if (path.empty()) {
    throw Error(ErrorCode::kFile,
                format("%s settings: no folder for them: set HOME or XDG_CACHE_HOME", key.what));
  }
  make_folder_of(path);
  Json json = {{"version", kVersion}, {"model_fingerprint", key.model_fingerprint}};
  if (key.device) json.update({{"cpu", cpu_model()}, {"device", *key.device}});
  json.update(more);
  write_file(path, dump(json, 1) + "\n");
  return path;
}

}  // namespace specbound
