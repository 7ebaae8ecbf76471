// Microseconds of everything that decoding on a GPU is made of, as one JSON object on stdout: the
// machine first, then every kernel at the 1B, 7B and 13B shapes for 1..16 rows. gpu_kernels.py runs
// it and says how far it is from the targets.
// gpu_kernels [--shape 1b|7b|13b] [--only TEXT] [--samples N]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "gpu_operands.cuh"
#include "prefill_gemm.h"
#include "probe.h"

namespace specbound::bench {

namespace {

void fill(Timer& timer, void* memory, size_t bytes, uint32_t mask, uint32_t bits) {
  kernels::fill_random({static_cast<uint32_t*>(memory), bytes / 4, mask, bits, 0}, timer.stream());
  SB_CUDA(cudaStreamSynchronize(timer.stream()));
}

constexpr const char* kKindNames[] = {"other", "matmul", "layer", "one row", "prefill"};
constexpr size_t kArenaBytes = size_t{1} << 30;
constexpr double kGraphMicroseconds = 4000;  // long against the launch of a graph

// A kernel's time for each number of rows: {m, us, min, max} of one launch in a graph of many.
nlohmann::json measure_rows(Timer& timer, Operands& operands, const Case& c, double read_gb_s,
                            int samples) {
  const double guess = c.bytes / 1e3 / read_gb_s + c.operations / 2e8 + 4;
  const int n = std::clamp(static_cast<int>(kGraphMicroseconds / guess), 8, 1000);
  std::vector<int> counts(c.kind == Kind::kOneRow ? 1 : kernels::kMaxDecodeRows);
  std::iota(counts.begin(), counts.end(), 1);
  if (c.kind == Kind::kPrefill) counts = {kernels::kMaxPrefillRows};
  // Up to eight rows an engine takes other matmuls.
  const auto captured = [&](int m) {
    operands.set_pass(m, c.pos);
    operands.max_rows = m <= kernels::kPanelRows ? kernels::kPanelRows : kernels::kMaxDecodeRows;
    c.enqueue(timer.stream());
    SB_CUDA(cudaStreamSynchronize(timer.stream()));
    return Graph::captured(timer.stream(), [&](Stream stream) {
      for (int i = 0; i < n; ++i) c.enqueue(stream);
    });
  };
  const Graph few = captured(counts.front()), many = captured(counts.back());
  nlohmann::json rows = nlohmann::json::array();
  for (int m : counts) {
    operands.set_pass(m, c.pos);
    const Graph& graph = m <= kernels::kPanelRows ? few : many;
    nlohmann::json row =
        per_launch(timer.microseconds(samples, [&] { graph.launch(timer.stream()); }), n);
    row["m"] = m;
    rows.push_back(row);
  }
  return rows;
}

nlohmann::json measure_shape(Timer& timer, const Shape& shape, const std::string& only,
                             double read_gb_s, int samples) {
  Operands operands(timer);
  std::vector<Case> cases;
  add_int8_cases(shape, operands, cases);
  add_half_cases(shape, operands, cases);
  nlohmann::json out = nlohmann::json::array();
  for (const Case& c : cases) {
    if (c.name.find(only) == std::string::npos) continue;
    nlohmann::json entry = {{"shape", shape.name}, {"kernel", c.name}, {"pos", c.pos}};
    entry["kind"] = kKindNames[static_cast<int>(c.kind)];
    entry["bytes"] = c.bytes;
    if (c.operations > 0) entry["operations"] = c.operations;
    entry["read_us"] = c.bytes / 1e3 / read_gb_s;
    try {
      entry["rows"] = measure_rows(timer, operands, c, read_gb_s, samples);
    } catch (const Error& e) {
      throw Error(e.code(), format("%s %s: %s", shape.name, c.name.c_str(), e.what()));
    }
    std::fprintf(stderr, "%s %-24s %8.2f us, reading alone %8.2f us\n", shape.name, c.name.c_str(),
                 entry["rows"][0]["us"].get<double>(), entry["read_us"].get<double>());
    out.push_back(entry);
  }
  return out;
}

nlohmann::json describe(const cudaDeviceProp& device) {
  int driver = 0, runtime = 0, memory_khz = 0, clock_khz = 0;
  SB_CUDA(cudaDriverGetVersion(&driver));
  SB_CUDA(cudaRuntimeGetVersion(&runtime));
  SB_CUDA(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0));
  SB_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  return {{"name", device.name},
          {"sm", device.major * 10 + device.minor},
          {"multiprocessors", device.multiProcessorCount},
          {"memory_gb", static_cast<double>(device.totalGlobalMem) / 1e9},
          {"l2_mb", device.l2CacheSize / 1e6},
          {"memory_bus_bits", device.memoryBusWidth},
          {"memory_clock_mhz", memory_khz / 1000},
          {"clock_mhz", clock_khz / 1000},
          {"cuda_driver", driver},
          {"cuda_runtime", runtime}};
}

struct Arguments {
  std::string shape, only;  // empty: all
  int samples = 10;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (value && flag == "--shape") {
      a.shape = value;
    } else if (value && flag == "--only") {
      a.only = value;
    } else if (value && flag == "--samples" && std::atoi(value) > 0) {
      a.samples = std::atoi(value);
    } else {
      throw Error(ErrorCode::kUsage,
                  "usage: gpu_kernels [--shape 1b|7b|13b] [--only TEXT] [--samples N]");
    }
  }
  return a;
}

}  // namespace

Operands::Operands(Timer& timer)
    : arena_(kArenaBytes), scales_(kArenaBytes / 32), pass_(1), timer_(timer) {
  // Of every FP16 number one bit of the exponent is cleared: no infinity, no NaN.
  fill(timer, arena_.data(), arena_.bytes(), 0xbbffbbffu, 0);
  // Scales from 2^-14 to 2^-13: rows that pass through again and again stay finite.
  fill(timer, scales_.data(), scales_.bytes(), 0x03ff03ffu, 0x04000400u);
}

float* Operands::ones(size_t n) {
  float* values = keep<float>(n);
  fill(timer_, values, n * sizeof(float), 0, 0x3f800000u);
  return values;
}

float* Operands::noise(size_t n) {
  float* values = keep<float>(n);
  fill(timer_, values, n * sizeof(float), 0xbfffffffu, 0);
  return values;
}

AttentionRows::AttentionRows(const Shape& shape, Operands& operands) : s(shape), o(operands) {
  const size_t rows = kernels::kMaxDecodeRows, chunks = kContext / kernels::kAttentionChunk;
  qkv = o.noise(rows * (s.q_dim() + 2 * s.kv_dim()));
  cosine = o.ones(static_cast<size_t>(kContext) * s.head_dim);
  sine = o.noise(static_cast<size_t>(kContext) * s.head_dim);
  part_states = o.keep<float>(rows * s.n_heads * chunks * 2);
  part_outputs = o.keep<float>(chunks * rows * s.q_dim());
  attended = o.keep<float>(rows * s.q_dim());
}

kernels::Attend AttentionRows::attend(int context, const kernels::RowsI8& quantized) const {
  kernels::Attend p{};
  p.pass = o.pass();
  p.heads.n_heads = s.n_heads;
  p.heads.n_kv_heads = s.n_kv_heads;
  p.heads.head_dim = s.head_dim;
  p.heads.qkv = qkv;
  p.heads.norm_eps = 1e-5f;
  p.heads.cosine = cosine;
  p.heads.sine = sine;
  p.heads.rope_dim = s.head_dim;
  p.heads.score_scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  p.heads.kv = o.kv(s, kContext);
  p.context = context;
  p.part_states = part_states;
  p.part_outputs = part_outputs;
  p.attended = attended;
  p.quantized = quantized;
  return p;
}

nlohmann::json measure(const Arguments& a) {
  int n_devices = 0;
  SB_CUDA(cudaGetDeviceCount(&n_devices));
  if (n_devices == 0) throw Error(ErrorCode::kUnsupported, "no CUDA device");
  cudaDeviceProp device{};
  SB_CUDA(cudaGetDeviceProperties(&device, 0));
  Timer timer;
  nlohmann::json out = {{"device", describe(device)}, {"machine", measure_machine(timer, device)}};
  const double read_gb_s = out["machine"]["read"]["gb_s"];
  out["kernels"] = nlohmann::json::array();
  for (const Shape& shape : kShapes) {
    if (!a.shape.empty() && a.shape != shape.name) continue;
    for (auto& entry : measure_shape(timer, shape, a.only, read_gb_s, a.samples)) {
      out["kernels"].push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace specbound::bench

int main(int argc, char** argv) try {
  std::printf("%s\n",
              specbound::bench::measure(specbound::bench::parse(argc, argv)).dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_kernels: %s\n", e.what());
  return 1;
}
