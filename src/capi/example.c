// One reply, as it comes: example MODEL.gguf "Hello!"
//   cc -o example example.c $(pkg-config --cflags --libs specbound)
#include <specbound.h>
#include <stdio.h>

static int show(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer) {
  (void)user_data, (void)exit_layer;
  fwrite(text, 1, n_bytes, stdout);
  return fflush(stdout);  // not 0, nobody reads any more: ends the reply
}

int main(int argc, char** argv) {
  char why[1024];
  sb_model* model = NULL;
  sb_session* session = NULL;
  if (argc != 3) return 2;
  if (sb_model_open(argv[1], NULL, &model) || sb_session_new(model, NULL, &session)) {
    sb_model_error(model, why, sizeof why);
    fprintf(stderr, "%s\n", why);
    sb_model_free(model);
    return 1;
  }
  const sb_message message = {"user", argv[2]};
  const sb_request request = {
      .size = sizeof request, .messages = &message, .n_messages = 1, .on_text = show};
  sb_stats stats = {.size = sizeof stats};
  const int failed = sb_generate(session, &request) || sb_session_get_stats(session, &stats);
  if (failed) {
    sb_session_error(session, why, sizeof why);
    fprintf(stderr, "%s\n", why);
  } else {
    printf("\n[%d tokens, %.1f tok/s, %d of %d drafts right]\n", stats.generated_tokens,
           stats.decode_tokens_per_second, stats.accepted_tokens, stats.drafted_tokens);
  }
  sb_session_free(session);
  sb_model_free(model);
  return failed;
}
