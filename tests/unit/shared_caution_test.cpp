// The caution of replies that share passes: each by what it has gained itself, whoever comes and
// goes, and wherever it goes on. docs/architecture.md 3.6.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "decode/reply_batch.h"
#include "sequences_rig.h"
#include "tree_rows.h"

namespace shared_caution_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::tree_rows;

namespace {

constexpr int32_t kAgain = 5;  // what a reply that repeats consists of
constexpr int kMostTexts = 4, kLong = 240;

// A tree whose costs stay what they are, whatever rounds take.
class Timeless final : public Speculator {
 public:
  explicit Timeless(double row) { tree_.set_costs(costing(row)); }
  const char* name() const override { return tree_.name(); }
  int width() const override { return tree_.width(); }
  SharedDrafter* shared() override { return tree_.shared(); }
  void draft_siblings(bool on) { tree_.draft_siblings(on); }
  void forget() override { tree_.forget(); }
  void begin(std::span<const int32_t> text) override { tree_.begin(text); }
  DraftEnd draft(Round& round) override { return tree_.draft(round); }
  void accept(Backend& backend, const RoundEvent& round) override {
    RoundEvent timeless = round;
    timeless.ns = {};
    tree_.accept(backend, timeless);
  }

 private:
  TreeSpeculator tree_{nullptr, nullptr, 5, true};
};

// Replies of two kinds, written by one tree, and how many rows of drafts each had in each round.
class Company {
 public:
  explicit Company(double row)
      : tree_(row),
        backend_(with_sequences(model(), best_isa(), 1, kMostTexts)),
        sessions_(*backend_),
        batch_(sessions_) {}
  ~Company() {
    for (const auto& [id, reply] : replies_) check_text(reply);
  }

  void add(int64_t id, bool repeats, const Text& prompt = {3, 7, 9, 13, 17}) {
    Reply& reply = replies_[id];
    reply.prompt = prompt;
    reply.sampling = SamplingParams{.temperature = 1.5f, .seed = static_cast<uint64_t>(id)};
    if (repeats) reply.sampling.logit_bias = {{kAgain, 100}};
    BatchRequest request;
    request.prompt = prompt;
    request.sampling = reply.sampling;
    request.options.max_tokens = kLong;
    request.options.on_token = [&reply](const TokenEvent& event) {
      reply.tokens.push_back(event.token);
    };
    request.options.on_round = [&reply](const RoundEvent& round) {
      reply.drafts.push_back(static_cast<int>(round.rows.size()) - 1);
      std::set<int> parents;
      for (const RowEvent& row : round.rows) reply.siblings += !parents.insert(row.parent).second;
    };
    request.speculator = [this] { return &tree_; };
    batch_.add(id, std::move(request));
  }
  void draft_siblings(bool on) { tree_.draft_siblings(on); }
  void drop(int64_t id) { batch_.drop(id); }
  // Until that one has written so much.
  void write(int64_t id, int tokens) {
    while (std::ssize(replies_[id].tokens) < tokens) REQUIRE(batch_.step().empty());
  }
  // Until that one has had another round: its drafts in that.
  int next_drafts(int64_t id) {
    const size_t before = replies_[id].drafts.size();
    while (replies_[id].drafts.size() == before) REQUIRE(batch_.step().empty());
    return newest_drafts(id);
  }
  int siblings(int64_t id) const { return replies_.at(id).siblings; }
  int newest_drafts(int64_t id) const { return replies_.at(id).drafts.back(); }
  int drafts(int64_t id) const {
    int sum = 0;
    for (const int n : replies_.at(id).drafts) sum += n;
    return sum;
  }

 private:
  struct Reply {
    Text prompt, tokens;
    SamplingParams sampling;
    std::vector<int> drafts;  // [round]
    int siblings = 0;         // rows behind a row that had one already
  };

  static void check_text(const Reply& reply) {
    const auto engine = model().backend(best_isa(), 1);
    Session session(*engine, Sampler(reply.sampling));
    GenerateOptions options;
    options.max_tokens = static_cast<int>(reply.tokens.size());
    session.generate(reply.prompt, options);
    CHECK(std::ranges::equal(session.tokens().subspan(reply.prompt.size()), reply.tokens));
  }

  Timeless tree_;
  std::unique_ptr<Backend> backend_;
  Sessions sessions_;
  ReplyBatch batch_;
  std::map<int64_t, Reply> replies_;
};

}  // namespace

TEST_CASE("shared rounds: without siblings replies in company draft chains") {
  for (const bool on : {true, false}) {
    Company company(0.001);
    company.draft_siblings(on);
    for (const int64_t id : {0, 1}) company.add(id, false, kFork);
    company.write(0, 30);
    CHECK(company.drafts(0) > 0);
    CHECK((company.siblings(0) + company.siblings(1) > 0) == on);
  }
}

TEST_CASE("shared caution: who joins makes no other reply cautious again") {
  Company company(0.1);
  company.add(0, true);
  company.add(1, false);
  company.write(0, 60);
  REQUIRE(company.newest_drafts(0) > 0);
  company.add(2, false);
  for (int round = 0; round < 5; ++round) CHECK(company.next_drafts(0) > 0);
  CHECK(company.drafts(2) == 0);
  // Nor does who leaves.
  company.drop(1);
  CHECK(company.next_drafts(0) > 0);
}

TEST_CASE("shared caution: who joins is cautious itself, whatever others have gained") {
  Company company(0.1);
  company.add(0, true);
  company.add(1, false);
  company.add(2, false, kEcho);
  CHECK(company.next_drafts(2) == 0);
  company.drop(2);
  company.write(0, 60);
  company.add(3, false, kEcho);
  CHECK(company.next_drafts(3) == 0);
  CHECK(company.newest_drafts(0) > 0);
  company.write(3, 20);
  CHECK(company.drafts(3) < 5);
}

TEST_CASE("shared caution: a reply keeps what it has gained when it is joined and left alone") {
  Company company(0.3);
  company.add(0, true);
  CHECK(company.next_drafts(0) == 0);
  company.write(0, 60);
  REQUIRE(company.newest_drafts(0) > 0);
  company.add(1, false);
  CHECK(company.next_drafts(0) > 0);
  company.write(0, 80);
  company.drop(1);
  CHECK(company.next_drafts(0) > 0);
  // A new reply has nothing of that.
  company.drop(0);
  company.add(2, true, kEcho);
  CHECK(company.next_drafts(2) == 0);
}

}  // namespace shared_caution_test
