// What a block adds, normed: the CPU's bits, in the slots of the pass and no others.
#include "post_norm.h"

#include <doctest/doctest.h>

#include "simt/rig.h"

namespace post_norm_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

constexpr float kEps = 1e-6f;
constexpr int kSlots = 16;

struct Problem {
  int n_rows, slot, dim;
  std::vector<float> y, weight, bias, h;

  Problem(int n_rows, int slot, int dim, bool biased)
      : n_rows(n_rows),
        slot(slot),
        dim(dim),
        y(random_floats(static_cast<size_t>(n_rows) * dim, 1, 3)),
        weight(random_floats(dim, 2, 0.2f, 1)),
        bias(random_floats(biased ? dim : 0, 3)),
        h(random_floats(static_cast<size_t>(std::max(kSlots, n_rows)) * dim, 4)) {
    if (n_rows > 2) y[2 * dim + 1] = std::nanf("");
    if (n_rows > 3) std::fill_n(y.begin() + 3 * dim, dim, 0.0f);
  }
};

std::vector<float> on_device(const Problem& p, int max_rows) {
  const DeviceBuffer<kernels::Pass> pass(std::vector<kernels::Pass>{{p.n_rows, 7, p.slot}});
  const DeviceBuffer<float> y(p.y), weight(p.weight), bias(p.bias), h(p.h);
  kernels::add_normed({pass.data(), y.data(), p.bias.empty() ? nullptr : bias.data(), weight.data(),
                       p.dim, kEps, h.data(), max_rows},
                      simt::stream());
  return h.read();
}

std::vector<float> on_cpu(const Problem& p, Isa isa) {
  std::vector<float> h = p.h, y(p.dim);
  for (int r = 0; r < p.n_rows; ++r) {
    std::copy_n(&p.y[size_t(r) * p.dim], p.dim, y.begin());
    for (size_t i = 0; i < p.bias.size(); ++i) y[i] += p.bias[i];
    kernels_for(isa).rmsnorm(y.data(), p.weight.data(), kEps, p.dim, y.data());
    for (int i = 0; i < p.dim; ++i) h[size_t(p.slot + r) * p.dim + i] += y[i];
  }
  return h;
}

}  // namespace

TEST_CASE("post norms: the CPU's bits, decode and prefill rows") {
  for (const bool biased : {false, true}) {
    for (const int dim : {4, 36, 96, 1000, 8200}) {  // the last in two parts
      CAPTURE(dim);
      const Problem few(5, 3, dim, biased), all(16, 0, dim, biased), one(1, 15, dim, biased);
      for (const Problem* p : {&few, &all, &one}) {
        const std::vector<float> found = on_device(*p, kernels::kMaxDecodeRows);
        for (const Isa isa : two_isas()) CHECK(same_floats(found, on_cpu(*p, isa)));
      }
    }
    const Problem chunk(70, 0, 64, biased);
    CHECK(same_floats(on_device(chunk, 70), on_cpu(chunk, best_isa())));
    CHECK(same_floats(on_device(chunk, 512), on_cpu(chunk, best_isa())));
  }
}

TEST_CASE("post norms: no matter in which order threads run") {
  const Problem p(6, 2, 300, true);
  CHECK(same_floats(simt::for_each_order([&] { return one_nan(on_device(p, 16)); }),
                    on_cpu(p, best_isa())));
}

}  // namespace post_norm_test
