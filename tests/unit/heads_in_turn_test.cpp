// Timed sides: what each finds on the backend, in whatever order they come.
#include "tools/heads_in_turn.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "forwarding_backend.h"
#include "process_state.h"
#include "speculation_rig.h"
#include "temp_dir.h"

namespace heads_in_turn_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("sides in turn have the heads that they ask for, plain decoding none") {
  class Watched final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void set_exit_heads(const ExitHeads* heads, int shortlist) override {
      there = heads;
      ++changes;
      ForwardingBackend::set_exit_heads(heads, shortlist);
    }
    const ExitHeads* there = nullptr;
    int changes = 0;
  };
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const auto side = [&](const std::string& name) {
    HeadDefaults defaults;
    defaults.kind = HeadKind::kFolded;
    defaults.check_layers = {4};
    write_heads(folder / name, {{HeadKind::kFolded, {4}}}, defaults);
    const Parsed parsed = parse({"--heads", folder / name, "--controller", "off"});
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return speculation(parsed.flags);
  };
  const auto a = side("a.gguf"), b = side("b.gguf");
  const Parsed lookups = parse({"--speculator", "ngram"});
  const auto without = speculation(lookups.flags);
  Watched backend(tiny(kLayers).backend(Isa::kPortable, 1));
  for (Speculation* one : {a.get(), b.get(), without.get()}) one->attach(backend);
  REQUIRE(backend.there == b->heads());

  HeadsInTurn heads(backend);
  CHECK(backend.there == nullptr);
  for (Speculation* one : {a.get(), b.get(), without.get(), b.get(), a.get()}) {
    heads.give(nullptr);
    CHECK(backend.there == nullptr);
    heads.give(one);
    CHECK(backend.there == one->heads());
    const int before = backend.changes;
    heads.give(one);
    CHECK(backend.changes == before);  // what is there stays
  }
}

}  // namespace heads_in_turn_test
