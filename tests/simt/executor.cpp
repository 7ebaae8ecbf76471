#include "simt/executor.h"

#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "simt/fiber.h"
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {

Index thread_index, block_index, block_size, grid_size;

namespace {

using specbound::format;

constexpr unsigned kLanes = 32, kMaxThreads = 1024;
constexpr size_t kMaxExchangeBytes = 64;  // that a lane hands in
constexpr size_t kGuardBytes = 4096;      // on either side of the shared memory
constexpr unsigned char kGuard = 0xa5;

enum class At { kRunning, kBarrier, kWarp, kExited };

struct Warp;

struct Thread {
  Fiber* fiber;
  Warp* warp;
  unsigned index;     // in the block
  unsigned position;  // in the order of its warp
  At at;
  Where where;
  std::vector<std::function<void()>> copies;
};

// A rendezvous lets all of its threads go at once: `ready` is whole, or on its way to nothing.
struct Warp {
  uint32_t ready;          // bit i: the lane at position i can run
  uint32_t factor, shift;  // lane of position i: factor * i + shift
  unsigned first;          // thread
  unsigned n_exited, n_at_barrier, n_at_operation;
  unsigned phase;  // of operations: a lane may hand in again before others have read
  Where where;     // of the operation
  size_t size;
  alignas(16) unsigned char handed_in[2][kLanes * kMaxExchangeBytes];
};

// Thrown through a thread to end it.
struct Unwind {};

// The block that runs. One for the program: what kernels see of it is global anyway.
struct Block {
  const char* kernel;
  const std::function<void()>* body;
  unsigned n_threads;
  uint32_t ready;  // bit i: warp i can run
  unsigned n_exited, n_at_barrier, phase;
  Where where;  // of the barrier
  bool failed, unwinding;
  std::exception_ptr failure;  // of the first thread that failed
  Warp warps[kMaxThreads / kLanes];
  Thread threads[kMaxThreads];
} block;

Options current_options;
uint64_t random_state;
Thread* current;  // thread; nullptr: the host
Fiber* running;
Fiber* host;
unsigned char* shared;

// What TSan is told of order: all that came before a release comes before what follows an acquire
// of the same place. Barriers have two places, by phase: who is ahead releases the other one.
// Blocks come one after the other, so that races between blocks are left to the order of blocks.
char started, ended, block_barrier[2], warp_barrier[kMaxThreads / kLanes][2];

SIMT_UNSEEN void release([[maybe_unused]] char* place) {
#ifdef SIMT_TSAN
  __tsan_release(place);
#endif
}
SIMT_UNSEEN void acquire([[maybe_unused]] char* place) {
#ifdef SIMT_TSAN
  __tsan_acquire(place);
#endif
}
SIMT_UNSEEN char* barrier_of(const Warp& warp, unsigned phase) {
  return &warp_barrier[&warp - block.warps][phase];
}

// memcpy, unseen.
SIMT_UNSEEN void copy(void* to, const void* from, size_t bytes) {
#ifdef SIMT_TSAN
  auto* target = static_cast<volatile unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) target[i] = static_cast<const unsigned char*>(from)[i];
#else
  std::memcpy(to, from, bytes);
#endif
}

// splitmix64, the upper half.
SIMT_UNSEEN uint32_t random_word() {
  uint64_t x = random_state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>((x ^ (x >> 31)) >> 32);
}

// ---- who runs next ----

SIMT_UNSEEN void draw_lanes(Warp& warp) {
  switch (current_options.order) {
    case Order::kForward:
      warp.factor = 1, warp.shift = 0;
      break;
    case Order::kReverse:
      warp.factor = kLanes - 1, warp.shift = kLanes - 1;
      break;
    case Order::kRandom: {
      const uint32_t word = random_word();
      warp.factor = word | 1, warp.shift = word >> 16;
      break;
    }
  }
}

SIMT_UNSEEN unsigned choose_warp() {
  switch (current_options.order) {
    case Order::kForward:
      break;
    case Order::kReverse:
      return 31 - static_cast<unsigned>(__builtin_clz(block.ready));
    case Order::kRandom: {
      uint32_t left = block.ready;
      for (unsigned n = random_word() % __builtin_popcount(left); n > 0; --n) left &= left - 1;
      return static_cast<unsigned>(__builtin_ctz(left));
    }
  }
  return static_cast<unsigned>(__builtin_ctz(block.ready));
}

SIMT_UNSEEN Thread* first_of(const Warp& warp) {
  const auto position = static_cast<unsigned>(__builtin_ctz(warp.ready));
  Thread& thread = block.threads[warp.first + (warp.factor * position + warp.shift) % kLanes];
  thread.position = position;
  return &thread;
}

// nullptr: nobody can run.
SIMT_UNSEEN Thread* choose() {
  return block.ready == 0 ? nullptr : first_of(block.warps[choose_warp()]);
}

SIMT_UNSEEN Thread* choose_after(const Thread& thread) {
  return thread.warp->ready != 0 ? first_of(*thread.warp) : choose();
}

SIMT_UNSEEN void suspend(const Thread& thread) {
  Warp& warp = *thread.warp;
  warp.ready &= ~(1u << thread.position);
  if (warp.ready == 0) block.ready &= ~(1u << (&warp - block.warps));
}

SIMT_UNSEEN void let_go(Warp& warp) {
  draw_lanes(warp);
  warp.ready = ~0u;
  block.ready |= 1u << (&warp - block.warps);
}

// To the host with nullptr. Returns when the thread is chosen again.
SIMT_UNSEEN void switch_to(Thread* next) {
  if (next == current) return;
  Fiber& from = *running;
  current = next;
  running = next == nullptr ? host : next->fiber;
  if (next != nullptr) thread_index.x = next->index;
  from.switch_to(*running);
}

SIMT_UNSEEN void wait(Thread* next) {
  switch_to(next);
  if (block.unwinding) throw Unwind{};
  current->at = At::kRunning;
}

// ---- what goes wrong ----

SIMT_UNSEEN bool same(const Where& a, const Where& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

SIMT_UNSEEN std::string describe(const Thread& thread) {
  const char* slash = thread.where.file == nullptr ? nullptr : std::strrchr(thread.where.file, '/');
  const char* file = slash == nullptr ? thread.where.file : slash + 1;
  switch (thread.at) {
    case At::kRunning:
      return "not there yet";
    case At::kBarrier:
      return format("at __syncthreads, %s:%d", file, thread.where.line);
    case At::kWarp:
      return format("at a warp operation, %s:%d", file, thread.where.line);
    case At::kExited:
      return "exited";
  }
  return "";
}

SIMT_UNSEEN std::string place() {
  std::string text = format("kernel %s, block (%u, %u, %u)", block.kernel, block_index.x,
                            block_index.y, block_index.z);
  if (current != nullptr) text += format(", thread %u", current->index);
  return text;
}

// Who is where, threads of one place together.
SIMT_UNSEEN std::string everyone() {
  std::string text;
  for (unsigned i = 0, end; i < block.n_threads; i = end) {
    const std::string here = describe(block.threads[i]);
    for (end = i + 1; end < block.n_threads && describe(block.threads[end]) == here;) ++end;
    if (text.size() > 2000) return text + "; ...";
    text += format("%s%u", text.empty() ? "thread " : "; ", i);
    if (end - i > 1) text += format("-%u", end - 1);
    text += ": " + here;
  }
  return text;
}

[[noreturn]] SIMT_UNSEEN void diverged(const char* what) {
  throw Fault(place() + ": " + what + "; " + everyone());
}

SIMT_UNSEEN Thread& arrive(At at, Where where) {
  SB_CHECK(current != nullptr);  // barriers and warp operations are for kernels
  current->at = at;
  current->where = where;
  return *current;
}

// ---- the life of a thread ----

SIMT_UNSEEN void exit_thread() {
  Thread& me = arrive(At::kExited, {});
  ++block.n_exited;
  ++me.warp->n_exited;
  suspend(me);
  if (block.n_at_barrier > 0) diverged("exits while others wait for it");
  if (me.warp->n_at_operation > 0) diverged("exits while its warp waits for it");
  if (!me.copies.empty()) throw Fault(place() + ": exits before its copies are there");
}

// What each fiber runs for ever: the thread that it stands for at the time.
SIMT_UNSEEN void run_threads() {
  for (;;) {
    try {
      acquire(&started);
      (*block.body)();
      exit_thread();
    } catch (const Unwind&) {
    } catch (...) {
      if (!block.failed) block.failure = std::current_exception();
      block.failed = true;
    }
    current->at = At::kExited;
    release(&ended);
    switch_to(block.failed ? nullptr : choose_after(*current));
  }
}

// One more arrives at its warp's rendezvous; returns the phase when all have.
SIMT_UNSEEN unsigned meet_warp(Thread& me, size_t size, Where where) {
  Warp& warp = *me.warp;
  if (warp.n_at_operation == 0) {
    warp.where = where;
    warp.size = size;
  }
  if (!same(warp.where, where)) diverged("lanes of a warp at different operations");
  if (warp.size != size) diverged("lanes of a warp hand in different types");
  if (warp.n_exited > 0) diverged("a warp operation without lanes that have exited");
  if (warp.n_at_barrier > 0) diverged("a warp operation without lanes that wait at a barrier");
  const unsigned phase = warp.phase;
  suspend(me);
  if (++warp.n_at_operation < kLanes) {
    wait(choose_after(me));
    return phase;
  }
  warp.n_at_operation = 0;
  warp.phase ^= 1;
  let_go(warp);
  wait(choose());
  return phase;
}

// ---- memory ----

// The shared memory of blocks between guard bytes.
class Arena {
 public:
  explicit Arena(size_t bytes)
      : bytes_(bytes),
        all_(static_cast<unsigned char*>(::operator new(total(), std::align_val_t(256)))) {
    std::memset(all_, kGuard, total());
#ifdef SIMT_ASAN
    ASAN_POISON_MEMORY_REGION(all_, kGuardBytes);
    ASAN_POISON_MEMORY_REGION(begin() + bytes_, kGuardBytes);
#endif
  }
  ~Arena() {
#ifdef SIMT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(all_, total());
#endif
    ::operator delete(all_, std::align_val_t(256));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  unsigned char* begin() const {
    return all_ + kGuardBytes;
  }
  void poison(unsigned char with) {
    std::memset(begin(), with, bytes_);
  }

  // Were the guard bytes on either side written?
  bool overrun() const {
#ifdef SIMT_ASAN
    return false;  // the access itself was an error
#else
    const auto whole = [](const unsigned char* guard) {
      return guard[0] == kGuard && std::memcmp(guard, guard + 1, kGuardBytes - 1) == 0;
    };
    return !whole(all_) || !whole(begin() + bytes_);
#endif
  }

 private:
  size_t total() const {
    return bytes_ + 2 * kGuardBytes;
  }

  size_t bytes_;
  unsigned char* all_;
};

// Fibers for a block of `n` threads; they stay for the next launch.
std::vector<std::unique_ptr<Fiber>>& fibers(size_t n) {
  static std::vector<std::unique_ptr<Fiber>> all;
  while (all.size() < n) all.push_back(std::make_unique<Fiber>(&run_threads));
  return all;
}

// ---- blocks and grids ----

// Which block runs when.
struct Sequence {
  explicit Sequence(uint64_t n_blocks) : n(n_blocks) {
    if (current_options.order == Order::kReverse) first = step = n - 1;
    if (current_options.order != Order::kRandom) return;
    first = random_word() % n;
    do {
      step = random_word() % n;
    } while (std::gcd(step, n) != 1);
  }
  uint64_t block(uint64_t turn) const { return (first + turn * step) % n; }

  uint64_t n, first = 0, step = 1;
};

SIMT_UNSEEN void unwind() {
  if (!block.failed) block.failure = std::make_exception_ptr(Fault(place() + ": " + everyone()));
  block.failed = true;
  block.unwinding = true;
  for (unsigned i = 0; i < block.n_threads; ++i) {
    const At at = block.threads[i].at;
    if (at == At::kBarrier || at == At::kWarp) switch_to(&block.threads[i]);
  }
  block.unwinding = false;
}

SIMT_UNSEEN void run_block(const std::vector<std::unique_ptr<Fiber>>& pool) {
  block.ready = 0;
  block.n_exited = block.n_at_barrier = 0;
  for (unsigned w = 0; w < block.n_threads / kLanes; ++w) {
    Warp& warp = block.warps[w];
    warp.first = w * kLanes;
    warp.n_exited = warp.n_at_barrier = warp.n_at_operation = 0;
    let_go(warp);
  }
  const std::unique_ptr<Fiber>* const fiber = pool.data();
  for (unsigned i = 0; i < block.n_threads; ++i) {
    block.threads[i] = {fiber[i].get(), &block.warps[i / kLanes], i, 0, At::kRunning, {}, {}};
  }
  release(&started);
  switch_to(choose());
  if (block.n_exited < block.n_threads || block.failed) unwind();
  acquire(&ended);
}

void check_shape(const Launch& launch) {
  const Index blocks = launch.blocks;
  const unsigned threads = launch.threads;
  const char* wrong = nullptr;
  if (current != nullptr) wrong = "launched by a kernel";
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) wrong = "no blocks";
  if (blocks.x > 0x7fffffffu || blocks.y > 65535 || blocks.z > 65535) wrong = "too many blocks";
  if (threads == 0 || threads > kMaxThreads) wrong = "threads of a block are 1 to 1024";
  if (threads % kLanes != 0) wrong = "threads of a block are whole warps";
  if (launch.shared_bytes > current_options.max_shared_bytes) {
    wrong = "more shared memory than allowed";
  }
  if (wrong == nullptr) return;
  throw Fault(format("kernel %s, %u x %u x %u blocks of %u threads, %zu bytes shared: %s",
                     launch.kernel, blocks.x, blocks.y, blocks.z, threads, launch.shared_bytes,
                     wrong));
}

}  // namespace

Options& options() {
  return current_options;
}

SIMT_UNSEEN void sync_threads(Where where) {
  Thread& me = arrive(At::kBarrier, where);
  if (block.n_at_barrier == 0) block.where = where;
  if (!same(block.where, where)) diverged("threads of a block at different barriers");
  if (block.n_exited > 0) diverged("a barrier without threads that have exited");
  if (me.warp->n_at_operation > 0) diverged("a barrier without lanes that wait for their warp");
  const unsigned phase = block.phase;
  release(&block_barrier[phase]);
  suspend(me);
  ++me.warp->n_at_barrier;
  if (++block.n_at_barrier < block.n_threads) {
    wait(choose_after(me));
  } else {
    block.n_at_barrier = 0;
    block.phase ^= 1;
    for (unsigned w = 0; w < block.n_threads / kLanes; ++w) {
      block.warps[w].n_at_barrier = 0;
      let_go(block.warps[w]);
    }
    wait(choose());
  }
  acquire(&block_barrier[phase]);
}

SIMT_UNSEEN void sync_warp(Where where) {
  Thread& me = arrive(At::kWarp, where);
  release(barrier_of(*me.warp, me.warp->phase));
  acquire(barrier_of(*me.warp, meet_warp(me, 0, where)));
}

SIMT_UNSEEN unsigned char* shared_memory() {
  return shared;
}

SIMT_UNSEEN void exchange_bytes(const void* mine, void* all, size_t size, Where where) {
  Thread& me = arrive(At::kWarp, where);
  SB_CHECK(size <= kMaxExchangeBytes);
  Warp& warp = *me.warp;
  copy(warp.handed_in[warp.phase] + me.index % kLanes * size, mine, size);
  copy(all, warp.handed_in[meet_warp(me, size, where)], kLanes * size);
}

SIMT_UNSEEN void copy_later(std::function<void()> copy) {
  SB_CHECK(current != nullptr);
  if (current_options.order == Order::kReverse) {
    copy();
    copy = [] {};
  }
  current->copies.push_back(std::move(copy));
}

SIMT_UNSEEN void wait_for_copies() {
  for (const auto& copy : current->copies) copy();
  current->copies.clear();
}

SIMT_UNSEEN void run_grid(const Launch& launch) {
  check_shape(launch);
  const Index blocks = launch.blocks;
  Arena arena(launch.shared_bytes);
  Fiber here;
  host = running = &here;
  const auto& pool = fibers(launch.threads);
  block.kernel = launch.kernel;
  block.body = &launch.body;
  block.n_threads = launch.threads;
  block.failed = false;
  shared = arena.begin();
  block_size = {launch.threads, 1, 1};
  grid_size = blocks;
  random_state = current_options.seed;
  const Sequence sequence(uint64_t{blocks.x} * blocks.y * blocks.z);
  for (uint64_t turn = 0; turn < sequence.n && !block.failed; ++turn) {
    const uint64_t i = sequence.block(turn);
    block_index = {static_cast<unsigned>(i % blocks.x),
                   static_cast<unsigned>(i / blocks.x % blocks.y),
                   static_cast<unsigned>(i / blocks.x / blocks.y)};
    arena.poison(current_options.poison);
    run_block(pool);
    if (!block.failed && arena.overrun()) {
      block.failed = true;
      block.failure = std::make_exception_ptr(Fault(
          place() + format(": written past its %zu bytes of shared memory", launch.shared_bytes)));
    }
  }
  if (block.failed) std::rethrow_exception(std::exchange(block.failure, nullptr));
}

Runner& runner() {
  static Runner chosen = [](const Launch& launch, const void*, size_t) { run_grid(launch); };
  return chosen;
}

void submit(CUstream_st* stream, Launch launch, const void* parameters, size_t parameter_bytes) {
  if (stream == nullptr) return runner()(launch, parameters, parameter_bytes);
  check_shape(launch);
  stream->submit(std::move(launch), parameters, parameter_bytes);
}

}  // namespace simt
