// Attention of rows of several texts, one of each or trees, and a text's beginning copied: the CPU
// backend's bits of every text alone, whatever stands in the others.
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

// Rows of a text in a pass: its next one, and what follows that.
struct TextRows {
  int pos;
  int n = 1;
  RowPaths paths = {};  // a chain
};

// One layer of kSequences texts: problem i is the rows of sequence of[i].
struct Company {
  std::vector<HeadProblem> texts;
  std::vector<int> of;

  Company(const HeadShape& shape, const std::vector<TextRows>& rows, std::vector<int> of)
      : of(std::move(of)) {
    for (size_t i = 0; i < rows.size(); ++i) {
      HeadProblem text(shape, kContext, rows[i].pos, rows[i].n);
      const HeadProblem other(shape, kContext, rows[i].pos, rows[i].n, 20 + 10 * i);
      text.qkv = other.qkv;  // weights are those of all
      text.k = other.k;
      text.v = other.v;
      texts.push_back(text.in_tree(rows[i].paths, 0));
    }
  }
};

PassResult attend_together(const Company& company) {
  const HeadProblem& first = company.texts[0];
  const HeadShape& shape = first.shape;
  const int q_dim = shape.q_dim();
  const int chunks = kContext / kernels::kAttentionChunk, most = kernels::kMaxDecodeRows;
  const size_t each = first.k.size();
  HeadProblem together = first;
  together.qkv.clear();
  together.k.assign((2 * kSequences - 1) * each, HeadProblem::kNanHalf);  // K and V by turns
  together.v = together.k;
  kernels::RowSequences table{};
  kernels::RowTree paths{};
  int n = 0, longest = 0;
  bool drafts = false;
  for (size_t i = 0; i < company.texts.size(); ++i) {
    const HeadProblem& text = company.texts[i];
    together.qkv.insert(together.qkv.end(), text.qkv.begin(), text.qkv.end());
    std::copy(text.k.begin(), text.k.end(), together.k.begin() + 2 * company.of[i] * each);
    std::copy(text.v.begin(), text.v.end(), together.v.begin() + 2 * company.of[i] * each);
    const kernels::RowTree of_text = row_tree(text);
    for (int row = 0; row < text.n_rows; ++row, ++n) {
      table.pos[n] = text.position(row);
      table.sequence[n] = company.of[i];
      paths.path[n] = of_text.path[row];
      paths.depth[n] = of_text.depth[row];
      longest = std::max(longest, text.position(row) + 1);
    }
    drafts |= text.n_rows > 1;
  }
  HeadBuffers buffers(together);
  const DeviceBuffer<kernels::Pass> pass(std::vector<kernels::Pass>{{n, 0}});
  const DeviceBuffer<kernels::RowSequences> sequences(std::vector<kernels::RowSequences>{table});
  const DeviceBuffer<kernels::RowTree> tree(std::vector<kernels::RowTree>{paths});
  DeviceBuffer<float> states(static_cast<size_t>(most) * shape.n_heads * chunks * 2);
  DeviceBuffer<float> outputs(static_cast<size_t>(chunks) * most * q_dim);
  DeviceBuffer<float> attended(static_cast<size_t>(most) * q_dim);
  kernels::Attend a{pass.data(),    buffers.heads,   (longest + 63) / 64 * 64, states.data(),
                    outputs.data(), attended.data(), {q_dim, nullptr, nullptr}};
  if (drafts) a.tree = tree.data();
  a.sequences = sequences.data();
  a.next_sequence = 2 * each;
  kernels::attend_side_by_side(a, n <= 4 ? n : most, simt::stream());
  kernels::combine_chunks(a, simt::stream());
  PassResult out{attended.read(), {}, {}, buffers.k.read(), buffers.v.read()};
  out.attended.resize(static_cast<size_t>(n) * q_dim);
  return out;
}

void check_company(const Company& company) {
  const HeadShape& shape = company.texts[0].shape;
  CAPTURE(company.texts[0].int8);
  CAPTURE(company.texts[0].pos);
  CAPTURE(shape.n_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.window);
  const size_t each = company.texts[0].k.size();
  const std::vector<uint16_t> untouched(each, HeadProblem::kNanHalf);
  std::vector<float> attended;
  std::vector<std::vector<uint16_t>> k(kSequences, untouched), v(kSequences, untouched);
  for (size_t i = 0; i < company.texts.size(); ++i) {
    const HeadResult alone = attend_on_cpu(company.texts[i]);
    attended.insert(attended.end(), alone.attended.begin(), alone.attended.end());
    k[company.of[i]] = alone.k;
    v[company.of[i]] = alone.v;
  }
  simt::for_each_order([&] {
    const PassResult found = attend_together(company);
    CHECK(same_floats(found.attended, attended));
    for (int s = 0; s < kSequences; ++s) {
      const auto k_at = found.k.begin() + 2 * s * each, v_at = found.v.begin() + 2 * s * each;
      CHECK(std::equal(k[s].begin(), k[s].end(), k_at));
      CHECK(std::equal(v[s].begin(), v[s].end(), v_at));
    }
  });
}

void check_with_each_kv(Company company) {
  check_company(company);
  for (HeadProblem& text : company.texts) text = text.in_int8();
  check_company(company);
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
    check_with_each_kv({shape, {{0}}, {3}});
    check_with_each_kv({shape, {{63}, {64}, {0}, {200}, {18}}, {4, 0, 2, 1, 3}});
    check_with_each_kv({shape, {{255}, {127}}, {1, 4}});
  }
}

TEST_CASE("attention side by side: trees and chains of several texts have the CPU's bits") {
  std::mt19937_64 random(1);
  HeadShape plain{4, 2, 16}, queries{20, 1, 40}, windows{10, 2, 8}, wide{2, 2, 136};
  queries.bias = queries.norm = true;
  queries.rotated = 24;
  windows.window = 9;
  windows.softcap = 2;
  wide.interleaved = true;
  wide.rotated = 64;
  for (const HeadShape& shape : {plain, queries, windows, wide}) {
    // Rows before the border of a chunk whose ancestors lie behind it, at other positions.
    check_with_each_kv(
        {shape, {{60, 6, shifted()}, {64, 4}, {61, 5, random_paths(random)}, {200}}, {4, 0, 2, 1}});
    check_with_each_kv(
        {shape, {{127}, {62, 7, siblings()}, {63, 8, random_paths(random)}}, {0, 3, 1}});
  }
  windows.window = 3;
  for (int root = 57; root < 65; ++root) {
    check_with_each_kv({windows, {{root, 14, random_paths(random)}, {255}, {0}}, {2, 0, 4}});
  }
  check_with_each_kv({{3, 1, 256}, {{0, 3, siblings()}, {240, 13, random_paths(random)}}, {1, 3}});
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
