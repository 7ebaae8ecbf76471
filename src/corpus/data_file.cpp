#include "corpus/data_file.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

constexpr std::string_view kXzMagic(
    "\xfd"
    "7zXZ\0",
    6);
constexpr uint64_t kMaxArchiveMemory = uint64_t{256} << 20;  // `xz -9` takes 65 MiB to unpack

}  // namespace

struct DataFile::Archive {
  lzma_stream stream = LZMA_STREAM_INIT;
  std::array<char, size_t{64} << 10> packed;
  bool end = false;

  Archive() {
    if (lzma_stream_decoder(&stream, kMaxArchiveMemory, LZMA_CONCATENATED) != LZMA_OK) {
      throw Error(ErrorCode::kLimit, "no memory to unpack .xz");
    }
  }
  ~Archive() { lzma_end(&stream); }
};

DataFile::DataFile(const std::string& path, Wait wait)
    : name_(path == "-" ? "stdin" : path), wait_(std::move(wait)) {
  fd_ = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot open: %s", name_.c_str(), std::strerror(errno)));
  }
  try {
    std::string head(kXzMagic.size(), '\0');
    size_t n = 0;
    while (n < head.size()) {
      const size_t more = read_stored(std::span(head).subspan(n));
      if (more == 0) break;
      n += more;
    }
    head.resize(n);
    if (head == kXzMagic) {
      archive_ = std::make_unique<Archive>();
    } else if (name_.ends_with(".xz")) {
      throw Error(
          ErrorCode::kFormat,
          format("%s: expected an .xz archive, found %s: unpack it, or rename it to what "
                 "it is",
                 name_.c_str(), head.empty() ? "an empty file" : "a file without its signature"));
    }
    head_ = head;
  } catch (...) {
    if (fd_ != STDIN_FILENO) close(fd_);
    throw;
  }
}

DataFile::~DataFile() {
  if (fd_ != STDIN_FILENO) close(fd_);
}

size_t DataFile::read_stored(std::span<char> into) {
  if (!head_.empty()) {
    const size_t n = std::min(into.size(), head_.size());
    std::memcpy(into.data(), head_.data(), n);
    head_.erase(0, n);
    return n;
  }
  if (stored_end_) return 0;
  if (wait_) wait_(fd_);
  ssize_t n;
  do {
    n = ::read(fd_, into.data(), into.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot read: %s", name_.c_str(), std::strerror(errno)));
  }
  stored_end_ = n == 0;
  return static_cast<size_t>(n);
}

size_t DataFile::unpack(std::span<char> into) {
  lzma_stream& stream = archive_->stream;
  stream.next_out = reinterpret_cast<uint8_t*>(into.data());
  stream.avail_out = into.size();
  while (!archive_->end && stream.avail_out == into.size()) {
    if (stream.avail_in == 0) {
      stream.avail_in = read_stored(archive_->packed);
      stream.next_in = reinterpret_cast<const uint8_t*>(archive_->packed.data());
    }
    switch (lzma_code(&stream, stored_end_ ? LZMA_FINISH : LZMA_RUN)) {
      case LZMA_OK:
        break;
      case LZMA_STREAM_END:
        archive_->end = true;
        break;
      case LZMA_BUF_ERROR:
        throw Error(ErrorCode::kFormat,
                    format("%s: expected a whole .xz archive, found its end missing: fetch or "
                           "pack it again",
                           name_.c_str()));
      case LZMA_MEM_ERROR:
      case LZMA_MEMLIMIT_ERROR:
        throw Error(
            ErrorCode::kLimit,
            format("%s: unpacking needs more than %llu MiB: pack it with `xz -9` or less",
                   name_.c_str(), static_cast<unsigned long long>(kMaxArchiveMemory >> 20)));
      default:
        throw Error(ErrorCode::kFormat,
                    format("%s: expected a whole .xz archive, found damaged data: fetch or pack it "
                           "again",
                           name_.c_str()));
    }
  }
  return into.size() - stream.avail_out;
}

size_t DataFile::read(std::span<char> into) {
  const size_t n = archive_ ? unpack(into) : read_stored(into);
  for (size_t i = 0; i < n; ++i) {
    hash_ = (hash_ ^ static_cast<unsigned char>(into[i])) * 0x100000001b3u;
  }
  return n;
}

}  // namespace specbound
