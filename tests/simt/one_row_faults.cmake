# Those of the kernels that a pass of one row has to itself: norms in matmuls, chunks joined by the
# last block of attention (faults.cmake).

set(normed_rows
  "a projection of a row that its blocks norm: the CPU's bits, a row of every kind")
set(normed_gate_up
  "gate and up of a row that their blocks norm end as the CPU's quantized rows")
set(joined "attended rows quantized at once")

# A row is multiplied while it is still being normed.
simt_fault(normed_row_read_too_early
  SOURCE kernels/normed_row.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "__syncthreads();"
  REPLACEMENT ""
  CAUGHT_BY ${normed_rows})

# Sums of up are written where the row is still read.
simt_fault(normed_row_overwritten
  SOURCE kernels/projections.cu
  TEXT "norm_row<2 * kThreads, 2>"
  REPLACEMENT "norm_row<2 * kThreads, 1>"
  CAUGHT_BY ${normed_gate_up})

simt_fault(row_of_another_slot
  SOURCE kernels/normed_row.cuh
  KERNELS projections.cu
  TEST projections_test
  TEXT "(pass->slot)"
  REPLACEMENT "(0 * pass->slot)"
  CAUGHT_BY ${normed_rows})

# A chunk whose block is still to come.
simt_fault(joined_too_early
  SOURCE kernels/attention.cu
  TEXT "(heads * n_chunks)"
  REPLACEMENT "(heads * n_chunks - 1)"
  CAUGHT_BY ${many_chunks})

# Rows past the last of a panel stay as they are.
simt_fault(joined_panel_not_filled
  SOURCE kernels/attention.cu
  TEXT "panels_of(n_rows) * kPanelRows;"
  REPLACEMENT "n_rows;"
  CAUGHT_BY ${joined})

# Two K/V heads of 24 outputs share a block of the quantized row with two others.
simt_fault(joined_half_a_block
  SOURCE kernels/attention.cu
  TEXT "== 0 ? 2 : 4"
  REPLACEMENT "== 0 ? 2 : 2"
  CAUGHT_BY ${joined})
