# Those of the host side of the engine (faults.cmake).

# The min of every part is its scale.
engine_fault(min_repacked_wrongly
  SOURCE src/engine/cuda/weight_layout.cpp
  TEST cuda_backend_host_test
  TEXT "two.first | two.second << 8"
  REPLACEMENT "two.first | two.first << 8"
  CAUGHT_BY "CUDA engine, INT8: the CPU backend's bits at every layer, whatever rows run together")

engine_fault(uncapped_logits
  SOURCE src/engine/cuda/device_logits.cpp
  TEST cuda_architectures_host_test
  TEXT "if (config.final_softcap > 0)"
  REPLACEMENT "if (config.attn_softcap < 0)"
  CAUGHT_BY "CUDA engine, architectures, INT8: the CPU backend's bits, whatever rows run together")

engine_fault(silu_behind_cublas
  SOURCE src/engine/cuda/prefill_matmuls.cpp
  TEST cuda_architectures_host_test
  TEXT "nullptr, act, ld, activation_}"
  REPLACEMENT "nullptr, act, ld, Activation::kSilu}"
  CAUGHT_BY "CUDA engine, architectures, prefill by cuBLAS: near the CPU's")

engine_fault(draft_layer_forgets_a_path
  SOURCE src/engine/cuda/device_draft_layer.cpp
  TEST cuda_draft_layer_host_test
  TEXT "kernels::keep_rows({state(pos + 1),"
  REPLACEMENT "kernels::keep_rows({state(pos),"
  CAUGHT_BY ${draft_layer})

# The state before a row in place of the row itself.
engine_fault(adapter_of_the_row_before
  SOURCE src/engine/cuda/device_draft_layer.cpp
  TEST cuda_draft_layer_host_test
  TEXT "form_.adapter ? 1 : 0"
  REPLACEMENT "form_.adapter ? 0 : 0"
  CAUGHT_BY "CUDA engine, published layers: after any rounds they find what the CPU's do")

# A tree by its rows in order.
engine_fault(hydra_follows_no_path
  SOURCE src/engine/cuda/device_checks.cpp
  TEST cuda_place_heads_host_test
  TEXT "row.tokens[row.path.slots[d]]"
  REPLACEMENT "row.tokens[d]"
  CAUGHT_BY "CUDA engine, medusa and hydra heads: the CPU's bits, whatever path they look at")

engine_fault(window_of_the_next_layer
  SOURCE src/engine/cuda/device_forward.cpp
  TEST cuda_architectures_host_test
  TEXT "config_.window_of(layer)"
  REPLACEMENT "config_.window_of(layer + 1)"
  CAUGHT_BY "CUDA engine, architectures, INT8: the CPU backend's bits, whatever rows run together")


# A graph that was recorded for another row.
engine_fault(check_of_another_slot
  SOURCE src/engine/cuda/device_checks.cpp
  TEST device_checks_host_test
  TEXT "sees_all_rows(head.kind) ? slot : 0"
  REPLACEMENT "sees_all_rows(head.kind) ? 0 : 0"
  CAUGHT_BY "checks on the device, INT8: the CPU's, through states and slots, one wait each")

# What is new of a text goes to its beginning.
engine_fault(text_at_the_wrong_place
  SOURCE src/engine/cuda/device_sampler.cpp
  TEST device_logits_host_test
  TEXT "device_.copy_in(text_.data() + same,"
  REPLACEMENT "device_.copy_in(text_.data(),"
  CAUGHT_BY "draws on the device: the sampler's tokens, whatever is sampled")

# A buffer is filled again while it is copied.
engine_fault(staging_filled_too_early
  SOURCE src/engine/cuda/device.cpp
  TEST staging_host_test
  TEXT "if (buffers_[filling_].sent) device_.wait(*buffers_[filling_].sent)"
  REPLACEMENT ""
  CAUGHT_BY "staging: waits for what was sent from the same buffer, and for no more")

# The draw of the first row for every row.
engine_fault(draw_of_another_row
  SOURCE src/decode/row_sampler.cpp
  TEST cuda_loop_host_test
  TEXT "sampler_.take(draws_[slot], at)"
  REPLACEMENT "sampler_.take(draws_[0], at)"
  CAUGHT_BY "CUDA engine, the loop: the CPU's events under every sampling, one wait a check")

# A row that follows what one of the round before followed.
engine_fault(path_of_the_last_round
  SOURCE src/engine/cuda/cuda_backend.cpp
  TEST cuda_tree_host_test
  TEXT "paths_.reset(slot);"
  REPLACEMENT ""
  CAUGHT_BY "CUDA engine, trees: an embedded row follows all before it again")

# A chain by its first row.
engine_fault(tree_run_as_chain
  SOURCE src/engine/cuda/decode_passes.cpp
  TEST cuda_tree_host_test
  TEXT "i < rows.n; ++i) tree |="
  REPLACEMENT "i < 1; ++i) tree |="
  CAUGHT_BY "CUDA engine, trees: rounds of every number of rows around the border of a chunk")
