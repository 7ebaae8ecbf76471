# Mistakes planted in the kernels and in the host side of the engine, as tests/faults plants them in
# the rest: each is one replacement in a copy of kernels/ or of a source, built into a test program
# of its own; the test passes when the named cases fail there by an assertion, or by a Fault of the
# executor.

# Replaces TEXT in SOURCE. A header is planted for the kernels that include it, given as KERNELS
# (names in kernels/). TEST: the file of tests, without one that of SOURCE: x.cu, x_test.cpp.
file(GLOB kernel_files CONFIGURE_DEPENDS ${kernels}/*.cu ${kernels}/*.cuh ${kernels}/*.h)
set(faults ${CMAKE_SOURCE_DIR}/tests/faults)
function(simt_fault name)
  fault_is_due(due)
  if(NOT due)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;TEXT;REPLACEMENT;TEST" "KERNELS;CAUGHT_BY")
  get_filename_component(file ${arg_SOURCE} NAME)
  if(NOT arg_KERNELS)
    set(arg_KERNELS ${file})
  endif()
  if(NOT arg_TEST)
    get_filename_component(arg_TEST ${arg_SOURCE} NAME_WE)
    string(APPEND arg_TEST _test)
  endif()
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/${name})
  list(TRANSFORM arg_KERNELS PREPEND ${copy}/ OUTPUT_VARIABLE planted)
  add_custom_command(OUTPUT ${planted}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${copy}
    COMMAND ${CMAKE_COMMAND} -E copy ${kernel_files} ${copy}
    COMMAND ${Python3_EXECUTABLE} -B ${faults}/plant.py
      ${CMAKE_SOURCE_DIR}/${arg_SOURCE} ${copy}/${file} "${arg_TEXT}" "${arg_REPLACEMENT}"
    DEPENDS ${kernel_files} ${faults}/plant.py
    VERBATIM)
  simt_kernel_sources(${planted})
  # Objects of the program hide the archive's members of the same symbols.
  add_executable(fault_${name} ${planted} $<TARGET_OBJECTS:simt_${arg_TEST}>)
  target_include_directories(fault_${name} BEFORE PRIVATE ${copy})
  target_link_libraries(fault_${name} PRIVATE test_main simt_kernels)
  add_test(NAME fault_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${faults}/check_fault.py $<TARGET_FILE:fault_${name}>
      ${arg_CAUGHT_BY})
endfunction()

# The same in the host side of the engine and what it works with: SOURCE is one of src/.
function(engine_fault name)
  fault_is_due(due)
  if(NOT due)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;TEXT;REPLACEMENT;TEST" "CAUGHT_BY")
  get_filename_component(file ${arg_SOURCE} NAME)
  set(planted ${CMAKE_CURRENT_BINARY_DIR}/${name}/${file})
  add_custom_command(OUTPUT ${planted}
    COMMAND ${Python3_EXECUTABLE} -B ${faults}/plant.py
      ${CMAKE_SOURCE_DIR}/${arg_SOURCE} ${planted} "${arg_TEXT}" "${arg_REPLACEMENT}"
    DEPENDS ${CMAKE_SOURCE_DIR}/${arg_SOURCE} ${faults}/plant.py
    VERBATIM)
  add_executable(fault_${name} ${planted} $<TARGET_OBJECTS:simt_${arg_TEST}>)
  target_link_libraries(fault_${name} PRIVATE test_main ${engine_on_simt})
  # The fake cuBLAS runs its products on the executor of the program that opens it.
  set_target_properties(fault_${name} PROPERTIES ENABLE_EXPORTS ON)
  add_test(NAME fault_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${faults}/check_fault.py $<TARGET_FILE:fault_${name}>
      ${arg_CAUGHT_BY})
endfunction()

set(norms "norm and quantization give the CPU's bits, rows of every kind")
set(products "a projection gives the CPU's bits: every number of chunks, outputs of any number")
set(nibbles
  "a projection of packed weights gives the CPU's bits, chunks ending inside 256 k too")
set(all_rows "a projection of every number of rows")
set(swiglu "gate and up end as the CPU's quantized rows")
set(residual "the residual is added as the CPU adds it: W x first, then the bias")
set(half_orders "prefill FP16: any order of threads, bias, adding")
set(half_bits "prefill FP16 has the bits of decode, and gate and up too")
set(gemm "prefill INT8 has the CPU's bits: chunks, tiles and rows that do not fill a block")

set(attended "decode attention has the CPU's bits: head sizes, groups, biases, norms, pairings")
set(many_queries "decode attention: more queries of a K/V head than keys are staged for at once")
set(many_chunks "decode attention: more chunks than are joined at once")
set(windows "decode attention: windows smaller and larger than chunks, at their borders")
set(trees "decode attention of trees has the CPU's bits, within a chunk and across chunks")
set(draft_layer "CUDA engine, draft layer: after any rounds it finds what the CPU's does")
set(side_by_side "attention side by side: each row has the CPU's bits, from its own text alone")

set(exits "exit_logits: the CPU's logits, peaks and decision")
set(peaks "peak_chunks and join_peaks: the CPU's, of every kind of row")
set(few_tokens
  "gumbel_argmax: few tokens, where the bounds of the noise decide what is looked at")
set(row_heads "top_logits: the first 256 in the sampler's order, and weights")
set(penalties "penalize_rows: the sampler's penalty, row by row")

# ---- missing barriers, races ----

# Rows that do not fit into shared memory at once: the next part comes before the last was read.
simt_fault(norm_part_too_early
  SOURCE kernels/row_norm.cuh
  KERNELS rows.cu
  TEST rows_test
  TEXT "if (begin > 0) __syncthreads();"
  REPLACEMENT ""
  CAUGHT_BY ${norms})

simt_fault(sums_read_too_early
  SOURCE kernels/projections.cu
  TEXT "__syncthreads();"
  REPLACEMENT ""
  CAUGHT_BY ${swiglu})

simt_fault(half_act_read_too_early
  SOURCE kernels/row_scale.cuh
  KERNELS projections_f16.cu
  TEST prefill_gemm_test
  TEXT "__syncthreads();"
  REPLACEMENT ""
  CAUGHT_BY ${half_orders})

# A stage is written while it is read.
simt_fault(gemm_stage_overwritten
  SOURCE kernels/prefill_gemm.cu
  TEXT "rows.store(buffer ^ 1, part);"
  REPLACEMENT "rows.store(buffer, part);"
  CAUGHT_BY ${gemm})

simt_fault(values_overwritten
  SOURCE kernels/attention.cu
  TEXT "__syncthreads();  // the last values have been read"
  REPLACEMENT ""
  CAUGHT_BY ${many_queries})

simt_fault(weights_overwritten
  SOURCE kernels/attention_side_by_side.cu
  TEXT "__syncthreads();  // queries are finished, the last ones' weights have been read"
  REPLACEMENT ""
  CAUGHT_BY ${side_by_side})

simt_fault(steps_overwritten
  SOURCE kernels/attention_join.cuh
  KERNELS attention_combine.cu
  TEST attention_test
  TEXT "__syncthreads();  // steps have been read"
  REPLACEMENT ""
  CAUGHT_BY ${many_chunks})

# Keys that the block of the next chunk is storing just now.
simt_fault(keys_of_another_block
  SOURCE kernels/attention_chunk.cuh
  KERNELS attention.cu
  TEST attention_tree_test
  TEXT "[&](int d) { return y[d]; }, to)"
  REPLACEMENT "[&](int d) { return Kv::value(\
key_at<Kv>(heads.kv, n, c.kv_head, place).number(d)); }, to)"
  CAUGHT_BY ${trees})

simt_fault(peaks_overwritten
  SOURCE kernels/exit_head.cu
  TEXT "__syncthreads();  // the chunks before these have been added"
  REPLACEMENT ""
  CAUGHT_BY ${peaks})

# ---- what nobody has written ----

simt_fault(norm_reads_past_row
  SOURCE kernels/row_norm.cuh
  KERNELS rows.cu
  TEST rows_test
  TEXT "for (int k = thread; k < count; k += kWarp)"
  REPLACEMENT "for (int k = thread; k < count + kWarp; k += kWarp)"
  CAUGHT_BY ${norms})

# Row 9 has no sums.
simt_fault(second_panel_left_out
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "n_rows > kPanelRows)"
  REPLACEMENT "n_rows > kPanelRows + 1)"
  CAUGHT_BY ${all_rows})

# ---- wrong lanes ----

simt_fault(quantize_wrong_lane
  SOURCE kernels/norm_quantize.cuh
  KERNELS rows.cu
  TEST rows_test
  TEXT "shuffle_xor(largest, step)"
  REPLACEMENT "shuffle_xor(largest, 2 * step)"
  CAUGHT_BY ${norms})

simt_fault(value_of_another_text
  SOURCE kernels/attention_side_by_side.cu
  TEXT "heads.kv.v = static_cast<uint16_t*>(heads.kv.v) + sequence * p.next_sequence;"
  REPLACEMENT ""
  CAUGHT_BY ${side_by_side})

simt_fault(key_of_a_sibling
  SOURCE kernels/attention.cu
  TEST attention_tree_test
  TEXT "shuffle(odd, place / 2)"
  REPLACEMENT "shuffle(odd, lane)"
  CAUGHT_BY ${trees} "a row of a tree has the bits that it has in a chain, alone and among others")

simt_fault(product_wrong_row
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "panel + 2 * t + i % 2"
  REPLACEMENT "panel + t + 4 * (i % 2)"
  CAUGHT_BY ${all_rows})

simt_fault(gemm_wrong_scale
  SOURCE kernels/prefill_gemm.cu
  TEXT "(S::scales(buffer, 0)) + lane % 4;"
  REPLACEMENT "(S::scales(buffer, 0)) + lane / 8;"
  CAUGHT_BY ${gemm})

simt_fault(half_scale_of_another_panel
  SOURCE kernels/matmul_f16.cuh
  KERNELS projections_f16.cu
  TEST prefill_gemm_test
  TEXT "const float scale = x.scale[row];"
  REPLACEMENT "const float scale = x.scale[2 * t + i % 2];"
  CAUGHT_BY ${half_bits})

simt_fault(exit_wrong_lane
  SOURCE kernels/exit_head.cu
  TEXT "if (lane % 4 == 0) {"
  REPLACEMENT "if (lane % 4 == 1) {"
  CAUGHT_BY ${exits})

simt_fault(count_of_another_lane
  SOURCE kernels/sampling.cu
  TEXT "if (lane_index() >= step) sum += before;"
  REPLACEMENT "if (lane_index() > step) sum += before;"
  CAUGHT_BY ${row_heads})

# ---- another token ----

simt_fault(noise_bound_too_high
  SOURCE kernels/sampling.cu
  TEXT "- 0.32664f"
  REPLACEMENT "- 0.0f"
  CAUGHT_BY ${few_tokens})

simt_fault(penalty_of_another_token
  SOURCE kernels/sampling.cu
  TEXT "token == id[j]"
  REPLACEMENT "token == id[0] + j"
  CAUGHT_BY ${penalties})

simt_fault(value_of_another_path
  SOURCE kernels/attention.cu
  TEST attention_tree_test
  TEXT "c.tree->path[row_of(first_of + i)]"
  REPLACEMENT "c.tree->path[row_of(first_of + i) ^ 1]"
  CAUGHT_BY ${trees} "a row of a tree does not see its siblings, whatever they are")

simt_fault(kept_row_left_out
  SOURCE kernels/keep_path.cu
  TEXT "first += kInFlight"
  REPLACEMENT "first += kInFlight + 1"
  CAUGHT_BY "the keys and values of a path go to its positions, and nothing else changes")

# ---- one too many ----

simt_fault(zero_row_too_long
  SOURCE kernels/rows.cu
  TEXT "i < 2 * n_blocks;"
  REPLACEMENT "i < 2 * n_blocks + 2;"
  CAUGHT_BY ${norms})

simt_fault(output_past_the_last
  SOURCE kernels/prefill_gemm.cu
  TEXT "row < n_rows && output < n_out"
  REPLACEMENT "row < n_rows && output <= n_out"
  CAUGHT_BY ${gemm})

simt_fault(key_not_yet_there
  SOURCE kernels/attention.cu
  TEXT "key >= keys.end)"
  REPLACEMENT "key > keys.end)"
  CAUGHT_BY ${attended})

simt_fault(value_not_yet_there
  SOURCE kernels/attention.cu
  TEXT "if (key + j >= keys[i].end) continue;"
  REPLACEMENT "if (key + j > keys[i].end) continue;"
  CAUGHT_BY ${attended})

# ---- another order of sums ----

simt_fault(chunks_added_backwards
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "sums[chunk * kSumsOfWarp +"
  REPLACEMENT "sums[(chunks - 1 - chunk) * kSumsOfWarp +"
  CAUGHT_BY ${products})

simt_fault(product_not_fused
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "fused(isum, of.dw[i / 2] * dx_of[i % 2], acc[i])"
  REPLACEMENT "isum * (of.dw[i / 2] * dx_of[i % 2]) + acc[i]"
  CAUGHT_BY ${products})

# ---- 4-bit weights ----

simt_fault(nibbles_swapped
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "{(x << 4) & kUpper, (y << 4) & kUpper, x & kUpper, y & kUpper}"
  REPLACEMENT "{x & kUpper, y & kUpper, (x << 4) & kUpper, (y << 4) & kUpper}"
  CAUGHT_BY ${nibbles})

simt_fault(nibble_without_sign
  SOURCE kernels/weight_forms.cuh
  KERNELS expand.cu
  TEST expand_test
  TEXT "constexpr uint32_t kTops = 0x88888888"
  REPLACEMENT "constexpr uint32_t kTops = 0x08888888"
  CAUGHT_BY "expanded packed weights are dequantized, then to nearest even")

simt_fault(device_min_forgotten
  SOURCE kernels/weight_forms.cuh
  KERNELS exit_head.cu
  TEST exit_head_test
  TEXT "acc[i] = fused(less[i % 2], of.mw[i / 2], acc[i]);"
  REPLACEMENT ""
  CAUGHT_BY "exit_logits of packed weights: the CPU's logits, peaks and decision")

# Of the next 256 k, half of them too early.
simt_fault(d2_of_the_neighbour
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "reinterpret_cast<const Word2*>(d2) + of_256(block)"
  REPLACEMENT "reinterpret_cast<const Word2*>(d2) + of_256(block + 4)"
  CAUGHT_BY ${nibbles})

# Of a chunk that begins inside 256 k, too.
simt_fault(block_before_its_chunk
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "if (kSkips && i < w.skip) continue;"
  REPLACEMENT ""
  CAUGHT_BY ${nibbles})

# Mins of rows 8 and on by the scales of rows 0 to 7, and by their sums.
simt_fault(row_scales_of_another_panel
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "less_mins = less_mins_of(q, d);"
  REPLACEMENT "less_mins = less_mins_of(q, rows.scales[i % kRowsAhead][0]);"
  CAUGHT_BY "a projection of packed weights of every number of rows")
simt_fault(row_sums_of_another_panel
  SOURCE kernels/matmul_int8.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "less_mins = less_mins_of(q, d);"
  REPLACEMENT "less_mins = less_mins_of(rows.values[i % kRowsAhead][0], d);"
  CAUGHT_BY "a projection of packed weights of every number of rows")

# The weights of gate by the form of up.
simt_fault(gate_in_the_form_of_up
  SOURCE kernels/prefill_gemm.cu
  TEXT "mine ? gate_up_tile() : tiles_of(w.n_out)"
  REPLACEMENT "mine || !gate ? gate_up_tile() : tiles_of(w.n_out)"
  CAUGHT_BY "prefill: gate and up of 4 bits, or of different types, as the CPU does it in steps")

# Mins are multiplied by the scale of another row.
simt_fault(prefill_mins_by_another_scale
  SOURCE kernels/prefill_gemm.cu
  TEXT "float_of(bits.y) * float_of(dx[scale].y)"
  REPLACEMENT "float_of(bits.y) * float_of(dx[scale].x)"
  CAUGHT_BY "prefill of packed weights has the CPU's bits: chunks that end inside 256 k, odd rows")

simt_fault(row_that_stays_is_drawn
  SOURCE kernels/exit_head.cu
  TEXT "*p.drawn_rows = exits ? 1 : 0;"
  REPLACEMENT "*p.drawn_rows = 1;"
  CAUGHT_BY "peak_chunks and join_peaks: the CPU's, of every kind of row")

simt_fault(half_of_a_row_summed
  SOURCE kernels/prefill_gemm.cu
  TEXT "sum = sum + shuffle_xor(sum, 1);"
  REPLACEMENT ""
  CAUGHT_BY "prefill of packed weights has the CPU's bits: chunks that end inside 256 k, odd rows")

simt_fault(fifth_bit_of_another_element
  SOURCE kernels/weight_forms.cuh
  KERNELS rows.cu
  TEST rows_test
  TEXT "(high[i / 8] >> (i % 8))"
  REPLACEMENT "(high[i % 4] >> (i / 4))"
  CAUGHT_BY "embedding rows of each type are those that the CPU reads, times the scale")

# ---- 5-bit weights ----

simt_fault(fifths_of_the_other_lane
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "v.fifths >>= lane % 2 * 4;"
  REPLACEMENT "v.fifths >>= 4 - lane % 2 * 4;"
  CAUGHT_BY ${nibbles})

# ---- 6-bit weights ----

# The first 16 k have the scale of the others.
simt_fault(halves_of_one_scale
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "scale[0][i / 2] * first[i]"
  REPLACEMENT "scale[1][i / 2] * first[i]"
  CAUGHT_BY ${nibbles})

simt_fault(half_of_another_lane
  SOURCE kernels/weight_forms.cuh
  KERNELS expand.cu
  TEST expand_test
  TEXT "const bool first = lane_index() % 4 < 2;"
  REPLACEMENT "const bool first = lane_index() % 2 < 1;"
  CAUGHT_BY "expanded packed weights are dequantized, then to nearest even")

simt_fault(two_bits_misplaced
  SOURCE kernels/weight_forms.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "(v.y << 4) & 0x30303030u"
  REPLACEMENT "(v.z << 4) & 0x30303030u"
  CAUGHT_BY ${nibbles})

# ---- training and prefill ----

simt_fault(short_gradients_shortened
  SOURCE kernels/training.cu
  TEXT "norm > p.max_norm ?"
  REPLACEMENT "norm < p.max_norm ?"
  CAUGHT_BY "a step of AdamW is the CPU's, with long gradients shortened")

simt_fault(expanded_wrong_half
  SOURCE kernels/expand.cu
  TEXT "upper ? Word2{v.y, v.w} : Word2{v.x, v.z};"
  REPLACEMENT "upper ? Word2{v.x, v.z} : Word2{v.y, v.w};"
  CAUGHT_BY "expanded FP16 weights are the file's, padded with zeros")

# ---- architectures ----

simt_fault(window_one_too_wide
  SOURCE kernels/finish_head.cuh
  KERNELS attention.cu attention_combine.cu
  TEST attention_window_test
  TEXT "pos - heads.window + 1 : 0"
  REPLACEMENT "pos - heads.window : 0"
  CAUGHT_BY ${windows})

# Parts of chunks that nobody made.
simt_fault(chunks_before_the_window
  SOURCE kernels/attention_join.cuh
  KERNELS attention_combine.cu
  TEST attention_window_test
  TEXT "int chunk = first_chunk;"
  REPLACEMENT "int chunk = 0;"
  CAUGHT_BY ${windows})

# A weight of zero times what lies there.
simt_fault(value_before_the_window
  SOURCE kernels/attention.cu
  TEST attention_window_test
  TEXT "if (kWindowed && key + j < keys[i].begin) continue;"
  REPLACEMENT ""
  CAUGHT_BY "decode attention: what lies before a window does not matter, whatever it is")

simt_fault(cap_before_scale
  SOURCE kernels/attention.cu
  TEST attention_window_test
  TEXT "score[e] = softcap(score[e], heads.softcap);"
  REPLACEMENT "score[e] = heads.score_scale * softcap(dots[e], heads.softcap);"
  CAUGHT_BY "decode attention: scores are capped after they are scaled")

simt_fault(pairs_of_the_whole_head
  SOURCE kernels/finish_head.cuh
  KERNELS attention.cu
  TEST attention_window_test
  TEXT "first + rotated / 2"
  REPLACEMENT "first + n / 2"
  CAUGHT_BY "decode attention: a part of a head turns, or nothing")

# ---- K and V of 8 bits ----

# A scale below amax / 127: the largest number is no longer within a byte.
simt_fault(kv_scale_rounded_down
  SOURCE kernels/kv_rows.cuh
  KERNELS attention.cu
  TEST attention_test
  TEXT "< least) ++half;"
  REPLACEMENT "> least) --half;"
  CAUGHT_BY ${attended})

simt_fault(kv_scale_of_other_numbers
  SOURCE kernels/attention.cu
  TEST attention_test
  TEXT "half_float(key.scale(d / kKvScaled))"
  REPLACEMENT "half_float(key.scale(0))"
  CAUGHT_BY ${attended})

simt_fault(kv_scale_of_another_place
  SOURCE kernels/attention.cu
  TEST attention_tree_test
  TEXT "staged_value(c, n, place).scale(b)"
  REPLACEMENT "staged_value(c, n, key).scale(b)"
  CAUGHT_BY ${trees})

simt_fault(kept_scale_left_out
  SOURCE kernels/keep_path.cu
  TEXT "p, kv_scales(true, p.head_dim),"
  REPLACEMENT "p, 0,"
  CAUGHT_BY "the keys and values of a path go to its positions, and nothing else changes")

simt_fault(silu_for_gelu
  SOURCE kernels/projections_int8.cuh
  KERNELS projections.cu
  TEST activation_test
  TEXT "activated(p.activation, gate)"
  REPLACEMENT "silu(gate)"
  CAUGHT_BY "GELU, INT8: decode's and prefill's gate and up end as the CPU's quantized rows")

simt_fault(norm_of_the_first_row
  SOURCE kernels/post_norm.cu
  TEXT "inverse_rms(y, p.dim, p.eps)"
  REPLACEMENT "inverse_rms(p.y, p.dim, p.eps)"
  CAUGHT_BY "post norms: the CPU's bits, decode and prefill rows")

simt_fault(peaks_of_uncapped_logits
  SOURCE kernels/exit_head.cu
  TEST softcap_test
  TEXT "if (p.softcap > 0) total = softcap(total, p.softcap);"
  REPLACEMENT ""
  CAUGHT_BY "exit_logits caps what it makes, then takes the peaks")

# A row takes its best expert every time.
simt_fault(expert_taken_twice
  SOURCE kernels/experts.cu
  TEXT "goes_before(last, one) && goes_before(one, best)"
  REPLACEMENT "goes_before(one, best)"
  CAUGHT_BY "experts: routes are the CPU's, with ties, infinities and NaN, for any number of rows")

simt_fault(expert_given_the_first_row
  SOURCE kernels/experts.cu
  TEXT "const size_t from = row_block(n_blocks, row, k / 2)"
  REPLACEMENT "const size_t from = row_block(n_blocks, 0, k / 2)"
  CAUGHT_BY "experts: what they give of a row is the CPU's bits, whatever rows share an expert")

include(one_row_faults.cmake)
include(prefill_attention_faults.cmake)
include(side_by_side_faults.cmake)
include(host_faults.cmake)
