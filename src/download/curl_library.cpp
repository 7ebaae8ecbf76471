#include "download/curl_library.h"

#include <dlfcn.h>

#include <optional>

#include "error.h"

namespace specbound::curl {

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// The same interface over OpenSSL and over GnuTLS: Debian has both, and one of them mostly there.
std::optional<Functions> open_library() {
  for (const char* file : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Functions f{};
    if (find(library, "curl_global_init", f.global_init) &&
        find(library, "curl_easy_init", f.easy_init) &&
        find(library, "curl_easy_setopt", f.easy_setopt) &&
        find(library, "curl_easy_perform", f.easy_perform) &&
        find(library, "curl_easy_getinfo", f.easy_getinfo) &&
        find(library, "curl_easy_strerror", f.easy_strerror) &&
        find(library, "curl_easy_cleanup", f.easy_cleanup) &&
        find(library, "curl_slist_append", f.slist_append) &&
        find(library, "curl_slist_free_all", f.slist_free_all) &&
        find(library, "curl_url", f.url) && find(library, "curl_url_set", f.url_set) &&
        find(library, "curl_url_get", f.url_get) &&
        find(library, "curl_url_cleanup", f.url_cleanup) && find(library, "curl_free", f.free) &&
        f.global_init(kGlobalDefault) == kOk) {
      return f;
    }
    dlclose(library);
  }
  return std::nullopt;
}

}  // namespace

const Functions& library() {
  static const std::optional<Functions> functions = open_library();
  if (!functions) {
    throw Error(ErrorCode::kUnsupported,
                "nothing can be downloaded without libcurl 7.62 or newer, found neither "
                "libcurl.so.4 nor libcurl-gnutls.so.4: install libcurl4 (Debian's name)");
  }
  return *functions;
}

}  // namespace specbound::curl
