// libcurl as it is opened when something is to be downloaded: nothing of it is linked, and a
// program that downloads nothing runs without it. What is used of its interface is declared here;
// the numbers are those of its ABI, which only grows. libcurl 7.62 or newer.
#pragma once

namespace specbound::curl {

struct StringList;  // struct curl_slist

enum Option : int {
  kLowSpeedLimit = 19,
  kLowSpeedTime = 20,
  kNoProgress = 43,
  kConnectTimeout = 78,
  kNoSignal = 99,
  kProtocols = 181,
  kSuppressConnectHeaders = 265,
  kWriteData = 10001,
  kUrl = 10002,
  kErrorBuffer = 10010,
  kUserAgent = 10018,
  kHttpHeader = 10023,
  kHeaderData = 10029,
  kProgressData = 10057,
  kWriteFunction = 20011,
  kHeaderFunction = 20079,
  kProgressFunction = 20219,
};
enum Info : int { kRedirectUrl = 0x100000 + 31 };
enum Code : int {
  kOk = 0,
  kUnsupportedProtocol = 1,
  kUrlMalformed = 3,
  kNoProxy = 5,
  kNoHost = 6,
  kNoConnection = 7,
  kWriteError = 23,
  kTimeout = 28,
  kSslConnect = 35,
  kAborted = 42,
  kPeerNotVerified = 60,
  kNoCertificates = 77,
};
enum UrlPart : int { kWhole = 0, kScheme = 1, kHost = 5, kPort = 6 };
constexpr long kProtocolHttp = 1, kProtocolHttps = 2;
constexpr unsigned kDefaultPort = 1;  // of curl_url_get(): the port that the scheme means
constexpr int kErrorBytes = 256;
constexpr long kGlobalDefault = 3;

struct Functions {
  int (*global_init)(long flags);
  void* (*easy_init)();
  int (*easy_setopt)(void* handle, int option, ...);
  int (*easy_perform)(void* handle);
  int (*easy_getinfo)(void* handle, int info, ...);
  const char* (*easy_strerror)(int code);
  void (*easy_cleanup)(void* handle);
  StringList* (*slist_append)(StringList* list, const char* text);
  void (*slist_free_all)(StringList* list);
  void* (*url)();
  int (*url_set)(void* url, int part, const char* text, unsigned flags);
  int (*url_get)(void* url, int part, char** text, unsigned flags);
  void (*url_cleanup)(void* url);
  void (*free)(void* text);
};

// Opened once and never closed. Throws Error(kUnsupported), which says what to install.
const Functions& library();

}  // namespace specbound::curl
