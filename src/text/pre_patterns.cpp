#include "text/pre_patterns.h"

namespace specbound {

namespace {

constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kDigit[] = R"(\p{N})";

constexpr PrePattern kGpt2Steps[] = {{kGpt2}};
constexpr PrePattern kDigitsGpt2Steps[] = {{kDigit}, {kGpt2}};

constexpr PrePattern kLlama3Steps[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr PrePattern kMiniCpm5Steps[] = {
    {R"(\p{N}{1,3})"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// bailingmoe and llada-moe write it in another way that cuts the same.
constexpr PrePattern kQwen2Steps[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr PrePattern kQwen35Steps[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr PrePattern kSeedCoderSteps[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)"
     R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// llama.cpp has approximated the upper- and lower-case classes of these two with A-Z and a-z.
constexpr PrePattern kTekkenSteps[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr PrePattern kGpt4oSteps[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// The letters are listed in the model's tokenizer.json, in code points here. `\s+$` is written so
// that it is tried only where white space begins: that finds the same, and a long stretch of
// spaces in front of a word is not tried again from each of them. llama.cpp ends with \p{N}+, the
// model with Digits, one by one.
constexpr PrePattern kDeepSeekLlmSteps[] = {
    {R"([\r\n])"},
    {R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
     R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
     R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
     R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
     R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
     R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
     R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
     R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
     R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
     R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
     R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
     R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
     R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
     R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
     R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
     R"(\x{1E900}-\x{1E943}]+)"},
    {R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
    {R"((?<!\s)\s+\z)"},
    {R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {kDigit}};

constexpr PrePattern kDeepSeekCoderSteps[] = {
    {R"([\r\n])"},
    {R"(\s?\p{L}+)"},
    {R"(\s?\p{P}+)"},
    {R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {kDigit}};

constexpr PrePattern kDeepSeekV3Steps[] = {
    {R"(\p{N}{1,3})"},
    {R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
     R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// Punctuation (contiguous), ByteLevel, Digits (contiguous), Split. The last two see the characters
// that ByteLevel makes of bytes, of which the superscripts and fractions B2, B3, B9, BC, BD and BE
// are digits too, in the middle of other characters. llama.cpp leaves Digits out. Not followed: the
// Punctuation of HF tokenizers knows no marks newer than Unicode 8.
constexpr PrePattern kFalconSteps[] = {{R"([!-/:-@\[-`{-~\p{P}]+)"},
                                       {kGpt2},
                                       {R"([0-9\xB2\xB3\xB9\xBC-\xBE]+)", true},
                                       {R"([0-9][0-9][0-9])", true}};

constexpr char kBloom[] = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr PrePattern kBloomSteps[] = {{kBloom}};
constexpr PrePattern kVikingSteps[] = {{kBloom}, {kDigit}};

// llama.cpp's own, for files from before there were names.
constexpr PrePattern kDefaultSteps[] = {
    {R"([\p{P}\$\+<=>\^~\|]+)"}, {kGpt2}, {R"(\p{N}+)"}, {R"([0-9][0-9][0-9])"}};

constexpr PreFamily kDefault = {kDefaultSteps, false, false};
constexpr PreFamily kLlama3 = {kLlama3Steps, true, true};
// Llama 3's vocabulary without BOS (Smaug, SmolLM3): llama.cpp merges whole words here, which makes
// other tokens of a few hundred of them than their tokenizer.json does.
constexpr PreFamily kSmaug = {kLlama3Steps, true, false};
constexpr PreFamily kLlama3Merged = {kLlama3Steps, false, false};
constexpr PreFamily kMiniCpm5 = {kMiniCpm5Steps, true, false};
constexpr PreFamily kQwen2 = {kQwen2Steps, false, false, true};
constexpr PreFamily kLikeQwen2 = {kQwen2Steps, false, false};
constexpr PreFamily kQwen35 = {kQwen35Steps, false, false, true};
constexpr PreFamily kSeedCoder = {kSeedCoderSteps, false, false};
constexpr PreFamily kTekken = {kTekkenSteps, true, true};
constexpr PreFamily kGpt4o = {kGpt4oSteps, false, false};
constexpr PreFamily kDeepSeekLlm = {kDeepSeekLlmSteps, false, false};
constexpr PreFamily kDeepSeekCoder = {kDeepSeekCoderSteps, false, false};
constexpr PreFamily kDeepSeekV3 = {kDeepSeekV3Steps, false, false};
constexpr PreFamily kFalcon = {kFalconSteps, false, false};
constexpr PreFamily kGpt2Family = {kGpt2Steps, false, false};
constexpr PreFamily kMpt = {kGpt2Steps, false, false, true};
constexpr PreFamily kDigitsGpt2 = {kDigitsGpt2Steps, false, false};
constexpr PreFamily kCommandR = {kDigitsGpt2Steps, false, false, true};
constexpr PreFamily kBloomFamily = {kBloomSteps, false, false};
constexpr PreFamily kViking = {kVikingSteps, false, false};

constexpr struct {
  std::string_view name;
  const PreFamily& family;
} kNames[] = {
    {"default", kDefault},
    {"llama-bpe", kLlama3},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"falcon3", kLlama3},
    {"falcon-h1", kLlama3},
    {"pixtral", kLlama3},
    {"midm-2.0", kLlama3},
    {"lfm2", kLlama3},
    {"smaug-bpe", kSmaug},
    {"dbrx", kLlama3Merged},
    {"glm4", kLlama3Merged},
    {"chatglm-bpe", kLlama3Merged},
    {"minicpm5", kMiniCpm5},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kLikeQwen2},
    {"megrez", kLikeQwen2},
    {"kormo", kLikeQwen2},
    {"f2llmv2", kLikeQwen2},
    {"stablelm2", kLikeQwen2},
    {"hunyuan", kLikeQwen2},
    {"solar-open", kLikeQwen2},
    {"grok-2", kLikeQwen2},
    {"qwen35", kQwen35},
    {"seed-coder", kSeedCoder},
    {"bailingmoe", kLikeQwen2},
    {"bailingmoe2", kLikeQwen2},
    {"llada-moe", kLikeQwen2},
    {"tekken", kTekken},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-coder", kDeepSeekCoder},
    {"deepseek-v3", kDeepSeekV3},
    {"hunyuan-dense", kDeepSeekV3},
    {"joyai-llm", kDeepSeekV3},
    {"falcon", kFalcon},
    {"gpt-2", kGpt2Family},
    {"phi-2", kGpt2Family},
    {"roberta-bpe", kGpt2Family},
    {"jina-es", kGpt2Family},
    {"jina-de", kGpt2Family},
    {"jina-v1-en", kGpt2Family},
    {"jina-v2-es", kGpt2Family},
    {"jina-v2-de", kGpt2Family},
    {"jina-v2-code", kGpt2Family},
    {"modern-bert", kGpt2Family},
    {"mpt", kMpt},
    {"olmo", kGpt2Family},
    {"jais", kGpt2Family},
    {"gigachat", kGpt2Family},
    {"a.x-4.0", kGpt2Family},
    {"mellum", kGpt2Family},
    {"trillion", kGpt2Family},
    {"granite-docling", kGpt2Family},
    {"exaone4", kGpt2Family},
    {"starcoder", kDigitsGpt2},
    {"refact", kDigitsGpt2},
    {"command-r", kCommandR},
    {"smollm", kDigitsGpt2},
    {"codeshell", kDigitsGpt2},
    {"exaone", kDigitsGpt2},
    {"minerva-7b", kDigitsGpt2},
    {"mellum2", kDigitsGpt2},
    {"bloom", kBloomFamily},
    {"gpt3-finnish", kBloomFamily},
    {"poro-chat", kBloomFamily},
    {"viking", kViking},
};

}  // namespace

const PreFamily* find_pre_family(std::string_view name) {
  for (const auto& known : kNames) {
    if (known.name == name) return &known.family;
  }
  return nullptr;
}

}  // namespace specbound
