// SHA-256 (FIPS 180-4), in portable code: what is downloaded is held against the checksum that the
// hub names. No library has it that is here anyway, and the network is slower than this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace specbound {

class Sha256 {
 public:
  void update(std::string_view bytes);
  // 64 digits, in lower case, of all bytes so far. The object has served its turn.
  std::string finish();

 private:
  void block(const unsigned char* bytes);  // 64 of them

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_;  // n_bytes_ % 64 bytes that wait for their block
  uint64_t n_bytes_ = 0;
};

// Of a file; empty where it cannot be read. `read` is told how many bytes were, and may throw.
std::string file_sha256(const std::string& path,
                        const std::function<void(uint64_t done)>& read = {});
// 64 digits in lower case.
bool is_sha256(std::string_view text);

}  // namespace specbound
