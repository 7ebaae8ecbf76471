// Rows of a round made by hand, each behind the one before. Of RowEvents or RowRecords.
#pragma once

namespace specbound::test {

template <class Rows>
void make_chain(Rows& rows) {
  for (size_t slot = 0; slot < rows.size(); ++slot) {
    rows[slot].parent = static_cast<int>(slot) - 1;
    if (slot > 0) rows[slot].drafted_at = rows[slot - 1].exit_layer;
  }
}

}  // namespace specbound::test
