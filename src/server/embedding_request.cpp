#include "server/embedding_request.h"

#include <bit>
#include <charconv>

#include "error.h"
#include "json/json_writer.h"
#include "server/api_error.h"
#include "server/json_body.h"

namespace specbound::server {

namespace {

constexpr const char* kInputs =
    "a string, an array of strings, an array of token ids, or an array of such arrays";

EmbeddingRequest::Input read_input(const Json& value, std::string name, int vocab_size) {
  EmbeddingRequest::Input input{std::move(name), "", {}};
  if (value.is_string()) {
    input.text = value.get<std::string>();
  } else if (value.is_array() && !value.empty()) {
    input.tokens = read_tokens(value, input.name, vocab_size);
  } else {
    throw ApiError(400,
                   input.name + ": expected a string or an array of token ids, found " +
                       (value.is_array() ? "an empty array" : json_text(value)),
                   input.name);
  }
  return input;
}

std::vector<EmbeddingRequest::Input> read_inputs(const Fields& fields, int vocab_size) {
  const Json* value = fields.find("input");
  const bool several = value && value->is_array() && !value->empty() && !(*value)[0].is_number();
  if (!value || !(value->is_string() || value->is_array()) || (value->is_array() && value->empty()))
    fields.refuse("input", kInputs);
  if (!several) return {read_input(*value, "input", vocab_size)};
  if (value->size() > kMaxInputs) {
    fields.bad("input", format("at most %zu inputs", kMaxInputs), std::to_string(value->size()));
  }
  std::vector<EmbeddingRequest::Input> inputs;
  for (size_t i = 0; i < value->size(); ++i) {
    inputs.push_back(read_input((*value)[i], format("input[%zu]", i), vocab_size));
  }
  return inputs;
}

bool read_is_base64(const Fields& fields) {
  const std::string form = fields.text("encoding_format").value_or("float");
  if (form != "float" && form != "base64") fields.refuse("encoding_format", "float or base64");
  return form == "base64";
}

std::string base64_of(std::span<const float> numbers) {
  static_assert(std::endian::native == std::endian::little);
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(numbers.data());
  const size_t n = numbers.size_bytes();
  const auto byte = [&](size_t i) { return i < n ? uint32_t{bytes[i]} : 0; };
  std::string text;
  for (size_t i = 0; i < n; i += 3) {
    const uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t digit = 0; digit < 4; ++digit) {
      text += i + digit > n ? '=' : kDigits[three >> (18 - 6 * digit) & 63];
    }
  }
  return text;
}

// The shortest decimals that are these floats.
std::string list_of(std::span<const float> numbers) {
  std::string text = "[";
  char digits[32];
  for (const float number : numbers) {
    if (text.size() > 1) text += ',';
    text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
  }
  return text + "]";
}

}  // namespace

EmbeddingRequest parse_embeddings(std::string_view body, int vocab_size, int dim) {
  const Json json = parse_body(body);
  const Fields fields(json);
  EmbeddingRequest request;
  request.model = read_model_name(fields);
  request.base64 = read_is_base64(fields);
  if (const auto asked = fields.number("dimensions"); asked && *asked != dim) {
    throw ApiError(400,
                   format("dimensions: expected %d, which the model has, or nothing, found %s", dim,
                          json_text(*fields.find("dimensions")).c_str()),
                   "dimensions", "unsupported_value");
  }
  request.inputs = read_inputs(fields, vocab_size);
  return request;
}

std::string embeddings_json(const std::string& model,
                            std::span<const std::vector<float>> embeddings, bool base64,
                            size_t prompt_tokens) {
  std::string json = R"({"object":"list","data":[)";  // bit by bit: as one value it takes far more
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) json += ',';
    json += format(R"({"object":"embedding","index":%zu,"embedding":)", i);
    json += base64 ? '"' + base64_of(embeddings[i]) + '"' : list_of(embeddings[i]);
    json += '}';
  }
  json += R"(],"model":)" + dump(Json(model));
  json +=
      format(R"(,"usage":{"prompt_tokens":%zu,"total_tokens":%zu}})", prompt_tokens, prompt_tokens);
  return json;
}

}  // namespace specbound::server
