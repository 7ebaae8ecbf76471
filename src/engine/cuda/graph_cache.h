// Graphs of launches that come again: recorded when a key comes the second time (by then its
// kernels are loaded, which recording must not be disturbed by), launched from then on. Where there
// is no memory for one more, kernels are launched by themselves.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "engine/cuda/device.h"
#include "error.h"

namespace specbound {

template <class Key>
class GraphCache {
 public:
  GraphCache(Device& device, bool enabled) : device_(device), enabled_(enabled) {}

  // `launches` launches into the device's stream what belongs to `key`; all that differs from one
  // time to the next lies in device memory.
  void run(const Key& key, const std::function<void()>& launches) {
    if (!enabled_) return launches();
    if (entries_.size() >= kMostKeys && !entries_.contains(key)) drop_all();
    Entry& entry = entries_[key];
    if (!entry.came) {
      launches();
      entry.came = true;
      return;
    }
    if (!entry.graph) {
      try {
        entry.graph = device_.record(launches);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kLimit) throw;
        drop_all();  // those that are still wanted come back, into the memory of the others
        return launches();
      }
    }
    device_.launch(*entry.graph);
  }

  // Nothing that was launched may still be under way.
  void clear() { entries_.clear(); }

 private:
  // A graph of many layers takes some megabytes. Rows only stop at check layers, so that few
  // stretches make up all rounds; `verify --bits`, which stops at every layer, comes near to that.
  static constexpr size_t kMostKeys = 1024;

  struct Entry {
    bool came = false;
    std::unique_ptr<DeviceGraph> graph;
  };

  void drop_all() {
    device_.synchronize();
    entries_.clear();
  }

  Device& device_;
  const bool enabled_;
  std::map<Key, Entry> entries_;
};

}  // namespace specbound
