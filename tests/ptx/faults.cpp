#include "ptx/faults.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <regex>
#include <sstream>

#include "ptx/loaded.h"
#include "simt/executor.h"

namespace ptx {

namespace {

constexpr const char *kPostNorm = "post norms: no matter in which order threads run",
                     *kManyChunks = "decode attention: more chunks than are joined at once",
                     *kPeaks = "peak_chunks and join_peaks: the CPU's, of every kind of row",
                     *kGumbel = "gumbel_argmax: no matter in which order threads run",
                     *kDrawn =
                         "gumbel_argmax: the sampler's tokens and margins for every kind of "
                         "row",
                     *kAttention =
                         "decode attention depends on neither thread order nor the "
                         "context it is sized for",
                     *kTop = "top_logits: no matter in which order threads run",
                     *kHalf =
                         "FP16 products: error against exact sums at most twice the CPU "
                         "backend's",
                     *kQuantize =
                         "quantization of rows gives the CPU's bits and touches no panel "
                         "it has no row for",
                     *kGather = "gather_kv takes a position's keys and values, head by head",
                     *kCap =
                         "cap_logits: the CPU's bits; rows and values past the last are not "
                         "touched",
                     *kStore =
                         "store_words stores as many words as it is given, and none behind "
                         "them",
                     *kSilu = "silu_quantize: the CPU's SiLU, quantized",
                     *kExpand = "expanded INT8 weights are d q to nearest even, row after row",
                     *kProject = "a projection of every number of rows",
                     *kKeep =
                         "the keys and values of a path go to its positions, and nothing else "
                         "changes",
                     *kSideBySide =
                         "attention side by side: trees and chains of several texts have the "
                         "CPU's bits",
                     *kPrefill = "prefill attention: head sizes, groups, biases, norms, pairings",
                     *kPenalty = "penalize_rows: the sampler's penalty, row by row",
                     *kEmbed =
                         "embedding rows of each type are those that the CPU reads, times "
                         "the scale",
                     *kNormed =
                         "a projection of a row that its blocks norm: the CPU's bits, a row of "
                         "every kind",
                     *kNormedForms =
                         "q, k and v of a row that their blocks norm, of every form and of three",
                     *kNormedGate =
                         "gate and up of a row that their blocks norm end as the CPU's quantized "
                         "rows",
                     *kJoined = "attended rows quantized at once",
                     *kRoutes =
                         "experts: routes are the CPU's, with ties, infinities and NaN, for any "
                         "number of rows",
                     *kScores =
                         "experts: scores are the CPU's bits, for routers of every float type",
                     *kExperts =
                         "experts: what they give of a row is the CPU's bits, whatever rows share "
                         "an expert";

std::vector<PlantedFault> all_faults() {
  constexpr const char *kBarrier = "bar\\.sync\\s+0;", *kAll = "(mov\\.u32\\s+%r\\d+, )-1;",
                       *kWait = "griddepcontrol\\.wait;";
  std::vector<PlantedFault> faults = {
      // Nobody waits.
      {"norm_sums_unwaited", "::add_normed_kernel", kBarrier, 0, "", kPostNorm},
      {"steps_unwaited", "::combine_chunks_kernel", kBarrier, 0, "", kManyChunks},
      {"steps_overwritten", "::combine_chunks_kernel", kBarrier, 1, "", kManyChunks},
      {"warps_unwaited", "::attend_chunks_kernel<false, false, specbound::kernels::KvF16>",
       "bar\\.warp\\.sync\\s+-1;", -1, "", kAttention},
      {"peaks_unwaited", "::join_peaks_kernel", kBarrier, 0, "", kPeaks},
      {"draws_unwaited", "::draw_parts_kernel", kBarrier, 0, "", kGumbel},
      {"sorted_unwaited", "::top_logits_kernel", kBarrier, 60, "", kTop},
      {"products_unwaited", "::project_f16_kernel", kBarrier, 0, "", kHalf},
      {"norm_of_block_unwaited", "::project_normed_kernel<true>", kBarrier, 0, "", kNormed},
      {"parts_unwaited", "::attend_chunks_kernel<false, false, specbound::kernels::KvF16>",
       kBarrier, 9, "", kJoined},
      {"routes_unwaited", "::route_experts_kernel", kBarrier, 0, "", kRoutes},
      {"keys_unwaited", "::prefill_attention_kernel<64>", kBarrier, 0, "", kPrefill},
      {"values_unwaited", "::prefill_attention_kernel<64>", kBarrier, 1, "", kPrefill},
      // Lanes that are not asked.
      {"half_a_warp", "::quantize_rows_kernel", kAll, 0, "$0165535;", kQuantize},
      {"half_a_vote", "::join_peaks_kernel", "(vote\\.sync.*), %r\\d+;", 0, "$1, 65535;", kPeaks},
      {"another_lane", "::add_normed_kernel", "shfl\\.sync\\.bfly", 0, "shfl.sync.up", kPostNorm},
      {"half_a_ballot", "::route_experts_kernel", "(vote\\.sync.*), (-1|%r\\d+);", 0, "$1, 65535;",
       kRoutes},
      {"score_of_another_lane", "::score_experts_kernel", "shfl\\.sync\\.bfly", 0, "shfl.sync.up",
       kScores},
      // Another place.
      {"store_off_by_2", "::gather_kv_kernel", "(st\\.global\\.u16\\s.*\\[%rd\\d+)\\]", -1, "$1+2]",
       kGather},
      {"store_unaligned", "::cap_logits_kernel", "(st\\.global.*\\[%rd\\d+)\\]", 0, "$1+2]", kCap},
      {"one_word_more", "::store_words_kernel", "setp\\.ge", 0, "setp.gt", kStore},
      {"other_parameter", "::store_words_kernel", "(ld\\.param\\.u32.*\\[%rd\\d+\\+)12", 0, "$0116",
       kStore},
      {"matrices_swapped", "::prefill_attention_kernel<64>", "(ldmatrix.*\\{)(%r\\d+), (%r\\d+)", 0,
       "$1$3, $2", kPrefill},
      // Another number.
      {"towards_zero", "::cap_logits_kernel", "fma\\.rn", 7, "fma.rz", kCap},
      {"quotient_towards_zero", "::silu_quantize_kernel", "div\\.rn", 0, "div.rz", kSilu},
      {"root_towards_zero", "::add_normed_kernel", "sqrt\\.rn", 0, "sqrt.rz", kPostNorm},
      {"cut_off", "::quantize_rows_kernel", "cvt\\.rni", 0, "cvt.rzi", kQuantize},
      {"noise_towards_zero", "::draw_parts_kernel", "div\\.rn\\.f64", -1, "div.rz.f64", kDrawn},
      {"bytes_unsigned", "::attend_chunks_kernel<false, false, specbound::kernels::KvI8>",
       "(xor\\.b32\\s.*, )1258291328;", -1, "$011258291200;", kAttention},
      {"signs_lost", "::expand_i8_kernel", "cvt\\.rn\\.f32\\.s16", -1, "cvt.rn.f32.u16", kExpand},
      {"halves_swapped", "::project_f16_kernel", "(mma.*\\}, \\{)(%r\\d+), (%r\\d+)", -1,
       "$1$3, $2", kHalf},
      {"product_of_another", "::project_kernel<true, 1>",
       "(mma\\..*\\}, \\{%r\\d+)(.*\\}, \\{)%r\\d+", 0, "$1$2%r1", kProject},
      {"block_norm_cut_off", "::project_normed_kernel<false>", "cvt\\.rni", 0, "cvt.rzi",
       kNormedForms},
      {"normed_cut_off", "::gate_up_normed_q8_0_kernel", "cvt\\.rni", 0, "cvt.rzi", kNormedGate},
      {"experts_towards_zero", "::add_experts_kernel", "add\\.rn\\.f32", -1, "add.rz.f32",
       kExperts},
      {"expert_of_another", "::expert_down_kernel<1>", "(mma\\..*\\}, \\{%r\\d+)(.*\\}, \\{)%r\\d+",
       -1, "$1$2%r1", kExperts},
      // The other way.
      {"guard_inverted", "::keep_path_kernel", "@%p(\\d+) bra", 0, "@!%p$1 bra", kKeep},
      {"choice_inverted", "::penalize_rows_kernel", "(selp\\.b32\\s+%r\\d+), ([^,]+), ([^,]+),", 0,
       "$1, $3, $2,", kPenalty},
      {"edge_moved", "::embed_rows_kernel", "setp\\.ge", 0, "setp.gt", kEmbed},
      {"expert_row_more", "::gather_expert_rows_kernel", "setp\\.ge", 0, "setp.gt", kExperts},
  };
  if (!loaded().can_overlap()) return faults;
  // Nobody waits for the kernel before.
  faults.push_back({"rows_unwaited", "::project_kernel<true, 1>", kWait, 0, "", kProject});
  faults.push_back({"row_unfinished", "::store_side_by_side_kernel<specbound::kernels::KvF16>",
                    kWait, -1, "", kSideBySide});
  faults.push_back({"parts_unfinished", "::combine_chunks_kernel", kWait, -1, "", kManyChunks});
  faults.push_back({"qkv_unfinished",
                    "::attend_chunks_kernel<false, false, specbound::kernels::KvF16>", kWait, -1,
                    "", kAttention});
  return faults;
}

}  // namespace

const std::vector<PlantedFault>& planted_faults() {
  static const std::vector<PlantedFault> faults = all_faults();
  return faults;
}

std::pair<std::string, std::string> planted(const PlantedFault& fault) {
  std::string name;
  for (const std::string& each : loaded().names()) {
    if (each.find(fault.kernel) == each.npos) continue;
    if (!name.empty()) throw TextError(std::string("two kernels with ") + fault.kernel);
    name = each;
  }
  if (name.empty()) throw TextError(std::string("no kernel with ") + fault.kernel);
  const std::regex pattern(fault.pattern);
  std::istringstream lines(loaded().text(name));
  std::string text;
  int found = 0;
  for (std::string line; std::getline(lines, line); text += line + '\n') {
    if (!std::regex_search(line, pattern)) continue;
    if (fault.which == -1 || found == fault.which) {
      const std::string was = line;
      line = std::regex_replace(line, pattern, fault.replacement);
      if (line == was) throw TextError(std::string(fault.name) + ": changes nothing");
    }
    ++found;
  }
  if (found <= std::max(fault.which, 0)) {
    throw TextError(format("%s: %d lines of %s match %s; plant the fault anew", fault.name, found,
                           name.c_str(), fault.pattern));
  }
  return {name, text};
}

namespace {

bool fails(const char* test_case, simt::Order order) {
  simt::options().order = order;
  doctest::Context context;
  std::string filter = test_case;
  std::replace(filter.begin(), filter.end(), ',', '?');  // a comma would split it
  context.addFilter("test-case", filter.c_str());
  context.setOption("out", "/dev/null");
  context.setOption("abort-after", 1);
  return context.run() != 0;
}

}  // namespace

int run_faults() {
  int missed = 0;
  for (const PlantedFault& fault : planted_faults()) {
    const auto [name, text] = planted(fault);
    const std::string whole = loaded().text(name);
    loaded().replace(name, text);
    loaded().kernel(name);  // that it is still a text is not what its case finds
    const bool caught = fails(fault.caught_by, simt::Order::kForward) ||
                        fails(fault.caught_by, simt::Order::kReverse);
    std::printf("%-28s %s by \"%s\"\n", fault.name, caught ? "caught" : "NOT CAUGHT",
                fault.caught_by);
    std::fflush(stdout);
    missed += caught ? 0 : 1;
    loaded().replace(name, whole);
  }
  return missed == 0 && !planted_faults().empty() ? 0 : 1;
}

}  // namespace ptx
