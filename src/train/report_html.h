// The training as a page to read: one file, shapes and text only, no script, nothing from
// elsewhere.
#pragma once

#include <string>

#include "train/head_trainer.h"

namespace specbound {

// What the page says of the training that the result does not know.
struct ReportSource {
  std::string model;  // names as the user gave them
  std::string data;
  int n_layers = 0;
};

std::string report_html(const TrainedHeads& trained, const ReportSource& source);

}  // namespace specbound
