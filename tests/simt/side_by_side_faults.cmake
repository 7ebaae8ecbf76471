# Those of rows of several texts that share a pass, where texts have more than one (faults.cmake).

set(company "attention side by side: trees and chains of several texts have the CPU's bits")
set(replies "CUDA engine, sequences: replies side by side are those that Session writes alone")
set(drafts_launched
  "CUDA engine, sequences: drafts are a launch a layer more, and one for who follows whom")

# Rotated for where it lies.
simt_fault(shared_key_of_its_place
  SOURCE kernels/attention_side_by_side.cu
  TEXT "kv_head, pos, place, block_shared"
  REPLACEMENT "kv_head, place, place, block_shared"
  CAUGHT_BY ${company})

# The values of a tree as those of a chain.
simt_fault(shared_value_of_a_sibling
  SOURCE kernels/attention_side_by_side.cu
  TEXT "const int place = place_of<kTree>(c, key + j);"
  REPLACEMENT "const int place = key + j;"
  CAUGHT_BY ${company})

# An ancestor's key is found in its chunk, or not at all.
simt_fault(shared_key_of_this_chunk
  SOURCE kernels/attention_side_by_side.cu
  TEXT "c.root + slot_at(c.path, at - c.root)"
  REPLACEMENT "(c.root + slot_at(c.path, at - c.root)) % kPositions"
  CAUGHT_BY ${company})

# A row that does not follow the first one by itself.
engine_fault(shared_rows_follow_the_root
  SOURCE src/engine/cuda/cuda_backend.cpp
  TEST cuda_sequences_host_test
  TEXT "part.paths ? part.paths[slot] : chain[slot]"
  REPLACEMENT "part.paths ? part.paths[slot > 0] : chain[slot]"
  CAUGHT_BY ${replies})

# The graph of a company without drafts serves one with them.
engine_fault(company_without_drafts
  SOURCE src/engine/cuda/decode_passes.cpp
  TEST cuda_sequences_host_test
  TEXT "side_by_side_graphs_.run(company, [&] {"
  REPLACEMENT "side_by_side_graphs_.run({company.context, company.max_rows, false}, [&] {"
  CAUGHT_BY ${drafts_launched})
