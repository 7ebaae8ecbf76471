// Every special instruction that the kernels use, each with a host meaning: the one file with PTX.
// Under nvcc a function is the instruction; elsewhere it is what the instruction does, run by the
// SIMT executor (tests/simt), which provides threads, blocks, barriers and shared memory.
//
// Floating point is IEEE to nearest, without contraction, without flushing: nvcc is given
// -fmad=false -ftz=false -prec-div=true -prec-sqrt=true, and fma is always written out.
//
// The operations of a warp (shuffles, votes, mma) are for all 32 lanes together.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define SPECBOUND_DEVICE __device__ __forceinline__
#define SPECBOUND_HOST_DEVICE __host__ __device__ __forceinline__
#define SPECBOUND_WHERE
#else
#include <bit>
#include <cmath>

#include "numerics/half.h"
#include "simt/device.h"
#define SPECBOUND_DEVICE inline
#define SPECBOUND_HOST_DEVICE inline
// Of a warp operation: the line that calls it, at which the executor wants all lanes to be.
#define SPECBOUND_WHERE , const char *file = __builtin_FILE(), int line = __builtin_LINE()
#endif

namespace specbound::kernels {

inline constexpr int kWarp = 32;

// ---- vectors as memory holds them ----

struct alignas(8) Word2 {
  uint32_t x, y;
};
struct alignas(16) Word4 {
  uint32_t x, y, z, w;
};
struct alignas(8) Float2 {
  float x, y;
};
struct alignas(16) Float4 {
  float x, y, z, w;
};

// ---- floating point ----

SPECBOUND_DEVICE float fused(float a, float b, float c) {  // a * b + c, rounded once
#ifdef __CUDACC__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

SPECBOUND_DEVICE float square_root(float x) {
#ifdef __CUDACC__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

// To the nearest integer, ties to even; |x| < 2^22.
SPECBOUND_DEVICE float round_even(float x) {
#ifdef __CUDACC__
  return rintf(x);
#else
  return (x + 12582912.0f) - 12582912.0f;
#endif
}

SPECBOUND_DEVICE uint32_t bits_of(float x) {
#ifdef __CUDACC__
  return __float_as_uint(x);
#else
  return std::bit_cast<uint32_t>(x);
#endif
}
SPECBOUND_DEVICE float float_of(uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

SPECBOUND_DEVICE float infinity() {
  return float_of(0x7f800000u);
}
SPECBOUND_DEVICE float not_a_number() {
  return float_of(0x7fc00000u);
}

SPECBOUND_DEVICE float half_float(uint16_t half) {  // FP16 bits -> float, exact
#ifdef __CUDACC__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
#else
  return half_to_float(half);
#endif
}

SPECBOUND_DEVICE uint16_t half_bits(float x) {  // float -> FP16 bits, to nearest even
#ifdef __CUDACC__
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
#else
  return float_to_half(x);
#endif
}

// The bits of 2^23 + byte i of a word, i = 0..3, in one instruction: made anew wherever it is asked
// for, so that no register keeps it.
SPECBOUND_DEVICE uint32_t last_places_of_byte(uint32_t word, int i) {
#ifdef __CUDACC__
  uint32_t bits;
  asm volatile("prmt.b32 %0, %1, %2, %3;"
               : "=r"(bits)
               : "r"(word), "r"(0x4b000000u), "r"(0x7650u + static_cast<uint32_t>(i)));
  return bits;
#else
  return 0x4b000000u | ((word >> (8 * i)) & 0xffu);
#endif
}

// sum + the four int8 of a word.
SPECBOUND_DEVICE int32_t add_bytes(uint32_t word, int32_t sum) {
#ifdef __CUDACC__
  return __dp4a(static_cast<int>(word), 0x01010101, sum);
#else
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(word >> (8 * i));
  return sum;
#endif
}

SPECBOUND_DEVICE int leading_zeros(uint32_t x) {
#ifdef __CUDACC__
  return __clz(static_cast<int>(x));
#else
  return std::countl_zero(x);
#endif
}

// The same, of which the compiler knows nothing: what follows from it is made where it stands, in a
// loop anew each time, and no register keeps it.
SPECBOUND_DEVICE int anew(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// ---- memory ----

// 16 bytes that nobody reads again soon and nobody writes meanwhile: weights. They stay out of L1.
SPECBOUND_DEVICE Word4 load_once(const Word4* p) {
#ifdef __CUDACC__
  Word4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
#else
  return *p;
#endif
}

SPECBOUND_DEVICE Word2 load_once(const Word2* p) {
#ifdef __CUDACC__
  Word2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p));
  return v;
#else
  return *p;
#endif
}

// The same into v where wanted; else v stays as it is and nothing is read: no branch, so that loads
// stay in flight, and no instruction clears v.
SPECBOUND_DEVICE void load_once_if(bool wanted, const Word4* p, Word4& v) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "@wanted ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
      : "l"(p), "r"(static_cast<uint32_t>(wanted)));
#else
  if (wanted) v = *p;
#endif
}
SPECBOUND_DEVICE void load_once_if(bool wanted, const Word2* p, Word2& v) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %3, 0;\n\t"
      "@wanted ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n\t}"
      : "+r"(v.x), "+r"(v.y)
      : "l"(p), "r"(static_cast<uint32_t>(wanted)));
#else
  if (wanted) v = *p;
#endif
}
SPECBOUND_DEVICE void load_once_if(bool wanted, const uint32_t* p, uint32_t& v) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %2, 0;\n\t"
      "@wanted ld.global.nc.u32 %0, [%1];\n\t}"
      : "+r"(v)
      : "l"(p), "r"(static_cast<uint32_t>(wanted)));
#else
  if (wanted) v = *p;
#endif
}

// 8 bytes that are read several times, through L1; else as above.
SPECBOUND_DEVICE void load_if(bool wanted, const Word2* p, Word2& v) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %3, 0;\n\t"
      "@wanted ld.global.nc.v2.u32 {%0, %1}, [%2];\n\t}"
      : "+r"(v.x), "+r"(v.y)
      : "l"(p), "r"(static_cast<uint32_t>(wanted)));
#else
  if (wanted) v = *p;
#endif
}

// 8 bytes that the kernel before this one may have written (wait_for_previous()); else as above.
SPECBOUND_DEVICE void load_row_if(bool wanted, const Word2* p, Word2& v) {
#ifdef __CUDACC__
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %3, 0;\n\t"
      "@wanted ld.global.v2.u32 {%0, %1}, [%2];\n\t}"
      : "+r"(v.x), "+r"(v.y)
      : "l"(p), "r"(static_cast<uint32_t>(wanted)));
#else
  if (wanted) v = *p;
#endif
}

// The 16-byte words that `bytes` from p on lie in are brought to the L2 cache, where a device can
// be told so in one instruction; by one lane.
SPECBOUND_DEVICE void prefetch(const void* p, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (bytes <= 0) return;
  const auto first = reinterpret_cast<uintptr_t>(p) & ~uintptr_t{15};
  const auto end = (reinterpret_cast<uintptr_t>(p) + bytes + 15) & ~uintptr_t{15};
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(first),
               "r"(static_cast<uint32_t>(end - first)));
#else
  (void)p, (void)bytes;
#endif
}

// ---- kernels that overlap (launch.cuh) ----

// The next kernel of the stream may start as soon as all blocks of this one have called this.
SPECBOUND_DEVICE void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// What the kernels before this one wrote is there, and they are done with what they read.
SPECBOUND_DEVICE void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- blocks that finish what others began ----

// One of `n` blocks has done its part; by one thread, when all of the block's have met. True in the
// last of them, where what the others wrote can be read once that block's threads have met again;
// the count is zero again for the next `n`.
SPECBOUND_DEVICE bool is_last_of(uint32_t n, uint32_t* arrived) {
#ifdef __CUDACC__
  __threadfence();
  const bool last = atomicAdd(arrived, 1u) == n - 1;
  if (last) *arrived = 0;
  __threadfence();
  return last;
#else
  const bool last = *arrived == n - 1;
  *arrived = last ? 0 : *arrived + 1;
  return last;
#endif
}

// 16 bytes to where a host looks on: its last word arrives after the others.
SPECBOUND_DEVICE void store_for_host(Word4* to, const Word4& v) {
#ifdef __CUDACC__
  to->x = v.x;
  to->y = v.y;
  to->z = v.z;
  __threadfence_system();
  *const_cast<volatile uint32_t*>(&to->w) = v.w;
#else
  *to = v;
#endif
}

// ---- warps ----

SPECBOUND_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x) % kWarp;
}
SPECBOUND_DEVICE int warp_index() {
  return static_cast<int>(threadIdx.x) / kWarp;
}

// `bytes` from p on are brought to the L2 cache, by a warp.
SPECBOUND_DEVICE void prefetch_by_warp(const void* p, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  constexpr int kSector = 32;
  for (int at = kSector * lane_index(); at < bytes; at += kSector * kWarp) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(p) + at));
  }
#else
  if (lane_index() == 0) prefetch(p, bytes);
#endif
}

// The value of lane (own lane ^ mask).
template <class T>
SPECBOUND_DEVICE T shuffle_xor(T value, int mask SPECBOUND_WHERE) {
#ifdef __CUDACC__
  return __shfl_xor_sync(0xffffffffu, value, mask);
#else
  T all[kWarp];
  simt::exchange(value, all, file, line);
  return all[lane_index() ^ mask];
#endif
}

// The value of `lane`.
template <class T>
SPECBOUND_DEVICE T shuffle(T value, int lane SPECBOUND_WHERE) {
#ifdef __CUDACC__
  return __shfl_sync(0xffffffffu, value, lane);
#else
  T all[kWarp];
  simt::exchange(value, all, file, line);
  return all[lane % kWarp];
#endif
}

// Bit i: lane i's predicate.
SPECBOUND_DEVICE uint32_t ballot(bool predicate SPECBOUND_WHERE) {
#ifdef __CUDACC__
  return __ballot_sync(0xffffffffu, predicate);
#else
  bool all[kWarp];
  simt::exchange(predicate, all, file, line);
  uint32_t bits = 0;
  for (int i = 0; i < kWarp; ++i) bits |= static_cast<uint32_t>(all[i]) << i;
  return bits;
#endif
}

SPECBOUND_DEVICE int count_bits(uint32_t bits) {
#ifdef __CUDACC__
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}

// ---- shared memory ----

// 16 bytes on their way to shared memory: there for this thread behind wait_for_copies(), for the
// others behind a barrier after that. sm_75 has no such copies, it loads and stores.
SPECBOUND_DEVICE void copy_later(Word4* to, const Word4* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
#elif defined(__CUDACC__)
  *to = *from;
#else
  simt::copy_later([=] { *to = *from; });
#endif
}

SPECBOUND_DEVICE void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#elif !defined(__CUDACC__)
  simt::wait_for_copies();
#endif
}

// Four matrices of 8 by 8 halves in shared memory, lane i naming row i % 8 of matrix i / 8, as
// operands b of mma_16x8x16: word j of lane 4 g + t is column g of matrix j, rows 2t and 2t + 1.
SPECBOUND_DEVICE Word4 load_transposed(const Word4* row SPECBOUND_WHERE) {
#ifdef __CUDACC__
  Word4 w;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row))));
  return w;
#else
  const Word4* rows[kWarp];
  simt::exchange(row, rows, file, line);
  const int column = lane_index() / 4, first = 2 * (lane_index() % 4);
  const auto word = [&](int matrix) {
    const auto half = [&](int r) {
      return uint32_t{reinterpret_cast<const uint16_t*>(rows[8 * matrix + r])[column]};
    };
    return half(first) | half(first + 1) << 16;
  };
  return {word(0), word(1), word(2), word(3)};
#endif
}

// ---- tensor cores ----
//
// Lane 4 g + t holds, of the 16 x K matrix a: rows g and g + 8; of the K x 8 matrix b: column g; of
// the 16 x 8 sum c: c[0], c[1] row g, columns 2t, 2t + 1; c[2], c[3] the same of row g + 8.
// Which k is which does not change an integer sum as long as a and b agree: layouts.h chooses.

// c = start + a b in integers; the start is an operand, so no instruction sets c before. a[0]: row
// g, k 4t..4t+3; a[1]: row g + 8, the same k; a[2], a[3]: the same rows, k 16+4t..; b[0]: k
// 4t..4t+3; b[1]: k 16+4t..; four int8 a word.
SPECBOUND_DEVICE void mma_16x8x32(int32_t (&c)[4], const Word4& a, const Word2& b,
                                  int32_t start SPECBOUND_WHERE) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(start));
#elif defined(__CUDA_ARCH__)
  // sm_75 has m8n8k16: the same words, a quarter each.
  asm volatile(
      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%4}, {%8}, {%10, %10};\n\t"
      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%2, %3}, {%5}, {%8}, {%10, %10};\n\t"
      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%6}, {%9}, {%0, %1};\n\t"
      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%2, %3}, {%7}, {%9}, {%2, %3};"
      : "=&r"(c[0]), "=&r"(c[1]), "=&r"(c[2]), "=&r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(start));
#elif !defined(__CUDACC__)
  struct Operands {
    Word4 a;
    Word2 b;
  } mine{a, b}, all[kWarp];
  simt::exchange(mine, all, file, line);
  const auto int8_at = [](uint32_t word, int i) {
    return static_cast<int32_t>(static_cast<int8_t>(word >> (8 * i)));
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane_index() / 4, column = 2 * (lane_index() % 4) + i % 2;
    int32_t sum = start;
    for (int t = 0; t < 4; ++t) {
      const Word4& w = all[4 * row + t].a;
      const Word2& x = all[4 * column + t].b;
      const uint32_t low = i < 2 ? w.x : w.y, high = i < 2 ? w.z : w.w;
      for (int k = 0; k < 4; ++k) {
        sum += int8_at(low, k) * int8_at(x.x, k) + int8_at(high, k) * int8_at(x.y, k);
      }
    }
    c[i] = sum;
  }
#endif
}

// c += a b, FP16 operands, FP32 sums. a[0]: row g, k 2t, 2t+1; a[1]: row g + 8; a[2], a[3]: the
// same rows, k 8+2t..; b[0]: k 2t, 2t+1; b[1]: k 8+2t..; two halves a word, the lower k in the
// lower half. Within one GPU architecture the bits depend on the operands alone; the host's order
// is ascending k by fma.
SPECBOUND_DEVICE void mma_16x8x16(float (&c)[4], const Word4& a, const Word2& b SPECBOUND_WHERE) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#elif defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%8}, "
      "{%0, %1, %2, %3};\n\t"
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%6, %7}, {%9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#elif !defined(__CUDACC__)
  struct Operands {
    float a[4][2], b[2][2];  // words, lower half first
  } mine, all[kWarp];
  const auto unpack = [](uint32_t word, float(&to)[2]) {
    to[0] = half_to_float(static_cast<uint16_t>(word));
    to[1] = half_to_float(static_cast<uint16_t>(word >> 16));
  };
  unpack(a.x, mine.a[0]);
  unpack(a.y, mine.a[1]);
  unpack(a.z, mine.a[2]);
  unpack(a.w, mine.a[3]);
  unpack(b.x, mine.b[0]);
  unpack(b.y, mine.b[1]);
  simt::exchange(mine, all, file, line);
  for (int i = 0; i < 4; ++i) {
    const int row = lane_index() / 4, column = 2 * (lane_index() % 4) + i % 2;
    float sum = c[i];
    for (int upper = 0; upper < 2; ++upper) {
      for (int t = 0; t < 4; ++t) {
        const float(&w)[2] = all[4 * row + t].a[2 * upper + i / 2];
        const float(&x)[2] = all[4 * column + t].b[upper];
        sum = std::fma(w[1], x[1], std::fma(w[0], x[0], sum));
      }
    }
    c[i] = sum;
  }
#endif
}

}  // namespace specbound::kernels
