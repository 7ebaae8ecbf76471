// What the GPU microbenches share: checked calls, device memory, graphs of many launches, timing.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error.h"
#include "stream.h"
#include "trace/statistics.h"

namespace specbound::bench {

inline void check(cudaError_t status, const char* call, int line) {
  if (status != cudaSuccess) {
    throw Error(ErrorCode::kUnsupported,
                format("line %d: %s: %s (%s)", line, call, cudaGetErrorString(status),
                       cudaGetErrorName(status)));
  }
}
#define SB_CUDA(call) ::specbound::bench::check((call), #call, __LINE__)

// Device memory, zeroed; freed at the end of scope.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t n) : n_(n) {
    SB_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T)));
    SB_CUDA(cudaMemset(data_, 0, n * sizeof(T)));
    SB_CUDA(cudaDeviceSynchronize());  // other streams do not wait for it
  }
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return n_; }
  size_t bytes() const { return n_ * sizeof(T); }
  void write(const std::vector<T>& values) {
    SB_CHECK(values.size() <= n_);
    SB_CUDA(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    SB_CUDA(cudaDeviceSynchronize());
  }

 private:
  void swap(DeviceArray& other) {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
  }
  T* data_ = nullptr;
  size_t n_ = 0;
};

// A stream, and two events on it.
class Timer {
 public:
  Timer() {
    SB_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    SB_CUDA(cudaEventCreate(&begin_));
    SB_CUDA(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  // Microseconds on the device of what `enqueue` puts on the stream: `samples` runs after two.
  template <class Enqueue>
  std::vector<double> microseconds(int samples, Enqueue&& enqueue) {
    SB_CHECK(samples >= 1);
    std::vector<double> out;
    for (int i = -2; i < samples; ++i) {
      SB_CUDA(cudaEventRecord(begin_, stream_));
      enqueue();
      SB_CUDA(cudaEventRecord(end_, stream_));
      SB_CUDA(cudaEventSynchronize(end_));
      float milliseconds = 0;
      SB_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
      if (i >= 0) out.push_back(1e3 * milliseconds);
    }
    return out;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// An instantiated graph.
class Graph {
 public:
  // Of what `enqueue(stream)` launches: kernels that ran before, so that they are loaded.
  static Graph captured(cudaStream_t stream, const std::function<void(kernels::Stream)>& enqueue) {
    cudaGraph_t graph = nullptr;
    SB_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    enqueue(stream);
    SB_CUDA(cudaStreamEndCapture(stream, &graph));
    return Graph(graph);
  }
  explicit Graph(cudaGraph_t graph) {  // takes it over
    const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    SB_CUDA(status);
  }
  ~Graph() { cudaGraphExecDestroy(exec_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const { SB_CUDA(cudaGraphLaunch(exec_, stream)); }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

// Of samples that each stand for `n` launches.
inline nlohmann::json per_launch(const std::vector<double>& microseconds, double n) {
  const auto [low, high] = std::minmax_element(microseconds.begin(), microseconds.end());
  return {{"us", median(microseconds) / n}, {"min", *low / n}, {"max", *high / n}};
}

// Microseconds that each of `n` launches takes in a graph of them; launch i is enqueue(i, stream).
inline nlohmann::json time_in_graph(Timer& timer, int n, int samples,
                                    const std::function<void(int, kernels::Stream)>& enqueue) {
  enqueue(0, timer.stream());
  SB_CUDA(cudaStreamSynchronize(timer.stream()));
  const Graph graph = Graph::captured(timer.stream(), [&](kernels::Stream stream) {
    for (int i = 0; i < n; ++i) enqueue(i, stream);
  });
  return per_launch(timer.microseconds(samples, [&] { graph.launch(timer.stream()); }), n);
}

// gpu_machine.cu: what the card and the driver do without any kernel of ours. `read_gb_s` in it is
// the yardstick of all else.
nlohmann::json measure_machine(Timer& timer, const cudaDeviceProp& device);

}  // namespace specbound::bench
