#include "terminal/new_file_job.h"

#include "library/load_watcher.h"
#include "terminal/interrupt.h"

namespace specbound {

NewFileJob::NewFileJob(const char* label) : bar_(label, Progress::Unit::kBytes) {
  catch_termination();  // nothing half written is left
}

std::function<void(size_t done, size_t total)> NewFileJob::progress() {
  return [this](size_t done, size_t total) {
    check_interrupt("interrupted: no file was written");
    bar_.update(done, total);
  };
}

double NewFileJob::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace specbound
