// One JSON file for each model and device, or for each model on any, in
// $XDG_CACHE_HOME/specbound (or ~/.cache/specbound): the frame of what tuned_settings.h and
// tuned_odds.h keep. The machine is its CPU's name and the device.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace specbound {

// What a file is of.
struct CacheKey {
  const char* what;  // "tuned", "costs", "odds"
  std::string model_fingerprint;
  std::optional<std::string> device;  // nullopt: of any
};

// Empty without a folder.
std::string cache_file(const CacheKey& key);
// nullopt: nothing is there, or something of another version, model or device. Throws Error for
// what is no such file.
std::optional<nlohmann::ordered_json> read_cache_file(const CacheKey& key);
// Whole or not at all. Throws Error(kFile). Returns where it went.
std::string write_cache_file(const CacheKey& key, const nlohmann::ordered_json& more);

// Of a file that makes no sense: Error(kFormat).
[[noreturn]] void refuse_cached(const std::string& what);
// Members of it; they refuse what is not there, or not so.
const nlohmann::ordered_json& cached_value(const nlohmann::ordered_json& json, const char* key);
std::string cached_text(const nlohmann::ordered_json& json, const char* key);
double cached_number(const nlohmann::ordered_json& json, const char* key, double low, double high);
int cached_whole(const nlohmann::ordered_json& json, const char* key, int low, int high);

}  // namespace specbound
