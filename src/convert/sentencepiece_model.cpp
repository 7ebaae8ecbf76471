#include "convert/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "error.h"
#include "text/utf8.h"

namespace specbound {
namespace {

constexpr size_t kMaxPieces = size_t{1} << 23;
constexpr uint64_t kBpe = 2;  // TrainerSpec.ModelType

// The fields of one message, one after the other.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  // False at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    wire_ = static_cast<unsigned>(key & 7);
    if (number_ == 0) broken("field number 0");
    switch (wire_) {
      case 0:
        value_ = varint();
        break;
      case 1:
        value_ = fixed(8);
        break;
      case 2: {
        const uint64_t size = varint();
        if (size > bytes_.size() - at_) broken("a field longer than what is left");
        text_ = bytes_.subspan(at_, size);
        at_ += size;
        break;
      }
      case 5:
        value_ = fixed(4);
        break;
      default:
        broken(format("wire type %u", wire_));
    }
    return true;
  }

  uint64_t number() const { return number_; }
  uint64_t whole() const { return wire(0), value_; }
  bool flag() const { return whole() != 0; }
  // An id, in as many bits as the format has: negative for none.
  int32_t id() const { return static_cast<int32_t>(static_cast<uint32_t>(whole())); }
  float real() const { return wire(5), std::bit_cast<float>(static_cast<uint32_t>(value_)); }
  std::span<const std::byte> bytes() const { return wire(2), text_; }

  [[noreturn]] void broken(const std::string& what) const {
    throw Error(ErrorCode::kFormat, format("%s: expected a SentencePiece model, found %s",
                                           name_.c_str(), what.c_str()));
  }

 private:
  void wire(unsigned expected) const {
    if (wire_ != expected) {
      broken(format("field %llu with wire type %u instead of %u",
                    static_cast<unsigned long long>(number_), wire_, expected));
    }
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) broken("a number that is cut short");
      const auto byte = static_cast<uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken("a number of more than 64 bits");
  }

  uint64_t fixed(size_t size) {
    if (size > bytes_.size() - at_) broken("a number that is cut short");
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 0;
  uint64_t number_ = 0, value_ = 0;
  unsigned wire_ = 0;
  std::span<const std::byte> text_;
};

SentencePieceModel::Piece read_piece(Fields fields) {
  SentencePieceModel::Piece piece{"", 0, TokenType::kNormal};
  while (fields.next()) {
    if (fields.number() == 1) {
      const auto bytes = fields.bytes();
      piece.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else if (fields.number() == 2) {
      piece.score = fields.real();
    } else if (fields.number() == 3) {
      const uint64_t type = fields.whole();
      if (type < 1 || type > 6) {
        fields.broken(format("a piece of type %llu", static_cast<unsigned long long>(type)));
      }
      piece.type = static_cast<TokenType>(type);
    }
  }
  if (!is_utf8(piece.text)) fields.broken("a piece that is no UTF-8");
  if (!std::isfinite(piece.score)) fields.broken("a score that is not finite");
  return piece;
}

void read_trainer(Fields fields, const std::string& name, SentencePieceModel& model) {
  uint64_t type = 1;  // the format's default
  bool suffix = false;
  while (fields.next()) {
    switch (fields.number()) {
      case 3:
        type = fields.whole();
        break;
      case 24:
        suffix = fields.flag();
        break;
      case 40:
        model.unk_id = fields.id();
        break;
      case 41:
        model.bos_id = fields.id();
        break;
      case 42:
        model.eos_id = fields.id();
        break;
      case 43:
        model.pad_id = fields.id();
        break;
      default:
        break;
    }
  }
  if (type != kBpe || suffix) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a BPE model with white space in front of words, found %s",
                       name.c_str(),
                       type == 1   ? "a unigram model"
                       : type == 2 ? "one with white space behind them"
                                   : "another kind of model"));
  }
}

void read_normalizer(Fields fields, const std::string& name, SentencePieceModel& model) {
  bool removes = true, escapes = true, maps = false;  // the format's defaults
  while (fields.next()) {
    if (fields.number() == 2) maps = !fields.bytes().empty();
    if (fields.number() == 3) model.add_dummy_prefix = fields.flag();
    if (fields.number() == 4) removes = fields.flag();
    if (fields.number() == 5) escapes = fields.flag();
  }
  model.normalizes = removes || maps;
  if (!escapes) {
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: expected spaces spelled U+2581, found a model that leaves them", name.c_str()));
  }
}

}  // namespace

SentencePieceModel read_sentencepiece(std::span<const std::byte> bytes, const std::string& name) {
  SentencePieceModel model;
  std::span<const std::byte> trainer, normalizer;  // empty messages where there are none
  Fields fields(bytes, name);
  while (fields.next()) {
    if (fields.number() == 1) {
      if (model.pieces.size() == kMaxPieces) fields.broken("more than 8388608 pieces");
      model.pieces.push_back(read_piece(Fields(fields.bytes(), name)));
    } else if (fields.number() == 2) {
      trainer = fields.bytes();
    } else if (fields.number() == 3) {
      normalizer = fields.bytes();
    }
  }
  if (model.pieces.empty()) fields.broken("no pieces");
  read_trainer(Fields(trainer, name), name, model);
  read_normalizer(Fields(normalizer, name), name, model);
  return model;
}

}  // namespace specbound
