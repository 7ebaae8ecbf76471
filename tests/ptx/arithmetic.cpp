// Instructions within a lane: integers, bits, and floats as IEEE has them.
//
// A float's result must be rounded by name (add.rn.f32): what has no rounding of its own ptxas may
// contract, and .ftz and .approx are no IEEE, so none of these is known here. Rounding towards zero
// is, for texts with planted faults.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <type_traits>

#include "ptx/machine.h"

namespace ptx {

namespace {

// Wraps around as unsigned numbers do.
template <class T>
T wrapped(uint64_t x) {
  return static_cast<T>(x);
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return wrapped<T>(uint64_t(a) + uint64_t(b));
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return wrapped<T>(uint64_t(a) - uint64_t(b));
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return wrapped<T>(uint64_t(a) * uint64_t(b));
    return a * b;
  }
};
struct MulHigh {
  template <class T>
  T operator()(T a, T b) const {
    __extension__ using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
  }
};
struct MulAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(Mul()(a, b), c);
  }
};
template <class Wide>
struct MulWide {
  template <class T>
  Wide operator()(T a, T b, Wide c = 0) const {
    return Add()(static_cast<Wide>(Wide(a) * Wide(b)), c);
  }
};
struct Fma {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(-1);  // PTX leaves it open
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub()(T(0), a);
      return static_cast<T>(a / b);
    }
    return a / b;
  }
};
struct Rem {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? a : b;
      return std::fmin(a, b);
    }
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? b : a;
      return std::fmax(a, b);
    }
    return std::max(a, b);
  }
};
struct Neg {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return Sub()(T(0), a);
    return -a;
  }
};
struct Abs {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return a < 0 ? Neg()(a) : a;
    return std::fabs(a);
  }
};
struct Sqrt {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T(1) / a;
  }
};
template <class Op>
struct TowardZero {
  template <class... T>
  auto operator()(T... operands) const {
    std::fesetround(FE_TOWARDZERO);
    // Volatile, or it might be computed before or after.
    const volatile auto result = Op()(T(const_cast<const volatile T&>(operands))...);
    std::fesetround(FE_TONEAREST);
    return static_cast<std::common_type_t<T...>>(result);
  }
};

// ---- bits ----

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T(0) : wrapped<T>(uint64_t(a) << n);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if (std::is_unsigned_v<T> && n >= kBits) return 0;
    return static_cast<T>(a >> std::min(n, kBits - 1));
  }
};
template <bool kLeft, bool kWrap>
struct Funnel {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t n) const {
    n = kWrap ? n % 32 : std::min(n, 32u);
    const uint64_t both = uint64_t{high} << 32 | low;
    return static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n);
  }
};
struct ExtractField {
  template <class T>
  T operator()(T a, uint32_t from, uint32_t length) const {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kBits = 8 * sizeof(T);
    from &= 255, length &= 255;
    if (length == 0) return 0;
    const uint32_t top = std::min(from + length - 1, kBits - 1);
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1) != 0;
    U value = from >= kBits ? U(0) : static_cast<U>(static_cast<U>(a) >> from);
    const U ones = length >= kBits ? ~U(0) : static_cast<U>((U(1) << length) - 1);
    if (from >= kBits) return static_cast<T>(sign ? ~U(0) : U(0));
    const uint32_t there = kBits - from;  // bits of the field that a has
    const U mask = there >= kBits ? ones : static_cast<U>(ones & ((U(1) << there) - 1));
    value &= mask;
    return static_cast<T>(sign ? value | static_cast<U>(~mask) : value);
  }
};
struct InsertField {
  template <class T>
  T operator()(T a, T b, uint32_t at, uint32_t length) const {
    at &= 255, length &= 255;
    const T ones = length >= 8 * sizeof(T) ? ~T(0) : static_cast<T>((T(1) << length) - 1);
    const T mask = ShiftLeft()(ones, at);
    return static_cast<T>((b & ~mask) | (ShiftLeft()(a, at) & mask));
  }
};
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t choice) const {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t nibble = choice >> (4 * i);
      const auto byte = static_cast<uint8_t>(bytes >> (8 * (nibble & 7)));
      const uint8_t taken = (nibble & 8) == 0 ? byte : byte >> 7 ? 0xff : 0;
      result |= uint32_t{taken} << (8 * i);
    }
    return result;
  }
};
struct AnyOfThree {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c, uint32_t table) const {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      if ((table >> i & 1) == 0) continue;
      result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    }
    return result;
  }
};
template <class A, class B>
struct DotOfBytes {
  int32_t operator()(uint32_t a, uint32_t b, int32_t c) const {
    int64_t sum = c;
    for (int i = 0; i < 32; i += 8) sum += int64_t{static_cast<A>(a >> i)} * static_cast<B>(b >> i);
    return static_cast<int32_t>(sum);
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct CountBits {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct Reverse {
  template <class T>
  T operator()(T a) const {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) result = static_cast<T>(result << 1 | (a >> i & 1));
    return result;
  }
};

// ---- the table ----

// Op of values that are all of the type named.
template <class Op, size_t kOperands>
Run of_integers(std::string_view type) {
  Run run = nullptr;
  with_integer(type, [&](auto t) {
    using T = typename decltype(t)::type;
    if constexpr (kOperands == 1) run = apply<Op, T, T>;
    if constexpr (kOperands == 2) run = apply<Op, T, T, T>;
    if constexpr (kOperands == 3) run = apply<Op, T, T, T, T>;
  });
  return run;
}
template <class Op, size_t kOperands>
Run of_floats(std::string_view type) {
  Run run = nullptr;
  with_float(type, [&](auto t) {
    using T = typename decltype(t)::type;
    if constexpr (kOperands == 1) run = apply<Op, T, T>;
    if constexpr (kOperands == 2) run = apply<Op, T, T, T>;
    if constexpr (kOperands == 3) run = apply<Op, T, T, T, T>;
  });
  return run;
}
template <class Op, size_t kOperands>
Run rounded(std::string_view mode, std::string_view type) {
  if (mode == "rn") return of_floats<Op, kOperands>(type);
  if (mode == "rz") return of_floats<TowardZero<Op>, kOperands>(type);
  return nullptr;
}

template <class T, class Wide>
Run wide(bool add) {
  if (add) return apply<MulWide<Wide>, Wide, T, T, Wide>;
  return apply<MulWide<Wide>, Wide, T, T>;
}
Run wide_of(std::string_view type, bool add) {
  if (type == "u16") return wide<uint16_t, uint32_t>(add);
  if (type == "s16") return wide<int16_t, int32_t>(add);
  if (type == "u32") return wide<uint32_t, uint64_t>(add);
  if (type == "s32") return wide<int32_t, int64_t>(add);
  return nullptr;
}

// "add.s32", "neg.f32"
Run plain(std::string_view op, std::string_view type) {
  const bool is_float = type[0] == 'f';
  if (op == "add") return of_integers<Add, 2>(type);
  if (op == "sub") return of_integers<Sub, 2>(type);
  if (op == "div") return of_integers<Div, 2>(type);
  if (op == "rem") return of_integers<Rem, 2>(type);
  if (op == "and") return of_integers<And, 2>(type);
  if (op == "or") return of_integers<Or, 2>(type);
  if (op == "xor") return of_integers<Xor, 2>(type);
  if (op == "not") return of_integers<Not, 1>(type);
  if (op == "min") return is_float ? of_floats<Min, 2>(type) : of_integers<Min, 2>(type);
  if (op == "max") return is_float ? of_floats<Max, 2>(type) : of_integers<Max, 2>(type);
  if (op == "neg") return is_float ? of_floats<Neg, 1>(type) : of_integers<Neg, 1>(type);
  if (op == "abs") return is_float ? of_floats<Abs, 1>(type) : of_integers<Abs, 1>(type);
  Run run = nullptr;
  with_integer(type, [&](auto t) {
    using T = typename decltype(t)::type;
    if (op == "shl") run = apply<ShiftLeft, T, T, uint32_t>;
    if (op == "shr") run = apply<ShiftRight, T, T, uint32_t>;
    if (op == "bfe") run = apply<ExtractField, T, T, uint32_t, uint32_t>;
    if constexpr (std::is_unsigned_v<T>) {
      if (op == "bfi") run = apply<InsertField, T, T, T, uint32_t, uint32_t>;
      if (op == "clz") run = apply<LeadingZeros, uint32_t, T>;
      if (op == "popc") run = apply<CountBits, uint32_t, T>;
      if (op == "brev") run = apply<Reverse, T, T>;
    }
  });
  if (type != "b32") return run;
  if (op == "prmt") return apply<Permute, uint32_t, uint32_t, uint32_t, uint32_t>;
  if (op == "lop3") return apply<AnyOfThree, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
  return run;
}

// "mul.lo.s32", "fma.rn.f32"
Run with_mode(std::string_view op, std::string_view mode, std::string_view type) {
  if (op == "add") return rounded<Add, 2>(mode, type);
  if (op == "sub") return rounded<Sub, 2>(mode, type);
  if (op == "fma") return rounded<Fma, 3>(mode, type);
  if (op == "div") return rounded<Div, 2>(mode, type);
  if (op == "sqrt") return rounded<Sqrt, 1>(mode, type);
  if (op == "rcp") return rounded<Reciprocal, 1>(mode, type);
  if (op == "mul" || op == "mad") {
    const bool add = op == "mad";
    if (mode == "wide") return wide_of(type, add);
    if (mode == "lo") return add ? of_integers<MulAdd, 3>(type) : of_integers<Mul, 2>(type);
    if (mode == "hi" && !add) return of_integers<MulHigh, 2>(type);
    return add ? nullptr : rounded<Mul, 2>(mode, type);
  }
  if (op == "dp4a") {
    const bool a = mode == "s32", b = type == "s32";
    if (a)
      return b ? apply<DotOfBytes<int8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>
               : apply<DotOfBytes<int8_t, uint8_t>, int32_t, uint32_t, uint32_t, int32_t>;
    return b ? apply<DotOfBytes<uint8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>
             : apply<DotOfBytes<uint8_t, uint8_t>, int32_t, uint32_t, uint32_t, int32_t>;
  }
  return nullptr;
}

template <bool kLeft, bool kWrap>
constexpr Run kFunnel = apply<Funnel<kLeft, kWrap>, uint32_t, uint32_t, uint32_t, uint32_t>;

}  // namespace

bool decode_arithmetic(const Opcode& opcode, Instruction& i) {
  const std::string_view op = opcode[0], type = opcode.back();
  if (opcode.size() == 2) i.run = plain(op, type);
  if (opcode.size() == 3) i.run = with_mode(op, opcode[1], type);
  if (opcode.size() == 4 && op == "shf" && type == "b32") {
    const bool left = opcode[1] == "l", wrap = opcode[2] == "wrap";
    i.run = left   ? wrap ? kFunnel<true, true> : kFunnel<true, false>
              : wrap ? kFunnel<false, true>
                   : kFunnel<false, false>;
  }
  return i.run != nullptr;
}

}  // namespace ptx
