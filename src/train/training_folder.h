// Where a training keeps what it has so far, and whether a later run may go on with it. After a
// kill everything stays; when a run ends otherwise, well or not, everything goes unless keep() was
// called. A folder with anything in it is only touched when a marked manifest says that it is such
// a folder, and then only files of our own names are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "descriptor.h"

namespace specbound {

// Whether what ends a training need not end the same one later: Ctrl-C, no memory, a full disk, a
// lost GPU, a learning rate that is given anew each time. To be asked while that is handled.
bool may_go_on_later();

class TrainingFolder {
 public:
  enum class Begin {
    kAny,     // goes on where there is something to go on from
    kResume,  // must go on
    kFresh    // starts over
  };
  // What the contents depend on, in words that a message can use: {"seed", "7"}.
  using MadeWith = std::vector<std::pair<std::string, std::string>>;

  // Makes the folder and locks it. Throws Error(kFile) when it cannot be had, or when another run
  // is at work in it.
  explicit TrainingFolder(std::string path);
  // Removes what this run may have put there, and the folder if nothing else is in it; before
  // begin() has returned only one that was made.
  ~TrainingFolder();
  TrainingFolder(const TrainingFolder&) = delete;
  TrainingFolder& operator=(const TrainingFolder&) = delete;

  // True when there is an interrupted training made with the same. Throws Error(kUsage) for one
  // made with something else (naming the first difference) unless `begin` is kFresh, for none when
  // it is kResume, and for a folder that holds something but no training.
  bool begin(const MadeWith& made_with, Begin begin);

  void keep() { keep_ = true; }  // for the next run

  const std::string& path() const { return path_; }
  std::string texts() const { return path_ + "/texts.bin"; }
  // There once no more texts are to be written.
  std::string whole() const { return path_ + "/texts.whole"; }
  // The seconds that runs of it have taken so far.
  std::string spent() const { return path_ + "/seconds.txt"; }
  // Heads while settings are tuned for them, as TemporaryFile (cli/heads_output.h) names them.
  std::string tuned() const { return path_ + "/tuned.heads.gguf"; }
  std::string checkpoint() const { return path_ + "/training.checkpoint"; }

 private:
  void remove_files() const;

  std::string path_;
  Descriptor lock_;
  bool made_ = false, begun_ = false, keep_ = false;
};

}  // namespace specbound
