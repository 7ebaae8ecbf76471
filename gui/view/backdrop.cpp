#include "gui/view/backdrop.h"

namespace specbound::gui {

std::vector<Backdrop>& backdrops() {
  static std::vector<Backdrop> all;
  return all;
}

}  // namespace specbound::gui
