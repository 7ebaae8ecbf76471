#include "engine/backend.h"

#include "error.h"

namespace specbound {

void Backend::draw(int, int, const DrawRule&, std::span<const int32_t>, RowDraw*) {
  SB_CHECK(!"a draw of a backend that does not draw");
}

ExitPeak Backend::exit_draw(int, int, float, const DrawRule&, std::span<const int32_t>, RowDraw&) {
  SB_CHECK(!"a draw of a backend that does not draw");
  return {};
}

}  // namespace specbound
