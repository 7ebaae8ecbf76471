#include "engine/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <string>

#include "kernels/probe.h"

namespace specbound {

namespace {

std::string text_of(cudaError_t status) {
  return format("%s (%s)", cudaGetErrorString(status), cudaGetErrorName(status));
}

struct CudaGraph final : DeviceGraph {
  explicit CudaGraph(cudaGraphExec_t exec) : exec(exec) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec); }
  cudaGraphExec_t exec;
};

struct CudaEvent final : DeviceEvent {
  explicit CudaEvent(cudaEvent_t event) : event(event) {}
  ~CudaEvent() override { cudaEventDestroy(event); }
  cudaEvent_t event;
};

// "sm_89 code": what runs is compiled for the card or a card like it, or from PTX by the driver.
std::string describe(const kernels::CodeVersion& code) {
  return code.ptx < code.binary ? format("PTX of sm_%d, compiled by the driver", code.ptx)
                                : format("sm_%d code", code.binary);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : info_(cuda_device_info(index)) {
    // Threads that wait spin: a decision costs microseconds, waking up a sleeper more.
    check(cudaInitDevice(index, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid), "open");
    check(cudaSetDevice(index), "open");
    info_.kernels = describe(kernels::code_version());
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "open");
  }
  ~CudaDevice() override { cudaStreamDestroy(stream_); }

  const DeviceInfo& info() const override { return info_; }
  void take_over() override { check(cudaSetDevice(info_.index), "take_over"); }
  kernels::Stream stream() const override { return stream_; }

  size_t free_bytes() override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "free memory");
    return free;
  }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw out_of_device_memory(info_, bytes, free_bytes());
    }
    check(status, "allocate");
    return memory;
  }

  void* allocate_pinned(size_t bytes) override {
    if (bytes == 0) return nullptr;
    void *memory = nullptr, *on_device = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocMapped);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw out_of_pinned_memory(bytes);
    }
    check(status, "allocate_pinned");
    const cudaError_t mapped = cudaHostGetDevicePointer(&on_device, memory, 0);
    if (mapped == cudaSuccess && on_device == memory) return memory;
    cudaFreeHost(memory);
    check(mapped, "allocate_pinned");
    throw device_failed(info_, "allocate_pinned", "no common addresses with the host");
  }

  void release(void* memory) noexcept override { cudaFree(memory); }
  void release_pinned(void* memory) noexcept override { cudaFreeHost(memory); }

  void copy_in(void* to, const void* from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copy_in");
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy_out");
  }
  void clear(void* memory, size_t bytes) override {
    check(cudaMemsetAsync(memory, 0, bytes, stream_), "clear");
  }

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& launches) override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "record");
    cudaGraph_t graph = nullptr;
    try {
      launches();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "record");
    cudaGraphExec_t exec = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check_graph(status);
    auto recorded = std::make_unique<CudaGraph>(exec);
    check_graph(cudaGraphUpload(exec, stream_));  // or its first launch would be slow
    return recorded;
  }

  void launch(DeviceGraph& graph) override {
    check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).exec, stream_), "graph");
  }

  std::unique_ptr<DeviceEvent> mark() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "mark");
    auto marked = std::make_unique<CudaEvent>(event);
    check(cudaEventRecord(event, stream_), "mark");
    return marked;
  }
  void wait(DeviceEvent& event) override {
    check(cudaEventSynchronize(static_cast<CudaEvent&>(event).event), "wait");
  }
  double seconds_between(DeviceEvent& from, DeviceEvent& to) override {
    wait(to);
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(from).event,
                               static_cast<CudaEvent&>(to).event),
          "time");
    return 1e-3 * milliseconds;
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "wait"); }

  // The word is all there is to look at while all goes well. Now and then the stream is asked too:
  // a kernel that died writes nothing.
  void wait_for(const uint32_t* word, uint32_t value) override {
    using Clock = std::chrono::steady_clock;
    constexpr int kLooks = 256;  // between two looks at the clock
    constexpr auto kPatience = std::chrono::milliseconds(1);
    const auto arrived = [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; };
    for (Clock::time_point asked = Clock::now();;) {
      for (int i = 0; i < kLooks; ++i) {
        if (arrived()) return;
      }
      const Clock::time_point now = Clock::now();
      if (now - asked < kPatience) continue;
      asked = now;
      const cudaError_t status = cudaStreamQuery(stream_);
      if (status == cudaErrorNotReady) continue;
      check(status, "wait for a word");
      if (arrived()) return;  // written between the last look and the stream's end
      throw device_failed(info_, "wait for a word", "all work ended without it");
    }
  }

 private:
  void check(cudaError_t status, const char* what) const {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // what passes by itself must not come out of the next call
    throw device_failed(info_, what, text_of(status));
  }
  void check_graph(cudaError_t status) {
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw out_of_graph_memory(info_, free_bytes());
    }
    check(status, "record");
  }

  DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

CudaCount count_cuda_devices() {
  CudaCount count;
  cudaError_t status = cudaGetDeviceCount(&count.n);
  cudaGetLastError();
  if (status == cudaSuccess && count.n > 0) return count;
  if (status == cudaSuccess) status = cudaErrorNoDevice;
  return {0, cudaGetErrorString(status), status == cudaErrorInsufficientDriver};
}

DeviceInfo cuda_device_info(int index) {
  cudaDeviceProp device{};
  const cudaError_t status = cudaGetDeviceProperties(&device, index);
  DeviceInfo info;
  info.index = index;
  if (status != cudaSuccess) {
    cudaGetLastError();
    info.name = "unknown";
    throw device_failed(info, "properties", text_of(status));
  }
  info.name = device.name;
  info.sm = device.major * 10 + device.minor;
  info.multiprocessors = device.multiProcessorCount;
  info.total_bytes = device.totalGlobalMem;
  info.l2_bytes = static_cast<size_t>(device.l2CacheSize);
  return info;
}

std::unique_ptr<Device> open_cuda_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace specbound
