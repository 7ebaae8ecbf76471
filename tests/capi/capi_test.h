// What the files of this test share: a check, and text that a reply's callback collects.
#pragma once

#include <specbound.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

typedef struct Text {
  char bytes[16384];
  size_t n;
  int calls, drafted;  // drafted: calls with text that a shallow layer had guessed
} Text;

// The text callback; `user_data` is a Text.
int collect(void* user_data, const char* text, size_t n_bytes, int32_t exit_layer);

extern const char *demo_path, *stories_path;

// A model on the CPU with one thread; fails the test where it cannot be had.
sb_model* open_model(const char* path, int32_t speculation);
sb_session* new_session(sb_model* model, const sb_sampling* sampling);
// With a temperature of 0.
sb_sampling greedy(void);

void test_sessions(void);
