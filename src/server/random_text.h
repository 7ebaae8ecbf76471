// Letters and digits for ids that clients tell apart.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace specbound::server {

inline std::string random_text(size_t size) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string text;
  for (size_t i = 0; i < size; ++i) text += kLetters[letter(device)];
  return text;
}

}  // namespace specbound::server
