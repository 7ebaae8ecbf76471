// `specbound gui` of a build without the desktop app.
#include "cli/command.h"

namespace specbound::gui_none_command {

namespace {

const AbsentCommand kNoGui(
    {.rank = 30,
     .name = "gui",
     .summary = "the same in a window, and watch each token leave the network"},
    "this build has no desktop app: install libimgui-dev, libstb-dev and libglfw3-dev (Debian "
    "names), configure with -DSPECBOUND_GUI=ON and build again; specbound chat works without");

}  // namespace

}  // namespace specbound::gui_none_command
