#include "ptx/machine.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <random>
#include <string>

#include "simt/fault.h"

namespace ptx {

namespace {

using simt::Fault;
using simt::Order;

std::string place(const Block& block) {
  return format("kernel %s, block (%u, %u, %u)", block.kernel.name.c_str(), block.index.x,
                block.index.y, block.index.z);
}

std::string text_of(const Kernel& kernel, const Instruction& i) {
  const auto line = static_cast<size_t>(i.line);
  const bool known = i.line > 0 && line < kernel.lines.size();
  return format("line %d of its text (%s)", i.line, known ? kernel.lines[line].c_str() : "the end");
}

class Machine {
 public:
  Machine(const Kernel& kernel, const simt::Launch& launch, const void* parameters,
          size_t parameter_bytes, Unfinished* unfinished)
      : kernel_(kernel),
        block_{kernel, launch, {}, {}, {}, {}, nullptr, nullptr},
        unfinished_(unfinished),
        random_(simt::options().seed) {
    check_shape(parameter_bytes);
    if (unfinished != nullptr) {
      if (!launch.overlaps) unfinished->clear();
      block_.unfinished = launch.overlaps ? unfinished : nullptr;
      block_.written = &written_;
    }
    const auto* bytes = static_cast<const unsigned char*>(parameters);
    block_.parameters.assign(bytes, bytes + parameter_bytes);
    block_.shared.resize((kernel.static_shared_bytes + 15) / 16 * 16 + launch.shared_bytes);
    block_.last.resize(kernel.code.size());
    warps_.resize(launch.threads / kLanes);
    const uint64_t unwritten = 0x0101010101010101u * simt::options().poison;
    for (size_t w = 0; w < warps_.size(); ++w) {
      Warp& warp = warps_[w];
      warp.block = &block_;
      warp.index = static_cast<unsigned>(w);
      warp.registers.assign(static_cast<size_t>(kernel.n_rows) * kLanes, unwritten);
      warp.predicates.assign(static_cast<size_t>(kernel.n_predicates), 0);
      warp.predicates[kTrue] = kAllLanes;
      warp.local.resize(kernel.local_bytes * kLanes);
    }
  }

  void run() {
    const simt::Index n = block_.launch.blocks;
    std::vector<uint64_t> order(uint64_t{n.x} * n.y * n.z);
    std::iota(order.begin(), order.end(), 0);
    if (simt::options().order == Order::kReverse) std::reverse(order.begin(), order.end());
    if (simt::options().order == Order::kRandom) {
      std::shuffle(order.begin(), order.end(), random_);
    }
    for (const uint64_t at : order) {
      block_.index = {static_cast<unsigned>(at % n.x), static_cast<unsigned>(at / n.x % n.y),
                      static_cast<unsigned>(at / n.x / n.y)};
      run_block();
    }
    if (block_.unfinished != nullptr && !waited_) {
      throw Fault(place(block_) + ": overlaps the kernels before it, and never waits for them");
    }
    if (unfinished_ != nullptr) unfinished_->merge(written_);
  }

 private:
  void check_shape(size_t parameter_bytes) const {
    const simt::Launch& launch = block_.launch;
    const char* wrong = nullptr;
    if (parameter_bytes != kernel_.parameter_bytes) wrong = "parameters of another size";
    if (launch.threads == 0 || launch.threads % kLanes != 0) wrong = "threads are no whole warps";
    if (launch.threads > kernel_.max_threads) wrong = "more threads than it is compiled for";
    if (launch.shared_bytes + kernel_.static_shared_bytes > simt::options().max_shared_bytes) {
      wrong = "more shared memory than allowed";
    }
    if (wrong != nullptr) {
      throw Fault(format("kernel %s, %u threads, %zu bytes shared, %zu bytes of parameters: %s",
                         kernel_.name.c_str(), launch.threads, launch.shared_bytes, parameter_bytes,
                         wrong));
    }
  }

  // ---- a block ----

  void run_block() {
    std::fill(block_.shared.begin(), block_.shared.end(), simt::options().poison);
    for (Warp& warp : warps_) start(warp);
    while (true) {
      if (Warp* const warp = choose()) {
        run_warp(*warp);
      } else if (!pass_barrier()) {
        break;
      }
    }
    for (const Warp& warp : warps_) waited_ |= warp.waited != 0;
  }

  void start(Warp& warp) {
    std::fill(std::begin(warp.at), std::end(warp.at), 0);
    std::fill(std::begin(warp.groups), std::end(warp.groups), 0);
    std::fill(warp.local.begin(), warp.local.end(), simt::options().poison);
    warp.ready = kAllLanes;
    warp.exited = warp.meeting = warp.at_barrier = 0;
    warp.waited = block_.unfinished != nullptr ? 0 : kAllLanes;
    warp.copies.clear();
    for (const Special& special : kernel_.specials) {
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        warp.out(special.row)[lane] = value_of(special.name, warp.index, lane);
      }
    }
  }

  uint64_t value_of(const std::string& name, unsigned warp, unsigned lane) const {
    const simt::Index n = block_.launch.blocks;
    if (name == "%tid.x") return warp * kLanes + lane;
    if (name == "%ntid.x") return block_.launch.threads;
    if (name == "%ctaid.x") return block_.index.x;
    if (name == "%ctaid.y") return block_.index.y;
    if (name == "%ctaid.z") return block_.index.z;
    if (name == "%nctaid.x") return n.x;
    if (name == "%nctaid.y") return n.y;
    if (name == "%nctaid.z") return n.z;
    if (name == "%tid.y" || name == "%tid.z") return 0;
    if (name == "%ntid.y" || name == "%ntid.z") return 1;
    if (name == "%laneid") return lane;
    return 0;  // of a result that nobody wants
  }

  Warp* choose() {
    const size_t n = warps_.size();
    size_t first = 0, step = 1;
    if (simt::options().order == Order::kReverse) first = step = n - 1;
    if (simt::options().order == Order::kRandom) first = random_() % n;
    for (size_t turn = 0; turn < n; ++turn) {
      Warp& warp = warps_[(first + turn * step) % n];
      if (warp.ready != 0) return &warp;
    }
    return nullptr;
  }

  // Nobody can run: all wait at one barrier, and go on; or all have exited (false).
  bool pass_barrier() {
    const Warp& first = warps_[0];
    const bool exited = first.exited == kAllLanes;
    for (const Warp& warp : warps_) {
      if (exited && warp.exited == kAllLanes) continue;
      const auto elsewhere = [&](int at) { return at != first.at[0]; };
      if (exited || warp.at_barrier != kAllLanes ||
          std::any_of(std::begin(warp.at), std::end(warp.at), elsewhere)) {
        throw Fault(place(block_) + ": threads wait that nobody lets go: " + everyone());
      }
    }
    if (exited) return false;
    bool waited = false;
    for (const Warp& warp : warps_) waited |= warp.waited != 0;
    for (Warp& warp : warps_) {
      if (waited) warp.waited = kAllLanes;
      warp.at_barrier = 0;
      warp.ready = kAllLanes;
      for (int& at : warp.at) ++at;
    }
    return true;
  }

  std::string everyone() const {
    std::string text;
    for (const Warp& warp : warps_) {
      uint32_t told = 0;
      for (unsigned lane = 0; lane < kLanes && text.size() < 2000; ++lane) {
        if ((told >> lane & 1) != 0) continue;
        const bool exited = (warp.exited >> lane & 1) != 0;
        uint32_t alike = 0;
        for (unsigned other = lane; other < kLanes; ++other) {
          const bool same =
              exited ? (warp.exited >> other & 1) != 0
                     : (warp.exited >> other & 1) == 0 && warp.at[other] == warp.at[lane];
          if (same) alike |= 1u << other;
        }
        told |= alike;
        text += format("%swarp %u, lanes %08x: ", text.empty() ? "" : "; ", warp.index, alike);
        text +=
            exited ? "exited" : text_of(kernel_, kernel_.code[static_cast<size_t>(warp.at[lane])]);
      }
    }
    return text;
  }

  // ---- a warp ----

  // The lane that runs ahead of the others until the next meeting.
  uint32_t draw_ahead() {
    switch (simt::options().order) {
      case Order::kForward:
        return 0;
      case Order::kReverse:
        return 1u << (kLanes - 1);
      case Order::kRandom:
        return 1u << random_() % kLanes;
    }
    return 0;
  }

  void run_warp(Warp& warp) {
    uint32_t ahead = draw_ahead();
    while (warp.ready != 0) {
      const bool met = advance(warp, (warp.ready & ahead) != 0 ? ahead : warp.ready);
      if (met) ahead = draw_ahead();
    }
  }

  static void set_at(Warp& warp, uint32_t lanes, int at) {
    each(lanes, [&](int lane) { warp.at[lane] = at; });
  }

  // Runs these lanes until none of them can go on, or (true) lanes have met.
  bool advance(Warp& warp, uint32_t lanes) {
    while ((lanes &= warp.ready) != 0) {
      // Those that are furthest behind go first, up to where the next ones are.
      int at = INT_MAX, next = INT_MAX;
      uint32_t group = 0;
      each(lanes, [&](int lane) {
        const int here = warp.at[lane];
        if (here < at) {
          next = at, at = here, group = 0;
        } else if (here > at) {
          next = std::min(next, here);
        }
        if (here == at) group |= 1u << lane;
      });
      switch (run_group(warp, group, at, next)) {
        case End::kMet:
          return true;
        case End::kReached:
          break;
      }
    }
    return false;
  }

  enum class End { kReached, kMet };

  End run_group(Warp& warp, uint32_t group, int at, int next) {
    while (at < next) {
      const Instruction& i = kernel_.code[static_cast<size_t>(at)];
      kernel_.ran[static_cast<size_t>(at)] = true;
      uint32_t active = group;
      if (i.guard != kTrue) {
        const uint32_t guard = warp.predicates[static_cast<size_t>(i.guard)];
        active &= i.negated ? ~guard : guard;
      }
      if (i.kind == Kind::kPlain) {
        if (active != 0) i.run(warp, i, active);
        ++at;
      } else if (active == 0) {
        ++at;
      } else if (i.kind == Kind::kBranch && active == group) {
        at = i.target;
      } else {
        set_at(warp, group & ~active, at + 1);
        return leave(warp, i, active, at);
      }
    }
    set_at(warp, group, at);
    return End::kReached;
  }

  // These lanes go elsewhere than those beside them, or wait.
  End leave(Warp& warp, const Instruction& i, uint32_t lanes, int at) {
    set_at(warp, lanes, i.kind == Kind::kBranch ? i.target : at);
    if (i.kind == Kind::kBranch) return End::kReached;
    warp.ready &= ~lanes;
    if (i.kind == Kind::kExit) warp.exited |= lanes;
    if (i.kind == Kind::kBarrier) warp.at_barrier |= lanes;
    if (i.kind != Kind::kWarp) return End::kReached;
    warp.meeting |= lanes;
    return meet(warp, i, at) ? End::kMet : End::kReached;
  }

  // Lets lanes go on that all wait here for each other.
  static bool meet(Warp& warp, const Instruction& i, int at) {
    uint32_t here = 0;
    each(warp.meeting, [&](int lane) {
      if (warp.at[lane] == at) here |= 1u << lane;
    });
    for (uint32_t left = here; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      const uint32_t all = lanes_to_meet(warp, i, lane);
      if ((all >> lane & 1) == 0) fail(warp, i, lane, "meets others without itself");
      if ((all & ~here) != 0) continue;
      each(all, [&](int other) {
        if (lanes_to_meet(warp, i, other) != all) fail(warp, i, other, "meets other lanes");
      });
      i.run(warp, i, all);
      warp.meeting &= ~all;
      warp.ready |= all;
      set_at(warp, all, at + 1);
      return true;
    }
    return false;
  }

  const Kernel& kernel_;
  Block block_;
  std::vector<Warp> warps_;
  Unfinished* const unfinished_;
  Unfinished written_;
  bool waited_ = false;  // some lane
  std::mt19937 random_;
};

}  // namespace

void fail(const Warp& warp, const Instruction& i, int lane, const std::string& what) {
  throw Fault(place(*warp.block) +
              format(", thread %u, ", warp.index * kLanes + static_cast<unsigned>(lane)) +
              text_of(warp.block->kernel, i) + ": " + what);
}

void run_grid(const Kernel& kernel, const simt::Launch& launch, const void* parameters,
              size_t parameter_bytes, Unfinished* unfinished) {
  Machine(kernel, launch, parameters, parameter_bytes, unfinished).run();
}

}  // namespace ptx
