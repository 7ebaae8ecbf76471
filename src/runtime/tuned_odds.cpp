#include "runtime/tuned_odds.h"

#include <filesystem>
#include <string_view>

#include "error.h"
#include "system/cache_file.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostWeight = 30;  // log-odds of one in 10^13
constexpr double kMostLoss = 1000;

CacheKey key_of(const std::string& model_fingerprint) {
  return {"odds", model_fingerprint, std::nullopt};
}

CandidateOdds::Weights weights_from(const Json& json) {
  if (!json.is_object()) refuse_cached("\"weights\": expected an object");
  CandidateOdds::Weights weights = CandidateOdds::shipped();
  CandidateOdds::Weights::each(weights, [&](const char* name, std::span<float> figures) {
    if (std::string_view(name) == "store" && !json.contains(name)) return;  // an older file
    const Json& values = cached_value(json, name);
    if (!values.is_array() || values.size() != figures.size()) {
      refuse_cached(format("\"%s\": expected a list of %zu", name, figures.size()));
    }
    for (size_t i = 0; i < figures.size(); ++i) {
      figures[i] = static_cast<float>(
          cached_number(Json{{name, values[i]}}, name, -kMostWeight, kMostWeight));
    }
  });
  return weights;
}

}  // namespace

std::optional<TunedOdds> read_tuned_odds(const std::string& model_fingerprint,
                                         const TunedNote& note) {
  const CacheKey key = key_of(model_fingerprint);
  std::string why;
  try {
    const std::optional<Json> json = read_cache_file(key);
    if (!json) return std::nullopt;
    return TunedOdds{weights_from(cached_value(*json, "weights")),
                     cached_number(*json, "shipped_loss", 0, kMostLoss),
                     cached_number(*json, "held_out_loss", 0, kMostLoss),
                     cached_text(*json, "heads")};
  } catch (const Error& e) {
    why = e.what();
  }
  if (note) {
    note(format("%s: no use as odds (%s): those that ship are taken; tune writes them again",
                cache_file(key).c_str(), why.c_str()));
  }
  return std::nullopt;
}

std::string write_tuned_odds(const std::string& model_fingerprint, const TunedOdds& odds) {
  Json weights = Json::object();
  CandidateOdds::Weights::each(odds.weights, [&](const char* name, std::span<const float> figures) {
    weights[name] = std::vector<float>(figures.begin(), figures.end());
  });
  return write_cache_file(key_of(model_fingerprint), {{"shipped_loss", odds.shipped_loss},
                                                      {"held_out_loss", odds.held_out_loss},
                                                      {"heads", odds.heads},
                                                      {"weights", std::move(weights)}});
}

bool remove_tuned_odds(const std::string& model_fingerprint) {
  const std::string path = cache_file(key_of(model_fingerprint));
  std::error_code error;
  return !path.empty() && std::filesystem::remove(path, error);
}

}  // namespace specbound
