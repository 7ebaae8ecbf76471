// Models from Hugging Face's hub into the cache. HF_ENDPOINT names another server that answers as
// it does, HF_TOKEN holds an access token, HF_HUB_DOWNLOAD_TIMEOUT the seconds to wait for an
// answer: the names that the hub's own tools have.
#pragma once

#include <string>

#include "library/load_watcher.h"
#include "library/model_cache.h"
#include "library/model_name.h"

namespace specbound {

// The model that `name` means, whole. What is there is taken as it is, without a network; all else
// is downloaded, or what is missing of it. Throws Error for what the hub, the disk or libcurl
// refuses, Interrupted on the watcher's `abort`; what came by then is kept.
CachedModel pull_model(const HubName& name, const LoadWatcher& watcher);

}  // namespace specbound
