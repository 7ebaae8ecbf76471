// Instructions that move, choose, compare and convert values.
#include <cmath>
#include <limits>
#include <type_traits>

#include "numerics/half.h"
#include "ptx/machine.h"

namespace ptx {

namespace {

// ---- values as they are ----

void move(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t* const a = w.row(i.rows[1]);
  uint64_t* const d = w.out(i.rows[0]);
  each(lanes, [&](int l) { d[l] = a[l]; });
}

// {d0, d1} = a, or d = {a0, a1}, of parts of kBits.
template <int kBits>
void move_apart(Warp& w, const Instruction& i, uint32_t lanes) {
  const int n = i.n_values;
  each(lanes, [&](int l) {
    const uint64_t a = w.row(i.rows[static_cast<size_t>(n)])[l];
    for (int k = 0; k < n; ++k) {
      w.out(i.rows[static_cast<size_t>(k)])[l] = a << (64 - kBits - kBits * k) >> (64 - kBits);
    }
  });
}
template <int kBits>
void move_together(Warp& w, const Instruction& i, uint32_t lanes) {
  each(lanes, [&](int l) {
    uint64_t d = 0;
    for (int k = 1; k < i.n_rows; ++k) {
      const uint64_t part = w.row(i.rows[static_cast<size_t>(k)])[l];
      d |= (part << (64 - kBits) >> (64 - kBits)) << (kBits * (k - 1));
    }
    w.out(i.rows[0])[l] = d;
  });
}

void select(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t *const a = w.row(i.rows[1]), *const b = w.row(i.rows[2]);
  const uint32_t wanted = w.predicates[static_cast<size_t>(i.rows[3])];
  uint64_t* const d = w.out(i.rows[0]);
  each(lanes, [&](int l) { d[l] = (wanted >> l & 1) != 0 ? a[l] : b[l]; });
}

// What a comparison may find; `offsets[0]` has those that are true.
enum : int64_t { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

template <class T>
void compare(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t *const a = w.row(i.rows[1]), *const b = w.row(i.rows[2]);
  uint32_t found = 0;
  each(lanes, [&](int l) {
    const T x = unpack<T>(a[l]), y = unpack<T>(b[l]);
    const int64_t is = x < y ? kLess : x == y ? kEqual : x > y ? kGreater : kUnordered;
    found |= static_cast<uint32_t>((is & i.offsets[0]) != 0) << l;
  });
  set_predicate(w, i.rows[0], lanes, found);
}

int64_t comparison(std::string_view name) {
  static constexpr std::pair<std::string_view, int64_t> kNames[] = {
      {"lt", kLess},
      {"le", kLess | kEqual},
      {"eq", kEqual},
      {"ne", kLess | kGreater},
      {"gt", kGreater},
      {"ge", kGreater | kEqual},
      {"lo", kLess},
      {"ls", kLess | kEqual},
      {"hi", kGreater},
      {"hs", kGreater | kEqual},
      {"num", kLess | kEqual | kGreater},
      {"nan", kUnordered}};
  for (const auto& [known, found] : kNames) {
    if (name == known) return found;
    if (name.back() == 'u' && name.substr(0, name.size() - 1) == known) return found | kUnordered;
  }
  return 0;
}

template <class Op>
void on_predicates(Warp& w, const Instruction& i, uint32_t lanes) {
  const auto value = [&](size_t k) { return w.predicates[static_cast<size_t>(i.rows[k])]; };
  set_predicate(w, i.rows[0], lanes, Op()(value(1), i.n_rows > 2 ? value(2) : 0));
}
struct And {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a & b; }
};
struct Or {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};
struct Xor {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a ^ b; }
};
struct First {
  uint32_t operator()(uint32_t a, uint32_t) const { return a; }
};
struct NotFirst {
  uint32_t operator()(uint32_t a, uint32_t) const { return ~a; }
};

// ---- conversions ----

template <class D>
struct Convert {
  template <class S>
  D operator()(S a) const {
    return static_cast<D>(a);
  }
};
struct ToHalf {
  uint16_t operator()(float a) const { return specbound::float_to_half(a); }
};
struct ToHalves {
  uint32_t operator()(float high, float low) const {
    return uint32_t{ToHalf()(high)} << 16 | ToHalf()(low);
  }
};
struct FromHalf {
  float operator()(uint16_t a) const { return specbound::half_to_float(a); }
};

template <class T>
T to_integral(T a, char mode) {
  return mode == 'n'   ? std::nearbyint(a)
         : mode == 'z' ? std::trunc(a)
         : mode == 'm' ? std::floor(a)
                       : std::ceil(a);
}
template <char kMode>
struct RoundToIntegral {
  template <class T>
  T operator()(T a) const {
    return to_integral(a, kMode);
  }
};
// Clamped; NaN is 0.
template <class D, char kMode>
struct ToInteger {
  template <class S>
  D operator()(S a) const {
    using Limits = std::numeric_limits<D>;
    const S x = to_integral(a, kMode);
    if (std::isnan(x)) return 0;
    if (x < static_cast<S>(Limits::min())) return Limits::min();
    if (x >= std::ldexp(S(1), Limits::digits)) return Limits::max();
    return static_cast<D>(x);
  }
};

template <char kMode>
void decode_rounding(std::string_view to, std::string_view from, Instruction& i) {
  with_float(from, [&](auto source) {
    using S = typename decltype(source)::type;
    if (to == from) i.run = apply<RoundToIntegral<kMode>, S, S>;
    with_any(to, [&](auto result) {
      using D = typename decltype(result)::type;
      if constexpr (std::is_integral_v<D>) i.run = apply<ToInteger<D, kMode>, D, S>;
    });
  });
}

void decode_conversion(const Opcode& opcode, Instruction& i) {
  const std::string_view to = opcode[opcode.size() - 2], from = opcode.back();
  const std::string_view mode = opcode.size() == 4 ? opcode[1] : std::string_view();
  if (opcode.size() > 4) return;
  if (mode == "rni") return decode_rounding<'n'>(to, from, i);
  if (mode == "rzi") return decode_rounding<'z'>(to, from, i);
  if (mode == "rmi") return decode_rounding<'m'>(to, from, i);
  if (mode == "rpi") return decode_rounding<'p'>(to, from, i);
  if (from == "f16") {
    if (to == "f32" && mode.empty()) i.run = apply<FromHalf, float, uint16_t>;
  } else if (to == "f16") {
    if (from == "f32" && mode == "rn") i.run = apply<ToHalf, uint16_t, float>;
  } else if (to == "f16x2") {
    if (from == "f32" && mode == "rn") i.run = apply<ToHalves, uint32_t, float, float>;
  } else {
    with_any(from, [&](auto source) {
      using S = typename decltype(source)::type;
      with_any(to, [&](auto result) {
        using D = typename decltype(result)::type;
        // To a float from an integer or a wider float: rounded, so that the text must say how.
        const bool rounds = std::is_floating_point_v<D> && !std::is_same_v<S, float>;
        if constexpr (std::is_integral_v<D> && std::is_floating_point_v<S>) return;
        if (mode == (rounds ? "rn" : "")) i.run = apply<Convert<D>, D, S>;
      });
    });
  }
}

Run of_predicates(std::string_view op) {
  if (op == "and") return on_predicates<And>;
  if (op == "or") return on_predicates<Or>;
  if (op == "xor") return on_predicates<Xor>;
  if (op == "not") return on_predicates<NotFirst>;
  if (op == "mov") return on_predicates<First>;
  return nullptr;
}

}  // namespace

bool decode_values(const Opcode& opcode, Instruction& i) {
  const std::string_view op = opcode[0], type = opcode.back();
  const size_t n = opcode.size();
  if (op == "cvt" && n >= 3) {
    decode_conversion(opcode, i);
  } else if (n == 2 && type == "pred") {
    i.run = of_predicates(op);
  } else if (n == 2 && op == "mov") {
    const bool wide = type.substr(1) == "64";
    if (i.n_rows == 2) i.run = move;
    if (i.n_rows == 3 && i.n_values == 2) i.run = wide ? move_apart<32> : move_apart<16>;
    if (i.n_rows == 3 && i.n_values == 1) i.run = wide ? move_together<32> : move_together<16>;
    if (i.n_rows == 5) i.run = i.n_values == 4 ? move_apart<16> : move_together<16>;
  } else if (n == 2 && op == "selp") {
    i.run = select;
  } else if (n == 3 && op == "setp" && i.n_rows == 3) {
    i.offsets[0] = comparison(opcode[1]);
    if (i.offsets[0] == 0) return false;
    with_number(type, [&](auto t) { i.run = compare<typename decltype(t)::type>; });
  }
  return i.run != nullptr;
}

}  // namespace ptx
