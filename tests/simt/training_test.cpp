// The kernels of training against formulas in double and, for AdamW, the CPU's.
#include "training.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/cpu/thread_pool.h"
#include "numerics/half.h"
#include "simt/rig.h"
#include "train/adamw.h"

namespace training_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

std::vector<double> softmax(const float* z, int n, double& log_total) {
  double top = z[0], total = 0;
  for (int i = 1; i < n; ++i) top = std::max(top, double(z[i]));
  std::vector<double> p(n);
  for (int i = 0; i < n; ++i) total += p[i] = std::exp(z[i] - top);
  for (double& v : p) v /= total;
  log_total = std::log(total) + top;
  return p;
}

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("halves are the nearest, and none of them is infinite") {
  const int n_rows = 3, n = 300, ld_from = 303, ld_to = 310;
  std::vector<float> from = random_floats(size_t(n_rows) * ld_from, 1);
  from[0] = 1e9f;
  from[1] = -70000;
  from[2] = 1e-9f;
  const std::vector<uint16_t> before(size_t(n_rows) * ld_to, 0x1234);
  simt::for_each_order([&] {
    const DeviceBuffer<float> device_from(from);
    const DeviceBuffer<uint16_t> to(before);
    kernels::halve_rows({device_from.data(), n_rows, n, ld_from, 2, to.data(), ld_to},
                        simt::stream());
    std::vector<uint16_t> expected = before;
    for (int r = 0; r < n_rows; ++r) {
      for (int i = 0; i < n; ++i) {
        expected[size_t(r) * ld_to + i] = float_to_half(2 * from[size_t(r) * ld_from + i]);
      }
    }
    expected[0] = float_to_half(65504);
    expected[1] = float_to_half(-65504);
    CHECK(to.read() == expected);
  });
}

TEST_CASE("rows are gathered from their places, planes and positions on") {
  const int n = 40, chunk_rows[] = {5, 7}, n_planes = 3, ld = 48;
  std::vector<std::vector<uint16_t>> chunks;
  for (const int rows : chunk_rows) {
    std::vector<uint16_t> values(size_t(n_planes) * rows * n);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<uint16_t>(i * 31 + chunks.size() * 7);
    }
    chunks.push_back(values);
  }
  const std::vector<std::pair<int, int>> rows = {{1, 3}, {0, 1}, {1, 5}, {0, 3}};
  simt::for_each_order([&] {
    const DeviceBuffer<uint16_t> first(chunks[0]), second(chunks[1]);
    const uint16_t* const begin[] = {first.data(), second.data()};
    std::vector<kernels::RowPlace> places;
    for (const auto& [chunk, row] : rows) {
      places.push_back({begin[chunk] + row * n, int64_t{chunk_rows[chunk]} * n});
    }
    const DeviceBuffer<kernels::RowPlace> device_places(places);
    for (const int plane : {0, 2}) {
      for (const int ahead : {-1, 0, 1}) {
        const DeviceBuffer<uint16_t> to(std::vector<uint16_t>(rows.size() * ld, 0xffff));
        kernels::gather_rows(
            {device_places.data(), static_cast<int>(rows.size()), plane, ahead, n, to.data(), ld},
            simt::stream());
        const std::vector<uint16_t> found = to.read();
        for (size_t r = 0; r < rows.size(); ++r) {
          const auto [chunk, row] = rows[r];
          const uint16_t* wanted =
              &chunks[chunk][(size_t(plane) * chunk_rows[chunk] + row + ahead) * n];
          for (int i = 0; i < ld; ++i) REQUIRE(found[r * ld + i] == (i < n ? wanted[i] : 0xffff));
        }
      }
    }
  });
}

TEST_CASE("targets are a softmax, losses a divergence, and its gradient") {
  const int n_rows = 3;
  const auto check = [&](int width, float softcap, float factor) {
    CAPTURE(width);
    CAPTURE(softcap);
    std::vector<float> goal = random_floats(size_t(n_rows) * width, 1, 3);
    std::vector<float> z = random_floats(goal.size(), 2, 3);
    if (width > 9) {
      z[5] = -1e30f;
      goal[9] = 200;  // all of the row's probability, where it is not capped
    }
    const std::vector<float> out = simt::for_each_order([&] {
      const DeviceBuffer<float> p(goal), entropy(n_rows), device_z(z), loss(n_rows);
      const DeviceBuffer<uint16_t> gradient(goal.size());
      kernels::target_rows({p.data(), n_rows, width, softcap, factor, entropy.data()},
                           simt::stream());
      kernels::divergence_rows({device_z.data(), p.data(), entropy.data(), n_rows, width, softcap,
                                gradient.data(), loss.data()},
                               simt::stream());
      std::vector<float> halves;
      for (const uint16_t half : gradient.read()) halves.push_back(half_to_float(half));
      return joined(joined(p.read(), entropy.read()), joined(loss.read(), halves));
    });
    const auto cap = [&](float x) { return softcap > 0 ? softcap * std::tanh(x / softcap) : x; };
    std::vector<float> slope;
    for (float& x : z) {
      x = cap(x);
      slope.push_back(softcap > 0 ? 1 - x / softcap * (x / softcap) : 1);
    }
    for (float& x : goal) x = factor * cap(x);
    const float *p = out.data(), *entropy = p + goal.size(), *loss = entropy + n_rows;
    const float* gradient = loss + n_rows;
    for (int r = 0; r < n_rows; ++r) {
      double log_goal, log_z, h = 0, kl = 0;
      const size_t at = size_t(r) * width;
      const std::vector<double> wanted = softmax(&goal[at], width, log_goal);
      const std::vector<double> q = softmax(&z[at], width, log_z);
      for (int i = 0; i < width; ++i) {
        REQUIRE(p[at + i] == doctest::Approx(wanted[i]).epsilon(1e-5));
        REQUIRE(std::abs(gradient[at + i] - (q[i] - wanted[i]) * slope[at + i]) < 4e-4);
        h -= wanted[i] * (goal[at + i] - log_goal);
        kl += wanted[i] * ((goal[at + i] - log_goal) - (z[at + i] - log_z));
      }
      CHECK(entropy[r] == doctest::Approx(h).epsilon(1e-4));
      CHECK(loss[r] == doctest::Approx(kl).epsilon(1e-4));
    }
  };
  for (const int width : {1, 31, 700}) check(width, 0, 1);
  check(31, 0, 1.5f);
  check(31, 2, 1);
  check(300, 2, 1.5f);
}

TEST_CASE("losses are summed and added up in double") {
  const std::vector<float> loss = random_floats(777, 3);
  double wanted = 0;
  for (const float v : loss) wanted += v;
  const auto sums = simt::for_each_order([&] {
    const DeviceBuffer<float> device_loss(loss);
    const DeviceBuffer<double> sum(2);
    kernels::sum_losses({device_loss.data(), 777, false, sum.data()}, simt::stream());
    kernels::sum_losses({device_loss.data(), 777, false, sum.data() + 1}, simt::stream());
    kernels::sum_losses({device_loss.data(), 700, true, sum.data() + 1}, simt::stream());
    return sum.read();
  });
  CHECK(sums[0] == doctest::Approx(wanted).epsilon(1e-12));
  for (size_t i = 0; i < 700; ++i) wanted += loss[i];
  CHECK(sums[1] == doctest::Approx(wanted).epsilon(1e-12));
}

TEST_CASE("silu and what its gradient says of its input") {
  std::vector<float> h = random_floats(1000, 3, 3), d = random_floats(1000, 4);
  h[0] = -200;
  h[1] = 200;
  simt::for_each_order([&] {
    const DeviceBuffer<float> device_h(h), device_d(d);
    const DeviceBuffer<uint16_t> active(h.size()), d_hidden(h.size());
    kernels::silu_halves({device_h.data(), h.size(), active.data()}, simt::stream());
    kernels::silu_backward({device_h.data(), device_d.data(), h.size(), d_hidden.data()},
                           simt::stream());
    const std::vector<uint16_t> a = active.read(), b = d_hidden.read();
    for (size_t i = 0; i < h.size(); ++i) {
      const double s = 1 / (1 + std::exp(-double(h[i])));
      REQUIRE(half_to_float(a[i]) == doctest::Approx(h[i] * s).epsilon(1e-3));
      REQUIRE(half_to_float(b[i]) ==
              doctest::Approx(d[i] * s * (1 + h[i] * (1 - s))).epsilon(1e-3).scale(0.1));
    }
  });
}

TEST_CASE("parts are added to sums in double") {
  const std::vector<float> part = random_floats(5000, 3);
  std::vector<double> total(part.size(), 1e6);
  const auto sums = simt::for_each_order([&] {
    const DeviceBuffer<float> device_part(part);
    const DeviceBuffer<double> device_total(total);
    kernels::add_to_doubles({device_part.data(), part.size(), device_total.data()}, simt::stream());
    return device_total.read();
  });
  for (size_t i = 0; i < part.size(); ++i) REQUIRE(sums[i] == 1e6 + double(part[i]));
}

TEST_CASE("a step of AdamW is the CPU's, with long gradients shortened") {
  ThreadPool pool(1);
  AdamW adam;
  for (const float size : {0.01f, 3.0f}) {
    CAPTURE(size);
    Parameter a, b;
    uint64_t seed = 1;
    const size_t n[] = {70000, 1028};
    for (Parameter* p : {&a, &b}) {
      const size_t values = n[p == &b];
      p->resize(values);
      p->value = random_floats(values, seed++);
      p->gradient = random_floats(values, seed++, size);
      p->mean = random_floats(values, seed++, 0.1f);
      p->square = random_floats(values, seed++, 0.1f);
      for (float& v : p->square) v = std::abs(v);
    }
    const Parameter before[] = {a, b};
    const auto found = simt::for_each_order([&] {
      const int parts_of[] = {kernels::square_parts_of(n[0]), kernels::square_parts_of(n[1])};
      CHECK(parts_of[0] == 5);
      const DeviceBuffer<double> parts(parts_of[0] + parts_of[1]);
      std::vector<float> all;
      std::vector<DeviceBuffer<float>> gradients;
      for (int i = 0; i < 2; ++i) {
        gradients.emplace_back(before[i].gradient);
        kernels::square_parts(
            {gradients[i].data(), n[i], parts.data() + (i == 0 ? 0 : parts_of[0])}, simt::stream());
      }
      for (int i = 0; i < 2; ++i) {
        const DeviceBuffer<float> value(before[i].value), mean(before[i].mean);
        const DeviceBuffer<float> square(before[i].square);
        const DeviceBuffer<uint16_t> half(n[i]);
        kernels::AdamWStep step{};
        step.value = value.data();
        step.mean = mean.data();
        step.square = square.data();
        step.gradient = gradients[i].data();
        step.half = half.data();
        step.n = n[i];
        step.parts = parts.data();
        step.n_parts = parts_of[0] + parts_of[1];
        step.max_norm = adam.max_norm;
        step.rate = 1e-3f;
        step.keep = 1 - 1e-3f * adam.weight_decay;
        step.beta1 = adam.beta1;
        step.beta2 = adam.beta2;
        step.epsilon = adam.epsilon;
        step.mean_scale = static_cast<float>(1 / (1 - std::pow(double{adam.beta1}, 3.0)));
        step.square_scale = static_cast<float>(1 / (1 - std::pow(double{adam.beta2}, 3.0)));
        kernels::adamw_step(step, simt::stream());
        all = joined(all, joined(joined(value.read(), mean.read()), square.read()));
        const std::vector<float> values = value.read();
        const std::vector<uint16_t> halves = half.read();
        for (size_t k = 0; k < n[i]; ++k) REQUIRE(halves[k] == float_to_half(values[k]));
      }
      return all;
    });
    Parameter* both[] = {&a, &b};
    adam.step(pool, both, 3, 1e-3f);
    std::vector<float> wanted;
    for (const Parameter* p : both) {
      wanted = joined(wanted, joined(joined(p->value, p->mean), p->square));
    }
    REQUIRE(found.size() == wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      REQUIRE(found[i] == doctest::Approx(wanted[i]).epsilon(1e-5).scale(0.1));
    }
  }
}

}  // namespace training_test
