#include "tools/bench_output.h"

#include <algorithm>

#include "error.h"
#include "json/json_writer.h"
#include "system/file_output.h"
#include "terminal/standard_output.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

std::string cell_text(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? "\\|" : std::string(1, c);
  return cell;
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) line += (i > 0 ? "," : "") + quoted(fields[i]);
  return line + '\n';
}

// Name and value of everything in `json` that is no object itself.
void flatten(const Json& json, const std::string& name,
             std::vector<std::pair<std::string, const Json*>>& out) {
  for (const auto& [key, value] : json.items()) {
    const std::string full = name.empty() ? key : name + '.' + key;
    if (value.is_object()) {
      flatten(value, full, out);
    } else {
      out.emplace_back(full, &value);
    }
  }
}

std::string field_text(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : dump(value);
}

}  // namespace

bool parse_bench_format(std::string_view text, BenchFormat& format) {
  constexpr std::pair<std::string_view, BenchFormat> kFormats[] = {
      {"md", BenchFormat::kMarkdown},
      {"csv", BenchFormat::kCsv},
      {"json", BenchFormat::kJson},
      {"jsonl", BenchFormat::kJsonLines}};
  for (const auto& [name, value] : kFormats) {
    if (text != name) continue;
    format = value;
    return true;
  }
  return false;
}

std::string markdown_table(const std::vector<TableColumn>& columns,
                           const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> head;
  std::vector<int> widths;
  for (const TableColumn& column : columns) {
    head.push_back(column.title);
    int width = std::max(3, display_width(column.title));
    for (const auto& row : rows) {
      width = std::max(width, display_width(cell_text(row[head.size() - 1])));
    }
    widths.push_back(width);
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string cell = cell_text(cells[i]);
      const std::string filler(static_cast<size_t>(widths[i] - display_width(cell)), ' ');
      text += "| " + (columns[i].number ? filler + cell : cell + filler) + ' ';
    }
    text += "|\n";
  };
  line(head);
  for (size_t i = 0; i < columns.size(); ++i) {
    text += "| " + std::string(static_cast<size_t>(widths[i] - 1), '-') +
            (columns[i].number ? ": " : "- ");
  }
  text += "|\n";
  for (const auto& row : rows) line(row);
  return text;
}

std::string csv_text(const std::vector<Json>& records) {
  std::string text;
  std::vector<std::string> names;
  for (const Json& record : records) {
    std::vector<std::pair<std::string, const Json*>> found;
    flatten(record, "", found);
    if (names.empty()) {
      for (const auto& field : found) names.push_back(field.first);
      text = csv_line(names);
    }
    std::vector<std::string> fields;
    for (const std::string& name : names) {
      const auto field =
          std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == name; });
      fields.push_back(field == found.end() ? "" : field_text(*field->second));
    }
    text += csv_line(fields);
  }
  return text;
}

std::string json_lines(const std::vector<Json>& records) {
  std::string text;
  for (const Json& record : records) text += dump(record) + '\n';
  return text;
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

BenchOutput::BenchOutput(BenchFormat format, std::string file, std::vector<std::string> command)
    : format_(format), file_(std::move(file)), command_(std::move(command)) {
  if (!file_.empty()) check_writable(file_);
}

void BenchOutput::tell(const std::string& text) {
  if (!for_people() || untold_) return;
  try {
    write_stdout(text);
  } catch (const Error&) {
    if (file_.empty()) throw;
    untold_ = std::current_exception();
  }
}

void BenchOutput::write(const Json& found, const std::vector<Json>& records) {
  Json document = {{"specbound", SPECBOUND_VERSION}, {"command", command_}};
  document.update(found);
  const std::string whole = dump(document, 2) + '\n';
  try {
    if (format_ == BenchFormat::kJson) write_stdout(whole);
    if (format_ == BenchFormat::kCsv) write_stdout(csv_text(records));
    if (format_ == BenchFormat::kJsonLines) write_stdout(json_lines(records));
  } catch (const Error&) {
    untold_ = std::current_exception();
  }
  if (!file_.empty()) write_file(file_, whole);
  if (untold_) std::rethrow_exception(untold_);
}

}  // namespace specbound
