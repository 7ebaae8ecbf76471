#include "download/fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "download/http.h"
#include "download/sha256.h"
#include "error.h"

namespace specbound {

namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr int kMostTries = 5;
constexpr Milliseconds kFirstWait{500};  // doubled each time
constexpr uint64_t kMostWaitSeconds = 60;
constexpr uint64_t kProgressBytes = uint64_t{1} << 20;  // so many count as a new beginning

[[noreturn]] void refuse(const std::string& url, const std::string& why) {
  throw Error(ErrorCode::kFile, url + ": " + why);
}

bool is_busy(int status) {
  return status == 408 || status == 429 || status >= 500;
}

// Throws Error for an answer that another try does not mend.
void check_status(const std::string& url, const HttpReply& reply) {
  switch (reply.status) {
    case 401:  // to who shows no token the hub does not say which of the two it is
      refuse(url,
             "HTTP 401: no such repository, or one that needs HF_TOKEN, a token that may read it: "
             "check the name");
    case 403:
      refuse(url,
             "HTTP 403: expected a repository that all may read; for one that is private or asks "
             "for consent, HF_TOKEN must be a token that may read it");
    case 404:
    case 410:
      refuse(url, format("HTTP %d: there is no such thing", reply.status));
    default:
      break;
  }
  if (reply.status != 0 && !reply.is_body() && reply.status != 416 && !is_busy(reply.status)) {
    refuse(url, format("expected HTTP 200, found %d", reply.status));
  }
}

// Tries of one request. What brings a good piece of a file begins anew: a long file over a bad line
// arrives.
class Tries {
 public:
  Tries(const std::string& url, const FetchWatcher& watcher) : url_(url), watcher_(watcher) {}

  // So many bytes are there now. What comes again is no progress.
  void reached(uint64_t done) {
    any_ = true;
    furthest_ = std::max(furthest_, done);
    if (furthest_ < since_ + kProgressBytes) return;
    since_ = furthest_;
    n_ = 0;
  }
  // Waits for the next try; false: aborted. Throws Error where there is none.
  bool next(const HttpReply& reply, const std::string& kept) {
    if (reply.unreachable && !any_) refuse(url_, reply.failure);
    check_status(url_, reply);
    const std::string why = !reply.failure.empty() ? reply.failure
                            : reply.is_body()      ? "the end came too early"
                            : reply.status == 416  ? "HTTP 416: the server has no more bytes of it"
                                                   : format("HTTP %d", reply.status);
    if (++n_ >= kMostTries) refuse(url_, format("%s, %d times%s", why.c_str(), n_, kept.c_str()));
    Milliseconds wait = kFirstWait * (1 << (n_ - 1));
    if (reply.retry_after) {
      wait = std::chrono::seconds(std::min(*reply.retry_after, kMostWaitSeconds));
    }
    if (watcher_.note) {
      watcher_.note(format("%s: trying again in %.1f s", why.c_str(), 1e-3 * wait.count()));
    }
    const auto until = std::chrono::steady_clock::now() + wait;
    while (std::chrono::steady_clock::now() < until) {
      if (watcher_.abort && *watcher_.abort) return false;
      std::this_thread::sleep_for(std::min(wait, Milliseconds(50)));
    }
    return true;
  }

 private:
  const std::string& url_;
  const FetchWatcher& watcher_;
  int n_ = 0;
  uint64_t furthest_ = 0, since_ = 0;  // bytes: at best, and where tries were last counted anew
  bool any_ = false;                   // something came: there is a server
};

HttpRequest request_of(const Server& server, const std::string& url, const FetchWatcher& watcher) {
  HttpRequest request;
  request.url = url;
  request.token = server.token;
  request.plain = server.plain;
  request.patience = server.patience;
  request.abort = watcher.abort;
  return request;
}

std::string part_path(const FetchedFile& file) {
  return file.path + "." + file.sha256.substr(0, 12) + ".part";
}

// The bytes that are there so far, on disk and in the checksum.
class Part {
 public:
  explicit Part(const FetchedFile& file) : file_(file), path_(part_path(file)) {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail("open", errno);
  }
  ~Part() {
    // Not by done_, which counts nothing before what is there was read.
    struct stat status = {};
    if (fstat(fd_, &status) == 0 && status.st_size == 0) discard();
    close(fd_);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const std::string& path() const { return path_; }
  uint64_t done() const { return done_; }
  std::string kept() const {
    return done_ == 0 ? ""
                      : format("; %s of %s are kept, and the next try goes on there",
                               megabytes(done_).c_str(), megabytes(file_.bytes).c_str());
  }

  // Reads what an earlier try left; false: aborted.
  bool read_left(const FetchWatcher& watcher) {
    std::vector<char> buffer(size_t{1} << 20);
    for (;;) {
      if (watcher.abort && *watcher.abort) return false;
      const ssize_t n = read(fd_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", errno);
      if (n == 0) return true;
      if (done_ + static_cast<uint64_t>(n) > file_.bytes) {
        start_over();
        return true;
      }
      take({buffer.data(), static_cast<size_t>(n)});
      if (watcher.checked) watcher.checked(done_);
    }
  }

  void start_over() {
    if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) fail("write", errno);
    done_ = 0;
    hash_ = {};
  }

  void append(std::string_view bytes) {
    if (done_ + bytes.size() > file_.bytes) {
      discard();
      throw Error(ErrorCode::kFormat,
                  format("%s: expected %llu bytes, found more: nothing is kept", file_.url.c_str(),
                         static_cast<unsigned long long>(file_.bytes)));
    }
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", errno);
      take(bytes.substr(0, static_cast<size_t>(n)));
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  // Whether these stand at `from`, all of them among those that are there.
  bool has(uint64_t from, std::string_view bytes) const {
    std::string there(bytes.size(), '\0');
    const ssize_t n = pread(fd_, there.data(), there.size(), static_cast<off_t>(from));
    return n == std::ssize(there) && there == bytes;
  }

  // Whole as it is, it takes its place. Throws Error(kFormat) for other bytes than expected.
  void finish() {
    const std::string found = hash_.finish();
    if (found != file_.sha256) {
      discard();
      throw Error(ErrorCode::kFormat,
                  format("%s: expected sha256 %s, found %s: nothing is kept", file_.url.c_str(),
                         file_.sha256.c_str(), found.c_str()));
    }
    if (fdatasync(fd_) != 0) fail("write", errno);
    if (std::rename(path_.c_str(), file_.path.c_str()) != 0) fail("rename", errno);
  }

 private:
  void take(std::string_view bytes) {
    hash_.update(bytes);
    done_ += bytes.size();
  }
  void discard() { unlink(path_.c_str()); }
  [[noreturn]] void fail(const char* to, int error) const {
    throw Error(ErrorCode::kFile, format("%s: cannot %s: %s%s", path_.c_str(), to,
                                         std::strerror(error), kept().c_str()));
  }

  const FetchedFile& file_;
  const std::string path_;
  int fd_ = -1;
  uint64_t done_ = 0;
  Sha256 hash_;
};

// Takes the bytes of one answer. A server that knows no ranges sends all of them again: those that
// are there are passed over, as far as they are the same. What else comes in place of a file or a
// range, such as the page of a proxy, is not kept and costs none of those that are there.
class Body {
 public:
  Body(Part& part, uint64_t bytes) : part_(part), from_(part.done()), bytes_(bytes) {}

  // False: these are not what was asked for.
  bool take(const HttpReply& head, std::string_view bytes) {
    if (!begun_ && !fits(head)) return false;
    begun_ = true;
    const std::string_view again = bytes.substr(0, again_);
    if (!again.empty() && !part_.has(from_ - again_, again)) {
      differs_ = head.length != bytes_;
      if (!differs_) part_.start_over();  // it is the file, and the part is not
      return false;
    }
    again_ -= again.size();
    part_.append(bytes.substr(again.size()));
    return true;
  }
  bool begun() const { return begun_; }
  bool differs() const { return differs_; }  // from the part, and nobody knows which is right

 private:
  bool fits(const HttpReply& head) {
    if (head.status == 206) {
      return head.range_from == from_ && head.range_all.value_or(bytes_) == bytes_;
    }
    again_ = from_;
    return head.length.value_or(bytes_) == bytes_;
  }

  Part& part_;
  const uint64_t from_, bytes_;
  uint64_t again_ = 0;  // bytes that are there and still to come
  bool begun_ = false, differs_ = false;
};

// A try of the bytes that are not there yet.
HttpReply fetch_rest(const Server& server, const FetchedFile& file, const FetchWatcher& watcher,
                     Part& part, Tries& tries) {
  HttpRequest request = request_of(server, file.url, watcher);
  request.from = part.done();
  Body body(part, file.bytes);
  HttpReply reply = http_get(request, [&](const HttpReply& head, std::string_view bytes) {
    if (!body.take(head, bytes)) return false;
    tries.reached(part.done());
    if (watcher.progress) watcher.progress(part.done());
    return true;
  });
  if (body.differs()) {
    reply.failure = format(
        "expected bytes from %llu on, found an answer of other bytes than those "
        "that are there: delete %s to begin anew",
        static_cast<unsigned long long>(request.from), part.path().c_str());
  }
  if (!body.begun() && reply.status == 200 && reply.length.value_or(file.bytes) != file.bytes) {
    reply.failure = format("expected %llu bytes, found an answer of %llu",
                           static_cast<unsigned long long>(file.bytes),
                           static_cast<unsigned long long>(*reply.length));
  }
  return reply;
}

}  // namespace

std::string megabytes(uint64_t bytes) {
  return format("%.1f MB", 1e-6 * static_cast<double>(bytes));
}

bool fetch_text(const Server& server, const std::string& url, size_t most_bytes,
                const FetchWatcher& watcher, FetchedText& fetched) {
  Tries tries(url, watcher);
  std::string& text = fetched.text;
  for (;;) {
    text.clear();
    const HttpReply reply =
        http_get(request_of(server, url, watcher), [&](const HttpReply&, std::string_view bytes) {
          if (text.size() + bytes.size() > most_bytes) {
            throw Error(ErrorCode::kLimit, format("%s: expected at most %zu bytes, found more",
                                                  url.c_str(), most_bytes));
          }
          text += bytes;
          return true;
        });
    if (reply.aborted) return false;
    if (reply.whole()) {
      fetched.next = reply.next;
      return true;
    }
    if (!tries.next(reply, "")) return false;
  }
}

bool fetch_file(const Server& server, const FetchedFile& file, const FetchWatcher& watcher) {
  SB_CHECK(is_sha256(file.sha256));
  Part part(file);
  if (!part.read_left(watcher)) return false;
  if (watcher.progress) watcher.progress(part.done());
  Tries tries(file.url, watcher);
  while (part.done() < file.bytes) {
    const HttpReply reply = fetch_rest(server, file, watcher, part, tries);
    if (part.done() == file.bytes) break;
    if (reply.aborted || !tries.next(reply, part.kept())) return false;
  }
  part.finish();
  return true;
}

uint64_t bytes_left_of(const FetchedFile& file) {
  struct stat status = {};
  return stat(part_path(file).c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

}  // namespace specbound
