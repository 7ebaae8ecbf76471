#include "simt/simt_device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "error.h"

namespace simt {

using specbound::DeviceEvent;
using specbound::DeviceGraph;
using specbound::Error;
using specbound::ErrorCode;
using specbound::format;

struct SimtDevice::Graph final : DeviceGraph {
  explicit Graph(DeviceLog& log) : log(log) { ++log.live; }
  ~Graph() override { --log.live; }
  std::vector<Item> items;
  DeviceLog& log;
};

struct SimtDevice::Mark final : DeviceEvent {
  // What the stream keeps, longer than the mark where need be.
  struct Passed {
    bool passed = false;
    std::chrono::steady_clock::time_point at;
  };
  explicit Mark(DeviceLog& log) : log(log) { ++log.live; }
  ~Mark() override { --log.live; }
  std::shared_ptr<Passed> passed = std::make_shared<Passed>();
  DeviceLog& log;
};

// While it lives, kernels may use the device's memory.
class SimtDevice::Unlocked {
 public:
  explicit Unlocked(SimtDevice& device) : device_(device) { lock(false); }
  ~Unlocked() { lock(true); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  void lock(bool locked) {
    for (const auto& [at, block] : device_.blocks_) {
      if (!block.pinned) block.bytes.lock(locked);
    }
  }
  SimtDevice& device_;
};

SimtDevice::SimtDevice(const DeviceOptions& options)
    : options_(options), log_(options.log ? options.log : &own_log_) {
  *log_ = {};
  info_.name = "SIMT executor";
  info_.kernels = "compiled for the host";
  info_.index = options.index;
  info_.sm = options.sm;
  info_.multiprocessors = 2;
  info_.total_bytes = options.total_bytes;
  info_.l2_bytes = size_t{16} << 10;
}

SimtDevice::~SimtDevice() {
  for (const auto& [at, block] : blocks_) block.bytes.lock(false);
  std::string wrong;
  try {
    if (pending_) std::rethrow_exception(pending_);
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  if (log_->live > 0) wrong = format("simt: %d allocations, graphs or marks are left", log_->live);
  if (wrong.empty()) return;
  log_->wrong = wrong;
  if (options_.log) return;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

// ---- what every call begins with ----

void SimtDevice::begin(const std::string& what) {
  if (++log_->operations == options_.lose_at) fail(nullptr);
  if (lost_) throw specbound::device_failed(info_, what, "the device is lost");
}

void SimtDevice::begin_waiting(const std::string& what) {
  begin(what);
  if (recording_) throw Fault(what + " while a graph is recorded");
  ++log_->synchronizations;
}

void SimtDevice::fail(std::exception_ptr failure) {
  lost_ = true;
  queue_.clear();
  pending_ = nullptr;
  if (failure) std::rethrow_exception(failure);
}

// ---- memory ----

size_t SimtDevice::free_bytes() {
  begin("free_bytes");
  const size_t used = log_->device_bytes + options_.taken_bytes;
  return used < options_.total_bytes ? options_.total_bytes - used : 0;
}

void* SimtDevice::take(size_t bytes, bool pinned) {
  begin(pinned ? "allocate_pinned" : "allocate");
  if (recording_) throw Fault("memory is allocated while a graph is recorded");
  if (bytes == 0) return nullptr;
  const size_t used = log_->device_bytes + options_.taken_bytes;
  const size_t left = used < options_.total_bytes ? options_.total_bytes - used : 0;
  const bool refused = ++log_->allocations == options_.refuse_allocation;
  if (refused || (!pinned && bytes > left)) {
    throw pinned ? specbound::out_of_pinned_memory(bytes)
                 : specbound::out_of_device_memory(info_, bytes, left);
  }
  DeviceBytes memory(bytes);
  if (!pinned) memory.lock(true);
  auto* const first = static_cast<unsigned char*>(memory.data());
  blocks_.emplace(first, Block{++n_blocks_, pinned, std::move(memory)});
  ++log_->live;
  if (!pinned) log_->device_bytes += bytes;
  log_->most_device_bytes = std::max(log_->most_device_bytes, log_->device_bytes);
  return first;
}

void SimtDevice::give_back(void* memory, bool pinned) noexcept {
  if (memory == nullptr) return;
  const auto found = blocks_.find(static_cast<unsigned char*>(memory));
  SB_CHECK(found != blocks_.end() && found->second.pinned == pinned);  // what was never allocated
  try {
    if (std::uncaught_exceptions() > 0) run_until([] { return false; });
    const uint64_t id = found->second.id;
    for (const Item& item : queue_) {
      if (std::find(item.uses.begin(), item.uses.end(), id) == item.uses.end()) continue;
      const Fault fault(format("%zu bytes are released before %s has run, which uses them",
                               found->second.bytes.bytes(), item.what.c_str()));
      queue_.clear();
      throw fault;
    }
  } catch (...) {
    if (!pending_) pending_ = std::current_exception();
  }
  --log_->live;
  if (!pinned) log_->device_bytes -= found->second.bytes.bytes();
  found->second.bytes.lock(false);
  try {
    const DeviceBytes last(std::move(found->second.bytes));  // looks at its guards as it goes
  } catch (...) {
    if (!pending_) pending_ = std::current_exception();
  }
  blocks_.erase(found);
}

void* SimtDevice::allocate(size_t bytes) {
  return take(bytes, false);
}
void* SimtDevice::allocate_pinned(size_t bytes) {
  return take(bytes, true);
}
void SimtDevice::release(void* memory) noexcept {
  give_back(memory, false);
}
void SimtDevice::release_pinned(void* memory) noexcept {
  give_back(memory, true);
}

SimtDevice::Block* SimtDevice::block_of(const void* memory) {
  const auto* const at = static_cast<const unsigned char*>(memory);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  const auto& [first, block] = *--next;
  return at < first + block.bytes.bytes() ? &next->second : nullptr;
}

// The block that all of these bytes lie in.
uint64_t SimtDevice::require(const char* what, const void* memory, size_t bytes, bool pinned) {
  const Block* const block = block_of(memory);
  const char* const kind = pinned ? "pinned" : "device";
  if (!block || block->pinned != pinned) throw Fault(format("%s: not %s memory", what, kind));
  const auto* const end =
      static_cast<const unsigned char*>(block->bytes.data()) + block->bytes.bytes();
  if (bytes > static_cast<size_t>(end - static_cast<const unsigned char*>(memory))) {
    throw Fault(format("%s: %zu bytes reach past the %s memory", what, bytes, kind));
  }
  return block->id;
}

// ---- the stream ----

void SimtDevice::enqueue(Item item) {
  if (recording_) {
    recording_->push_back(std::move(item));
  } else {
    queue_.push_back(std::move(item));
  }
}

void SimtDevice::submit(Launch launch, const void* parameters, size_t parameter_bytes) {
  const std::string what = format("kernel %s", launch.kernel);
  begin(what);
  if (++log_->launches == options_.fail_launch) {
    throw Error(ErrorCode::kDevice, what + ": launch failure");
  }
  std::vector<uint64_t> uses;
  for (size_t at = 0; at + sizeof(void*) <= parameter_bytes; at += sizeof(void*)) {
    const void* word;
    std::memcpy(&word, static_cast<const unsigned char*>(parameters) + at, sizeof word);
    if (const Block* const block = block_of(word)) uses.push_back(block->id);
  }
  enqueue({what, [launch = std::move(launch)] { run_grid(launch); }, std::move(uses), true});
}

void SimtDevice::copy_in(void* to, const void* from, size_t bytes) {
  begin("copy_in");
  if (bytes == 0) return;
  const uint64_t target = require("copy_in to", to, bytes, false);
  const uint64_t source = require("copy_in from", from, bytes, true);
  ++log_->copies;
  enqueue({"copy_in", [=] { std::memcpy(to, from, bytes); }, {target, source}, false});
}

void SimtDevice::copy_out(void* to, const void* from, size_t bytes) {
  begin("copy_out");
  if (bytes == 0) return;
  const uint64_t target = require("copy_out to", to, bytes, true);
  const uint64_t source = require("copy_out from", from, bytes, false);
  ++log_->copies;
  enqueue({"copy_out", [=] { std::memcpy(to, from, bytes); }, {target, source}, false});
}

void SimtDevice::clear(void* memory, size_t bytes) {
  begin("clear");
  if (bytes == 0) return;
  const uint64_t target = require("clear", memory, bytes, false);
  ++log_->copies;
  enqueue({"clear", [=] { std::memset(memory, 0, bytes); }, {target}, false});
}

std::unique_ptr<DeviceGraph> SimtDevice::record(const std::function<void()>& launches) {
  begin("record");
  if (recording_) throw Fault("a graph is recorded in a graph");
  auto graph = std::make_unique<Graph>(*log_);
  recording_ = &graph->items;
  try {
    launches();
  } catch (...) {
    recording_ = nullptr;
    throw;
  }
  recording_ = nullptr;
  if (log_->records + 1 == options_.refuse_record) {
    throw specbound::out_of_graph_memory(info_, free_bytes());
  }
  ++log_->records;
  return graph;
}

void SimtDevice::launch(DeviceGraph& graph) {
  begin("launch of a graph");
  if (recording_) throw Fault("a graph is launched while a graph is recorded");
  ++log_->graph_launches;
  for (const Item& item : static_cast<Graph&>(graph).items) {
    for (const uint64_t id : item.uses) {
      const auto same = [&](const auto& entry) { return entry.second.id == id; };
      if (std::none_of(blocks_.begin(), blocks_.end(), same)) {
        throw Fault(format("a graph's %s uses memory that was released", item.what.c_str()));
      }
    }
    queue_.push_back(item);
  }
}

std::unique_ptr<DeviceEvent> SimtDevice::mark() {
  begin("mark");
  if (recording_) throw Fault("a mark is set while a graph is recorded");
  auto mark = std::make_unique<Mark>(*log_);
  const auto passed = mark->passed;
  enqueue({"mark", [passed] { *passed = {true, std::chrono::steady_clock::now()}; }, {}, false});
  return mark;
}

// ---- waiting ----

void SimtDevice::run_one() {
  const Item item = std::move(queue_.front());
  queue_.pop_front();
  if (item.kernel && ++log_->kernels_run == options_.fail_kernel) {
    throw specbound::device_failed(info_, item.what, "unspecified launch failure");
  }
  item.run();
}

// Until the condition holds or nothing is left.
template <class Until>
void SimtDevice::run_until(const Until& until) {
  if (pending_) fail(pending_);
  try {
    if (queue_.empty() || until()) return;
    const Unlocked unlocked(*this);
    while (!queue_.empty() && !until()) run_one();
  } catch (...) {
    fail(std::current_exception());
  }
}

void SimtDevice::synchronize() {
  begin_waiting("synchronize");
  run_until([] { return false; });
}

void SimtDevice::wait(DeviceEvent& event) {
  begin_waiting("wait for a mark");
  const auto passed = static_cast<Mark&>(event).passed;
  run_until([&] { return passed->passed; });
}

double SimtDevice::seconds_between(DeviceEvent& from, DeviceEvent& to) {
  wait(to);
  const auto &first = *static_cast<Mark&>(from).passed, &last = *static_cast<Mark&>(to).passed;
  if (!first.passed) throw Fault("the time between two marks, the second of which came first");
  return std::chrono::duration<double>(last.at - first.at).count();
}

void SimtDevice::wait_for(const uint32_t* word, uint32_t value) {
  begin_waiting("wait for a word");
  require("wait_for", word, sizeof *word, true);
  const volatile uint32_t* const now = word;
  run_until([&] { return *now == value; });
  if (*now == value) return;
  throw Fault(
      format("waiting for the word %u: all that was launched has run, and it is %u", value, *now));
}

}  // namespace simt
