// Heads files whose medusa and hydra heads share the model's lm_head: what is missing is the
// model's, what is there is held against it.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>

#include "expect_error.h"
#include "model/exit_heads.h"
#include "tiny_heads.h"

namespace exit_heads_shared_test {

using namespace specbound;
using namespace specbound::test;

namespace {

const HeadsBase kBase = {"llama", 3, 32, 48, "0123456789abcdef"};
constexpr const char* kMap = "exit.0.medusa.1.0.weight";

HeadsFile file_of(const NewHead& head) {
  NewHeads heads;
  heads.base = kBase;
  heads.heads = {head};
  heads.defaults.kind = head.kind;
  return HeadsFile(Gguf::parse(exit_heads_file("good.gguf", heads), "good.gguf"));
}

template <typename Change>
void refuse(HeadsFile file, Change&& change, std::initializer_list<std::string_view> parts) {
  change(file);
  for (const HeadsBase* model : {&kBase, static_cast<const HeadsBase*>(nullptr)}) {
    const std::string text = expect_error(ErrorCode::kFormat, [&] {
      ExitHeads::from_gguf(Gguf::parse(file.bytes(), "bad.gguf"), model);
    });
    check_mentions(text, {"bad.gguf: ", "expected ", "found "});
    check_mentions(text, parts);
  }
}

void give(TinyTensor& tensor, std::vector<uint64_t> shape) {
  tensor.shape = std::move(shape);
  uint64_t n = 1;
  for (const uint64_t side : tensor.shape) n *= side;
  tensor.bytes.resize(n * sizeof(float));
}

}  // namespace

TEST_CASE("heads without an lm_head are read, each with its own or the model's") {
  for (const bool hydra : {false, true}) {
    NewHead head = hydra ? random_hydra(kBase, 3, 1, 1) : random_medusa(kBase, 3, 1, 1);
    head.medusa[1].lm_head = head.medusa[1].lm_bias = {};
    const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(file_of(head).bytes(), "good.gguf"));
    const std::vector<MedusaHead>& read = heads.heads()[0].medusa;
    REQUIRE(read.size() == 3);
    for (const size_t k : {0, 1, 2}) {
      CHECK(read[k].lm_head.n_out == (k == 1 ? 0 : kBase.vocab_size));
      CHECK((read[k].lm_bias != nullptr) == (hydra && k != 1));
    }
    CHECK(heads.heads()[0].matrices().size() == (hydra ? 8 : 5));
  }
}

TEST_CASE("hostile heads: without an lm_head the shapes of the rest are held against the model") {
  const HeadsFile medusa = file_of(with_shared_lm_head(random_medusa(kBase, 2, 1, 6)));
  const HeadsFile hydra = file_of(with_shared_lm_head(random_hydra(kBase, 2, 1, 7)));
  for (const uint64_t wrong : {uint64_t{1}, uint64_t{31}, uint64_t{48}, uint64_t{64}}) {
    refuse(medusa, [&](HeadsFile& f) { give(f.tensor(kMap), {wrong, 32}); }, {kMap});
    refuse(medusa, [&](HeadsFile& f) { give(f.tensor(kMap), {32, wrong}); }, {kMap});
  }
  // A second place as wide as the first, and a bias as long as the vocabulary.
  refuse(hydra,
         [](HeadsFile& f) {
           give(f.tensor("exit.0.hydra.2.0.weight"), {64, 32});
         },
         {"exit.0.hydra.2.0.weight", "expected shape (96, 32)", "(64, 32)"});
  refuse(medusa, [](HeadsFile& f) { give(f.tensor("exit.0.medusa.2.0.bias"), {48}); },
         {"exit.0.medusa.2.0.bias", "expected shape ("});
  refuse(medusa,
         [](HeadsFile& f) {
           const float nan = std::numeric_limits<float>::quiet_NaN();
           std::memcpy(f.tensor(kMap).bytes.data(), &nan, sizeof(nan));
         },
         {kMap, "finite values"});
  for (const char* name : {"exit.0.medusa.2.0.weight", "exit.0.medusa.1.0.bias"}) {
    refuse(medusa, [&](HeadsFile& f) { f.remove(name); }, {name, "found none"});
  }
  refuse(medusa, [](HeadsFile& f) { f.numbers[kMedusaHeadsKey] = 1; },
         {"exit.0.medusa.2.", "only tensors of the heads"});
}

TEST_CASE("hostile heads: an lm_head that is there is whole, and no bias stands for one") {
  const HeadsFile medusa = file_of(with_shared_lm_head(random_medusa(kBase, 2, 1, 6)));
  const HeadsFile hydra = file_of(random_hydra(kBase, 2, 1, 7));
  for (const uint64_t rows : {uint64_t{32}, uint64_t{47}, uint64_t{49}}) {
    refuse(medusa,
           [&](HeadsFile& f) {
             TinyTensor copy = f.tensor(kMap);
             copy.name = "exit.0.medusa.1.lm_head.weight";
             give(copy, {32, rows});
             f.tensors.push_back(copy);
           },
           {"exit.0.medusa.1.lm_head.weight", "expected shape (32, 48)"});
  }
  refuse(hydra, [](HeadsFile& f) { f.remove("exit.0.hydra.1.lm_head.weight"); },
         {"exit.0.hydra.1.lm_head.bias", "only tensors of the heads"});
  refuse(hydra, [](HeadsFile& f) { f.remove("exit.0.hydra.1.lm_head.bias"); },
         {"exit.0.hydra.1.lm_head.bias", "found none"});
}

}  // namespace exit_heads_shared_test
