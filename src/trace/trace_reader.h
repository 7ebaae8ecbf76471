// Reads the files of --trace (trace/recorder.h) back. They are hostile input: whatever is not a
// trace is refused with the line's number, what was expected and what was found.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "error.h"
#include "trace/recorder.h"
#include "trace/round_record.h"

namespace specbound {

// Settings that changed within a reply.
struct TraceChange {
  int round = 0;     // the first one that they hold for
  TraceReply reply;  // all of them, as they are from there on
};

// What lines of a trace say: a round together with its tokens.
using TraceItem = std::variant<TraceHeader, TraceReply, TraceChange, RoundRecord, TraceEnd>;

// A line of a file, for messages.
struct TracePlace {
  const std::string& name;
  int line;

  [[noreturn]] void refuse(const std::string& expected, const std::string& found,
                           ErrorCode code = ErrorCode::kFormat) const;
};

// Gives `take` each item in the order of the file, with the line that it ends on. The header comes
// first and once; layers, tokens and positions are those of its model; a reply's rounds and its end
// come after it. A last line that was cut off in the middle is left out: whoever wrote the trace
// may have been killed; but not the first, which alone is no trace. Throws Error(kFormat),
// Error(kFile) when reading fails.
void scan_trace(std::istream& trace, const std::string& name,
                const std::function<void(TraceItem item, const TracePlace& place)>& take);

struct RecordedReply {
  TraceReply reply;  // as it began
  std::vector<RoundRecord> rounds;
  std::vector<TraceChange> changes;  // by round
  std::optional<TraceEnd> end;       // none: the file ends before the reply does, or it failed
};

struct RecordedTrace {
  TraceHeader header;
  std::vector<RecordedReply> replies;
};

// All of it. Throws as scan_trace(), Error(kLimit) for what would take more than `most_bytes`
// of memory.
RecordedTrace read_trace(std::istream& trace, const std::string& name,
                         size_t most_bytes = size_t{1} << 30);

}  // namespace specbound
