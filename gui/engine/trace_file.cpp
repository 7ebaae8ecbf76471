#include "gui/engine/trace_file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

#include "app/regular_file.h"
#include "error.h"
#include "trace/trace_reader.h"

namespace specbound::gui {

namespace {

// What fits into the reader's memory is far shorter.
constexpr uint64_t kMostBytes = uint64_t{8} << 30;

// A file that ends early once it is to.
class StoppableFile final : public std::filebuf {
 public:
  explicit StoppableFile(const std::atomic<bool>& stop) : stop_(stop) {}

 protected:
  int_type underflow() override { return stop_ ? traits_type::eof() : std::filebuf::underflow(); }

 private:
  const std::atomic<bool>& stop_;
};

RecordedTrace read(const std::string& path, const std::atomic<bool>& stop) {
  check_regular(path, kMostBytes);
  const std::string name = printable(path);
  StoppableFile file(stop);
  if (!file.open(path, std::ios::in | std::ios::binary)) {
    throw Error(ErrorCode::kFile,
                format("%s: expected a trace file, found: %s", name.c_str(), std::strerror(errno)));
  }
  std::istream stream(&file);
  return read_trace(stream, name);
}

}  // namespace

EngineEvent open_trace(const std::string& path, const std::atomic<bool>& stop) {
  try {
    return TraceOpened{path, std::make_shared<const RecordedTrace>(read(path, stop))};
  } catch (const std::bad_alloc&) {
    return TraceRefused{path, printable(path) + ": out of memory: expected a shorter trace"};
  } catch (const std::exception& e) {
    return TraceRefused{path, e.what()};
  }
}

}  // namespace specbound::gui
