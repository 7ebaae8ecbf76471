#include "library/hub_models.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "error.h"
#include "json/json_reader.h"

namespace specbound {

namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 42;
constexpr size_t kMostListed = 40;  // models that an error names

// Best first; docs/commands.md has the list.
constexpr std::string_view kPreferred[] = {"Q4_K_M", "Q4_0",   "Q4_K_S", "Q8_0", "Q4_1", "IQ4_NL",
                                           "Q5_K_M", "Q5_K_S", "Q5_0",   "Q5_1", "Q6_K", "Q3_K_L",
                                           "Q3_K_M", "Q3_K_S", "Q2_K",   "F16",  "BF16", "F32"};

bool is_model_file(const std::string& path) {
  if (!path.ends_with(".gguf") || path.ends_with(".heads.gguf") || !is_safe_path(path))
    return false;
  // What the cache itself has there.
  const std::string_view first = std::string_view(path).substr(0, path.find('/'));
  if (first == "lock" || first == "index.json") return false;
  std::string name(hub_base_name(path));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("mmproj") == name.npos && name.find("imatrix") == name.npos;
}

struct PartName {
  std::string model;  // what all parts begin with, and how many there are
  size_t number, count;
};

// "NAME-00002-of-00003.gguf"; nullopt: a file by itself.
std::optional<PartName> part_name(const std::string& path) {
  constexpr std::string_view kShape = "-00000-of-00000.gguf";
  if (path.size() <= kShape.size()) return std::nullopt;
  const std::string ending = path.substr(path.size() - kShape.size());
  std::string digits_as_0 = ending;
  for (char& c : digits_as_0) {
    if (std::isdigit(static_cast<unsigned char>(c))) c = '0';
  }
  if (digits_as_0 != kShape) return std::nullopt;
  return PartName{path.substr(0, path.size() - kShape.size()) + ending.substr(6),
                  std::stoul(ending.substr(1, 5)), std::stoul(ending.substr(10, 5))};
}

std::optional<HubFile> read_entry(const nlohmann::json& value, const std::string& name) {
  const JsonObject entry(value, name);
  HubFile file;
  file.path = entry.text("path").value_or("");
  if (entry.text("type").value_or("file") != "file" || !is_model_file(file.path)) {
    return std::nullopt;
  }
  file.bytes = entry.bounded("size", 0, kMostFileBytes);
  if (const auto lfs = entry.object("lfs")) {
    file.sha256 = lfs->text("oid").value_or("");
    file.bytes = lfs->bounded("size", 0, kMostFileBytes, file.bytes);
  }
  return file;
}

// Adds the files of models that a page of the list has.
void read_page(std::string_view json, const std::string& name, std::vector<HubFile>& files) {
  JsonLimits limits;
  limits.depth = 8;
  limits.values = 400000;
  const nlohmann::json list = parse_json(json, name, limits);
  if (!list.is_array()) {
    throw Error(ErrorCode::kFormat, name + ": expected a list, found " + json_text(list));
  }
  for (const nlohmann::json& value : list) {
    if (std::optional<HubFile> file = read_entry(value, name)) files.push_back(std::move(*file));
  }
}

// The models of these quantizations or files, for an error.
std::string listed(const std::vector<HubModel>& models) {
  std::vector<std::string> words;
  for (const HubModel& model : models) {
    if (words.size() == kMostListed) {
      words.push_back("...");
      break;
    }
    const bool alone = !model.quantization.empty() &&
                       std::ranges::count(models, model.quantization, &HubModel::quantization) == 1;
    words.push_back(alone ? model.quantization : model.files.front().path);
  }
  return joined(words);
}

}  // namespace

uint64_t HubModel::bytes() const {
  uint64_t sum = 0;
  for (const HubFile& file : files) sum += file.bytes;
  return sum;
}

std::vector<HubModel> read_hub_list(std::span<const std::string> pages, const std::string& name) {
  std::vector<HubFile> all;
  for (const std::string& page : pages) read_page(page, name, all);
  std::vector<HubModel> models;
  std::map<std::string, std::map<size_t, HubFile>> split;  // parts may lie on two pages
  for (HubFile& file : all) {
    if (const std::optional<PartName> part = part_name(file.path)) {
      split[part->model][part->number] = std::move(file);
      continue;
    }
    HubModel model;
    model.quantization = quantization_of(file.path);
    model.files.push_back(std::move(file));
    models.push_back(std::move(model));
  }
  for (const auto& [begin, parts] : split) {
    HubModel model;
    model.quantization = quantization_of(begin);
    model.n_parts = part_name(parts.begin()->second.path)->count;
    for (const auto& [number, file] : parts) model.files.push_back(file);
    // Numbers beyond the count, or none: of no model.
    if (parts.begin()->first == 1 && parts.rbegin()->first <= model.n_parts) {
      models.push_back(std::move(model));
    }
  }
  std::ranges::sort(models, {}, [](const HubModel& m) { return m.files.front().path; });
  return models;
}

const HubModel& choose_model(const std::vector<HubModel>& models, const HubName& name) {
  std::vector<const HubModel*> found;
  const auto take = [&](const auto& wanted) {
    for (const HubModel& model : models) {
      if (wanted(model)) found.push_back(&model);
    }
  };
  if (models.empty()) {
    throw Error(ErrorCode::kUsage, name.text() + ": there is no GGUF file in this repository");
  }
  if (name.names_file()) {
    take([](const HubModel&) { return true; });
    keep_named(found, name.quantization, [](const HubModel* model, const auto& is_it) {
      return std::ranges::any_of(model->files, is_it, &HubFile::path);
    });
  } else if (!name.quantization.empty()) {
    take([&](const HubModel& model) { return model.quantization == name.quantization; });
  } else {
    for (const std::string_view preferred : kPreferred) {
      if (!found.empty()) break;
      take([&](const HubModel& model) { return model.quantization == preferred; });
    }
    if (found.empty() && models.size() == 1) found.push_back(&models.front());
  }
  if (found.size() == 1) {
    const HubModel& model = *found.front();
    if (model.files.size() == model.n_parts) return model;
    throw Error(ErrorCode::kFormat,
                format("%s: %s: expected %zu parts, found %zu", name.text().c_str(),
                       model.files.front().path.c_str(), model.n_parts, model.files.size()));
  }
  throw Error(ErrorCode::kUsage,
              format("%s: expected one model of %s", name.text().c_str(), listed(models).c_str()) +
                  (found.empty() ? ""
                                 : format(", found %zu; hf:%s:FILE.gguf names one", found.size(),
                                          name.repository().c_str())));
}

}  // namespace specbound
