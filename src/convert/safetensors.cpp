#include "convert/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "error.h"
#include "json/json_reader.h"

namespace specbound {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // bytes, the reference implementation's own limit
constexpr size_t kMaxDims = 8;

struct ElementType {
  const char* name;
  uint64_t bytes;
  std::optional<DType> type;
};
// The types of whole bytes. The others (F4, F6) are of quantized checkpoints.
constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::kF32}, {"F16", 2, DType::kF16}, {"BF16", 2, DType::kBF16},
    {"F64", 8, {}},          {"F8_E5M2", 1, {}},      {"F8_E4M3", 1, {}},
    {"F8_E8M0", 1, {}},      {"I64", 8, {}},          {"I32", 4, {}},
    {"I16", 2, {}},          {"I8", 1, {}},           {"U64", 8, {}},
    {"U32", 4, {}},          {"U16", 2, {}},          {"U8", 1, {}},
    {"BOOL", 1, {}},         {"F8_E4M3FNUZ", 1, {}},  {"F8_E5M2FNUZ", 1, {}},
    {"C64", 8, {}},
};

unsigned long long number(uint64_t value) {
  return value;
}

const ElementType& element_type(const JsonObject& entry) {
  const std::optional<std::string> name = entry.text("dtype");
  if (!name) entry.bad("dtype", "a string", "no such key");
  for (const ElementType& known : kElementTypes) {
    if (*name == known.name) return known;
  }
  entry.unsupported("dtype", "F32, F16 or BF16", "'" + printable(*name) + "'");
}

// A list of whole numbers.
std::vector<uint64_t> numbers(const JsonObject& entry, const char* key, size_t most) {
  const nlohmann::json* list = entry.find(key);
  if (!list || !list->is_array()) {
    entry.bad(key, "a list", list ? json_text(*list) : "no such key");
  }
  if (list->size() > most) {
    entry.bad(key, format("at most %zu numbers", most), format("%zu", list->size()));
  }
  std::vector<uint64_t> out;
  for (const nlohmann::json& value : *list) {
    if (!value.is_number_unsigned()) entry.bad(key, "whole numbers", json_text(value));
    out.push_back(value.get<uint64_t>());
  }
  return out;
}

struct Entry {
  SafeTensor tensor;
  uint64_t begin, end;  // in the data
};

Entry read_entry(const std::string& name, const nlohmann::json& json, uint64_t data_size,
                 const std::string& path) {
  const JsonObject entry(json, format("%s: tensor '%s'", path.c_str(), printable(name).c_str()));
  const ElementType& element = element_type(entry);
  Entry out = {{name, element.name, element.type, numbers(entry, "shape", kMaxDims), {}}, 0, 0};
  uint64_t size = element.bytes;
  for (uint64_t n : out.tensor.shape) {
    if (__builtin_mul_overflow(size, n, &size)) {
      entry.bad("shape", "sizes whose product fits 64 bits", "larger ones");
    }
  }
  const std::vector<uint64_t> offsets = numbers(entry, "data_offsets", 2);
  if (offsets.size() != 2) {
    entry.bad("data_offsets", "begin and end", format("%zu numbers", offsets.size()));
  }
  out.begin = offsets[0], out.end = offsets[1];
  if (out.begin > out.end || out.end > data_size) {
    entry.bad("data_offsets", format("a range within the %llu bytes of data", number(data_size)),
              format("%llu to %llu", number(out.begin), number(out.end)));
  }
  if (out.end - out.begin != size) {
    entry.bad("data_offsets", format("the %llu bytes that dtype and shape ask for", number(size)),
              format("%llu", number(out.end - out.begin)));
  }
  return out;
}

}  // namespace

Safetensors Safetensors::open(const std::string& path) {
  auto file = std::make_unique<MappedFile>(path);
  Safetensors out = parse(file->bytes(), path);
  out.file_ = std::move(file);
  return out;
}

Safetensors Safetensors::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto broken = [&](const std::string& what) {
    throw Error(ErrorCode::kFormat, format("%s: %s", name.c_str(), what.c_str()));
  };
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    broken(format("expected a safetensors file, found %zu bytes", bytes.size()));
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(header_size));
  if (header_size > kMaxHeader || header_size > rest.size()) {
    broken(
        format("expected a header of at most %llu bytes, found the size %llu: cut short, or no "
               "safetensors file",
               number(std::min<uint64_t>(kMaxHeader, rest.size())), number(header_size)));
  }
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_size);
  const nlohmann::json header = parse_json(text, name + ": header", {.values = kMaxFileValues});
  const std::span<const std::byte> data = rest.subspan(header_size);

  std::vector<Entry> entries;
  for (const auto& [key, value] : JsonObject(header, name + ": header").value().items()) {
    if (key == "__metadata__") continue;
    entries.push_back(read_entry(key, value, data.size(), name));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });

  Safetensors out;
  out.path_ = name;
  uint64_t at = 0;
  for (Entry& entry : entries) {
    if (entry.begin != at) {
      broken(
          format("tensor '%s': expected data from %llu on, where the one before ends, found "
                 "%llu",
                 printable(entry.tensor.name).c_str(), number(at), number(entry.begin)));
    }
    at = entry.end;
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    out.tensors_.push_back(std::move(entry.tensor));
  }
  if (at != data.size()) {
    broken(format("expected %llu bytes of data, as the header says, found %zu", number(at),
                  data.size()));
  }
  return out;
}

}  // namespace specbound
