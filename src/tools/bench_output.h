// What a benchmark found, in the four forms that programs and people ask for (-o): a table, and
// records as CSV, JSON and JSON lines. What is the same in every JSON document is put there here.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trace/statistics.h"

namespace specbound {

enum class BenchFormat { kMarkdown, kCsv, kJson, kJsonLines };
inline constexpr const char* kBenchFormats = "md, csv, json or jsonl";
// "md", "csv", "json" or "jsonl" into `format`; false for anything else.
bool parse_bench_format(std::string_view text, BenchFormat& format);

struct TableColumn {
  std::string title;
  bool number = true;  // to the right
};
// A Markdown table, padded so that it reads well as text too. Cells of one line; a | in one is
// escaped.
std::string markdown_table(const std::vector<TableColumn>& columns,
                           const std::vector<std::vector<std::string>>& rows);

// A line of names and one for each record, as RFC 4180 has it, but for lines that end in \n. The
// names are those of the first record; what lies inside an object is named `outer.inner`, lists
// stay JSON, null is empty.
std::string csv_text(const std::vector<nlohmann::ordered_json>& records);
// A record a line.
std::string json_lines(const std::vector<nlohmann::ordered_json>& records);

nlohmann::ordered_json spread_json(const Spread& spread);

class BenchOutput {
 public:
  // `file` of --json; empty: none. Throws Error(kFile) if it cannot be written.
  BenchOutput(BenchFormat format, std::string file, std::vector<std::string> command);

  // Tables and words go to stdout, by who measures; else nothing but what write() puts there.
  bool for_people() const { return format_ == BenchFormat::kMarkdown; }
  // To stdout, for people. Where that fails and there is a file, write() throws it: what was
  // measured must not be lost with it.
  void tell(const std::string& text);
  // {version, command} and then `found`, as a document to stdout and into the file; `records` to
  // stdout where they are asked for. Throws Error(kFile).
  void write(const nlohmann::ordered_json& found,
             const std::vector<nlohmann::ordered_json>& records);

 private:
  BenchFormat format_;
  std::string file_;
  std::vector<std::string> command_;
  std::exception_ptr untold_;
};

}  // namespace specbound
