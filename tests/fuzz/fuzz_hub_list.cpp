// libFuzzer target: any bytes as the list of a repository, then every choice among what it holds.
// The answer is models whose files stay in their folder, or an Error.
//
//   the quantization asked for, up to the first line end | the list
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "empty_corpus.h"
#include "error.h"
#include "library/hub_models.h"
#include "library/model_name.h"

namespace specbound::test {
namespace {

std::vector<std::string> seeds() {
  const std::string lfs = R"(, "lfs": {"oid": ")" + std::string(64, 'a') + R"(", "size": 9}})";
  const std::string begin = R"([{"type": "file", "size": 9, "path": ")";
  return {
      "\n[]",
      "Q8_0\n" + begin + "m-Q8_0.gguf\"" + lfs + "]",
      "m-Q4_K_M-00001-of-00002.gguf\n" + begin + "m-Q4_K_M-00001-of-00002.gguf\"" + lfs + "," +
          begin.substr(1) + "m-Q4_K_M-00002-of-00002.gguf\"" + lfs + "]",
      "\n" + begin + "../m.gguf\"" + lfs + "]",
  };
}

void check_model(const HubModel& model) {
  SB_CHECK(!model.files.empty() && model.n_parts >= model.files.size());
  for (const HubFile& file : model.files) {
    SB_CHECK(is_safe_path(file.path) && file.path.ends_with(".gguf"));
    SB_CHECK(file.path.find("..") != 0 && file.path.find("/.") == file.path.npos);
  }
  SB_CHECK(quantization_word(model.quantization) == model.quantization);
}

}  // namespace
}  // namespace specbound::test

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  specbound::test::fill_empty_corpus(*argc, *argv, specbound::test::seeds());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace specbound;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  if (end == text.npos) return 0;
  try {
    HubName name = parse_hub_name("hf:owner/repo");
    const std::string page(text.substr(end + 1));
    const std::vector<HubModel> models = read_hub_list({&page, 1}, "list");
    for (const HubModel& model : models) test::check_model(model);
    if (end > 0) name = parse_hub_name("hf:owner/repo:" + std::string(text.substr(0, end)));
    test::check_model(choose_model(models, name));
  } catch (const Error&) {
  }
  return 0;
}
