#include "runtime/tuned_settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/backend.h"
#include "error.h"
#include "json/json_writer.h"
#include "runtime/file_output.h"
#include "runtime/machine.h"
#include "runtime/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kTunedVersion = 1;
constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMaxLayers = 100000;

// Empty without a folder. `what`: "tuned", "costs".
std::string file_for(const char* what, const std::string& model_fingerprint,
                     const std::string& device) {
  return user_path("XDG_CACHE_HOME", ".cache",
                   std::string(what) + "-" + name_digits(model_fingerprint) + "-" +
                       name_digits(cpu_model() + "\n" + device) + ".json");
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kFormat, what);
}

double number(const Json& json, const char* key, double low, double high) {
  const Json& value = json.at(key);
  if (!value.is_number()) refuse(format("\"%s\": expected a number", key));
  const double x = value.get<double>();
  if (!(x >= low && x <= high)) {
    refuse(format("\"%s\": expected %g to %g, found %g", key, low, high, x));
  }
  return x;
}

int whole(const Json& json, const char* key, int low, int high) {
  const double x = number(json, key, low, high);
  if (x != std::floor(x)) refuse(format("\"%s\": expected a whole number, found %g", key, x));
  return static_cast<int>(x);
}

double seconds(const Json& json, const char* key) {
  return number(json, key, 0, 1e6);
}

void read_rows(const Json& json, const char* key, std::array<double, kMaxRows + 1>& out) {
  const Json& values = json.at(key);
  if (!values.is_array() || values.size() != kMaxRows) {
    refuse(format("\"%s\": expected %d numbers", key, kMaxRows));
  }
  for (int m = 1; m <= kMaxRows; ++m) {
    out[m] = seconds(Json{{key, values[m - 1]}}, key);
  }
}

HeadDefaults settings_from(const Json& json) {
  HeadDefaults settings;
  const std::string name = json.at("kind").get<std::string>();
  const std::optional<HeadKind> kind = parse_head_kind(name);
  if (!kind) {
    refuse("\"kind\": expected full, folded or chained, found \"" + printable(name) + "\"");
  }
  settings.kind = *kind;
  const Json& layers = json.at("check_layers");
  if (!layers.is_array() || layers.empty()) refuse("\"check_layers\": expected a list of layers");
  int before = -1;
  for (const Json& value : layers) {
    const int layer = whole(Json{{"check_layers", value}}, "check_layers", 0, kMaxLayers);
    if (layer <= before) refuse("\"check_layers\": expected ascending layers");
    settings.check_layers.push_back(before = layer);
  }
  settings.shortlist = whole(json, "shortlist", 0, 1 << 30);
  settings.alpha = static_cast<float>(number(json, "alpha", 0, 100));
  settings.tau = static_cast<float>(number(json, "tau", 0, 1));
  settings.d_max = whole(json, "d_max", 1, kMaxLayers);
  settings.w_max = whole(json, "w_max", 1, kMaxRows);
  return settings;
}

void tell_useless(const TunedNote& note, const std::string& path, const char* why) {
  const std::string line = format(
      "%s: no use as tuned settings (%s); specbound tune writes them again", path.c_str(), why);
  if (note) note(line);
}

// What `settings` name that the heads lack; empty: nothing.
std::string misfit(const HeadDefaults& settings, const ExitHeads& heads) {
  const std::vector<int> layers = heads.layers(settings.kind);
  for (const int layer : settings.check_layers) {
    if (!std::binary_search(layers.begin(), layers.end(), layer)) {
      return format("\"check_layers\": expected layers with a %s head, found %d",
                    head_kind_name(settings.kind), layer);
    }
  }
  const int all = static_cast<int>(heads.shortlist().size());
  if (settings.shortlist > all || (settings.shortlist % 16 != 0 && settings.shortlist != all)) {
    return format("\"shortlist\": expected a multiple of 16 up to %d, found %d", all,
                  settings.shortlist);
  }
  // The embedding lies before any layer.
  if (settings.check_layers.front() > settings.d_max) {
    return format("\"d_max\": expected %d or more, found %d", settings.check_layers.front(),
                  settings.d_max);
  }
  return "";
}

// What lies at `path` for that model and device; nullopt: nothing, or something of another version.
std::optional<Json> read_cached(const std::string& path, const std::string& model_fingerprint,
                                const std::string& device) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::nullopt;
  if (!fs::is_regular_file(path, error)) refuse("expected a file");
  const auto bytes = fs::file_size(path, error);
  if (error || bytes > kMaxBytes) refuse(format("expected at most %zu bytes", kMaxBytes));
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!file) refuse("cannot be read");
  Json json = Json::parse(text);
  if (!json.is_object()) refuse("expected an object");
  if (whole(json, "version", 0, 1 << 30) != kTunedVersion ||
      json.at("model_fingerprint").get<std::string>() != model_fingerprint ||
      json.at("device").get<std::string>() != device) {
    return std::nullopt;
  }
  return json;
}

std::string write_cached(const char* what, const std::string& model_fingerprint,
                         const std::string& device, const Json& more) {
  const std::string path = file_for(what, model_fingerprint, device);
  if (path.empty()) {
    throw Error(ErrorCode::kFile,
                format("%s settings: no folder for them: set HOME or XDG_CACHE_HOME", what));
  }
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot be made: %s", folder.c_str(), error.message().c_str()));
  }
  Json json = {{"version", kTunedVersion},
               {"model_fingerprint", model_fingerprint},
               {"cpu", cpu_model()},
               {"device", device}};
  json.update(more);
  write_file(path, dump(json, 1) + "\n");
  return path;
}

}  // namespace

std::optional<TunedSettings> read_tuned(const std::string& model_fingerprint,
                                        const std::string& heads_fingerprint,
                                        const std::string& device, const TunedNote& note) {
  const std::string path = file_for("tuned", model_fingerprint, device);
  try {
    const std::optional<Json> read = read_cached(path, model_fingerprint, device);
    if (!read) return std::nullopt;
    const Json& json = *read;
    TunedSettings tuned;
    tuned.heads_fingerprint = json.at("heads_fingerprint").get<std::string>();
    if (tuned.heads_fingerprint != heads_fingerprint) return std::nullopt;  // trained again
    tuned.settings = settings_from(json.at("settings"));
    tuned.predicted_speedup = number(json, "predicted_speedup", 0, 1000);
    return tuned;
  } catch (const Error& e) {
    tell_useless(note, path, e.what());
  } catch (const nlohmann::json::exception& e) {
    tell_useless(note, path, e.what());
  }
  return std::nullopt;
}

std::optional<TunedSettings> read_tuned(const std::string& model_fingerprint,
                                        const ExitHeads& heads, const std::string& device,
                                        const TunedNote& note) {
  auto tuned = read_tuned(model_fingerprint, heads.fingerprint(), device, note);
  if (!tuned) return tuned;
  const std::string why = misfit(tuned->settings, heads);
  if (why.empty()) return tuned;
  tell_useless(note, file_for("tuned", model_fingerprint, device), why.c_str());
  return std::nullopt;
}

std::string write_tuned(const std::string& model_fingerprint, const std::string& device,
                        const TunedSettings& tuned) {
  const HeadDefaults& s = tuned.settings;
  const Json json = {{"heads_fingerprint", tuned.heads_fingerprint},
                     {"predicted_speedup", tuned.predicted_speedup},
                     {"settings",
                      {{"kind", head_kind_name(s.kind)},
                       {"check_layers", s.check_layers},
                       {"shortlist", s.shortlist},
                       {"alpha", s.alpha},
                       {"tau", s.tau},
                       {"d_max", s.d_max},
                       {"w_max", s.w_max}}}};
  return write_cached("tuned", model_fingerprint, device, json);
}

std::optional<RowCosts> read_row_costs(const std::string& model_fingerprint,
                                       const std::string& device, int n_ctx,
                                       const TunedNote& note) {
  const std::string path = file_for("costs", model_fingerprint, device);
  std::string why;
  try {
    const std::optional<Json> json = read_cached(path, model_fingerprint, device);
    if (!json) return std::nullopt;
    const int context = whole(*json, "context", 1, 1 << 30);
    if (context < std::min(n_ctx, kRowCostContext)) return std::nullopt;
    RowCosts costs;
    read_rows(*json, "start", costs.start);
    read_rows(*json, "position", costs.position);
    if (!(costs.start[1] > 0)) {
      why = "\"start\": expected more than 0, found 0";
    } else if (!std::ranges::is_sorted(costs.start) || !std::ranges::is_sorted(costs.position)) {
      why = "expected that more rows never cost less";
    } else {
      return costs;
    }
  } catch (const Error& e) {
    why = e.what();
  } catch (const nlohmann::json::exception& e) {
    why = e.what();
  }
  if (note) note(format("%s: no use as costs (%s): measuring again", path.c_str(), why.c_str()));
  return std::nullopt;
}

void write_row_costs(const std::string& model_fingerprint, const std::string& device, int n_ctx,
                     const RowCosts& costs) {
  if (file_for("costs", model_fingerprint, device).empty()) return;
  Json start = Json::array(), position = Json::array();
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    start.push_back(costs.start[rows]);
    position.push_back(costs.position[rows]);
  }
  write_cached("costs", model_fingerprint, device,
               {{"context", n_ctx}, {"start", start}, {"position", position}});
}

}  // namespace specbound
