// How many kernels a layer of a decode pass takes: what lies between them is no work.
#include <doctest/doctest.h>

#include <vector>

#include "simt/cuda_rig.h"

namespace cuda_launches_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

struct Case {
  const char* architecture;
  DType type;
  int alone, together;     // launches of a layer for one row, and for more
  int outputs_shared = 0;  // not 0: so many outputs share one K/V head
};

// Of `n` rows through layer 2, which is in a graph when it comes the second time.
int launches_of_layer(const Case& c, int n, bool graphs) {
  TinySpec spec = q8_0_spec(3);
  spec.architecture = c.architecture;
  spec.type = c.type;
  spec.tied = spec.architecture == "gemma2";
  if (c.outputs_shared > 0) {
    spec.head_dim = 128;
    spec.n_heads = c.outputs_shared / spec.head_dim;
    spec.n_kv_heads = 1;
  }
  if (spec.architecture == "qwen3moe") spec.types["ffn_gate_inp.weight"] = DType::kF32;
  const TinyModel model(spec);
  CudaOptions options;
  options.graphs = graphs;
  simt::DeviceLog log;
  const auto backend = cuda_backend(model, options, &log);
  const auto launches = [&](int to) {
    backend->truncate(0);
    for (int i = 0; i < n; ++i) backend->embed(i, 7 + i);
    const int before = log.launches;
    backend->run_layers(0, n, 0, 1, to);
    return log.launches - before;
  };
  int found = 0;
  for (int time = 0; time < 2; ++time) found = launches(3) - launches(2);
  return found;
}

}  // namespace

TEST_CASE("CUDA engine: a layer of a pass of one row is five launches, of more rows eight") {
  for (const Case& c :
       {Case{"llama", DType::kQ8_0, 5, 8}, Case{"qwen2", DType::kQ4_0, 5, 8},
        Case{"qwen3", DType::kQ8_0, 5, 8}, Case{"gemma2", DType::kQ8_0, 7, 10},
        Case{"qwen3moe", DType::kQ8_0, 11, 13}, Case{"llama", DType::kF16, 9, 10},
        Case{"llama", DType::kQ8_0, 5, 8, 8192}, Case{"llama", DType::kQ8_0, 6, 8, 8448}}) {
    CAPTURE(c.architecture);
    CAPTURE(c.outputs_shared);
    CAPTURE(static_cast<int>(c.type));
    for (const bool graphs : {false, true}) {
      CAPTURE(graphs);
      CHECK(launches_of_layer(c, 1, graphs) == c.alone);
      CHECK(launches_of_layer(c, 2, graphs) == c.together);
    }
  }
}

}  // namespace cuda_launches_host_test
