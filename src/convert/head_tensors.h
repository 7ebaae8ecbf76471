// Tensors of a checkpoint of draft heads, each taken once, its shape checked, in the type that is
// wanted. What no layer took is refused at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "convert/checkpoint.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

// How the model has what the checkpoint has otherwise.
struct HeadOrder {
  int head_rows = 0;            // of each head of these the rows, as row_in_halves(); 0: no other
  bool halves_swapped = false;  // the second half of the columns comes first
};

// Everything throws Error(kFormat) naming checkpoint and tensor, what was expected and what was
// found.
class HeadTensors {
 public:
  // `type`: of matrices; none: each stays what it is.
  HeadTensors(const Checkpoint& checkpoint, std::optional<DType> type)
      : checkpoint_(checkpoint), type_(type) {}

  HeadTensor matrix(const std::string& name, int n_out, int n_in, HeadOrder order = {});
  HeadTensor vector(const std::string& name, int n, HeadOrder order = {});
  std::vector<int64_t> offsets(const std::string& name, int n);
  std::vector<uint8_t> flags(const std::string& name, int n);

  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  bool has_any(std::string_view prefix) const;
  // That `name`, if it is there, holds `matrix` but for what rounding did to either.
  void check_same(const std::string& name, const Matrix& matrix);
  // Tables that old files store.
  void skip(const std::string& name);
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;
  // Of those whose names begin with `prefix`.
  void refuse_leftovers(const std::string& why, const std::string& advice = "",
                        std::string_view prefix = "") const;

 private:
  const SafeTensor& take(const std::string& name, std::span<const uint64_t> shape);
  const SafeTensor& take_floats(const std::string& name, std::span<const uint64_t> shape);
  template <class T>
  std::vector<T> integers(const std::string& name, int n, const char* dtype);

  const Checkpoint& checkpoint_;
  const std::optional<DType> type_;
  std::unordered_set<const SafeTensor*> taken_;
};

}  // namespace specbound
