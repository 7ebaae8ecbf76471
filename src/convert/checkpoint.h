// The weights of a Hugging Face model directory: model.safetensors, or without one the files
// that model.safetensors.index.json names (transformers looks in this order, too).
//
//   { "weight_map": { tensor name: file name, ... } }
//
// The index must be right about every tensor. Its files lie in the directory itself: a name that is
// a path is refused (the files may be links, as they are in Hugging Face's cache).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "convert/safetensors.h"

namespace specbound {

class Checkpoint {
 public:
  // Throws Error(kFile | kFormat | kUnsupported).
  static Checkpoint open(const std::string& directory);
  // Of one file, which lies in `directory`.
  static Checkpoint of(Safetensors file, const std::string& directory);

  const std::string& directory() const { return directory_; }
  const SafeTensor* find(std::string_view name) const;  // null if absent
  // All tensors, file by file.
  std::vector<const SafeTensor*> tensors() const;

 private:
  void add(Safetensors file);

  std::string directory_;
  std::vector<Safetensors> files_;
  std::map<std::string_view, const SafeTensor*> index_;
};

}  // namespace specbound
