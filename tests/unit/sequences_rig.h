// Several texts in one backend, whichever it is: what a row must leave behind whatever runs beside
// it, and whole replies written side by side.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "decode/reply_batch.h"
#include "engine_rig.h"

namespace specbound::test {

constexpr int kTexts = 20;         // more than a pass has rows
constexpr int kLongestText = 70;   // crosses an attention chunk (64)
constexpr int kSharedTokens = 37;  // that all texts begin with

inline std::unique_ptr<Backend> with_sequences(const TinyModel& model, Isa isa, int threads, int n,
                                               int n_ctx = 0) {
  CpuOptions options;
  options.isa = isa;
  options.n_threads = threads;
  options.n_sequences = n;
  options.n_ctx = n_ctx;
  options.kv = model.kv;
  return make_cpu_backend(model.config, model.weights, options);
}

// What each text must leave behind: one row at a time, alone, on the CPU.
struct ExpectedText {
  std::vector<int32_t> ids;
  Record expected;
  int done = 0;

  ExpectedText(const TinyModel& model, int number)
      : ids(token_ids(kLongestText, model.config.vocab_size, 100 + number)),
        expected(model.config, kLongestText) {
    std::ranges::copy(token_ids(kSharedTokens, model.config.vocab_size, 99), ids.begin());
    auto backend = model.backend(Isa::kPortable, 1);
    run_positions(*backend, ids, 0, kLongestText, 1, 0, expected);
  }
};

inline std::vector<ExpectedText> expected_texts(const TinyModel& model) {
  std::vector<ExpectedText> texts;
  for (int i = 0; i < kTexts; ++i) texts.emplace_back(model, i);
  return texts;
}

// Row `slot` holds what that position of the text must leave behind.
inline void check_row(Backend& backend, ExpectedText& text, int pos, int slot,
                      const float* logits) {
  const ModelConfig& c = backend.config();
  CHECK(same_bits(backend.inspect().hidden(slot).data(), text.expected.hidden_at(pos, c.n_layers),
                  c.dim));
  CHECK(same_bits(logits, text.expected.logits_at(pos), c.vocab_size));
}

// A text's rows in a pass: the next token, and a random tree behind it of tokens that come then and
// of others.
struct TextRound {
  int text = 0, rows = 1;
  RowPaths paths;
  std::vector<int32_t> tokens;
  std::vector<int> right = {0};  // slots of the text's own tokens, one behind the other

  TextRound(const ExpectedText& of, int text, int rows, int vocab_size, TinyRandom& random)
      : text(text), rows(rows), tokens{of.ids[of.done]} {
    const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
    for (int slot = 1; slot < rows; ++slot) {
      const int parent = below(3) ? right.back() : below(slot);
      const bool goes_on = parent == right.back() && below(4) > 0;
      paths.follow(slot, parent);
      tokens.push_back(goes_on ? of.ids[of.done + std::ssize(right)] : below(vocab_size));
      if (goes_on) right.push_back(slot);
    }
  }
};

// The rounds share a pass; of each a part of what is right stays.
inline void run_company(Backend& backend, std::vector<ExpectedText>& texts,
                        const std::vector<TextRound>& rounds, TinyRandom& random) {
  const size_t vocab_size = backend.config().vocab_size;
  std::vector<Sequences::Part> parts;
  int n = 0;
  for (const TextRound& round : rounds) {
    for (int slot = 0; slot < round.rows; ++slot) backend.embed(n + slot, round.tokens[slot]);
    n += round.rows;
    parts.push_back({round.text, round.rows, &round.paths[0]});
  }
  backend.sequences()->run_side_by_side(parts);
  std::vector<float> logits(n * vocab_size);
  backend.logits(0, n, logits.data());
  int first = 0;
  for (const TextRound& round : rounds) {
    ExpectedText& text = texts[round.text];
    for (size_t depth = 0; depth < round.right.size(); ++depth) {
      const int slot = first + round.right[depth];
      check_row(backend, text, text.done + static_cast<int>(depth), slot,
                &logits[slot * vocab_size]);
    }
    first += round.rows;
    if (round.rows > 1) {
      const int kept = round.right[random.next() % round.right.size()];
      backend.sequences()->select(round.text);
      backend.keep_path(text.done, round.paths[kept]);
      text.done += round.paths[kept].depth;
    }
    ++text.done;
  }
}

// Some of the texts' next rows share a chunk, which is looked at behind random layers.
inline void run_chunk_of(Backend& backend, std::vector<ExpectedText>& texts,
                         const std::vector<int>& of, TinyRandom& random) {
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  const ModelConfig& c = backend.config();
  ChunkRows& chunk = *backend.chunk_rows();
  std::vector<ChunkRows::Part> parts;
  int room = chunk.most_rows();
  for (const int i : of) {
    const int most = std::min(room, kLongestText - texts[i].done);
    if (most == 0) break;
    const int n = below(3) ? 1 + below(most) : std::min(most, 1 + below(3));
    parts.push_back({i, std::span<const int32_t>(texts[i].ids).subspan(texts[i].done, n)});
    room -= n;
  }
  chunk.embed_chunk(parts);
  for (int layer = 0; layer < c.n_layers;) {
    layer = std::min(layer + 1 + below(3), c.n_layers);
    chunk.run_chunk(layer);
    int row = 0;
    for (const ChunkRows::Part& part : parts) {
      ExpectedText& text = texts[part.sequence];
      for (size_t i = 0; i < part.tokens.size(); ++i, ++row) {
        const float* const expected =
            text.expected.hidden_at(text.done + static_cast<int>(i), layer);
        CHECK(same_bits(chunk.chunk_row(row).data(), expected, c.dim));
      }
    }
  }
  for (const ChunkRows::Part& part : parts) {
    texts[part.sequence].done += static_cast<int>(part.tokens.size());
  }
}

inline void check_kv(Backend& backend, const ExpectedText& text) {
  const size_t kv_dim = backend.config().kv_dim();
  std::vector<uint16_t> k(kv_dim), v(kv_dim);
  for (int l = 1; l <= backend.config().n_layers; ++l) {
    REQUIRE(backend.kv_len(l) == text.done);
    for (int pos = 0; pos < text.done; ++pos) {
      backend.inspect().read_kv(l, pos, k, v);
      const size_t at = (size_t(pos) * backend.config().n_layers + l - 1) * kv_dim;
      CHECK(same_bits(k.data(), &text.expected.k[at], kv_dim));
      CHECK(same_bits(v.data(), &text.expected.v[at], kv_dim));
    }
  }
}

// `ids` as the next rows of the selected sequence, in passes of decoding.
inline void run_rows(Backend& backend, std::span<const int32_t> ids) {
  for (size_t at = 0; at < ids.size(); at += kMaxRows) {
    const int n = static_cast<int>(std::min<size_t>(kMaxRows, ids.size() - at));
    for (int i = 0; i < n; ++i) backend.embed(i, ids[at + i]);
    backend.run_layers(0, n, backend.kv_len(1), 1, backend.config().n_layers);
  }
}

// kTexts texts come and go, are cut back, read at once, run alone and in random companies, of rows
// and, where the backend shows those, of chunks. By decoding instead of prefill() where that has
// other bits than the CPU's.
inline void run_texts_at_random(std::vector<ExpectedText> texts, Backend& backend, uint64_t seed,
                                bool prefill = true) {
  const ModelConfig& config = backend.config();
  Sequences* sequences = backend.sequences();
  REQUIRE(sequences);
  REQUIRE(sequences->n_sequences() == kTexts);
  TinyRandom random(seed);
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  const int kinds = backend.chunk_rows() ? 6 : 5;
  for (int turn = 0; turn < 15 * kinds; ++turn) {
    const int sequence = below(kTexts);
    ExpectedText& text = texts[sequence];
    const int what = below(kinds);
    switch (what) {
      case 0: {  // a part of it at once
        const int n = below(kLongestText - text.done + 1);
        const auto part = std::span<const int32_t>(text.ids).subspan(text.done, n);
        sequences->select(sequence);
        if (n > 0) prefill ? backend.prefill(part) : run_rows(backend, part);
        text.done += n;
        break;
      }
      case 1:  // cut back
        text.done = below(text.done + 1);
        sequences->select(sequence);
        backend.truncate(text.done);
        break;
      case 2:  // alone
        if (text.done == kLongestText) break;
        sequences->select(sequence);
        {
          backend.embed(0, text.ids[text.done]);
          backend.run_layers(0, 1, text.done, 1, config.n_layers);
          std::vector<float> logits(config.vocab_size);
          backend.logits(0, 1, logits.data());
          check_row(backend, text, text.done++, 0, logits.data());
        }
        break;
      case 3: {  // what another one begins with
        const int other = below(kTexts), most = std::min(texts[other].done, kSharedTokens);
        if (other == sequence) break;
        text.done = below(most + 1);
        sequences->select(sequence);
        sequences->copy_prefix(other, text.done);
        break;
      }
      default: {  // in company
        std::vector<int> of;
        for (int i = 0; i < kTexts; ++i) of.push_back(i);
        for (int i = kTexts - 1; i > 0; --i) std::swap(of[i], of[below(i + 1)]);
        std::erase_if(of, [&](int i) { return texts[i].done == kLongestText; });
        const bool chunk = what == 5;
        of.resize(std::min<size_t>(of.size(), 1 + below(chunk ? kTexts : kMaxRows)));
        if (of.empty()) break;
        if (chunk) {
          run_chunk_of(backend, texts, of, random);
          break;
        }
        std::vector<TextRound> rounds;
        int room = kMaxRows - static_cast<int>(of.size());
        for (const int i : of) {
          const int most = std::min(room, kLongestText - texts[i].done - 1);
          const int more = below(3) ? below(most + 1) : 0;
          rounds.emplace_back(texts[i], i, 1 + more, config.vocab_size, random);
          room -= more;
        }
        run_company(backend, texts, rounds, random);
      }
    }
  }
  for (int i = 0; i < kTexts; ++i) {
    sequences->select(i);
    check_kv(backend, texts[i]);
  }
}

// Of every kind of prompt: prompts that begin alike, of one token, one that fills the context.
inline std::vector<BatchRequest> batch_requests(const TinyModel& model, int n, int context) {
  std::vector<BatchRequest> wanted;
  for (int i = 0; i < n; ++i) {
    BatchRequest request;
    const int length = i % 7 == 0 ? 1 : i % 11 == 0 ? context : 5 + i % 13;
    request.prompt = token_ids(length, model.config.vocab_size, 3 + i / 8);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = i;
    request.sampling.repeat_penalty = 1.1f;
    if (i % 4 == 1) request.sampling.frequency_penalty = 1.5f;
    request.options.reply = static_cast<uint32_t>(i % 5);
    request.options.max_tokens = i % 4 == 0 ? -1 : 1 + i;
    request.options.is_end = [](int32_t token) { return token < 4; };
    wanted.push_back(request);
  }
  return wanted;
}

// What a ReplyBatch over `together` writes is what Session writes on `alone`, however little is
// kept between replies. Returns what is counted of each.
inline std::vector<GenerateStats> check_replies(Backend& together, Backend& alone,
                                                const std::vector<BatchRequest>& wanted,
                                                uint64_t most_bytes = Sessions::kAnyBytes) {
  const int n = together.sequences()->n_sequences();
  Sessions sessions(together, most_bytes);
  ReplyBatch batch(sessions);
  std::vector<WrittenReply> written(wanted.size());
  size_t next = 0, ended = 0;
  while (ended < wanted.size()) {
    // Not always as soon as there is room: companies of every size.
    while (next < wanted.size() && !batch.full() && (batch.size() == 0 || next % 5 != 4)) {
      batch.add(static_cast<int64_t>(next), wanted[next]);
      ++next;
    }
    if (next % 5 == 4 && next < wanted.size() && !batch.full()) {
      batch.add(static_cast<int64_t>(next), wanted[next]);
      ++next;
    }
    CHECK(batch.size() <= std::min(n, kMaxRows));
    for (WrittenReply& reply : batch.step()) {
      const auto at = static_cast<size_t>(reply.id);
      REQUIRE(at < written.size());
      CHECK(written[at].tokens.empty());
      written[at] = std::move(reply);
      ++ended;
    }
  }
  CHECK(batch.size() == 0);
  CHECK(batch.tokens_under_way() == 0);
  CHECK(batch.step().empty());
  CHECK(sessions.idle().bytes <= most_bytes);
  std::vector<GenerateStats> counted;
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    Session session(alone, Sampler(wanted[i].sampling));
    session.forget();
    const GenerateStats stats = session.generate(wanted[i].prompt, wanted[i].options);
    const auto tokens = session.tokens();
    CHECK(written[i].tokens == std::vector<int32_t>(tokens.begin(), tokens.end()));
    CHECK(stop_reason_name(written[i].stats.stop) == std::string(stop_reason_name(stats.stop)));
    counted.push_back(written[i].stats);
  }
  return counted;
}

}  // namespace specbound::test
