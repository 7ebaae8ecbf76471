#include "runtime/tuned_settings.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/backend.h"
#include "error.h"
#include "system/cache_file.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxLayers = 100000;

double seconds(const Json& json, const char* key) {
  return cached_number(json, key, 0, 1e6);
}

void read_rows(const Json& json, const char* key, std::array<double, kMaxRows + 1>& out) {
  const Json& values = cached_value(json, key);
  if (!values.is_array() || values.size() != kMaxRows) {
    refuse_cached(format("\"%s\": expected %d numbers", key, kMaxRows));
  }
  for (int m = 1; m <= kMaxRows; ++m) {
    out[m] = seconds(Json{{key, values[m - 1]}}, key);
  }
}

HeadDefaults settings_from(const Json& json) {
  HeadDefaults settings;
  const std::string name = cached_text(json, "kind");
  const std::optional<HeadKind> kind = parse_head_kind(name);
  if (!kind) {
    refuse_cached("\"kind\": expected full, folded or chained, found \"" + printable(name) + "\"");
  }
  settings.kind = *kind;
  const Json& layers = cached_value(json, "check_layers");
  if (!layers.is_array() || layers.empty())
    refuse_cached("\"check_layers\": expected a list of layers");
  int before = -1;
  for (const Json& value : layers) {
    const int layer = cached_whole(Json{{"check_layers", value}}, "check_layers", 0, kMaxLayers);
    if (layer <= before) refuse_cached("\"check_layers\": expected ascending layers");
    settings.check_layers.push_back(before = layer);
  }
  settings.shortlist = cached_whole(json, "shortlist", 0, 1 << 30);
  settings.alpha = static_cast<float>(cached_number(json, "alpha", 0, 100));
  settings.tau = static_cast<float>(cached_number(json, "tau", 0, 1));
  settings.d_max = cached_whole(json, "d_max", 1, kMaxLayers);
  settings.w_max = cached_whole(json, "w_max", 1, kMaxRows);
  return settings;
}

void tell_useless(const TunedNote& note, const std::string& path, const char* why) {
  const std::string line =
      format("%s: no use as tuned settings (%s); tune writes them again", path.c_str(), why);
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

}  // namespace

std::optional<TunedSettings> read_tuned(const std::string& model_fingerprint,
                                        const std::string& heads_fingerprint,
                                        const std::string& device, const TunedNote& note) {
  const CacheKey key{"tuned", model_fingerprint, device};
  const std::string path = cache_file(key);
  try {
    const std::optional<Json> read = read_cache_file(key);
    if (!read) return std::nullopt;
    const Json& json = *read;
    TunedSettings tuned;
    tuned.heads_fingerprint = cached_text(json, "heads_fingerprint");
    if (tuned.heads_fingerprint != heads_fingerprint) return std::nullopt;  // trained again
    tuned.settings = settings_from(cached_value(json, "settings"));
    tuned.predicted_speedup = cached_number(json, "predicted_speedup", 0, 1000);
    return tuned;
  } catch (const Error& e) {
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
  tell_useless(note, cache_file({"tuned", model_fingerprint, device}), why.c_str());
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
  return write_cache_file({"tuned", model_fingerprint, device}, json);
}

std::optional<KeptRowCosts> read_row_costs(const std::string& model_fingerprint,
                                           const std::string& device, int n_ctx,
                                           const TunedNote& note) {
  const CacheKey key{"costs", model_fingerprint, device};
  std::string why;
  try {
    const std::optional<Json> json = read_cache_file(key);
    if (!json || !json->contains("kernels") || json->at("kernels") != kRowKernels) {
      return std::nullopt;
    }
    KeptRowCosts kept;
    kept.context = cached_whole(*json, "context", 1, 1 << 30);
    if (kept.context < std::min(n_ctx, kRowCostContext)) return std::nullopt;
    RowCosts& costs = kept.costs;
    read_rows(*json, "start", costs.start);
    read_rows(*json, "position", costs.position);
    if (!(costs.start[1] > 0)) {
      why = "\"start\": expected more than 0, found 0";
    } else if (!std::ranges::is_sorted(costs.start) || !std::ranges::is_sorted(costs.position)) {
      why = "expected that more rows never cost less";
    } else {
      return kept;
    }
  } catch (const Error& e) {
    why = e.what();
  }
  if (note)
    note(format("%s: no use as costs (%s): measuring again", cache_file(key).c_str(), why.c_str()));
  return std::nullopt;
}

void write_row_costs(const std::string& model_fingerprint, const std::string& device,
                     const KeptRowCosts& kept) {
  const CacheKey key{"costs", model_fingerprint, device};
  if (cache_file(key).empty()) return;
  Json start = Json::array(), position = Json::array();
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    start.push_back(kept.costs.start[rows]);
    position.push_back(kept.costs.position[rows]);
  }
  write_cache_file(key, {{"kernels", kRowKernels},
                         {"context", kept.context},
                         {"start", start},
                         {"position", position}});
}

}  // namespace specbound
