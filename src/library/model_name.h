// Models by name: "hf:OWNER/REPO[:QUANT]" is a GGUF repository of Hugging Face, and short names
// stand for some of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace specbound {

struct HubName {
  std::string owner, repo;
  // "Q4_K_M", or the file of that name, "x-Q4_K_M.gguf"; empty: whichever runs best.
  std::string quantization;

  std::string repository() const { return owner + "/" + repo; }
  // "hf:OWNER/REPO:QUANT"
  std::string text() const;
  bool names_file() const;
};

struct ShortName {
  const char* name;
  const char* hub;  // as parse_hub_name() reads it
  int megabytes;    // of the file: whole hundreds where there are some
  // NAME of the very same file as models/fetch.py brings it, NAME.gguf; nullptr: it does not.
  const char* fetched = nullptr;
};
// Repositories as other projects name them, of architectures that run here; nobody asked the hub
// whether they are still there and need no token.
std::span<const ShortName> short_names();
std::string size_text(const ShortName& name);  // "98 MB", "1.1 GB"

// With "hf:", or as other programs and browsers have it: "hf.co/", "https://huggingface.co/".
bool begins_as_hub_name(std::string_view text);
// "OWNER/REPO" with "hf:"; what begins as a hub name as it is.
std::string hub_model(const std::string& text);
// Whether it would be OWNER/REPO[:QUANT] with "hf:" in front of it.
bool looks_like_a_repository(std::string_view text);
// Throws Error(kUsage) for what begins so and is none.
HubName parse_hub_name(std::string_view text);
// A short name, or one that begins with "hf:"; nullopt: neither. Throws what parse_hub_name() does.
std::optional<HubName> find_hub_name(std::string_view text);

// Of a GGUF file, by its name: "Q4_K_M" in capitals; empty where it does not say. Files of 16 bits
// are F16 and BF16.
std::string quantization_of(std::string_view file_name);
// The same word for one quantization, however it is spelled.
std::string quantization_word(std::string_view text);

// Whether a path that came from elsewhere stays inside the folder that it is put into, with a name
// that any shell and terminal can show: no "..", nothing hidden, printing ASCII.
bool is_safe_path(std::string_view path);

}  // namespace specbound
