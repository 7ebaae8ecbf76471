#include "text/utf8.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace specbound::utf8_test {

namespace {

std::string show(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

std::string encode(uint32_t c) {
  std::string out;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
  return out;
}

// What text begins with, from a list of all characters there are instead of ranges of bytes.
class AllCharacters {
 public:
  AllCharacters() : whole_(size_t{3} << 24), prefix_(size_t{3} << 24) {
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      const std::string bytes = encode(c);
      if (bytes.size() < 4) whole_[index(bytes)] = true;
      for (size_t n = 1; n < bytes.size(); ++n) prefix_[index(bytes.substr(0, n))] = true;
    }
  }

  Utf8Head head(std::string_view text) const {
    int longest = 0;
    for (size_t n = 1; n <= std::min<size_t>(4, text.size()); ++n) {
      const std::string_view part = text.substr(0, n);
      const bool is_whole = n < 4 ? whole_[index(part)]
                                  : prefix_[index(part.substr(0, 3))] &&
                                        (static_cast<unsigned char>(part[3]) & 0xC0) == 0x80;
      if (is_whole) return {Utf8Head::kWhole, static_cast<int>(n)};
      if (n == 4 || !prefix_[index(part)]) break;
      longest = static_cast<int>(n);
    }
    if (longest > 0 && static_cast<size_t>(longest) == text.size())
      return {Utf8Head::kCut, longest};
    return {Utf8Head::kBroken, std::max(1, longest)};
  }

 private:
  // Of one to three bytes; distinct for each text.
  static size_t index(std::string_view bytes) {
    size_t out = bytes.size() - 1;
    for (size_t i = 0; i < 3; ++i) {
      out = out << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0);
    }
    return out;
  }
  std::vector<bool> whole_, prefix_;
};

}  // namespace

TEST_CASE("utf8: the examples of the Unicode standard") {
  const std::string a = "a", r = "\xEF\xBF\xBD";
  const auto times = [&](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += r;
    return out;
  };
  CHECK(show("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64") ==
        a + times(3) + "b" + r + "c" + times(2) + "d");
  CHECK(show("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == times(8) + "A");
  CHECK(show("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") == times(8) + "A");
  CHECK(show("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == times(5) + "A" + times(2) + "B");
  CHECK(show("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == times(4) + "A");
  CHECK(show("") == "");
  CHECK(show("\xF0\x9F\x99") == r);
  CHECK(show(std::string_view("a\0b", 3)) == std::string_view("a\0b", 3));
}

TEST_CASE("utf8: heads agree with the list of all characters") {
  const AllCharacters all;
  size_t n_wrong = 0, n_checked = 0;
  const auto compare = [&](std::string_view text) {
    const Utf8Head expected = all.head(text), found = utf8_head(text);
    n_wrong += expected.kind != found.kind || expected.length != found.length;
    ++n_checked;
  };
  // All of two bytes; of three and four the bytes where ranges begin and end.
  const std::vector<int> edges = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                  0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                  0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (int a = 0; a < 256; ++a) {
    compare(std::string{static_cast<char>(a)});
    for (int b = 0; b < 256; ++b) {
      const std::string two = {static_cast<char>(a), static_cast<char>(b)};
      compare(two);
      for (const int c : edges) {
        const std::string three = two + static_cast<char>(c);
        compare(three);
        if (a >= 0xEF) {
          for (const int d : edges) compare(three + static_cast<char>(d));
        }
      }
    }
  }
  CHECK(n_checked > 2000000);
  CHECK(n_wrong == 0);
}

TEST_CASE("utf8: however a text is cut, the stream shows the same") {
  std::vector<std::string> texts = {
      "plain",
      "F\xC3\xBChrer \xE2\x96\x81 \xF0\x9F\xA6\x99.cpp \xE0\xBD\xA0",
      "\xF0\x9F\x99\xF0\x9F\x99\x82\xED\xA0\x80\xC3",
      "\xF0\x90\x80\xF4\x90\x80\x80\xE2\x82",
      "\xFF\xFE\x80\x80\xC2\xC2\xA9\xE2\x28\xA1\xF0\x28\x8C\x28",
  };
  std::mt19937 random(1);
  constexpr unsigned char kBytes[] = {0x20, 0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC3,
                                      0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int j = 0; j < 10; ++j) text += static_cast<char>(kBytes[random() % sizeof(kBytes)]);
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const std::string whole = show(text);
    for (size_t i = 0; i <= text.size(); ++i) {
      for (size_t j = i; j <= text.size(); ++j) {
        Utf8Stream stream;
        std::string out;
        for (const std::string& part : {text.substr(0, i), text.substr(i, j - i), text.substr(j)}) {
          const std::string shown = stream.push(part);
          // No half character is ever shown.
          CHECK(show(shown) == shown);
          out += shown;
        }
        REQUIRE(out + stream.finish() == whole);
      }
    }
    Utf8Stream bytewise;
    std::string out;
    for (const char c : text) out += bytewise.push(std::string_view(&c, 1));
    out += bytewise.finish();
    REQUIRE(out == whole);
    CHECK(bytewise.finish() == "");
  }
}

TEST_CASE("utf8: a character is shown as soon as it is whole") {
  Utf8Stream stream;
  CHECK(stream.push("a\xF0") == "a");
  CHECK(stream.push("\x9F") == "");
  CHECK(stream.push("\xA6") == "");
  CHECK(stream.push("\x99"
                    "b") ==
        "\xF0\x9F\xA6\x99"
        "b");
  CHECK(stream.push("\xE2\x82") == "");
  CHECK(stream.push("x") == "\xEF\xBF\xBDx");
  CHECK(stream.finish() == "");
}

}  // namespace specbound::utf8_test
