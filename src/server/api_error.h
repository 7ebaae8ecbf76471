// A request that gets an error for an answer: what is wrong, which field, under which status.
#pragma once

#include <stdexcept>
#include <string>

namespace specbound::server {

class ApiError : public std::runtime_error {
 public:
  // `status`: of HTTP. `param`: the field that is meant, `code`: for programs; either may be empty.
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string param_, code_;
};

}  // namespace specbound::server
