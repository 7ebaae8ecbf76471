// specbound.h as C++.
#include <specbound.h>

static_assert(noexcept(sb_status_text) && sizeof(sb_model_options) % sizeof(size_t) == 0);

const char* version() {
  sb_request request = {};
  request.size = sizeof request;
  return request.on_text ? sb_status_text(SB_OK) : sb_version();
}
