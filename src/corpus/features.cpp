#include "corpus/features.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "descriptor.h"
#include "error.h"
#include "numerics/half.h"

namespace specbound {

struct FeatureStore::Header {
  char magic[8];
  uint32_t version;
  int32_t dim, n_layers, rows, index;
  uint32_t last;                // 1: no chunk follows
  int64_t texts, rows_of_text;  // whole texts up to here; rows of the next one that are here too
  uint64_t layers;              // hash of their numbers
  uint64_t checksum;            // of what follows the header
  uint64_t header_checksum;     // of all before it
};

namespace {

namespace fs = std::filesystem;

constexpr char kFeatureMagic[8] = {'S', 'B', 'F', 'E', 'A', 'T', 'S', '\n'};
constexpr uint32_t kVersion = 2;
constexpr uint8_t kFollows = 1, kPrompt = 2;  // marks of a row

Error file_error(const std::string& path, const char* what) {
  return Error(ErrorCode::kFile,
               format("%s: cannot %s: %s", path.c_str(), what, std::strerror(errno)));
}

// Over words of 8 bytes: fast enough to be checked whenever a chunk is read.
uint64_t checksum(std::span<const std::byte> bytes, uint64_t hash) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, &bytes[i], 8);
    hash = (std::rotl(hash, 29) ^ word) * 0x9e3779b97f4a7c15u;
  }
  for (; i < bytes.size(); ++i) {
    hash = (std::rotl(hash, 29) ^ static_cast<uint64_t>(bytes[i])) * 0x9e3779b97f4a7c15u;
  }
  return hash ^ (hash >> 32);
}

// Works for any struct that ends with its own checksum.
template <class Header>
uint64_t checksum_of_header(const Header& header) {
  const auto all = std::as_bytes(std::span(&header, 1));
  return checksum(all.first(all.size() - sizeof(uint64_t)), sizeof header);
}

uint64_t layers_hash(const std::vector<int>& layers) {
  return checksum(std::as_bytes(std::span(layers)), layers.size());
}

// Halves of finite values; branch-free, so that compilers vectorize it. Exact: the power of two
// moves the exponent, subnormals included.
void to_floats(const uint16_t* halves, float* floats, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t h = halves[i];
    const float magnitude = std::bit_cast<float>((h & 0x7fffu) << 13) * 0x1p112f;
    floats[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | ((h & 0x8000u) << 16));
  }
}

void write_to(const std::string& path, int fd, const void* data, size_t n) {
  errno = write_whole(fd, {static_cast<const char*>(data), n});
  if (errno != 0) throw file_error(path, "write");
}

}  // namespace

float write_state(std::span<const float> h, float norm_eps, std::span<const float> weight,
                  std::span<uint16_t> state) {
  double sum = 0;
  for (const float v : h) sum += static_cast<double>(v) * v;
  const float scale =
      static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(h.size()) + norm_eps));
  if (!std::isfinite(scale) || scale == 0) {
    throw Error(ErrorCode::kFormat,
                "a hidden state of the model is no number: heads cannot be trained on it");
  }
  for (size_t d = 0; d < h.size(); ++d) {
    const float value = weight.empty() ? h[d] * scale : h[d] * scale * weight[d];
    state[d] = float_to_half(std::clamp(value, -65504.0f, 65504.0f));  // beyond it is no half
  }
  return 1 / scale;
}

FeatureChunk learnt_rows(FeatureChunk chunk) {
  if (std::ranges::count(chunk.learn, uint8_t{0}) == 0) return chunk;
  const size_t dim = static_cast<size_t>(chunk.dim);
  int kept = 0;
  const auto move_row = [&](std::vector<float>& values, int row) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(dim) * row, dim,
                values.begin() + static_cast<ptrdiff_t>(dim) * kept);
  };
  for (int r = 0; r < chunk.rows; ++r) {
    if (!chunk.learns(r)) continue;
    for (std::vector<float>& x : chunk.x) move_row(x, r);
    for (auto& rms : chunk.rms) rms[static_cast<size_t>(kept)] = rms[static_cast<size_t>(r)];
    move_row(chunk.y, r);
    chunk.next[static_cast<size_t>(kept)] = chunk.next[static_cast<size_t>(r)];
    const bool follows = r > 0 && chunk.follows[static_cast<size_t>(r)] && chunk.learns(r - 1);
    chunk.follows[static_cast<size_t>(kept++)] = follows;
  }
  const size_t rows = static_cast<size_t>(kept);
  chunk.rows = kept;
  for (std::vector<float>& x : chunk.x) x.resize(rows * dim);
  for (std::vector<float>& rms : chunk.rms) rms.resize(rows);
  chunk.y.resize(rows * dim);
  chunk.next.resize(rows);
  chunk.follows.resize(rows);
  chunk.learn.clear();
  return chunk;
}

FeatureStore::FeatureStore(std::string folder, std::vector<int> layers, int dim, size_t max_bytes,
                           size_t chunk_bytes)
    : folder_(std::move(folder)), layers_(std::move(layers)), dim_(dim), max_bytes_(max_bytes) {
  SB_CHECK(dim_ > 0 && std::is_sorted(layers_.begin(), layers_.end()));
  chunk_capacity_ = static_cast<int>(std::clamp<size_t>(
      (chunk_bytes - std::min(chunk_bytes, sizeof(Header))) / row_bytes(), 1, size_t{1} << 20));
  pending_.x.resize(layers_.size());
  pending_.rms.resize(layers_.size());
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot make the folder: %s", folder_.c_str(), error.message().c_str()));
  }
}

FeatureStore::~FeatureStore() {
  if (keep_) return;
  for (int chunk = 0; chunk < n_chunks(); ++chunk) unlink(chunk_path(chunk).c_str());
}

std::string FeatureStore::chunk_path(int chunk) const {
  return folder_ + format("/features-%05d.bin", chunk);
}

size_t FeatureStore::row_bytes() const {
  return sizeof(int32_t) + sizeof(uint8_t) + layers_.size() * sizeof(float) +
         (layers_.size() + 1) * dim_ * sizeof(uint16_t);
}

size_t FeatureStore::bytes_of(int64_t rows) const {
  const int64_t chunks = (rows + chunk_capacity_ - 1) / chunk_capacity_;
  return static_cast<size_t>(rows) * row_bytes() + static_cast<size_t>(chunks) * sizeof(Header);
}

int FeatureStore::end_of(const TrainingText& text) {
  SB_CHECK(text.learn.size() == text.tokens.size());
  int end = static_cast<int>(text.tokens.size());
  while (end > 0 && !text.learn[end - 1]) --end;
  SB_CHECK(end == 0 || end < std::ssize(text.tokens));  // a token follows
  return end;
}

void FeatureStore::add(const TrainingText& text, int at, std::span<const uint16_t> states,
                       std::span<const float> rms) {
  SB_CHECK(!finished_ && states.size() == (layers_.size() + 1) * dim_ &&
           rms.size() == layers_.size());
  if (pending_.rows == chunk_capacity_) write_pending(false);
  const bool follows = pending_.rows > 0 && newest_pos_ == at - 1, prompt = !text.learn[at];
  pending_.marks.push_back((follows ? kFollows : 0) | (prompt ? kPrompt : 0));
  prompt_rows_ += prompt;
  pending_.next.push_back(text.tokens[at + 1]);
  for (size_t l = 0; l <= layers_.size(); ++l) {
    const std::span<const uint16_t> row = states.subspan(l * dim_, dim_);
    std::vector<uint16_t>& to = l < layers_.size() ? pending_.x[l] : pending_.y;
    to.insert(to.end(), row.begin(), row.end());
  }
  for (size_t l = 0; l < layers_.size(); ++l) pending_.rms[l].push_back(rms[l]);
  newest_pos_ = at;
  ++pending_.rows;
  ++rows_of_text_;
  ++rows_;
}

void FeatureStore::end_text() {
  ++texts_;
  rows_of_text_ = 0;
  newest_pos_ = -2;
}

void FeatureStore::write_pending(bool last) {
  Header header = {};
  std::memcpy(header.magic, kFeatureMagic, sizeof kFeatureMagic);
  header.version = kVersion;
  header.dim = dim_;
  header.n_layers = static_cast<int32_t>(layers_.size());
  header.rows = pending_.rows;
  header.index = n_chunks();
  header.last = last;
  header.texts = texts_;
  header.rows_of_text = rows_of_text_;
  header.layers = layers_hash(layers_);
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(pending_.next)),
                                                   std::as_bytes(std::span(pending_.marks))};
  for (const auto& rms : pending_.rms) parts.push_back(std::as_bytes(std::span(rms)));
  for (const auto& x : pending_.x) parts.push_back(std::as_bytes(std::span(x)));
  parts.push_back(std::as_bytes(std::span(pending_.y)));
  for (const auto& part : parts) header.checksum = checksum(part, header.checksum);
  header.header_checksum = checksum_of_header(header);

  const std::string path = chunk_path(n_chunks()), temporary = path + ".tmp";
  try {
    const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) throw file_error(temporary, "write");
    write_to(temporary, file.get(), &header, sizeof header);
    for (const auto& part : parts) write_to(temporary, file.get(), part.data(), part.size());
    if (rename(temporary.c_str(), path.c_str()) != 0) throw file_error(path, "write");
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  chunk_rows_.push_back(pending_.rows);
  pending_.rows = 0;
  pending_.next.clear();
  pending_.marks.clear();
  for (auto& rms : pending_.rms) rms.clear();
  for (auto& x : pending_.x) x.clear();
  pending_.y.clear();
}

void FeatureStore::finish() {
  if (finished_) return;
  finished_ = true;
  if (pending_.rows > 0) write_pending(true);
  pending_ = {};
}

FeatureStore::Header FeatureStore::read_header(int fd, int chunk) const {
  Header header;
  const std::string path = chunk_path(chunk);
  const ssize_t n = pread(fd, &header, sizeof header, 0);
  if (n < 0) throw file_error(path, "read");
  const bool ours =
      n == sizeof header && !std::memcmp(header.magic, kFeatureMagic, sizeof kFeatureMagic) &&
      header.version == kVersion && header.header_checksum == checksum_of_header(header) &&
      header.dim == dim_ && header.n_layers == std::ssize(layers_) && header.index == chunk &&
      header.layers == layers_hash(layers_) && header.rows > 0 && header.rows <= chunk_capacity_ &&
      header.texts >= 0 && header.rows_of_text >= 0;
  if (!ours) {
    throw Error(ErrorCode::kFormat,
                path +
                    ": expected features of this training, found something else: fresh=on starts "
                    "over");
  }
  const off_t size = lseek(fd, 0, SEEK_END);
  const size_t expected = sizeof header + static_cast<size_t>(header.rows) * row_bytes();
  if (size < 0 || static_cast<size_t>(size) != expected) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected %zu bytes of features, found %lld: fresh=on starts over",
                       path.c_str(), expected, static_cast<long long>(size)));
  }
  return header;
}

int64_t FeatureStore::prompt_rows_in(int fd, int chunk, const Header& header) const {
  std::vector<uint8_t> marks(static_cast<size_t>(header.rows));
  const off_t at = static_cast<off_t>(sizeof header + marks.size() * sizeof(int32_t));
  if (pread(fd, marks.data(), marks.size(), at) != std::ssize(marks)) {
    throw file_error(chunk_path(chunk), "read");
  }
  return std::ranges::count_if(marks, [](uint8_t mark) { return (mark & kPrompt) != 0; });
}

FeatureChunk FeatureStore::load(int chunk) const {
  SB_CHECK(chunk >= 0 && chunk < n_chunks());
  const std::string path = chunk_path(chunk);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw file_error(path, "open");
  const Header header = read_header(file.get(), chunk);
  std::vector<std::byte> bytes(static_cast<size_t>(header.rows) * row_bytes());
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = pread(file.get(), bytes.data() + got, bytes.size() - got,
                            static_cast<off_t>(sizeof header + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw file_error(path, "read");
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }

  FeatureChunk out;
  out.rows = header.rows;
  out.dim = dim_;
  uint64_t sum = 0;
  size_t at = 0;
  const auto take = [&](size_t n) {
    const auto part = std::span<const std::byte>(bytes).subspan(at, n);
    sum = checksum(part, sum);
    at += n;
    return part;
  };
  const size_t rows = static_cast<size_t>(header.rows), width = rows * dim_;
  const auto copy = [&]<class T>(std::vector<T>& to, size_t n) {
    to.resize(n);
    const auto part = take(n * sizeof(T));
    std::memcpy(to.data(), part.data(), part.size());
  };
  copy(out.next, rows);
  copy(out.follows, rows);
  out.learn.resize(rows);
  for (size_t r = 0; r < rows; ++r) {
    out.learn[r] = !(out.follows[r] & kPrompt);
    out.follows[r] &= kFollows;
  }
  out.rms.resize(layers_.size());
  for (auto& rms : out.rms) copy(rms, rows);
  std::vector<uint16_t> halves;
  out.x.resize(layers_.size());
  for (auto& x : out.x) {
    copy(halves, width);
    x.resize(width);
    to_floats(halves.data(), x.data(), width);
  }
  copy(halves, width);
  out.y.resize(width);
  to_floats(halves.data(), out.y.data(), width);
  if (sum != header.checksum) {
    throw Error(ErrorCode::kFormat,
                path + ": the features were damaged on disk: fresh=on starts over");
  }
  return out;
}

bool FeatureStore::resume() {
  SB_CHECK(rows_ == 0 && !finished_);
  for (;;) {
    const int chunk = n_chunks();
    const Descriptor file(open(chunk_path(chunk).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    Header header;
    try {
      header = read_header(file.get(), chunk);
    } catch (const Error&) {
      return false;  // from here on it is made again
    }
    if (!header.last && header.rows != chunk_capacity_) return false;
    prompt_rows_ += prompt_rows_in(file.get(), chunk, header);
    chunk_rows_.push_back(header.rows);
    rows_ += header.rows;
    texts_ = header.texts;
    rows_of_text_ = header.rows_of_text;
    if (header.last) return finished_ = true;
  }
}

}  // namespace specbound
