// The C API from C: replies, their figures, speculation, several sessions, models and threads.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>

#include "capi_test.h"

static const char* const questions[] = {"I need a table for two tonight.", "Find me a flight."};

static sb_message user_message(const char* content) {
  return (sb_message){"user", content};
}

// A reply of n tokens to `question`, past its end where it is shorter.
static Text reply_to(sb_session* session, const char* question, int n) {
  const sb_message message = user_message(question);
  Text text = {0};
  const sb_request request = {.size = sizeof request,
                              .messages = &message,
                              .n_messages = 1,
                              .max_tokens = n,
                              .ignore_end = 1,
                              .on_text = collect,
                              .user_data = &text};
  CHECK(sb_generate(session, &request) == SB_OK);
  return text;
}

static int same_text(const Text* a, const Text* b) {
  return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static sb_stats stats_of(const sb_session* session) {
  sb_stats stats = {.size = sizeof stats};
  CHECK(sb_session_get_stats(session, &stats) == SB_OK);
  return stats;
}

// The failed call left a message at the session that has `part` in it.
static void check_session_error(const sb_session* session, const char* part) {
  char message[1024];
  CHECK(sb_session_error(session, message, sizeof message) > 0);
  if (!strstr(message, part)) printf("expected \"%s\" in: %s\n", part, message);
  CHECK(strstr(message, part));
}

// ---- one session ----

static void test_speculation(sb_model* model) {
  for (int sampled = 0; sampled <= 1; ++sampled) {
    sb_sampling sampling = greedy();
    if (sampled) sampling.temperature = 0.8f, sampling.seed = 42;
    sb_session* session = new_session(model, &sampling);
    CHECK(isnan(stats_of(session).speedup) && stats_of(session).stop_reason == SB_STOP_NONE);
    const Text drafted = reply_to(session, questions[0], 48);
    const sb_stats on = stats_of(session);
    CHECK(sb_session_set_speculation(session, 0) == SB_OK);
    const Text plain = reply_to(session, questions[0], 48);
    const sb_stats off = stats_of(session);
    CHECK(drafted.n > 40 && same_text(&drafted, &plain));
    CHECK(drafted.drafted > 0 && plain.drafted == 0);

    CHECK(on.speculated == 1 && on.drafted_tokens >= on.accepted_tokens);
    CHECK(on.accepted_tokens > 0 && on.rounds < on.generated_tokens);
    CHECK(on.mean_exit_layer >= 0 && on.compression_rate > 1);
    CHECK(off.speculated == 0 && off.drafted_tokens == 0 && isnan(off.speedup));
    CHECK(isnan(off.mean_exit_layer) && off.rounds >= off.generated_tokens);
    CHECK(on.prompt_tokens == off.prompt_tokens && on.prompt_tokens > 4);
    CHECK(off.prefilled_tokens == 0);  // it was in the cache
    CHECK(on.generated_tokens == off.generated_tokens && on.stop_reason == off.stop_reason);
    CHECK(on.decode_seconds > 0 && on.decode_tokens_per_second > 0);
    CHECK(on.first_token_seconds > 0 && off.plain_tokens_per_second > 0);

    CHECK(sb_session_set_speculation(session, 1) == SB_OK);
    const Text again = reply_to(session, questions[0], 48);
    CHECK(same_text(&drafted, &again) && stats_of(session).speculated == 1);
    sb_session_free(session);
  }
}

static void test_sampling(sb_model* model) {
  sb_sampling sampling;
  CHECK(sb_sampling_init(&sampling, sizeof sampling) == SB_OK && sampling.size == sizeof sampling);
  CHECK(sampling.temperature > 0 && sampling.repeat_penalty == 1 && sampling.seed == 0);
  sb_session* session = new_session(model, &sampling);
  const Text first = reply_to(session, questions[0], 24);
  sampling.seed = 7;
  CHECK(sb_session_set_sampling(session, &sampling) == SB_OK);
  const Text other = reply_to(session, questions[0], 24);
  CHECK(!same_text(&first, &other));
  sb_sampling wrong = sampling;
  wrong.temperature = -1;
  CHECK(sb_session_set_sampling(session, &wrong) == SB_ERROR_USAGE);
  check_session_error(session, "temperature: expected");
  wrong.temperature = NAN;
  CHECK(sb_session_set_sampling(session, &wrong) == SB_ERROR_USAGE);
  wrong = sampling;
  wrong.size = 0;
  CHECK(sb_session_set_sampling(session, &wrong) == SB_ERROR_USAGE);
  CHECK(sb_session_set_sampling(session, NULL) == SB_ERROR_USAGE);
  const Text kept = reply_to(session, questions[0], 24);  // nothing of that has changed it
  CHECK(same_text(&other, &kept));
  sb_session* refused = session;
  wrong = sampling;
  wrong.top_k = -1;
  CHECK(sb_session_new(model, &wrong, &refused) == SB_ERROR_USAGE && !refused);
  sb_session_free(session);
}

static void test_requests(sb_model* model) {
  const sb_sampling sampling = greedy();
  sb_session* session = new_session(model, &sampling);
  int32_t tokens[128];
  size_t n = 0;
  const sb_message message = user_message(questions[0]);
  CHECK(sb_apply_chat_template(model, &message, 1, tokens, 128, &n) == SB_OK);
  const Text whole = reply_to(session, questions[0], 40);

  // The same prompt as tokens gives the same text, but for the space in front.
  Text text = {0};
  sb_request request = {.size = sizeof request,
                        .tokens = tokens,
                        .n_tokens = n,
                        .max_tokens = 40,
                        .ignore_end = 1,
                        .on_text = collect,
                        .user_data = &text};
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(text.n >= whole.n);
  CHECK(memcmp(text.bytes + text.n - whole.n, whole.bytes, whole.n) == 0);

  // A text to stop before; a number of tokens; another reply.
  CHECK(whole.n > 16);
  char stop[4] = {0};
  memcpy(stop, whole.bytes + 8, 3);
  const char* stops[] = {"never to be seen", stop};
  request.stop = stops;
  request.n_stop = 2;
  memset(&text, 0, sizeof text);
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(text.n < whole.n && stats_of(session).stop_reason == SB_STOP_STRING);
  request.n_stop = 0;
  request.max_tokens = 3;
  request.on_text = NULL;
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(stats_of(session).stop_reason == SB_STOP_LENGTH && stats_of(session).generated_tokens == 3);
  request.max_tokens = 0;
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(stats_of(session).stop_reason == SB_STOP_CONTEXT);
  request.ignore_end = 0;
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(stats_of(session).stop_reason == SB_STOP_END);
  sb_session_free(session);
}

static void refuse_request(sb_session* session, sb_request request, sb_status expected,
                           const char* part) {
  request.size = sizeof request;
  CHECK(sb_generate(session, &request) == expected);
  check_session_error(session, part);
  CHECK(stats_of(session).stop_reason == SB_STOP_NONE);
}

static void test_bad_requests(sb_model* model) {
  sb_session* session = new_session(model, NULL);
  const sb_message message = user_message("Hi"), nothing = user_message(NULL);
  static int32_t tokens[1000];
  const int32_t wrong[] = {-1, 1 << 30};
  const char* stops[20] = {"a", NULL};
  const sb_status usage = SB_ERROR_USAGE;
  CHECK(sb_generate(session, NULL) == usage);
  check_session_error(session, "request is NULL");
  CHECK(sb_generate(session, &(sb_request){.size = 1}) == usage);
  check_session_error(session, "size");
  refuse_request(session, (sb_request){.max_tokens = 1}, usage, "neither");
  refuse_request(
      session, (sb_request){.messages = &message, .n_messages = 1, .tokens = tokens, .n_tokens = 1},
      usage, "both");
  refuse_request(session, (sb_request){.n_messages = 1}, usage, "messages is NULL");
  refuse_request(session, (sb_request){.n_tokens = 1}, usage, "tokens is NULL");
  refuse_request(session, (sb_request){.messages = &nothing, .n_messages = 1}, usage, "content");
  refuse_request(session, (sb_request){.tokens = tokens, .n_tokens = 1, .max_tokens = -1}, usage,
                 "max_tokens");
  refuse_request(session, (sb_request){.tokens = wrong, .n_tokens = 1}, usage, "token -1");
  refuse_request(session, (sb_request){.tokens = wrong + 1, .n_tokens = 1}, usage, "token 10737");
  refuse_request(session, (sb_request){.tokens = tokens, .n_tokens = 1000}, SB_ERROR_LIMIT,
                 "1000 tokens, the context holds 768");
  refuse_request(session, (sb_request){.tokens = tokens, .n_tokens = 1, .stop = stops, .n_stop = 2},
                 usage, "stop text is NULL");
  stops[1] = "";
  refuse_request(session, (sb_request){.tokens = tokens, .n_tokens = 1, .stop = stops, .n_stop = 2},
                 usage, "1 to 256 bytes");
  for (int i = 0; i < 20; ++i) stops[i] = "x";
  refuse_request(session,
                 (sb_request){.tokens = tokens, .n_tokens = 1, .stop = stops, .n_stop = 20}, usage,
                 "at most 16");
  refuse_request(session, (sb_request){.tokens = tokens, .n_tokens = 1, .n_stop = 1}, usage,
                 "stop is NULL");
  CHECK(sb_session_get_stats(session, NULL) == usage);
  CHECK(sb_session_get_stats(session, &(sb_stats){.size = 2}) == usage);
  CHECK(reply_to(session, "Hi", 4).n > 0);  // none of them has broken it
  sb_session_free(session);
}

// ---- callbacks ----

typedef struct Nosy {
  sb_model* model;
  sb_session *session, *other;
  int calls;
} Nosy;

static int ask_inside(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer) {
  (void)text, (void)n_bytes, (void)exit_layer;
  Nosy* nosy = user_data;
  nosy->calls++;
  const int32_t token = 1;
  const sb_request request = {.size = sizeof request, .tokens = &token, .n_tokens = 1};
  const sb_sampling sampling = greedy();
  size_t n = 0;
  CHECK(sb_generate(nosy->session, &request) == SB_ERROR_USAGE);
  check_session_error(nosy->session, "under way already");
  CHECK(sb_generate(nosy->other, &request) == SB_ERROR_USAGE);
  check_session_error(nosy->other, "from a callback");
  CHECK(sb_session_set_speculation(nosy->session, 1) == SB_ERROR_USAGE);
  CHECK(sb_session_set_sampling(nosy->session, &sampling) == SB_OK);
  CHECK(sb_tokenize(nosy->model, "a", 1, 0, NULL, 0, &n) == SB_ERROR_BUFFER);
  stats_of(nosy->session);
  return 1;
}

static void test_callbacks(sb_model* model) {
  const sb_sampling sampling = greedy();
  Nosy nosy = {model, new_session(model, &sampling), new_session(model, &sampling), 0};
  const sb_message message = user_message(questions[0]);
  const sb_request request = {.size = sizeof request,
                              .messages = &message,
                              .n_messages = 1,
                              .on_text = ask_inside,
                              .user_data = &nosy};
  CHECK(sb_generate(nosy.session, &request) == SB_OK);
  CHECK(nosy.calls == 1);  // it returned nonzero: that was the reply
  CHECK(stats_of(nosy.session).stop_reason == SB_STOP_ABORTED);
  sb_abort(nosy.session);  // nothing is under way: the next reply does not know of it
  CHECK(reply_to(nosy.session, questions[0], 12).n > 0);
  CHECK(stats_of(nosy.session).stop_reason == SB_STOP_LENGTH);
  sb_session_free(nosy.session);
  sb_session_free(nosy.other);
}

// ---- threads ----

typedef struct Meeting {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int begun, aborted;
  sb_session* session;
} Meeting;

static int wait_for_abort(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer) {
  (void)text, (void)n_bytes, (void)exit_layer;
  Meeting* meeting = user_data;
  pthread_mutex_lock(&meeting->mutex);
  meeting->begun++;
  pthread_cond_signal(&meeting->changed);
  while (!meeting->aborted) pthread_cond_wait(&meeting->changed, &meeting->mutex);
  pthread_mutex_unlock(&meeting->mutex);
  return 0;
}

static void* abort_when_begun(void* argument) {
  Meeting* meeting = argument;
  pthread_mutex_lock(&meeting->mutex);
  while (!meeting->begun) pthread_cond_wait(&meeting->changed, &meeting->mutex);
  sb_abort(meeting->session);
  meeting->aborted = 1;
  pthread_cond_signal(&meeting->changed);
  pthread_mutex_unlock(&meeting->mutex);
  return NULL;
}

static void test_abort(sb_model* model) {
  Meeting meeting = {.session = new_session(model, NULL)};
  pthread_mutex_init(&meeting.mutex, NULL);
  pthread_cond_init(&meeting.changed, NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, abort_when_begun, &meeting) == 0);
  const sb_message message = user_message(questions[0]);
  const sb_request request = {.size = sizeof request,
                              .messages = &message,
                              .n_messages = 1,
                              .ignore_end = 1,
                              .on_text = wait_for_abort,
                              .user_data = &meeting};
  CHECK(sb_generate(meeting.session, &request) == SB_OK);
  pthread_join(thread, NULL);
  const sb_stats stats = stats_of(meeting.session);
  CHECK(stats.stop_reason == SB_STOP_ABORTED);
  CHECK(meeting.begun <= 16 && stats.generated_tokens <= 16);  // one round's
  sb_session_free(meeting.session);
  pthread_cond_destroy(&meeting.changed);
  pthread_mutex_destroy(&meeting.mutex);
}

typedef struct Asker {
  sb_model* model;
  const char* question;
  Text expected;
  int replies, differ;
} Asker;

static void* ask(void* argument) {
  Asker* asker = argument;
  const sb_sampling sampling = greedy();
  sb_session* session = new_session(asker->model, &sampling);
  for (int i = 0; i < asker->replies; ++i) {
    if (i % 2 == 1) CHECK(sb_session_set_speculation(session, i % 4 == 1) == SB_OK);
    const Text text = reply_to(session, asker->question, 24);
    asker->differ += !same_text(&text, &asker->expected);
    size_t n = 0;
    CHECK(sb_tokenize(asker->model, text.bytes, text.n, 0, NULL, 0, &n) == SB_ERROR_BUFFER);
  }
  sb_session_free(session);
  return NULL;
}

// Sessions of one model take turns, those of another run beside them: no reply knows of another.
static void test_threads(sb_model* model, sb_model* second) {
  enum { kAskers = 4 };
  static Asker askers[kAskers];
  pthread_t threads[kAskers];
  const sb_sampling sampling = greedy();
  for (int i = 0; i < kAskers; ++i) {
    askers[i] =
        (Asker){.model = i < 2 ? model : second, .question = questions[i % 2], .replies = 4};
    sb_session* alone = new_session(model, &sampling);
    askers[i].expected = reply_to(alone, askers[i].question, 24);
    sb_session_free(alone);
  }
  CHECK(!same_text(&askers[0].expected, &askers[1].expected));
  for (int i = 0; i < kAskers; ++i) {
    CHECK(pthread_create(&threads[i], NULL, ask, &askers[i]) == 0);
  }
  for (int i = 0; i < kAskers; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(askers[i].differ == 0);
  }
}

// Freed in any order; a model without heads; a prompt of tokens in the published text's model.
static void test_other_models(sb_model* second) {
  sb_session* session = new_session(second, NULL);
  const Text before = reply_to(session, questions[0], 8);
  sb_model_free(second);
  const Text after = reply_to(session, questions[0], 8);
  CHECK(same_text(&before, &after));
  sb_session_free(session);

  sb_model* stories = open_model(stories_path, SB_SPECULATION_AUTO);
  session = new_session(
      stories, &(sb_sampling){.size = sizeof(sb_sampling), .repeat_penalty = 1, .top_p = 1});
  const sb_message message = user_message("Hi");
  refuse_request(session, (sb_request){.messages = &message, .n_messages = 1}, SB_ERROR_UNSUPPORTED,
                 "template");
  int32_t tokens[32];
  size_t n = 0;
  const char* begin = "Once upon a time";
  CHECK(sb_tokenize(stories, begin, strlen(begin), SB_ADD_SPECIAL, tokens, 32, &n) == SB_OK);
  Text plain = {0}, drafted = {0};
  sb_request request = {.size = sizeof request,
                        .tokens = tokens,
                        .n_tokens = n,
                        .max_tokens = 40,
                        .on_text = collect,
                        .user_data = &plain};
  CHECK(sb_session_set_speculation(session, 0) == SB_OK);
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(stats_of(session).speculated == 0);
  CHECK(strncmp(plain.bytes, ", there was a little girl named Lily.", 37) == 0);
  CHECK(sb_session_set_speculation(session, 1) == SB_OK);  // by lookup: it has no heads
  request.user_data = &drafted;
  CHECK(sb_generate(session, &request) == SB_OK);
  CHECK(stats_of(session).speculated == 1 && same_text(&plain, &drafted));
  sb_session_free(session);
  sb_model_free(stories);
}

void test_sessions(void) {
  sb_model* model = open_model(demo_path, SB_SPECULATION_AUTO);
  sb_model* second = open_model(demo_path, SB_SPECULATION_OFF);
  test_speculation(model);
  test_sampling(model);
  test_requests(model);
  test_bad_requests(model);
  test_callbacks(model);
  test_abort(model);
  test_threads(model, second);
  test_other_models(second);
  sb_model_free(model);
}
