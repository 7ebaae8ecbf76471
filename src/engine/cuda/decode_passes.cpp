#include "engine/cuda/decode_passes.h"

#include <algorithm>
#include <bit>

#include "engine/cuda/device_kv.h"
#include "error.h"

namespace specbound {
namespace {

// Whether one of the rows is not straight.
bool is_tree(const DecodeRows& rows) {
  bool tree = false;
  for (int i = 0; rows.paths && i < rows.n; ++i) tree |= !rows.paths[i].straight;
  return tree;
}

// That kernels of a pass over n rows are made for.
int most_rows(int n) {
  return n == 1 ? 1 : n <= kernels::kPanelRows ? kernels::kPanelRows : kMaxRows;
}

}  // namespace

void DecodePasses::store(const DecodeRows& rows) const {
  SB_CHECK(rows.slot >= 0 && rows.n >= 1 && rows.slot + rows.n <= kMaxRows);
  PassState state{{rows.n, rows.pos, rows.slot}, {}, {}};
  if (rows.tokens) std::copy_n(rows.tokens, rows.n, state.tokens);
  for (int i = 0; rows.paths && i < rows.n; ++i) {
    state.tree.path[i] = packed_path(rows.paths[i]);
    state.tree.depth[i] = static_cast<uint8_t>(rows.paths[i].depth);
  }
  store_value(device_, state_.data(), state);
}

void DecodePasses::run(const DecodeRows& rows, int from, int to) {
  store(rows);
  const Stretch stretch{.from = from,
                        .to = to,
                        .context = grid_context(rows.pos + rows.n, n_ctx_),
                        .tree = is_tree(rows),
                        .embed = rows.tokens != nullptr,
                        .sequence = rows.sequence,
                        .max_rows = most_rows(rows.n)};
  SB_CHECK(!stretch.tree || rows.pos >= rows.slot);
  graphs_.run(stretch, [&] {
    const PassState* state = state_.data();
    if (stretch.embed) forward_.embed(&state->pass, state->tokens, kMaxRows, h_);
    forward_.decode({.pass = &state->pass,
                     .tree = stretch.tree ? &state->tree : nullptr,
                     .sequence = stretch.sequence,
                     .max_rows = stretch.max_rows,
                     .context = stretch.context,
                     .begins = !stretch.embed},
                    from, to);
  });
}

void DecodePasses::embed(const DecodeRows& rows) const {
  store(rows);
  forward_.embed(&state_.data()->pass, state_.data()->tokens, rows.n, h_);
}

void DecodePasses::run_side_by_side(std::span<const SideBySideRow> rows, int n_layers) {
  SB_CHECK(!rows.empty() && rows.size() <= kMaxRows);
  SideBySideState state{{static_cast<int>(rows.size()), 0}, {}, {}};
  kernels::RowTree tree{};
  int longest = 0;  // of the texts, with their rows
  bool drafts = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    state.tokens[i] = rows[i].token;
    state.rows.pos[i] = rows[i].pos();
    state.rows.sequence[i] = rows[i].sequence;
    tree.path[i] = packed_path(rows[i].path);
    tree.depth[i] = static_cast<uint8_t>(rows[i].path.depth);
    longest = std::max(longest, rows[i].pos() + 1);
    drafts |= rows[i].path.depth > 0;
  }
  store_value(device_, side_by_side_.data(), state);
  if (drafts) store_value(device_, side_by_side_tree_.data(), tree);
  const Company company{grid_context(longest, n_ctx_), static_cast<int>(std::bit_ceil(rows.size())),
                        drafts};
  side_by_side_graphs_.run(company, [&] {
    const SideBySideState* there = side_by_side_.data();
    forward_.embed(&there->pass, there->tokens, kMaxRows, h_);
    forward_.decode({.pass = &there->pass,
                     .tree = company.drafts ? side_by_side_tree_.data() : nullptr,
                     .sequences = &there->rows,
                     .max_rows = company.max_rows,
                     .context = company.context},
                    1, n_layers);
  });
}

}  // namespace specbound
