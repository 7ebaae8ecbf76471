// `specbound gui` of a build without the desktop app. Programs that have one bring their own
// command_gui(), which the linker takes before it looks into the library.
#include "app/commands.h"
#include "error.h"

namespace specbound {

int command_gui(int, char**) {
  throw Error(
      ErrorCode::kUnsupported,
      "this build has no desktop app: install libimgui-dev, libstb-dev and libglfw3-dev (Debian "
      "names), configure with -DSPECBOUND_GUI=ON and build again; specbound chat works without");
}

}  // namespace specbound
