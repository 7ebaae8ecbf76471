// What a trace says of a model, a reply's settings and its end: from what decodes to the records of
// trace/recorder.h. For the terminal and the window alike.
#pragma once

#include "decode/generate.h"
#include "drafters/specbound.h"
#include "runtime/loaded_model.h"
#include "trace/recorder.h"

namespace specbound {

// The SpecBound drafter behind a speculator; nullptr: something else drafts, or nothing.
const SpecBound* as_specbound(const Speculator* speculator);

// The header, where it has none yet. After load(); the model must outlive the trace.
void begin_trace(Recorder& trace, LoadedModel& model);
// How tokens are picked and drafted. `speculator`: the session's, nullptr for plain decoding. What
// was asked for (regen, prompt_tokens, max_tokens, stop_strings) is the caller's to fill in.
TraceReply trace_reply(const SamplingParams& sampling, const Speculator* speculator);
TraceEnd trace_end(const GenerateStats& stats);

}  // namespace specbound
