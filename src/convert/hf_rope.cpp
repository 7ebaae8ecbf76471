#include "convert/hf_rope.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "error.h"

namespace specbound {
namespace {

constexpr double kMaxTheta = 1e30, kMaxFactor = 1e6;
constexpr uint64_t kMostContext = uint64_t{1} << 30;

double finite(const JsonObject& object, const char* key, double low, double high,
              std::optional<double> fallback = std::nullopt) {
  const std::optional<double> found = object.number(key);
  if (!found && !fallback) object.bad(key, "a number", "no such key");
  const double value = found ? *found : *fallback;
  if (!(value >= low && value <= high)) {
    object.bad(key, format("a number, %g to %g", low, high), format("%g", value));
  }
  return value;
}

// Frequency divisors of llama3 scaling, as transformers computes them: long waves are stretched by
// `factor`, short ones are not, those between by something between.
std::vector<float> llama3_factors(const JsonObject& scaling, double theta, uint64_t dim) {
  const double factor = finite(scaling, "factor", 1, kMaxFactor);
  const double low = finite(scaling, "low_freq_factor", 1e-6, kMaxFactor);
  const double high = finite(scaling, "high_freq_factor", 1e-6, kMaxFactor);
  if (low >= high) {
    scaling.bad("high_freq_factor", format("more than low_freq_factor, %g", low),
                format("%g", high));
  }
  const double original =
      static_cast<double>(scaling.bounded("original_max_position_embeddings", 1, kMostContext));
  std::vector<float> factors;
  for (uint64_t i = 0; i < dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(dim);
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, exponent);
    const double smooth = (original / wavelength - low) / (high - low);
    if (wavelength < original / high) {
      factors.push_back(1);
    } else if (wavelength > original / low) {
      factors.push_back(static_cast<float>(factor));
    } else {
      factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return factors;
}

std::vector<float> listed_factors(const JsonObject& scaling, const char* key, uint64_t count) {
  const nlohmann::json* list = scaling.find(key);
  if (!list || !list->is_array() || list->size() != count) {
    scaling.bad(key, format("a list of %llu numbers", static_cast<unsigned long long>(count)),
                list ? json_text(*list) : "no such key");
  }
  std::vector<float> factors;
  for (const nlohmann::json& value : *list) {
    if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= kMaxFactor)) {
      scaling.bad(key, format("numbers above 0, at most %g", kMaxFactor), json_text(value));
    }
    factors.push_back(value.get<float>());
  }
  return factors;
}

// What cosines and sines are multiplied by: stated, or as LongRoPE derives it from how much longer
// than the original the context is.
double longrope_attention(const JsonObject& scaling, const HfConfig& config, uint64_t original) {
  if (const auto stated = scaling.number("attention_factor")) {
    return finite(scaling, "attention_factor", 1e-3, 1e3);
  }
  const double ratio = static_cast<double>(config.max_seq_len) / static_cast<double>(original);
  const double factor = finite(scaling, "factor", 1e-6, kMaxFactor, ratio);
  if (factor <= 1 || original < 2) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
}

// YaRN. GGUF has what cosines and sines are multiplied by as a factor on top of the usual one.
void read_yarn(const JsonObject& scaling, uint64_t max_seq_len, HfRope& rope) {
  if (!scaling.flag("truncate").value_or(true)) scaling.unsupported("truncate", "true", "false");
  rope.yarn_factor = finite(scaling, "factor", 1, kMaxFactor);
  rope.beta_fast = finite(scaling, "beta_fast", 1e-6, 1e6, 32);
  rope.beta_slow = finite(scaling, "beta_slow", 1e-6, 1e6, 1);
  rope.original_context =
      scaling.bounded("original_max_position_embeddings", 2, kMostContext, max_seq_len);
  const auto by_share = [&](double share) { return 1 + 0.1 * share * std::log(rope.yarn_factor); };
  const bool shares = scaling.number("mscale").value_or(0) != 0 &&
                      scaling.number("mscale_all_dim").value_or(0) != 0;
  double factor = by_share(1);
  if (scaling.find("attention_factor")) {
    factor = finite(scaling, "attention_factor", 1e-3, 1e3);
  } else if (shares) {
    factor = by_share(finite(scaling, "mscale", 1e-3, 1e3)) /
             by_share(finite(scaling, "mscale_all_dim", 1e-3, 1e3));
  }
  if (factor != by_share(1)) rope.attn_factor = factor / by_share(1);
}

// Of windowed layers, which nothing scales: in a group of its own, or in a key of older files.
double windowed_theta(const JsonObject& file, const JsonObject& parameters, double usual) {
  const auto group = parameters.object("sliding_attention");
  if (!group) return finite(file, "rope_local_base_freq", 1, kMaxTheta, usual);
  if (const std::string type = group->text("rope_type").value_or("default"); type != "default") {
    group->unsupported("rope_type", "default", "'" + printable(type) + "'");
  }
  return finite(*group, "rope_theta", 1, kMaxTheta, usual);
}

// transformers 5 writes rope_parameters, and takes rope_scaling where a file has that too: refused
// where the two differ.
std::optional<JsonObject> scaling_of(const JsonObject& file) {
  const auto newer = file.object("rope_parameters"), older = file.object("rope_scaling");
  if (!newer || !older) return newer ? newer : older;
  for (const auto& [key, value] : older->value().items()) {
    const nlohmann::json* same = newer->find(key.c_str());
    if (!same && key == "type") same = newer->find("rope_type");
    if (!value.is_null() && (!same || *same != value)) {
      file.unsupported("rope_scaling", "what rope_parameters says, or one of the two alone",
                       "both");
    }
  }
  return newer;
}

}  // namespace

HfRope read_hf_rope(const JsonObject& file, const HfConfig& config) {
  const bool partial_rope = config.model->partial_rope, long_rope = config.model->long_rope;
  const auto scaling = scaling_of(file);
  const nlohmann::json nothing = nlohmann::json::object();
  JsonObject parameters = scaling ? *scaling : JsonObject(nothing, "rope_scaling");
  HfRope rope;
  if (const double usual = config.model->windowed_rope_theta; usual > 0) {
    rope.windowed_theta = windowed_theta(file, parameters, usual);
    if (const auto group = parameters.object("full_attention")) parameters = *group;
  }
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    if (rope.windowed_theta == 0 && parameters.find(kind)) {
      parameters.unsupported(kind, "the same rotation in all layers", "one for each kind of layer");
    }
  }
  rope.theta = parameters.find("rope_theta")
                   ? finite(parameters, "rope_theta", 1, kMaxTheta)
                   : finite(file, "rope_theta", 1, kMaxTheta, config.architecture->rope_theta);
  const JsonObject& partial = parameters.find("partial_rotary_factor") ? parameters : file;
  const double share = finite(partial, "partial_rotary_factor", 0, 1, 1.0);
  rope.dim = static_cast<uint64_t>(share * static_cast<double>(config.head_dim));
  if (rope.dim < 2 || rope.dim % 2 != 0 || (!partial_rope && share != 1)) {
    partial.unsupported(
        "partial_rotary_factor", partial_rope ? "an even number of rotated numbers in a head" : "1",
        format("%g of %llu", share, static_cast<unsigned long long>(config.head_dim)));
  }

  const char* type_key = parameters.find("rope_type") ? "rope_type" : "type";
  std::string type = parameters.text(type_key).value_or("default");
  if (long_rope) {
    const JsonObject& place = file.find("original_max_position_embeddings") ? file : parameters;
    rope.original_context =
        place.bounded("original_max_position_embeddings", 1, kMostContext, 4096);
    if (type == "su" || type == "yarn") type = "longrope";  // names of it in old files
  }
  if (type == "default") return rope;
  if (type == "linear" && !long_rope) {
    rope.linear_factor = finite(parameters, "factor", 1e-6, kMaxFactor);
  } else if (type == "yarn" && !long_rope) {
    read_yarn(parameters, config.max_seq_len, rope);
  } else if (type == "llama3" && config.interleaved()) {
    rope.factors = llama3_factors(parameters, rope.theta, rope.dim);
  } else if (type == "longrope" && long_rope) {
    rope.short_factors = listed_factors(parameters, "short_factor", rope.dim / 2);
    rope.long_factors = listed_factors(parameters, "long_factor", rope.dim / 2);
    rope.attn_factor = longrope_attention(parameters, config, rope.original_context);
  } else {
    parameters.unsupported(type_key,
                           long_rope              ? "default or longrope"
                           : config.interleaved() ? "default, linear, yarn or llama3"
                                                  : "default, linear or yarn",
                           "'" + printable(type) + "'");
  }
  return rope;
}

}  // namespace specbound
