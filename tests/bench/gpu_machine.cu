// What a card and its driver do: bandwidth, gaps between launches, an IF node, a decision made on
// the host.
#include <chrono>
#include <optional>
#include <utility>

#include "gpu_bench.cuh"
#include "launch.cuh"
#include "probe.h"

namespace specbound::bench {

namespace {

using kernels::Stream;

// ---- bandwidth ----

// GB/s of the best of some grids: what a kernel that only reads can reach.
nlohmann::json measure_read(Timer& timer, const cudaDeviceProp& device) {
  const DeviceArray<uint32_t> words(size_t{1} << 28);  // 1 GiB
  const DeviceArray<uint32_t> sums(static_cast<size_t>(device.multiProcessorCount) * 8 * 1024);
  nlohmann::json best;
  double least = 0;
  for (int threads : {256, 512, 1024}) {
    for (int blocks_each : {1, 2, 4, 8}) {
      const kernels::ReadWords p{words.data(), words.bytes(), sums.data(),
                                 device.multiProcessorCount * blocks_each, threads};
      const std::vector<double> us =
          timer.microseconds(10, [&] { kernels::read_words(p, timer.stream()); });
      const double gb_s = static_cast<double>(p.bytes) / 1e3 / median(us);
      if (gb_s > least) {
        least = gb_s;
        best = {{"gb_s", gb_s}, {"threads", threads}, {"blocks_per_sm", blocks_each}};
        best["time"] = per_launch(us, 1);
      }
    }
  }
  return best;
}

nlohmann::json measure_copy(Timer& timer) {
  const size_t bytes = size_t{1} << 29;
  const DeviceArray<uint8_t> from(bytes), to(bytes);
  const std::vector<double> us = timer.microseconds(10, [&] {
    SB_CUDA(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, timer.stream()));
  });
  // Bytes read plus bytes written.
  return {{"gb_s", 2.0 * static_cast<double>(bytes) / 1e3 / median(us)},
          {"time", per_launch(us, 1)}};
}

// ---- gaps ----

struct CountParams {
  unsigned* counter;
};

__global__ void empty_kernel(CountParams) {}

nlohmann::json measure_gaps(Timer& timer, const cudaDeviceProp& device) {
  constexpr int kLaunches = 1000;
  const unsigned wide = static_cast<unsigned>(device.multiProcessorCount) * 2;
  nlohmann::json out;
  for (const auto& [name, blocks] :
       {std::pair{"one_block", 1u}, std::pair{"two_blocks_per_sm", wide}}) {
    const auto enqueue = [&, blocks = blocks](int, Stream stream) {
      kernels::launch(empty_kernel, "empty", {.blocks = {blocks}, .threads = 256}, stream,
                      CountParams{});
    };
    out[name]["stream"] = per_launch(timer.microseconds(10,
                                                        [&] {
                                                          for (int i = 0; i < kLaunches; ++i)
                                                            enqueue(i, timer.stream());
                                                        }),
                                     kLaunches);
    out[name]["graph"] = time_in_graph(timer, kLaunches, 10, enqueue);
  }
  return out;
}

// ---- IF nodes ----

struct DecideParams {
  cudaGraphConditionalHandle handle;
  unsigned value;
};

__global__ void decide_kernel(DecideParams p) {
  cudaGraphSetConditional(p.handle, p.value);
}

cudaGraphNode_t add_kernel(cudaGraph_t graph, std::optional<cudaGraphNode_t> after,
                           const void* kernel, void* parameters) {
  void* arguments[] = {parameters};
  cudaGraphNodeParams node{};
  node.type = cudaGraphNodeTypeKernel;
  node.kernel.func = const_cast<void*>(kernel);
  node.kernel.gridDim = node.kernel.blockDim = dim3(1);
  node.kernel.kernelParams = arguments;
  cudaGraphNode_t added = nullptr;
  SB_CUDA(
      cudaGraphAddNode(&added, graph, after ? &*after : nullptr, nullptr, after ? 1 : 0, &node));
  return added;
}

// A chain of `n` decisions: a kernel that decides, then an IF node around an empty kernel.
Graph chain_of_ifs(int n, unsigned value) {
  cudaGraph_t graph = nullptr;
  SB_CUDA(cudaGraphCreate(&graph, 0));
  std::optional<cudaGraphNode_t> last;
  for (int i = 0; i < n; ++i) {
    cudaGraphNodeParams node{};
    node.type = cudaGraphNodeTypeConditional;
    node.conditional.type = cudaGraphCondTypeIf;
    node.conditional.size = 1;
    SB_CUDA(cudaGraphConditionalHandleCreate(&node.conditional.handle, graph, 0, 0));
    DecideParams decide{node.conditional.handle, value};
    last = add_kernel(graph, last, reinterpret_cast<const void*>(decide_kernel), &decide);
    cudaGraphNode_t conditional = nullptr;
    SB_CUDA(cudaGraphAddNode(&conditional, graph, &*last, nullptr, 1, &node));
    CountParams nothing{};
    add_kernel(node.conditional.phGraph_out[0], {}, reinterpret_cast<const void*>(empty_kernel),
               &nothing);
    last = conditional;
  }
  return Graph(graph);
}

// What a decision costs beside its kernels: against a chain of empty ones in a graph.
nlohmann::json measure_if(Timer& timer) {
  constexpr int kChecks = 100;
  const nlohmann::json kernel = time_in_graph(timer, kChecks, 10, [](int, Stream stream) {
    kernels::launch(empty_kernel, "empty", {.blocks = {1}, .threads = kernels::kWarp}, stream,
                    CountParams{});
  });
  nlohmann::json out;
  for (unsigned value : {0u, 1u}) {
    const Graph graph = chain_of_ifs(kChecks, value);
    nlohmann::json time =
        per_launch(timer.microseconds(10, [&] { graph.launch(timer.stream()); }), kChecks);
    const double kernels_us = (value + 1) * kernel["us"].get<double>();
    time["beside_kernels_us"] = time["us"].get<double>() - kernels_us;
    out[value ? "taken" : "skipped"] = time;
  }
  return out;
}

// ---- a decision on the host ----

struct TellParams {
  unsigned* counter;
  unsigned* told;  // in the host's memory
};

__global__ void tell_kernel(TellParams p) {
  if (threadIdx.x > 0) return;
  const unsigned count = *p.counter + 1;
  *p.counter = count;
  *static_cast<volatile unsigned*>(p.told) = count;
  __threadfence_system();
}

// From a graph's launch to its word in the host's memory, again and again: what a drafted token
// pays at each check when the host decides how it goes on.
nlohmann::json measure_host_decision(Timer& timer) {
  using Clock = std::chrono::steady_clock;
  constexpr unsigned kWarm = 100, kRounds = 2000;
  unsigned *told = nullptr, *device_told = nullptr;
  SB_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&told), sizeof *told, cudaHostAllocMapped));
  SB_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_told), told, 0));
  const DeviceArray<unsigned> counter(1), other(1);
  const auto tell = [&](unsigned* count, Stream stream) {
    kernels::launch(tell_kernel, "tell", {.blocks = {1}, .threads = kernels::kWarp}, stream,
                    TellParams{count, device_told});
  };
  tell(other.data(), timer.stream());
  SB_CUDA(cudaStreamSynchronize(timer.stream()));
  *told = 0;
  const Graph graph =
      Graph::captured(timer.stream(), [&](Stream stream) { tell(counter.data(), stream); });
  std::vector<double> us;
  Clock::time_point last = Clock::now();
  for (unsigned i = 1; i <= kWarm + kRounds; ++i) {
    graph.launch(timer.stream());
    while (*static_cast<volatile unsigned*>(told) != i) {
      if (Clock::now() - last > std::chrono::seconds(5)) {
        SB_CUDA(cudaStreamSynchronize(timer.stream()));
        throw Error(ErrorCode::kUnsupported, "the GPU's word does not arrive in the host's memory");
      }
    }
    const Clock::time_point now = Clock::now();
    if (i > kWarm) us.push_back(std::chrono::duration<double, std::micro>(now - last).count());
    last = now;
  }
  SB_CUDA(cudaStreamSynchronize(timer.stream()));
  SB_CUDA(cudaFreeHost(told));
  return per_launch(us, 1);
}

}  // namespace

nlohmann::json measure_machine(Timer& timer, const cudaDeviceProp& device) {
  nlohmann::json out;
  out["read"] = measure_read(timer, device);
  out["copy"] = measure_copy(timer);
  out["launch"] = measure_gaps(timer, device);
  out["if_node"] = measure_if(timer);
  out["host_decision"] = measure_host_decision(timer);
  return out;
}

}  // namespace specbound::bench
