// Candidates from texts: what came where the last tokens stood before, in the text itself, in a
// memory of replies to others and in a datastore. docs/architecture.md 3.4.
#pragma once

#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "drafters/candidate_odds.h"
#include "drafters/lookup_index.h"
#include "model/datastore.h"
#include "numerics/noise.h"

namespace specbound {

// Texts of one vocabulary beside the one that is being written: what is given, which stays, and
// replies of before, the newest kMostTokens of them.
class LookupMemory {
 public:
  static constexpr size_t kMostTokens = size_t{1} << 18;
  static constexpr int32_t kBetween = Datastore::kBetween;  // no token: no context reaches over it

  // Without `replies` none are taken: add() does nothing.
  explicit LookupMemory(bool replies = true) : takes_replies_(replies) {}

  // In place of what was given before; kBetween between texts. It is indexed on a thread of its
  // own, which the first look at the index waits for: half a million tokens take 20 ms, in which a
  // prompt is read.
  void give(std::span<const int32_t> tokens);
  void add(std::span<const int32_t> reply);
  // What replies() was, here or elsewhere; at most kMostTokens.
  void assign(std::span<const int32_t> replies);
  size_t given() const { return given_; }  // tokens
  std::span<const int32_t> replies() const { return index().text().subspan(given_); }
  // Those of replies() that add() has put there since assign().
  std::span<const int32_t> added() const { return replies().last(added_); }
  const LookupIndex& index() const;

 private:
  bool takes_replies_;
  mutable size_t given_ = 0, added_ = 0;
  mutable LookupIndex index_;  // what is given, then replies, kBetween behind each
  mutable std::future<LookupIndex> indexing_;
};

class Lookup {
 public:
  // `memory` and `store` must outlive it; nullptr: none.
  explicit Lookup(LookupMemory* memory, const Datastore* store = nullptr)
      : memory_(memory), store_(store) {}

  // A reply to `text` begins. Those to texts that this one does not go on with go to the memory.
  void begin(std::span<const int32_t> text);
  // All go there, and the text is forgotten.
  void forget();
  void push(int32_t token) { text_.push(token); }
  std::span<const int32_t> text() const { return text_.text(); }

  struct Found {
    int32_t token;
    CandidateOdds::Features features;
    int length;  // of the match in the text or memory; 0: others' texts alone say it, so that it
                 // is no rival of what these say
  };
  // What may come behind `context`, which begins with the text so far, drawn at that temperature
  // and place.
  void find(std::span<const int32_t> context, float temperature, const DrawPlace& place,
            std::vector<Found>& found) const;

 private:
  LookupMemory* memory_;
  const Datastore* store_;
  LookupIndex text_;
  struct Reply {
    size_t begin, end;  // end 0: it is being written
  };
  std::vector<Reply> replies_;  // in it
};

}  // namespace specbound
