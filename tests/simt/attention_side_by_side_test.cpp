// Attention of rows that are each of a text of its own, and a text's beginning copied: the CPU
// backend's bits of every row alone, whatever stands in the other texts.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "copy_prefix.h"
#include "simt/attention_rig.h"

namespace attention_side_by_side_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

constexpr int kContext = 256, kSequences = 5;

// One layer of kSequences texts: problem i is the next row of sequence of[i].
struct Company {
  std::vector<HeadProblem> rows;
  std::vector<int> of;

  Company(const HeadShape& shape, const std::vector<int>& positions, std::vector<int> of)
      : of(std::move(of)) {
    for (size_t i = 0; i < positions.size(); ++i) {
      HeadProblem row(shape, kContext, positions[i], 1);
      const HeadProblem other(shape, kContext, positions[i], 1, 20 + 10 * i);
      row.qkv = other.qkv;  // weights are those of all
      row.k = other.k;
      row.v = other.v;
      rows.push_back(std::move(row));
    }
  }
};

PassResult attend_together(const Company& company) {
  const HeadProblem& first = company.rows[0];
  const HeadShape& shape = first.shape;
  const int n = static_cast<int>(company.rows.size()), q_dim = shape.q_dim();
  const int chunks = kContext / kernels::kAttentionChunk, most = kernels::kMaxDecodeRows;
  const size_t each = first.k.size();
  HeadProblem together = first;
  together.qkv.clear();
  together.k.assign((2 * kSequences - 1) * each, HeadProblem::kNanHalf);  // K and V by turns
  kernels::RowSequences table{};
  int longest = 0;
  for (int i = 0; i < n; ++i) {
    const HeadProblem& row = company.rows[i];
    together.qkv.insert(together.qkv.end(), row.qkv.begin(), row.qkv.end());
    std::copy(row.k.begin(), row.k.end(), together.k.begin() + 2 * company.of[i] * each);
    table.pos[i] = row.pos;
    table.sequence[i] = company.of[i];
    longest = std::max(longest, row.pos + 1);
  }
  together.v.assign((2 * kSequences - 1) * each, HeadProblem::kNanHalf);
  for (int i = 0; i < n; ++i) {
    const HeadProblem& row = company.rows[i];
    std::copy(row.v.begin(), row.v.end(), together.v.begin() + 2 * company.of[i] * each);
  }
  HeadBuffers buffers(together);
  const DeviceBuffer<kernels::Pass> pass(std::vector<kernels::Pass>{{n, 0}});
  const DeviceBuffer<kernels::RowSequences> sequences(std::vector<kernels::RowSequences>{table});
  DeviceBuffer<float> states(static_cast<size_t>(most) * shape.n_heads * chunks * 2);
  DeviceBuffer<float> outputs(static_cast<size_t>(chunks) * most * q_dim);
  DeviceBuffer<float> attended(static_cast<size_t>(most) * q_dim);
  kernels::Attend a{pass.data(),    buffers.heads,   (longest + 63) / 64 * 64, states.data(),
                    outputs.data(), attended.data(), {q_dim, nullptr, nullptr}};
  a.sequences = sequences.data();
  a.next_sequence = 2 * each;
  kernels::attend_side_by_side(a, n <= 4 ? n : most, simt::stream());
  kernels::combine_chunks(a, simt::stream());
  return {attended.read(), {}, {}, buffers.k.read(), buffers.v.read()};
}

void check_company(const Company& company) {
  CAPTURE(company.rows[0].int8);
  const HeadShape& shape = company.rows[0].shape;
  CAPTURE(shape.n_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  const size_t each = company.rows[0].k.size(), q_dim = shape.q_dim();
  const std::vector<uint16_t> untouched(each, HeadProblem::kNanHalf);
  std::vector<float> attended;
  std::vector<std::vector<uint16_t>> k(kSequences, untouched), v(kSequences, untouched);
  for (size_t i = 0; i < company.rows.size(); ++i) {
    const HeadResult alone = attend_on_cpu(company.rows[i]);
    attended.insert(attended.end(), alone.attended.begin(), alone.attended.end());
    k[company.of[i]] = alone.k;
    v[company.of[i]] = alone.v;
  }
  simt::for_each_order([&] {
    PassResult found = attend_together(company);
    found.attended.resize(company.rows.size() * q_dim);
    CHECK(same_floats(found.attended, attended));
    for (int s = 0; s < kSequences; ++s) {
      const auto k_at = found.k.begin() + 2 * s * each, v_at = found.v.begin() + 2 * s * each;
      CHECK(std::equal(k[s].begin(), k[s].end(), k_at));
      CHECK(std::equal(v[s].begin(), v[s].end(), v_at));
    }
  });
}

}  // namespace

TEST_CASE("attention side by side: each row has the CPU's bits, from its own text alone") {
  HeadShape plain{4, 2, 16}, queries{20, 1, 40}, windows{10, 2, 8}, wide{2, 2, 136};
  queries.bias = queries.norm = true;
  queries.rotated = 24;
  windows.window = 20;
  windows.softcap = 2;
  wide.interleaved = true;
  wide.rotated = 64;
  for (const HeadShape& shape : {plain, queries, windows, wide}) {
    for (Company company :
         {Company{shape, {0}, {3}}, Company{shape, {63, 64, 0, 200, 18}, {4, 0, 2, 1, 3}},
          Company{shape, {255, 127}, {1, 4}}}) {
      check_company(company);
      for (HeadProblem& row : company.rows) row = row.in_int8();
      check_company(company);
    }
  }
}

TEST_CASE("copy_prefix: the first positions of every head and layer, and nothing else") {
  std::mt19937_64 random(1);
  for (const bool int8 : {false, true}) {
    for (const int n : {1, 15, 16, 17, 100, 128}) {
      constexpr int kCopied = 128;  // positions of the cache
      const int head_dim = n % 2 == 0 ? 8 : 40, layers = 1 + n % 3, heads = 1 + n % 2;
      // A position's numbers and scales, in halves; they lie in blocks of 16.
      const size_t position = kernels::kv_bytes(int8, head_dim, 16) / 16 / sizeof(uint16_t);
      CHECK(position == (int8 ? head_dim / 2 + (head_dim + 31) / 32 : head_dim));
      const size_t each = kCopied * heads * position, of_layer = 2 * each;
      std::vector<uint16_t> before(2 * layers * of_layer);
      for (uint16_t& x : before) x = static_cast<uint16_t>(random());
      std::vector<uint16_t> expected = before;
      const size_t to = layers * of_layer;  // from the second text to the first
      for (int l = 0; l < layers; ++l) {
        for (int h = 0; h < heads; ++h) {
          const size_t head = l * of_layer + h * kCopied * position;
          for (const size_t k_or_v : {head, head + each}) {
            std::copy_n(before.begin() + to + k_or_v, (n + 15) / 16 * 16 * position,
                        expected.begin() + k_or_v);
          }
        }
      }
      const std::vector<uint16_t> found = simt::for_each_order([&] {
        const DeviceBuffer<uint16_t> kv(before);
        uint16_t *first = kv.data(), *second = first + to;
        kernels::copy_prefix({{second, second + each, kCopied, int8},
                              {first, first + each, kCopied, int8},
                              of_layer * sizeof(uint16_t),
                              layers,
                              heads,
                              head_dim,
                              n},
                             simt::stream());
        return kv.read();
      });
      CHECK(found == expected);
    }
  }
}

}  // namespace attention_side_by_side_test
