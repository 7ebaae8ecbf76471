# Those of prefill's attention (faults.cmake).

set(prefilled "prefill attention: head sizes, groups, biases, norms, pairings")
set(spoiled "prefill attention: what is infinite or NaN spoils the rows that see it, no others")
set(any_order
  "prefill attention depends on neither thread order, the grid, nor the other rows")
set(in_windows "prefill attention: windows, from one key to more than there are")

simt_fault(prefill_values_overwritten
  SOURCE kernels/prefill_attention.cu
  TEXT "__syncthreads();    // keys are there, values have been read"
  REPLACEMENT ""
  CAUGHT_BY ${prefilled})

simt_fault(prefill_keys_overwritten
  SOURCE kernels/prefill_attention.cu
  TEXT "__syncthreads();  // values are there, keys have been read"
  REPLACEMENT ""
  CAUGHT_BY ${prefilled})

# A copy that may arrive at once does so while the buffer is still read.
simt_fault(prefill_values_copied_too_early
  SOURCE kernels/prefill_attention.cu
  TEXT "__syncthreads();    // keys are there, values have been read"
  REPLACEMENT "fetch_values<D>(v, n, begin, values); __syncthreads();"
  CAUGHT_BY ${any_order})

simt_fault(prefill_keys_copied_too_early
  SOURCE kernels/prefill_attention.cu
  TEXT "__syncthreads();  // values are there, keys have been read"
  REPLACEMENT "if (end <= block_last) { fetch_keys<D>(k, n, end, keys); } __syncthreads();"
  CAUGHT_BY ${any_order})

simt_fault(prefill_zero_of_either_sign
  SOURCE kernels/prefill_attention.cu
  TEXT "rows.out[i][2 * r] * inverse + 0.0f"
  REPLACEMENT "rows.out[i][2 * r] * inverse"
  CAUGHT_BY "prefill attention: a zero is +0, however rows are cut into chunks")

simt_fault(prefill_keys_not_waited_for
  SOURCE kernels/prefill_attention.cu
  TEXT "wait_for_copies();  // keys"
  REPLACEMENT ""
  CAUGHT_BY ${prefilled})

simt_fault(prefill_values_not_waited_for
  SOURCE kernels/prefill_attention.cu
  TEXT "wait_for_copies();  // values"
  REPLACEMENT ""
  CAUGHT_BY ${prefilled})

simt_fault(prefill_query_wrong_lane
  SOURCE kernels/prefill_attention.cu
  TEXT "of_block % 8 / 2;"
  REPLACEMENT "of_block / 4;"
  CAUGHT_BY ${prefilled})

simt_fault(spoiled_row_left_out
  SOURCE kernels/prefill_attention.cu
  TEXT "keys_below(rows.pos[r] + 1 - begin)"
  REPLACEMENT "keys_below(rows.pos[r] - begin)"
  CAUGHT_BY ${spoiled})

simt_fault(prefill_window_too_narrow
  SOURCE kernels/prefill_attention.cu
  TEXT "key < rows.first[e / 2]"
  REPLACEMENT "key <= rows.first[e / 2]"
  CAUGHT_BY ${in_windows})

# As whole as its last row sees it.
simt_fault(prefill_tile_taken_for_whole
  SOURCE kernels/prefill_attention.cu
  TEXT "end <= pos + block_row + 1"
  REPLACEMENT "end <= block_last + 1"
  CAUGHT_BY ${prefilled})

simt_fault(prefill_window_taken_for_whole
  SOURCE kernels/prefill_attention.cu
  TEXT "first_key(heads, block_end)"
  REPLACEMENT "first_key(heads, pos + block_row)"
  CAUGHT_BY ${in_windows})

# Of a row that sees a value which is not finite only the dimension of that would be NaN.
simt_fault(spoiled_in_a_whole_tile
  SOURCE kernels/prefill_attention.cu
  TEXT " || !finite(rows.out[i][2 * r + 1])"
  REPLACEMENT ""
  CAUGHT_BY ${spoiled})

simt_fault(prefill_padding_left_as_found
  SOURCE kernels/prefill_attention.cu
  TEXT "if (i >= 2 * head_dim)"
  REPLACEMENT "if (i > 2 * head_dim)"
  CAUGHT_BY ${prefilled})

simt_fault(spoiled_before_the_window
  SOURCE kernels/prefill_attention.cu
  TEXT "bad.x & until.x & ~before.x"
  REPLACEMENT "bad.x & until.x"
  CAUGHT_BY "prefill attention: what is not finite spoils the rows whose window it is in")
