// SpecBound as a library: GGUF models with exact self-speculation, from C.
//
//   sb_model    a model that was loaded: weights, tokenizer, what drafts for it, one K/V cache
//   sb_session  who asks it for replies: settings, the newest reply's figures
//
// Text and errors are bytes, UTF-8 as a rule; a token may end inside a character. Sizes are in
// bytes, times in seconds, rates in tokens a second. What is not known is NAN.
//
// Ownership: the library copies what it is given, and gives out no pointers but handles and the
// strings of sb_model_info, which live as long as their model. Handles may be freed in any order: a
// session keeps what it needs of its model.
//
// Threads: any thread may call anything with any handle. Replies of one model take turns, those of
// two models run at the same time. A handle must not be freed while a call with it is under way.
//
// Callbacks come from within the call that was given them, on its thread. They must not throw and
// not jump out. What would wait there for the same model's turn, sb_generate() and
// sb_session_set_speculation(), is refused with SB_ERROR_USAGE; all else may be called. Callbacks
// of two models must not wait for each other's turn: they would for ever.
//
// Errors: what can fail returns an sb_status, and leaves a message at the handle, in the words of
// the program (`-c` is n_ctx, `--temp` the temperature); NULL where something is needed is
// SB_ERROR_USAGE. The library writes nothing to stdout or stderr, handles no signals, does not
// exit, and has no state outside of its handles but files: what rows cost on this machine is kept
// in $XDG_CACHE_HOME/specbound (not with no_controller), where settings that `tune` found are read;
// heads that idle learning made are taken too.
//
// Structures begin with their size, so that they can grow: fill them with zeros, then set
// `size = sizeof(...)`. Zero is the default of every field, except in sb_sampling.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPECBOUND_VERSION_MAJOR 0
#define SPECBOUND_VERSION_MINOR 1
#define SPECBOUND_VERSION_PATCH 0

#if defined(__GNUC__)
#define SB_API __attribute__((visibility("default")))
#else
#define SB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_model sb_model;
typedef struct sb_session sb_session;

typedef enum sb_status {
  SB_OK = 0,
  SB_ERROR_USAGE,        // an argument: NULL, out of its range, not possible with this model
  SB_ERROR_FILE,         // cannot be opened, read or mapped
  SB_ERROR_FORMAT,       // contents break the file format
  SB_ERROR_UNSUPPORTED,  // well-formed, but nothing here can run it
  SB_ERROR_LIMIT,        // does not fit: the context, the memory, the memory of a GPU
  SB_ERROR_DEVICE,       // a GPU failed, or there is none that can be used
  SB_ERROR_BUFFER,       // the caller's array is too small; the size that is needed was set
  SB_ERROR_INTERNAL,     // a mistake in this library
  SB_CANCELLED           // loading: the progress callback asked for it
} sb_status;

// "0.1.0", of the library that runs.
SB_API const char* sb_version(void);
// "an argument is wrong": a status in a few words; never NULL.
SB_API const char* sb_status_text(int32_t status);

// ---- models ----

// `done` of `total` bytes of weights, at first 0 of 1. Returns nonzero to end the loading.
typedef int (*sb_progress_fn)(void* user_data, const char* label, uint64_t done, uint64_t total);
// Something to know, as one line: what was loaded, what it runs on, a warning.
typedef void (*sb_note_fn)(void* user_data, const char* line);

typedef enum sb_speculation {
  SB_SPECULATION_AUTO = 0,  // on where anything can draft
  SB_SPECULATION_ON,        // an error where nothing can draft
  SB_SPECULATION_OFF
} sb_speculation;

typedef struct sb_model_options {
  size_t size;
  int32_t n_ctx;               // context in tokens; 0: as trained, at most 4096
  int32_t n_threads;           // of the CPU; 0: one per physical core
  int32_t speculation;         // sb_speculation: what sessions begin with; the text is the same
  int32_t no_controller;       // nonzero: settings stay, and drafting goes on where it is slower
  const char* device;          // "auto", "cpu", "cuda", "cuda:N"; NULL: "auto"
  const char* chat_template;   // name of a built-in one; NULL: as the file says
  const char* heads;           // file of exit heads; NULL: beside it, or the program's
  sb_progress_fn on_progress;  // while sb_model_open() runs; NULL: none
  sb_note_fn on_note;          // the same
  void* user_data;             // of both
  const char* kv;              // what K and V are kept as: "fp16", "int8"; NULL: "fp16"
} sb_model_options;

// Loads the GGUF file at `path`, of a split one the first part; or a model by a name that the
// program's -m takes, such as hf:OWNER/REPO:QUANT, which is downloaded unless it is there already.
// `options` may be NULL. `*model` is set unless there is no memory even for a handle (then NULL,
// SB_ERROR_LIMIT): also after an error, for sb_model_error(); free it in any case.
SB_API sb_status sb_model_open(const char* path, const sb_model_options* options, sb_model** model);
// NULL is fine.
SB_API void sb_model_free(sb_model* model);

// What the newest failed call said, as `snprintf` would: up to `size - 1` bytes and a NUL into
// `buffer`; returns the bytes of the whole message, 0 without one. Threads that share a handle
// share its message.
SB_API size_t sb_model_error(const sb_model* model, char* buffer, size_t size);

typedef struct sb_model_info {
  size_t size;               // set by the caller
  const char* architecture;  // "llama"
  const char* backend;       // device, kernels, threads, types: one line
  const char* speculation;   // whether it drafts, with what, or why not, when it was opened
  int32_t n_layers;
  int32_t vocab_size;
  int32_t n_ctx;              // of this model's K/V cache
  int32_t n_ctx_trained;      // text past that degrades
  int32_t bos_token;          // -1: the vocabulary has none
  int32_t eos_token;          // likewise
  int32_t has_chat_template;  // 0 or 1
  int32_t can_speculate;      // 0 or 1: something can draft
  double load_seconds;
} sb_model_info;

SB_API sb_status sb_model_get_info(const sb_model* model, sb_model_info* info);

// ---- text ----

// Filling the caller's arrays: `*n` becomes how many there are. With more than `capacity` nothing
// is written, and SB_ERROR_BUFFER returned; an array may be NULL where its capacity is 0.

enum {
  SB_ADD_SPECIAL = 1,    // sb_tokenize: BOS and EOS where the model asks for them
  SB_PARSE_SPECIAL = 2,  // sb_tokenize: the text of control tokens becomes those tokens
  SB_SHOW_SPECIAL = 4    // sb_detokenize: control tokens are spelled out
};

// Any bytes are taken, invalid UTF-8 too. `flags`: those above, 0: none.
SB_API sb_status sb_tokenize(const sb_model* model, const char* text, size_t n_bytes,
                             uint32_t flags, int32_t* tokens, size_t capacity, size_t* n_tokens);
// No NUL is written.
SB_API sb_status sb_detokenize(const sb_model* model, const int32_t* tokens, size_t n_tokens,
                               uint32_t flags, char* text, size_t capacity, size_t* n_bytes);

typedef struct sb_message {
  const char* role;  // "system", "user", "assistant"
  const char* content;
} sb_message;

// A conversation as the model was trained on it, up to where its next reply begins: the last
// message is the user's (else SB_ERROR_USAGE). The text of messages never becomes control tokens.
// SB_ERROR_UNSUPPORTED where the file has no chat template.
SB_API sb_status sb_apply_chat_template(const sb_model* model, const sb_message* messages,
                                        size_t n_messages, int32_t* tokens, size_t capacity,
                                        size_t* n_tokens);

// ---- sessions ----

// How tokens are drawn, applied in this order. The same seed gives the same text, on every machine,
// with speculation and without.
typedef struct sb_sampling {
  size_t size;
  float repeat_penalty;   // 1: off; divides the logits of recent tokens
  int32_t repeat_last_n;  // how many those are; 0: none, -1: all
  int32_t top_k;          // 0: all
  float top_p;            // 1: all
  float min_p;            // 0: all
  float temperature;      // 0: always the likeliest token
  uint64_t seed;
} sb_sampling;

// The program's defaults, seed 0. `size` is sizeof(sb_sampling).
SB_API sb_status sb_sampling_init(sb_sampling* sampling, size_t size);

// `sampling` may be NULL: the defaults. `*session` is NULL after an error, whose message is at the
// model.
SB_API sb_status sb_session_new(sb_model* model, const sb_sampling* sampling, sb_session** session);
// NULL is fine.
SB_API void sb_session_free(sb_session* session);
// As sb_model_error().
SB_API size_t sb_session_error(const sb_session* session, char* buffer, size_t size);

// From the next reply on.
SB_API sb_status sb_session_set_sampling(sb_session* session, const sb_sampling* sampling);
// Likewise: 0 off, else on. SB_ERROR_UNSUPPORTED where nothing can draft. Waits for the model.
SB_API sb_status sb_session_set_speculation(sb_session* session, int on);

// Text of a reply as it comes; it may end inside a character. `exit_layer`: where the model had
// drafted it, 0 for before any layer, -1 for text that all layers gave. Returns nonzero to end the
// reply.
typedef int (*sb_text_fn)(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer);

typedef struct sb_request {
  size_t size;
  const sb_message* messages;  // a conversation to answer, or
  size_t n_messages;
  const int32_t* tokens;  // a prompt to go on from, of at least one token
  size_t n_tokens;
  int32_t max_tokens;       // 0: until the reply ends or the context is full
  uint32_t reply;           // how often this prompt was answered before: other text, same seed
  const char* const* stop;  // up to 16 texts of 1 to 256 bytes; a reply ends before them
  size_t n_stop;
  int32_t ignore_end;  // nonzero: go on past the end of the reply
  sb_text_fn on_text;  // NULL: none
  void* user_data;
} sb_request;

// Makes one reply; waits for its turn where the model is busy. What the K/V cache holds of the same
// prompt's begin is not read again. SB_ERROR_LIMIT for a prompt above the context, SB_ERROR_USAGE
// while another reply of this session is under way. A reply that was stopped is SB_OK, and its
// stop_reason says so.
SB_API sb_status sb_generate(sb_session* session, const sb_request* request);
// From any thread: ends the sb_generate() of this session that is under way, within one pass; that
// waits for its turn, when it comes. Nothing without one. NULL is fine.
SB_API void sb_abort(sb_session* session);

typedef enum sb_stop_reason {
  SB_STOP_NONE = 0,  // no reply yet, or the newest one failed
  SB_STOP_END,       // the model ended it
  SB_STOP_STRING,    // one of sb_request.stop
  SB_STOP_LENGTH,    // max_tokens
  SB_STOP_CONTEXT,   // the context is full
  SB_STOP_ABORTED    // sb_abort(), or a callback
} sb_stop_reason;

// The newest reply's figures.
typedef struct sb_stats {
  size_t size;                 // set by the caller
  int32_t stop_reason;         // sb_stop_reason
  int32_t speculated;          // 0 or 1: something was there to draft
  int32_t prompt_tokens;       // all of them
  int32_t prefilled_tokens;    // of these, read now; the rest, but for the last, was in the cache
  int32_t generated_tokens;    // the end token not counted
  int32_t rounds;              // passes through all layers
  int32_t drafted_tokens;      // by whatever drafts
  int32_t accepted_tokens;     // of these, confirmed by all layers
  double prefill_seconds;      // reading the prompt
  double decode_seconds;       // from the end of the prompt, without callbacks
  double first_token_seconds;  // to the first token; from here on NAN where not known
  double prefill_tokens_per_second;
  double decode_tokens_per_second;
  double plain_tokens_per_second;  // what decoding without speculation gives here
  double speedup;                  // over that, in rounds that could draft
  double compression_rate;         // tokens a round
  double mean_exit_layer;          // of accepted drafts
} sb_stats;

SB_API sb_status sb_session_get_stats(const sb_session* session, sb_stats* stats);

#ifdef __cplusplus
}
#endif
