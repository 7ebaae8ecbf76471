// specbound.h: versions, models, and what needs their vocabulary only.
#include <new>
#include <string>
#include <vector>

#include "capi/engine.h"
#include "capi/sized.h"
#include "error.h"
#include "numerics/float_mode.h"

#define SB_TEXT_OF(x) #x
#define SB_TEXT(x) SB_TEXT_OF(x)
#define SB_HEADER_VERSION          \
  SB_TEXT(SPECBOUND_VERSION_MAJOR) \
  "." SB_TEXT(SPECBOUND_VERSION_MINOR) "." SB_TEXT(SPECBOUND_VERSION_PATCH)

using namespace specbound;
using namespace specbound::capi;

// The header's is that of the build.
static_assert(std::string_view(SB_HEADER_VERSION) == SPECBOUND_VERSION);

namespace {

void check_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return;
  throw Error(ErrorCode::kUsage,
              format("flags: expected no others than 0x%x, found 0x%x",
                     static_cast<unsigned>(known), static_cast<unsigned>(flags)));
}

}  // namespace

namespace specbound::capi {

Engine& engine_of(const sb_model& model) {
  if (model.engine) return *model.engine;
  throw Error(ErrorCode::kUsage, "the model is not there: opening it failed");
}

}  // namespace specbound::capi

const char* sb_version(void) {
  return SPECBOUND_VERSION;
}

const char* sb_status_text(int32_t status) {
  constexpr const char* kTexts[] = {"fine",
                                    "an argument is wrong",
                                    "a file cannot be read",
                                    "a file is broken",
                                    "not supported",
                                    "it does not fit",
                                    "a GPU failed",
                                    "an array is too small",
                                    "internal error",
                                    "cancelled"};
  static_assert(std::size(kTexts) == SB_CANCELLED + 1);
  return status >= SB_OK && status <= SB_CANCELLED ? kTexts[status] : "unknown status";
}

sb_status sb_model_open(const char* path, const sb_model_options* options, sb_model** model) {
  if (!model) return SB_ERROR_USAGE;
  *model = new (std::nothrow) sb_model;
  if (!*model) return SB_ERROR_LIMIT;
  return guarded(*model, [&] {
    const FloatMode mode;  // the caller's may be another
    const auto taken = options ? take_in(options, "options") : sb_model_options{};
    (*model)->engine = std::make_shared<Engine>(path, taken);
  });
}

void sb_model_free(sb_model* model) {
  delete model;
}

size_t sb_model_error(const sb_model* model, char* buffer, size_t size) {
  if (model) return model->failure.copy(buffer, size);
  if (buffer && size > 0) *buffer = '\0';
  return 0;
}

sb_status sb_model_get_info(const sb_model* model, sb_model_info* info) {
  return guarded(model, [&] {
    const Engine& engine = engine_of(*model);
    const LoadedModel& loaded = engine.model();
    sb_model_info out = {};
    out.architecture = loaded.config().architecture.c_str();
    out.backend = engine.backend().c_str();
    out.speculation = engine.speculation_line().c_str();
    out.n_layers = loaded.config().n_layers;
    out.vocab_size = engine.tokenizer().vocab_size();
    out.n_ctx = loaded.n_ctx();
    out.n_ctx_trained = loaded.config().max_seq_len;
    out.bos_token = engine.tokenizer().bos();
    out.eos_token = engine.tokenizer().eos();
    out.has_chat_template = engine.has_chat_template();
    out.can_speculate = engine.can_speculate();
    out.load_seconds = loaded.load_seconds();
    give_out(out, info, "info");
  });
}

sb_status sb_tokenize(const sb_model* model, const char* text, size_t n_bytes, uint32_t flags,
                      int32_t* tokens, size_t capacity, size_t* n_tokens) {
  return guarded(model, [&] {
    const Engine& engine = engine_of(*model);
    const std::span<const char> bytes = given(text, n_bytes, "text");
    given(tokens, capacity, "tokens");
    need(n_tokens, "n_tokens");
    check_flags(flags, SB_ADD_SPECIAL | SB_PARSE_SPECIAL);
    const std::vector<int32_t> ids = engine.tokenizer().encode(
        {bytes.data(), bytes.size()}, {.add_special = (flags & SB_ADD_SPECIAL) != 0,
                                       .parse_special = (flags & SB_PARSE_SPECIAL) != 0});
    hand_out(std::span(ids), tokens, capacity, n_tokens);
  });
}

sb_status sb_detokenize(const sb_model* model, const int32_t* tokens, size_t n_tokens,
                        uint32_t flags, char* text, size_t capacity, size_t* n_bytes) {
  return guarded(model, [&] {
    const Tokenizer& tokenizer = engine_of(*model).tokenizer();
    const std::span<const int32_t> ids = given(tokens, n_tokens, "tokens");
    given(text, capacity, "text");
    need(n_bytes, "n_bytes");
    check_flags(flags, SB_SHOW_SPECIAL);
    for (const int32_t id : ids) {
      if (id >= 0 && id < tokenizer.vocab_size()) continue;
      throw Error(ErrorCode::kUsage, format("tokens: expected 0 to %d, found %d",
                                            tokenizer.vocab_size() - 1, static_cast<int>(id)));
    }
    const std::string bytes = tokenizer.decode(ids, (flags & SB_SHOW_SPECIAL) != 0);
    hand_out(std::span<const char>(bytes), text, capacity, n_bytes);
  });
}

sb_status sb_apply_chat_template(const sb_model* model, const sb_message* messages,
                                 size_t n_messages, int32_t* tokens, size_t capacity,
                                 size_t* n_tokens) {
  return guarded(model, [&] {
    const Engine& engine = engine_of(*model);
    given(tokens, capacity, "tokens");
    need(n_tokens, "n_tokens");
    const std::vector<int32_t> ids = engine.encode(given(messages, n_messages, "messages"));
    hand_out(std::span(ids), tokens, capacity, n_tokens);
  });
}
