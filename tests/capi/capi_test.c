// The C API from C: versions, models, text, hostile files and arguments. session_test.c has the
// rest.  capi_test DEMO.gguf STORIES.gguf
#define _POSIX_C_SOURCE 200809L

#include "capi_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const char *demo_path, *stories_path;

int collect(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer) {
  Text* out = user_data;
  CHECK(n_bytes > 0 && exit_layer >= -1 && exit_layer < 16);
  CHECK(out->n + n_bytes < sizeof out->bytes);
  memcpy(out->bytes + out->n, text, n_bytes);
  out->n += n_bytes;
  out->calls++;
  out->drafted += exit_layer >= 0;
  return 0;
}

sb_model* open_model(const char* path, int32_t speculation) {
  const sb_model_options options = {.size = sizeof options,
                                    .n_threads = 1,
                                    .speculation = speculation,
                                    .no_controller = 1,  // whatever else the machine does
                                    .device = "cpu"};
  sb_model* model = NULL;
  CHECK(sb_model_open(path, &options, &model) == SB_OK && model);
  CHECK(sb_model_error(model, NULL, 0) == 0);
  return model;
}

sb_session* new_session(sb_model* model, const sb_sampling* sampling) {
  sb_session* session = NULL;
  CHECK(sb_session_new(model, sampling, &session) == SB_OK && session);
  return session;
}

sb_sampling greedy(void) {
  sb_sampling sampling;
  CHECK(sb_sampling_init(&sampling, sizeof sampling) == SB_OK);
  sampling.temperature = 0;
  return sampling;
}

// The failed call left a message that has `part` in it.
static void check_error(const sb_model* model, const char* part) {
  char message[1024];
  const size_t n = sb_model_error(model, message, sizeof message);
  CHECK(n > 0 && n == strlen(message));
  if (!strstr(message, part)) printf("expected \"%s\" in: %s\n", part, message);
  CHECK(strstr(message, part));
}

static void test_versions(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", SPECBOUND_VERSION_MAJOR, SPECBOUND_VERSION_MINOR,
           SPECBOUND_VERSION_PATCH);
  CHECK(strcmp(sb_version(), version) == 0);
  for (int32_t status = -1; status <= SB_CANCELLED + 1; ++status) {
    CHECK(strlen(sb_status_text(status)) > 2);
  }
  CHECK(strcmp(sb_status_text(SB_ERROR_FILE), sb_status_text(SB_ERROR_FORMAT)) != 0);
  CHECK(strcmp(sb_status_text(99), sb_status_text(-7)) == 0);
}

// ---- opening ----

typedef struct Watch {
  int n_progress, n_notes, cancel_at;
  uint64_t done, total;
  char notes[4096];
} Watch;

static int on_progress(void* user_data, const char* label, uint64_t done, uint64_t total) {
  Watch* watch = user_data;
  CHECK(strlen(label) > 0 && done <= total && total > 0);
  watch->done = done;
  watch->total = total;
  return ++watch->n_progress == watch->cancel_at;
}

static void on_note(void* user_data, const char* line) {
  Watch* watch = user_data;
  CHECK(!strchr(line, '\n'));
  watch->n_notes++;
  CHECK(strlen(watch->notes) + strlen(line) + 2 < sizeof watch->notes);
  strcat(strcat(watch->notes, line), "\n");
}

static void test_opening(void) {
  Watch watch = {0};
  sb_model_options options = {.size = sizeof options,
                              .n_ctx = 96,
                              .n_threads = 2,
                              .device = "cpu",
                              .on_progress = on_progress,
                              .on_note = on_note,
                              .user_data = &watch};
  sb_model* model = NULL;
  CHECK(sb_model_open(demo_path, &options, &model) == SB_OK);
  CHECK(watch.n_progress > 1 && watch.done == watch.total);
  CHECK(watch.n_notes >= 3 && strstr(watch.notes, "backend: ") && strstr(watch.notes, "specula"));

  sb_model_info info = {.size = sizeof info};
  CHECK(sb_model_get_info(model, &info) == SB_OK && info.size == sizeof info);
  CHECK(strcmp(info.architecture, "llama") == 0 && strstr(info.backend, "CPU"));
  CHECK(strstr(info.speculation, "speculation on"));
  CHECK(info.n_layers == 16 && info.vocab_size > 100 && info.n_ctx == 96);
  CHECK(info.n_ctx_trained == 768 && info.bos_token >= 0 && info.eos_token >= 0);
  CHECK(info.has_chat_template == 1 && info.can_speculate == 1 && info.load_seconds > 0);
  sb_model_free(model);

  for (int cancel_at = 1; cancel_at <= 3; ++cancel_at) {
    memset(&watch, 0, sizeof watch);
    watch.cancel_at = cancel_at;
    CHECK(sb_model_open(demo_path, &options, &model) == SB_CANCELLED && model);
    CHECK(watch.n_progress == cancel_at);
    check_error(model, "progress callback");
    // Good for its message and to be freed, for nothing else.
    CHECK(sb_model_get_info(model, &info) == SB_ERROR_USAGE);
    check_error(model, "opening it failed");
    sb_session* session = NULL;
    CHECK(sb_session_new(model, NULL, &session) == SB_ERROR_USAGE && !session);
    sb_model_free(model);
  }
}

static void test_kv(void) {
  for (int int8 = 0; int8 <= 1; ++int8) {
    Watch watch = {0};
    const sb_model_options options = {.size = sizeof options,
                                      .kv = int8 ? "int8" : "fp16",
                                      .device = "cpu",
                                      .on_note = on_note,
                                      .user_data = &watch};
    sb_model* model = NULL;
    CHECK(sb_model_open(demo_path, &options, &model) == SB_OK);
    sb_model_info info = {.size = sizeof info};
    CHECK(sb_model_get_info(model, &info) == SB_OK);
    CHECK(!strstr(info.backend, "K/V int8") == !int8);
    CHECK(!strstr(watch.notes, "K/V int8") == !int8);
    sb_model_free(model);
  }
}

static void refuse_options(sb_model_options options, sb_status expected, const char* part) {
  sb_model* model = NULL;
  if (options.size == 0) options.size = sizeof options;
  CHECK(sb_model_open(demo_path, &options, &model) == expected && model);
  check_error(model, part);
  sb_model_free(model);
}

static void test_bad_options(void) {
  refuse_options((sb_model_options){.n_ctx = -1}, SB_ERROR_USAGE, "-c");
  refuse_options((sb_model_options){.n_ctx = 1 << 30}, SB_ERROR_USAGE, "-c");
  refuse_options((sb_model_options){.n_threads = -1}, SB_ERROR_USAGE, "found -1");
  refuse_options((sb_model_options){.n_threads = 100000}, SB_ERROR_USAGE, "found 100000");
  refuse_options((sb_model_options){.device = "tpu"}, SB_ERROR_USAGE, "tpu");
  refuse_options((sb_model_options){.kv = "int4"}, SB_ERROR_USAGE, "kv: expected fp16");
  refuse_options((sb_model_options){.kv = ""}, SB_ERROR_USAGE, "kv: expected fp16");
  refuse_options((sb_model_options){.chat_template = "none such"}, SB_ERROR_USAGE, "none such");
  refuse_options((sb_model_options){.speculation = 99}, SB_ERROR_USAGE, "99");
  refuse_options((sb_model_options){.heads = "/none/such"}, SB_ERROR_FILE, "/none/such");
  refuse_options((sb_model_options){.heads = demo_path}, SB_ERROR_FORMAT, "heads");
  refuse_options((sb_model_options){.size = 4}, SB_ERROR_USAGE, "options: size");
  refuse_options((sb_model_options){.size = (size_t)-1}, SB_ERROR_USAGE, "options: size");

  // A caller that is newer than the library: what it does not say is fine.
  struct {
    sb_model_options known;
    uint64_t unknown;
  } newer = {.known = {.size = sizeof newer, .device = "cpu", .n_ctx = 8}};
  sb_model* model = NULL;
  CHECK(sb_model_open(demo_path, &newer.known, &model) == SB_OK);
  sb_model_free(model);
  newer.unknown = 1;
  CHECK(sb_model_open(demo_path, &newer.known, &model) == SB_ERROR_USAGE);
  check_error(model, "does not have");
  sb_model_free(model);
}

// ---- hostile files ----

static void refuse_file(const char* path) {
  sb_model* model = NULL;
  const sb_status status = sb_model_open(path, NULL, &model);
  CHECK(model && (status == SB_ERROR_FILE || status == SB_ERROR_FORMAT));
  CHECK(sb_model_error(model, NULL, 0) > 0);
  sb_model_free(model);
}

static void test_hostile_files(void) {
  char path[] = "/tmp/capi_test_XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  FILE* from = fopen(stories_path, "rb");
  CHECK(from);
  static char bytes[1 << 21];
  const size_t n = fread(bytes, 1, sizeof bytes, from);
  fclose(from);
  CHECK(n > 100000 && n < sizeof bytes);
  CHECK(write(file, bytes, n) == (ssize_t)n);
  for (size_t cut = n - 1; cut > 0; cut = cut * 2 / 3) {
    CHECK(ftruncate(file, (off_t)cut) == 0);
    refuse_file(path);
  }
  CHECK(ftruncate(file, 0) == 0);
  refuse_file(path);
  close(file);
  unlink(path);
  refuse_file(path);
  refuse_file("/");
  refuse_file("/dev/null");
  refuse_file(__FILE__);

  sb_model* model = NULL;
  CHECK(sb_model_open("", NULL, &model) == SB_ERROR_USAGE && model);
  sb_model_free(model);
}

// ---- text ----

static void test_tokens(sb_model* model) {
  const char* text = "Find me a table for two.";
  const size_t n_bytes = strlen(text);
  int32_t tokens[64];
  size_t n = 0, more = 0;
  CHECK(sb_tokenize(model, text, n_bytes, 0, NULL, 0, &n) == SB_ERROR_BUFFER && n > 3 && n < 64);
  tokens[n - 1] = -77;
  CHECK(sb_tokenize(model, text, n_bytes, 0, tokens, n - 1, &n) == SB_ERROR_BUFFER);
  CHECK(tokens[n - 1] == -77);
  CHECK(sb_tokenize(model, text, n_bytes, 0, tokens, n, &n) == SB_OK && tokens[n - 1] != -77);
  CHECK(sb_tokenize(model, text, n_bytes, SB_ADD_SPECIAL, tokens, 64, &more) == SB_OK);
  CHECK(more == n + 1);
  CHECK(sb_tokenize(model, NULL, 0, 0, NULL, 0, &n) == SB_OK && n == 0);

  char back[64];
  CHECK(sb_detokenize(model, tokens, more, 0, NULL, 0, &n) == SB_ERROR_BUFFER && n == n_bytes);
  CHECK(sb_detokenize(model, tokens, more, 0, back, sizeof back, &n) == SB_OK);
  CHECK(n == n_bytes && memcmp(back, text, n) == 0);
  CHECK(sb_detokenize(model, tokens, more, SB_SHOW_SPECIAL, back, sizeof back, &n) == SB_OK);
  CHECK(n > n_bytes);
  // The text of a control token becomes it only where that is asked for.
  size_t parsed = 0, plain = 0;
  CHECK(sb_tokenize(model, back, n, SB_PARSE_SPECIAL, tokens, 64, &parsed) == SB_OK);
  CHECK(sb_tokenize(model, back, n, 0, tokens, 64, &plain) == SB_OK && plain > parsed);
  // Any bytes.
  const char bytes[] = {'a', '\0', (char)0xff, (char)0xc3};
  CHECK(sb_tokenize(model, bytes, sizeof bytes, 0, tokens, 64, &n) == SB_OK);
  CHECK(sb_detokenize(model, tokens, n, 0, back, sizeof back, &n) == SB_OK);
  CHECK(n == sizeof bytes && memcmp(back, bytes, n) == 0);

  const int32_t wrong[] = {-1, 1 << 30};
  for (int i = 0; i < 2; ++i) {
    CHECK(sb_detokenize(model, wrong + i, 1, 0, back, sizeof back, &n) == SB_ERROR_USAGE);
    check_error(model, "tokens: expected 0 to");
  }
  CHECK(sb_tokenize(model, text, n_bytes, 8, tokens, 64, &n) == SB_ERROR_USAGE);
  CHECK(sb_detokenize(model, tokens, 1, SB_ADD_SPECIAL, back, 64, &n) == SB_ERROR_USAGE);
  CHECK(sb_tokenize(model, NULL, 1, 0, tokens, 64, &n) == SB_ERROR_USAGE);
  check_error(model, "text is NULL");
  CHECK(sb_tokenize(model, text, 1, 0, NULL, 64, &n) == SB_ERROR_USAGE);
  CHECK(sb_tokenize(model, text, 1, 0, tokens, 64, NULL) == SB_ERROR_USAGE);
  CHECK(sb_detokenize(model, NULL, 1, 0, back, 64, &n) == SB_ERROR_USAGE);
  CHECK(sb_detokenize(model, tokens, 1, 0, NULL, 64, &n) == SB_ERROR_USAGE);
  CHECK(sb_detokenize(model, tokens, 1, 0, back, 64, NULL) == SB_ERROR_USAGE);

  // A message that is cut is told by its length.
  char little[8];
  const size_t length = sb_model_error(model, little, sizeof little);
  CHECK(length > strlen(little) && strlen(little) == sizeof little - 1);
}

static void test_chat_template(sb_model* model) {
  const sb_message messages[] = {
      {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello."}, {"user", "Bye"}};
  int32_t tokens[256];
  size_t n = 0, shorter = 0;
  CHECK(sb_apply_chat_template(model, messages, 4, NULL, 0, &n) == SB_ERROR_BUFFER && n > 8);
  CHECK(sb_apply_chat_template(model, messages, 4, tokens, 256, &n) == SB_OK);
  CHECK(sb_apply_chat_template(model, messages, 2, tokens, 256, &shorter) == SB_OK);
  CHECK(shorter < n);
  CHECK(sb_apply_chat_template(model, messages, 0, tokens, 256, &n) == SB_ERROR_USAGE);
  for (size_t count = 1; count <= 3; count += 2) {  // nobody's to answer
    CHECK(sb_apply_chat_template(model, messages, count, tokens, 256, &n) == SB_ERROR_USAGE);
    check_error(model, "the user's at the end");
  }
  CHECK(sb_apply_chat_template(model, NULL, 1, tokens, 256, &n) == SB_ERROR_USAGE);
  CHECK(sb_apply_chat_template(model, messages, 1, tokens, 256, NULL) == SB_ERROR_USAGE);
  const sb_message wrong[] = {{"robot", "Hi"}, {NULL, "Hi"}, {"user", NULL}};
  const char* parts[] = {"robot", "role is NULL", "content is NULL"};
  for (int i = 0; i < 3; ++i) {
    CHECK(sb_apply_chat_template(model, wrong + i, 1, tokens, 256, &n) == SB_ERROR_USAGE);
    check_error(model, parts[i]);
  }
  sb_model* stories = open_model(stories_path, SB_SPECULATION_AUTO);
  CHECK(sb_apply_chat_template(stories, messages, 2, tokens, 256, &n) == SB_ERROR_UNSUPPORTED);
  sb_model_info info = {.size = sizeof info};
  CHECK(sb_model_get_info(stories, &info) == SB_OK && info.has_chat_template == 0);
  sb_model_free(stories);
}

// ---- no memory ----

// Sanitizers take address space as they like.
#ifdef SPECBOUND_SANITIZED
static void test_memory(void) {}
#else
static size_t address_space(void) {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  CHECK(file && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Wherever it runs out while a model is opened, that is an error that says so.
static void test_memory(void) {
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  const size_t base = address_space();
  int out_of_memory = 0;
  for (size_t more = 0; more <= 20; ++more) {
    const struct rlimit limit = {base + (more << 20), before.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    const sb_model_options options = {.size = sizeof options, .n_threads = 2, .device = "cpu"};
    sb_model* model = NULL;
    const sb_status status = sb_model_open(demo_path, &options, &model);
    CHECK(model && (status == SB_ERROR_FILE || status == SB_ERROR_LIMIT));
    CHECK(sb_model_error(model, NULL, 0) > 0);
    out_of_memory += status == SB_ERROR_LIMIT;
    sb_model_free(model);
  }
  CHECK(out_of_memory > 0);
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
  sb_model_free(open_model(demo_path, SB_SPECULATION_AUTO));
}
#endif

// ---- what no handle is there for ----

static void test_null(sb_model* model) {
  sb_session* session = (sb_session*)&session;
  size_t n = 0;
  char buffer[4] = "abc";
  sb_model_info info = {.size = sizeof info};
  sb_stats stats = {.size = sizeof stats};
  sb_sampling sampling = greedy();
  CHECK(sb_model_open(demo_path, NULL, NULL) == SB_ERROR_USAGE);
  sb_model* unopened = NULL;
  CHECK(sb_model_open(NULL, NULL, &unopened) == SB_ERROR_USAGE && unopened);
  check_error(unopened, "path is NULL");
  sb_model_free(unopened);
  sb_model_free(NULL);
  sb_session_free(NULL);
  sb_abort(NULL);
  CHECK(sb_model_error(NULL, buffer, sizeof buffer) == 0 && buffer[0] == '\0');
  CHECK(sb_session_error(NULL, buffer, sizeof buffer) == 0);
  CHECK(sb_model_error(NULL, NULL, 0) == 0 && sb_session_error(NULL, NULL, 0) == 0);
  CHECK(sb_model_get_info(NULL, &info) == SB_ERROR_USAGE);
  CHECK(sb_model_get_info(model, NULL) == SB_ERROR_USAGE);
  info.size = 0;
  CHECK(sb_model_get_info(model, &info) == SB_ERROR_USAGE);
  CHECK(sb_tokenize(NULL, "", 0, 0, NULL, 0, &n) == SB_ERROR_USAGE);
  CHECK(sb_detokenize(NULL, NULL, 0, 0, NULL, 0, &n) == SB_ERROR_USAGE);
  CHECK(sb_apply_chat_template(NULL, NULL, 0, NULL, 0, &n) == SB_ERROR_USAGE);
  CHECK(sb_sampling_init(NULL, sizeof sampling) == SB_ERROR_USAGE);
  CHECK(sb_sampling_init(&sampling, 3) == SB_ERROR_USAGE);
  CHECK(sb_session_new(NULL, &sampling, &session) == SB_ERROR_USAGE && !session);
  CHECK(sb_session_new(model, NULL, NULL) == SB_ERROR_USAGE);
  CHECK(sb_session_set_sampling(NULL, &sampling) == SB_ERROR_USAGE);
  CHECK(sb_session_set_speculation(NULL, 1) == SB_ERROR_USAGE);
  CHECK(sb_generate(NULL, NULL) == SB_ERROR_USAGE);
  CHECK(sb_session_get_stats(NULL, &stats) == SB_ERROR_USAGE);
}

// The library says nothing by itself and leaves signals alone.
static void test_silence(void) {
  char path[] = "/tmp/capi_test_XXXXXX";
  const int file = mkstemp(path), out = dup(1), err = dup(2);
  CHECK(file >= 0 && out >= 0 && err >= 0);
  fflush(stdout);
  dup2(file, 1);
  dup2(file, 2);
  test_kv();
  test_bad_options();
  sb_model* model = open_model(demo_path, SB_SPECULATION_ON);
  sb_model_free(model);
  fflush(stdout);
  dup2(out, 1);
  dup2(err, 2);
  struct stat about;
  CHECK(fstat(file, &about) == 0 && about.st_size == 0);
  close(file), close(out), close(err);
  unlink(path);
  const int signals[] = {SIGINT, SIGPIPE, SIGTERM};
  for (int i = 0; i < 3; ++i) {
    struct sigaction action;
    CHECK(sigaction(signals[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  demo_path = argv[1];
  stories_path = argv[2];
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  test_memory();  // first: what was freed before would be there
  test_versions();
  test_opening();
  test_silence();
  test_hostile_files();
  sb_model* model = open_model(demo_path, SB_SPECULATION_AUTO);
  test_tokens(model);
  test_chat_template(model);
  test_null(model);
  sb_model_free(model);
  test_sessions();
  return 0;
}
