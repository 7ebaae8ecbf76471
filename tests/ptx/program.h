// PTX as the machine runs it: kernels of decoded instructions.
//
// Every value lies in a row of 32 lanes, 8 bytes each: registers, special registers, and constants,
// whose rows have negative numbers. Predicates are words, bit i for lane i. A narrower value is
// kept extended as its type is signed; whoever reads it takes the bytes of the type he wants.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"

namespace ptx {

using specbound::format;

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

// The text is malformed, or wants what the machine does not have.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Warp;
struct Instruction;

// Executes an instruction for the lanes of a mask that is not empty.
using Run = void (*)(Warp&, const Instruction&, uint32_t lanes);

enum class Kind : uint8_t {
  kPlain,
  kBranch,
  kExit,
  kWarp,     // all lanes that it names run it together
  kBarrier,  // of the block
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam };

// Predicates that are always there.
inline constexpr int kFalse = 0, kTrue = 1, kUnused = 2;

struct Instruction {
  Run run = nullptr;
  Kind kind = Kind::kPlain;
  Space space = Space::kGeneric;
  bool negated = false;  // runs where its guard is false
  uint8_t n_values = 1;  // of a vector in memory
  int guard = kTrue;
  int target = 0;              // of a branch
  std::array<int, 16> rows{};  // of all operands in order; of a predicate its number
  int n_rows = 0;
  std::array<int64_t, 2> offsets{};  // of the addresses
  int line = 0;                      // of the text
};

// Where a special register's row is.
struct Special {
  int row;
  std::string name;
};

struct Kernel {
  std::string name;  // demangled
  std::vector<Instruction> code;
  std::vector<std::array<uint64_t, kLanes>> constants;
  std::vector<Special> specials;
  int n_rows = 0, n_predicates = 0;
  size_t parameter_bytes = 0, static_shared_bytes = 0, local_bytes = 0;
  unsigned max_threads = 1024;
  std::vector<std::string> lines;  // of its text
  mutable std::vector<bool> ran;   // of each instruction: has it run?
};

// `opcode` without its parts that are hints to a cache: "ld", "global", "v4", "u32".
using Opcode = std::vector<std::string_view>;

// Sets run, kind and space of an instruction whose operands are resolved, or throws TextError.
void decode(const Opcode& opcode, Instruction& instruction);

// What one text or several define.
class Program {
 public:
  // Throws TextError for a text that is no PTX, or an entry that is there already.
  void add(std::string text);
  // By its demangled name; decoded when it is first wanted. Throws TextError.
  const Kernel& kernel(const std::string& name);
  std::vector<std::string> names() const;
  // Says in one line how much of the code has run; false: a kernel never has.
  bool report() const;
  // Whether a text is for an architecture whose kernels may overlap (kernels/launch.cuh).
  bool can_overlap() const { return can_overlap_; }
  // The text of an entry, and another in its place.
  const std::string& text(const std::string& name) const;
  void replace(const std::string& name, std::string text);

 private:
  struct Entry {
    std::string text;  // from its name on
    std::unique_ptr<Kernel> kernel;
  };
  std::map<std::string, Entry> entries_;
  std::vector<std::string> shared_names_;  // of the dynamic shared memory
  bool can_overlap_ = false;
};

// `text` starts after ".entry". Symbols in `dynamic_shared` are the memory that launches give.
std::unique_ptr<Kernel> parse_kernel(std::string_view text,
                                     const std::vector<std::string>& dynamic_shared);

std::string demangled(const std::string& name);

}  // namespace ptx
