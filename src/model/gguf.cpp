#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "error.h"
#include "model/gguf_split.h"

namespace specbound {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, little-endian");

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDims = 4;
// The least a metadata entry (length, one byte of key, type, one byte of value) and a tensor entry
// (length, one byte of name, n_dims, one dimension, dtype, offset) can take.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct ValueTypeInfo {
  GgufType type;
  const char* name;
  uint32_t bytes;  // 0: not of fixed size
};
constexpr ValueTypeInfo kValueTypes[] = {
    {GgufType::kU8, "u8", 1},       {GgufType::kI8, "i8", 1},     {GgufType::kU16, "u16", 2},
    {GgufType::kI16, "i16", 2},     {GgufType::kU32, "u32", 4},   {GgufType::kI32, "i32", 4},
    {GgufType::kF32, "f32", 4},     {GgufType::kBool, "bool", 1}, {GgufType::kU64, "u64", 8},
    {GgufType::kI64, "i64", 8},     {GgufType::kF64, "f64", 8},   {GgufType::kString, "string", 0},
    {GgufType::kArray, "array", 0},
};

const ValueTypeInfo* value_type_info(GgufType type) {
  for (const ValueTypeInfo& info : kValueTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

// A position in the bytes; every read is checked against what remains.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  uint64_t pos() const { return pos_; }
  uint64_t remaining() const { return bytes_.size() - pos_; }

  std::span<const std::byte> take(uint64_t n, const std::string& what) {
    if (n > remaining()) {
      last_ = pos_;
      fail(ErrorCode::kFormat,
           format("%s: expected %llu bytes, found %llu before the end of the file (cut short or "
                  "damaged: fetch it again)",
                  what.c_str(), ull(n), ull(remaining())));
    }
    last_ = pos_;
    pos_ += n;
    return bytes_.subspan(last_, n);
  }

  template <typename T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view string(const std::string& what) {
    const uint64_t n = number<uint64_t>(what);
    const auto text = take(n, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // A key or a tensor's name: printable ASCII, as the format asks, so that it can be shown
  // anywhere.
  std::string_view name(const std::string& what) {
    const std::string_view text = string(what);
    const bool fine =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (text.empty() || !fine) {
      fail(ErrorCode::kFormat, format("%s: expected a name in printable ASCII, found '%s'",
                                      what.c_str(), printable(text).c_str()));
    }
    return text;
  }

  // The place named is where the last thing read begins.
  [[noreturn]] void fail(ErrorCode code, const std::string& text) const {
    throw Error(code, format("%s: byte %llu: %s", path_.c_str(), ull(last_), text.c_str()));
  }

  static unsigned long long ull(uint64_t value) { return value; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t pos_ = 0;
  uint64_t last_ = 0;  // where the last take() began
};

void check_bools(Reader& in, const GgufValue& value, const std::string& what) {
  for (std::byte b : value.bytes) {
    if (std::to_integer<int>(b) > 1) {
      in.fail(ErrorCode::kFormat, format("%s: expected a bool of 0 or 1, found %d", what.c_str(),
                                         std::to_integer<int>(b)));
    }
  }
}

const ValueTypeInfo& read_value_type(Reader& in, const std::string& what) {
  const auto number = in.number<uint32_t>(what + ", its type");
  const ValueTypeInfo* info = value_type_info(static_cast<GgufType>(number));
  if (!info) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected a value type of 0 to 12, found %u", what.c_str(), number));
  }
  return *info;
}

GgufValue read_array(Reader& in, const std::string& what) {
  const ValueTypeInfo& info = read_value_type(in, what + ", array element");
  if (info.type == GgufType::kArray) {
    in.fail(
        ErrorCode::kUnsupported,
        format("%s: expected an array of plain values, found an array of arrays", what.c_str()));
  }
  GgufValue value;
  value.type = info.type;
  value.is_array = true;
  value.count = in.number<uint64_t>(what + ", its element count");
  const uint64_t least = info.bytes ? info.bytes : sizeof(uint64_t);  // a string: its length
  if (value.count > in.remaining() / least) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected %llu elements of type %s, found only %llu bytes before the end of "
                   "the file",
                   what.c_str(), Reader::ull(value.count), info.name, Reader::ull(in.remaining())));
  }
  if (info.bytes) {
    value.bytes = in.take(value.count * info.bytes, what);
    if (info.type == GgufType::kBool) check_bools(in, value, what);
    return value;
  }
  Reader elements = in;
  for (uint64_t i = 0; i < value.count; ++i) elements.string(what);
  value.bytes = in.take(elements.pos() - in.pos(), what);
  return value;
}

GgufValue read_value(Reader& in, const std::string& what) {
  const ValueTypeInfo& info = read_value_type(in, what);
  if (info.type == GgufType::kArray) return read_array(in, what);
  GgufValue value;
  value.type = info.type;
  if (info.type == GgufType::kString) {
    const std::string_view text = in.string(what);
    value.bytes = std::as_bytes(std::span(text.data(), text.size()));
    return value;
  }
  value.bytes = in.take(info.bytes, what);
  if (info.type == GgufType::kBool) check_bools(in, value, what);
  return value;
}

// Magic and version; leaves the reader at n_tensors.
uint32_t read_version(Reader& in) {
  const auto magic = in.take(4, "magic 'GGUF'");
  const std::string_view text(reinterpret_cast<const char*>(magic.data()), 4);
  if (text == "FUGG") {
    in.fail(ErrorCode::kUnsupported, "expected a little-endian GGUF, found a big-endian one");
  }
  if (text == "lmgg" || text == "fmgg" || text == "tjgg" || text == "algg") {
    in.fail(ErrorCode::kUnsupported,
            "expected a GGUF file, found its predecessor GGML: convert it to GGUF first");
  }
  if (text != "GGUF") {
    in.fail(ErrorCode::kFormat, format("expected the magic 'GGUF', found '%s': not a GGUF file",
                                       printable(text).c_str()));
  }
  const auto version = in.number<uint32_t>("version");
  if (version == 2 || version == 3) return version;
  if (version == 0x02000000 || version == 0x03000000) {
    in.fail(ErrorCode::kUnsupported, "expected a little-endian GGUF, found a big-endian one");
  }
  in.fail(ErrorCode::kUnsupported,
          format("expected GGUF version 2 or 3, found %u%s", version,
                 version == 1 ? " (from before September 2023): convert the model again" : ""));
}

uint64_t read_alignment(const Gguf& gguf) {
  constexpr std::string_view kKey = "general.alignment";
  const uint64_t alignment = gguf.get_uint(kKey).value_or(kDefaultAlignment);
  if (alignment < 8 || alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
    throw Error(ErrorCode::kFormat,
                format("%s: key 'general.alignment': expected a power of two from 8 to %llu, found "
                       "%llu",
                       gguf.path().c_str(), Reader::ull(kMaxAlignment), Reader::ull(alignment)));
  }
  return alignment;
}

struct TensorEntry {
  GgufTensor tensor;
  uint64_t offset;  // from the start of the tensor data
  uint64_t n_bytes;
};

// One entry of the tensor directory: a shape whose bytes do not overflow, an aligned offset.
TensorEntry read_tensor(Reader& in, uint64_t index, uint64_t alignment) {
  TensorEntry entry;
  GgufTensor& tensor = entry.tensor;
  tensor.name = in.name(format("tensor %llu, its name", Reader::ull(index)));
  const std::string what = "tensor '" + printable(tensor.name) + "'";

  const auto n_dims = in.number<uint32_t>(what + ", its number of dimensions");
  if (n_dims < 1 || n_dims > kMaxDims) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected 1 to %u dimensions, found %u", what.c_str(), kMaxDims, n_dims));
  }
  uint64_t n_elements = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    const auto size = in.number<uint64_t>(what + ", its shape");
    if (size == 0) {
      in.fail(ErrorCode::kFormat,
              format("%s: expected a shape without zeros, found dimension %u of size 0",
                     what.c_str(), d));
    }
    if (__builtin_mul_overflow(n_elements, size, &n_elements)) {
      in.fail(ErrorCode::kFormat,
              format("%s: expected a shape that fits the file, found dimension %u of size %llu",
                     what.c_str(), d, Reader::ull(size)));
    }
    tensor.shape.push_back(size);
  }

  const auto type = in.number<uint32_t>(what + ", its element type");
  tensor.type = static_cast<DType>(type);
  const DTypeInfo* info = dtype_info(tensor.type);
  if (!info) {
    in.fail(ErrorCode::kUnsupported,
            format("%s: expected an element type known here, found number %u", what.c_str(), type));
  }
  if (tensor.shape[0] % info->block != 0) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected rows of whole %s blocks (%u elements), found rows of %llu",
                   what.c_str(), info->name, info->block, Reader::ull(tensor.shape[0])));
  }
  if (__builtin_mul_overflow(n_elements / info->block, uint64_t{info->bytes}, &entry.n_bytes)) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected a shape that fits the file, found %llu elements", what.c_str(),
                   Reader::ull(n_elements)));
  }
  entry.offset = in.number<uint64_t>(what + ", its offset");
  if (entry.offset % alignment != 0) {
    in.fail(ErrorCode::kFormat,
            format("%s: expected an offset divisible by %llu, found %llu", what.c_str(),
                   Reader::ull(alignment), Reader::ull(entry.offset)));
  }
  return entry;
}

// Gives each tensor its bytes. `data_start` may lie past the end (a file without tensor data).
void place_tensors(const std::string& path, std::span<const std::byte> file, uint64_t data_start,
                   std::vector<TensorEntry>& entries) {
  const uint64_t data_size = file.size() > data_start ? file.size() - data_start : 0;
  for (TensorEntry& e : entries) {
    if (e.n_bytes > data_size || e.offset > data_size - e.n_bytes) {
      throw Error(ErrorCode::kFormat,
                  format("%s: tensor '%s': expected %llu bytes at offset %llu, found %llu bytes of "
                         "tensor data (cut short or damaged: fetch it again)",
                         path.c_str(), printable(e.tensor.name).c_str(), Reader::ull(e.n_bytes),
                         Reader::ull(e.offset), Reader::ull(data_size)));
    }
    e.tensor.bytes = file.subspan(data_start + e.offset, e.n_bytes);
  }
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& e : entries) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->n_bytes > order[i]->offset) {
      throw Error(ErrorCode::kFormat,
                  format("%s: expected tensors apart from each other, found '%s' "
                         "overlapping '%s'",
                         path.c_str(), printable(order[i - 1]->tensor.name).c_str(),
                         printable(order[i]->tensor.name).c_str()));
    }
  }
}

}  // namespace

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (uint64_t size : shape) {
    text += format("%s%llu", text.size() > 1 ? ", " : "", static_cast<unsigned long long>(size));
  }
  return text + ")";
}

const char* gguf_type_name(GgufType type) {
  const ValueTypeInfo* info = value_type_info(type);
  return info ? info->name : "unknown";
}

Gguf Gguf::open(const std::string& path) {
  return open_parts(open_file(path));
}

Gguf Gguf::open_file(const std::string& path) {
  auto file = std::make_unique<MappedFile>(path);
  Gguf gguf = parse(file->bytes(), path);
  gguf.files_.push_back(std::move(file));
  return gguf;
}

Gguf Gguf::parse(std::span<const std::byte> bytes, const std::string& name) {
  SB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0);
  Gguf gguf;
  gguf.parts_.push_back({name, bytes.size(), 0});
  Reader in(bytes, name);
  gguf.version_ = read_version(in);
  const auto n_tensors = in.number<uint64_t>("tensor count");
  const auto n_kv = in.number<uint64_t>("metadata count");
  if (n_kv > in.remaining() / kMinEntryBytes) {
    in.fail(ErrorCode::kFormat,
            format("metadata count: expected at most %llu entries in the %llu bytes that follow, "
                   "found %llu",
                   Reader::ull(in.remaining() / kMinEntryBytes), Reader::ull(in.remaining()),
                   Reader::ull(n_kv)));
  }
  // Nothing is reserved from a count: vectors grow with the entries that are really there.
  for (uint64_t i = 0; i < n_kv; ++i) {
    const std::string_view key = in.name(format("metadata entry %llu, its key", Reader::ull(i)));
    const std::string what = "key '" + printable(key) + "'";
    if (!gguf.key_index_.emplace(key, gguf.metadata_.size()).second) {
      in.fail(ErrorCode::kFormat, what + ": expected each key once, found it twice");
    }
    gguf.metadata_.emplace_back(key, read_value(in, what));
  }
  const uint64_t alignment = read_alignment(gguf);

  if (n_tensors > in.remaining() / kMinTensorBytes) {
    in.fail(ErrorCode::kFormat,
            format("tensor count: expected at most %llu tensors in the %llu bytes that follow, "
                   "found %llu",
                   Reader::ull(in.remaining() / kMinTensorBytes), Reader::ull(in.remaining()),
                   Reader::ull(n_tensors)));
  }
  std::vector<TensorEntry> entries;
  for (uint64_t i = 0; i < n_tensors; ++i) {
    entries.push_back(read_tensor(in, i, alignment));
    const std::string_view tensor_name = entries.back().tensor.name;
    if (!gguf.tensor_index_.emplace(tensor_name, i).second) {
      in.fail(ErrorCode::kFormat, format("tensor '%s': expected each name once, found it twice",
                                         printable(tensor_name).c_str()));
    }
  }
  place_tensors(name, bytes, (in.pos() + alignment - 1) / alignment * alignment, entries);
  for (TensorEntry& e : entries) gguf.tensors_.push_back(std::move(e.tensor));
  gguf.parts_[0].n_tensors = gguf.tensors_.size();
  return gguf;
}

uint64_t Gguf::file_size() const {
  uint64_t bytes = 0;
  for (const File& part : parts_) bytes += part.bytes;
  return bytes;
}

std::string Gguf::identity() const {
  std::string text;
  for (const auto& file : files_) text += file->identity() + ";";
  return text;
}

void Gguf::append(Gguf part) {
  for (GgufTensor& tensor : part.tensors_) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      throw Error(
          ErrorCode::kFormat,
          format("%s: tensor '%s': expected each name in one part of the model, found it in "
                 "an earlier one too",
                 part.path().c_str(), printable(tensor.name).c_str()));
    }
    tensors_.push_back(std::move(tensor));
  }
  parts_.insert(parts_.end(), part.parts_.begin(), part.parts_.end());
  for (auto& file : part.files_) files_.push_back(std::move(file));
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto it = key_index_.find(key);
  return it == key_index_.end() ? nullptr : &metadata_[it->second].second;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace specbound
