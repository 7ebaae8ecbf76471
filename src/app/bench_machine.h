// The machine under a benchmark: what it is, and how fast it reads memory in the same run.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/bench_measure.h"
#include "engine/backend.h"

namespace specbound {

struct BenchMachine {
  nlohmann::ordered_json hardware;
  std::function<double()> read_bandwidth;  // bytes a second, by as many threads as decode
};
// What `backend` runs on, which must outlive it. n_threads: of the CPU; 0: one for each that can be
// used.
BenchMachine bench_machine(Backend& backend, int n_threads);

// Of the machine, measured before, between and after what is held against it.
class Bandwidth {
 public:
  // `read` must outlive it. The first one is not counted.
  explicit Bandwidth(const std::function<double()>& read) : read_(read) { read_(); }
  void sample() {
    for (int i = 0; i < 3; ++i) samples_.push_back(read_());
  }
  Spread result() const { return spread_of(samples_); }

 private:
  const std::function<double()>& read_;
  std::vector<double> samples_;
};

// "read bandwidth 21.3 GB/s (20.9 - 21.5)"
std::string bandwidth_text(const Spread& bandwidth);

}  // namespace specbound
