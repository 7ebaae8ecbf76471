#include "train/checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tuple>

#include "error.h"

namespace specbound {

namespace {

constexpr uint64_t kCheckpointMagic = 0x3230546b63704253;  // "SBpckT02"
constexpr uint64_t kFnvStart = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

// Eight bytes at a time: a checkpoint may have gigabytes.
uint64_t hash_more(uint64_t hash, const void* data, size_t n) {
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    hash = (hash ^ word) * kFnvPrime;
  }
  for (; i < n; ++i) hash = (hash ^ bytes[i]) * kFnvPrime;
  return hash;
}

// Those that follow the place and the heads, in the order of the file.
template <typename State>
auto counts_of(State& state) {
  return std::tie(state.step, state.rows, state.head_rows, state.seconds, state.training_seconds,
                  state.curve_sum, state.curve_batches, state.compared_at, state.compared_passes,
                  state.worse);
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    if (!file_) fail();
  }
  void bytes(const void* data, size_t n) {
    hash_ = hash_more(hash_, data, n);
    if (n > 0 && std::fwrite(data, 1, n, file_.get()) != n) fail();
  }
  template <typename T>
  void value(T v) {
    bytes(&v, sizeof(v));
  }
  template <typename T>
  void values(const std::vector<T>& v) {
    value(static_cast<uint64_t>(v.size()));
    bytes(v.data(), v.size() * sizeof(T));
  }
  void finish() {
    value(hash_);
    if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) fail();
    if (std::fclose(file_.release()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() {
    const std::string reason = std::strerror(errno);
    unlink(path_.c_str());
    throw Error(ErrorCode::kFile,
                format("%s: the checkpoint cannot be written: %s", path_.c_str(), reason.c_str()));
  }
  std::string path_;
  File file_;
  uint64_t hash_ = kFnvStart;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(std::fopen(path.c_str(), "rb")) {}
  bool good() const { return file_ != nullptr && good_; }
  void bytes(void* data, size_t n) {
    good_ = good_ && file_ && std::fread(data, 1, n, file_.get()) == n;
    if (good_) hash_ = hash_more(hash_, data, n);
  }
  template <typename T>
  void value(T& v) {
    bytes(&v, sizeof(v));
  }
  template <typename T>
  T value() {
    T v{};
    value(v);
    return v;
  }
  // At most `most` values.
  template <typename T>
  void values(std::vector<T>& v, uint64_t most) {
    const uint64_t n = value<uint64_t>();
    good_ = good_ && n <= most;
    if (!good_) return;
    v.resize(n);
    bytes(v.data(), n * sizeof(T));
  }
  // As many as `v` has.
  void exactly(std::vector<float>& v) {
    good_ = good_ && value<uint64_t>() == v.size();
    bytes(v.data(), v.size() * sizeof(float));
  }
  bool finish() {
    const uint64_t expected = hash_;
    return value<uint64_t>() == expected && good() && std::fgetc(file_.get()) == EOF;
  }

 private:
  File file_;
  uint64_t hash_ = kFnvStart;
  bool good_ = true;
};

}  // namespace

void save_checkpoint(const std::string& path, uint64_t options, const TrainingState& state,
                     std::span<LearningHead> heads) {
  const std::string fresh = path + ".new";
  Writer out(fresh);
  out.value(kCheckpointMagic);
  out.value(options);
  out.value(state.place);
  out.value(static_cast<int32_t>(heads.size()));
  std::apply([&](const auto&... count) { (out.value(count), ...); }, counts_of(state));
  out.values(state.kl_start);
  out.values(state.loss_curve);
  for (size_t h = 0; h < heads.size(); ++h) {
    out.value(state.best[h].score);
    out.value(state.best[h].epoch);
    out.values(state.best[h].values);
    for (const Parameter* p : heads[h].parameters()) {
      out.values(p->value);
      out.values(p->mean);
      out.values(p->square);
    }
  }
  out.finish();
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    throw Error(ErrorCode::kFile, format("%s: the checkpoint cannot be put in place: %s",
                                         path.c_str(), std::strerror(errno)));
  }
}

std::optional<TrainingState> load_checkpoint(const std::string& path, uint64_t options,
                                             std::span<LearningHead> heads) {
  constexpr uint64_t kMostPoints = 1 << 20;
  Reader in(path);
  if (!in.good() || in.value<uint64_t>() != kCheckpointMagic || in.value<uint64_t>() != options)
    return {};
  TrainingState state;
  state.place = in.value<BatchPlace>();
  if (state.place.epoch < 0 || state.place.window < 0 || state.place.batch < 0) return {};
  if (in.value<int32_t>() != static_cast<int32_t>(heads.size())) return {};
  std::apply([&](auto&... count) { (in.value(count), ...); }, counts_of(state));
  in.values(state.kl_start, kMostPoints);
  in.values(state.loss_curve, kMostPoints);
  if (!in.good()) return {};
  std::vector<LearningHead> loaded(heads.begin(), heads.end());
  for (LearningHead& head : loaded) {
    const std::vector<Parameter*> parameters = head.parameters();
    uint64_t n = 0;
    for (const Parameter* p : parameters) n += p->value.size();
    BestHead& best = state.best.emplace_back();
    in.value(best.score);
    in.value(best.epoch);
    in.values(best.values, n);
    if (best.values.size() != (best.score < 0 ? 0 : n)) return {};
    for (Parameter* p : parameters) {
      in.exactly(p->value);
      in.exactly(p->mean);
      in.exactly(p->square);
    }
  }
  if (!in.finish() || state.kl_start.size() != heads.size()) return {};
  std::move(loaded.begin(), loaded.end(), heads.begin());
  return state;
}

}  // namespace specbound
