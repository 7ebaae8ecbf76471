#include "grammar/schema_bounds.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "json/json_reader.h"

namespace specbound {
namespace {

using Code = ErrorCode;

constexpr int kMaxCount = 100'000;  // of minLength and the like

std::optional<int> count(const Schema& schema, const char* keyword, const std::string& place) {
  const auto at = schema.find(keyword);
  if (at == schema.end()) return std::nullopt;
  const std::optional<int64_t> number = whole_number(nlohmann::json(*at));
  if (!number || *number < 0 || *number > kMaxCount) {
    refuse_schema(number && *number > kMaxCount ? Code::kLimit : Code::kUsage, place, keyword,
                  format("a whole number from 0 to %d", kMaxCount), found_text(*at));
  }
  return static_cast<int>(*number);
}

std::optional<double> bound(const Schema& schema, const char* keyword, const std::string& place) {
  const auto at = schema.find(keyword);
  if (at == schema.end()) return std::nullopt;
  if (!at->is_number()) refuse_schema(Code::kUsage, place, keyword, "a number", found_text(*at));
  const double number = at->get<double>();
  // As a double 2^53 + 1 is 2^53.
  const int64_t whole = whole_number(nlohmann::json(*at)).value_or(0);
  if (!(std::fabs(number) <= static_cast<double>(JsonValues::kMaxBound)) ||
      whole > JsonValues::kMaxBound || whole < -JsonValues::kMaxBound) {
    refuse_schema(Code::kLimit, place, keyword, "a bound within 2^53 of 0", found_text(*at));
  }
  return number;
}

}  // namespace

std::pair<int, int> length_bounds(const Schema& schema, const char* least, const char* most,
                                  const std::string& place) {
  const int low = count(schema, least, place).value_or(0);
  const int high = count(schema, most, place).value_or(GrammarRules::kUnbounded);
  if (high != GrammarRules::kUnbounded && high < low) {
    refuse_schema(Code::kUsage, place, most, format("%d or more, as %s says", low, least),
                  std::to_string(high));
  }
  return {low, high};
}

std::optional<std::pair<int64_t, int64_t>> integer_bounds(const Schema& schema,
                                                          const std::string& place) {
  const auto low = bound(schema, "minimum", place), high = bound(schema, "maximum", place);
  const auto above = bound(schema, "exclusiveMinimum", place),
             below = bound(schema, "exclusiveMaximum", place);
  if (!low && !high && !above && !below) return std::nullopt;
  int64_t least = -JsonValues::kMaxBound, most = JsonValues::kMaxBound;
  if (low) least = std::max(least, static_cast<int64_t>(std::ceil(*low)));
  if (above) least = std::max(least, static_cast<int64_t>(std::floor(*above)) + 1);
  if (high) most = std::min(most, static_cast<int64_t>(std::floor(*high)));
  if (below) most = std::min(most, static_cast<int64_t>(std::ceil(*below)) - 1);
  if (least > most) refuse_empty_range(place);
  return std::pair(least, most);
}

std::optional<JsonValues::Bounds> number_bounds(const Schema& schema, const std::string& place) {
  JsonValues::Bounds bounds;
  const auto take = [&](const char* keyword, bool open, bool is_low) {
    const auto at = bound(schema, keyword, place);
    if (!at) return;
    if (std::floor(*at) != *at) {
      refuse_schema(Code::kUnsupported, place, keyword, "a whole number, even for a number",
                    found_text(schema[keyword]));
    }
    if (open && std::fabs(*at) > static_cast<double>(JsonValues::kMaxOpenBound)) {
      refuse_schema(
          Code::kUnsupported, place, keyword,
          format("a bound within %lld of 0", static_cast<long long>(JsonValues::kMaxOpenBound)),
          found_text(schema[keyword]));
    }
    const auto value = static_cast<int64_t>(*at);
    std::optional<int64_t>& side = is_low ? bounds.low : bounds.high;
    bool& without = is_low ? bounds.without_low : bounds.without_high;
    const bool tighter = !side || (is_low ? value > *side : value < *side);
    if (tighter) {
      side = value;
      without = open;
    } else if (value == *side) {
      without = without || open;
    }
  };
  take("minimum", false, true);
  take("exclusiveMinimum", true, true);
  take("maximum", false, false);
  take("exclusiveMaximum", true, false);
  if (!bounds.low && !bounds.high) return std::nullopt;
  return bounds;
}

void refuse_empty_range(const std::string& place) {
  refuse_schema(Code::kUsage, place, "minimum", "bounds that some number lies between", "none");
}

}  // namespace specbound
