// Shapes to measure: the named ones are what they are called, made-up ones are checked.
#include "tools/bench_shapes.h"

#include <doctest/doctest.h>

#include "expect_error.h"
#include "model/config.h"
#include "tools/bench_model.h"

namespace bench_shapes_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("named shapes have the parameters that their names say") {
  const auto parameters = [](const char* shape) {
    const ModelConfig c = bench_config(shape);
    return c.n_layers *
               (2.0 * c.dim * c.q_dim() + 2.0 * c.dim * c.kv_dim() + 3.0 * c.dim * c.ffn_dim) +
           2.0 * c.vocab_size * c.dim;
  };
  CHECK(parameters("1b") == doctest::Approx(1.1e9).epsilon(0.01));
  CHECK(parameters("7b") == doctest::Approx(6.74e9).epsilon(0.01));
  CHECK(parameters("13b") == doctest::Approx(13.0e9).epsilon(0.01));
}

TEST_CASE("made-up shapes: layers, dim, ffn, heads, K/V heads, vocabulary") {
  const ModelConfig c = bench_config("4x256x704x8x4x512");
  CHECK(c.n_layers == 4);
  CHECK(c.dim == 256);
  CHECK(c.ffn_dim == 704);
  CHECK(c.n_heads == 8);
  CHECK(c.n_kv_heads == 4);
  CHECK(c.head_dim == 32);
  CHECK(c.vocab_size == 512);
  for (const char* bad : {"",
                          "8b",
                          "7B",
                          "4x256x704x8x4",
                          "4x256x704x8x4x512x1",
                          "4x256x704x8x4x",
                          "x256x704x8x4x512",
                          "0x256x704x8x4x512",
                          "-4x256x704x8x4x512",
                          "4x250x704x8x4x512",
                          "4x256x700x8x4x512",
                          "4x256x704x7x4x512",
                          "4x256x704x8x3x512",
                          "4x256x704x8x16x512",
                          "4x256x704x256x4x512",
                          "4x256x704x8x4x0",
                          "99999999999999999999x256x704x8x4x512",
                          "4x256x704x8x4x1000000000",
                          " 4x256x704x8x4x512",
                          "4x256x704x8x4x5e2",
                          "4X256X704X8X4X512"}) {
    CAPTURE(bad);
    check_mentions(expect_error(ErrorCode::kUsage, [&] { bench_config(bad); }),
                   {"--shape", "expected"});
  }
}

TEST_CASE("bytes of a pass: what is stored, and the K/V that are there") {
  const ModelConfig c = bench_config("4x256x704x8x4x512");
  const double weights = 256.0 * 256 * 2 + 2.0 * 128 * 256 + 3.0 * 704 * 256;
  const ModelBytes int8 = model_bytes(c, true), fp16 = model_bytes(c, false);
  CHECK(int8.layer == doctest::Approx(weights * 34 / 32 + 2 * 4 * 256));
  CHECK(fp16.layer == doctest::Approx(weights * 2 + 2 * 4 * 256));
  CHECK(fp16.lm_head == doctest::Approx(512.0 * 256 * 2));
  CHECK(int8.row(9) - int8.row(0) == doctest::Approx(9 * 2 * 2 * 128));
  CHECK(int8.token(0) == doctest::Approx(4 * int8.row(0) + int8.lm_head));
  const ModelBytes kv_int8 = model_bytes(c, true, KvType::kInt8);
  CHECK(kv_int8.row(9) - kv_int8.row(0) == doctest::Approx(9 * 2 * 128 * 34.0 / 32));
}

}  // namespace bench_shapes_test
