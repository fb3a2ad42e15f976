#include "control/json_text.h"

#include <nlohmann/json.hpp>
#include <string>

namespace brdma::control {
namespace {

using Json = nlohmann::ordered_json;

// Checks only; the parser stops where it returns false.
class Bounds final : public nlohmann::json_sax<Json> {
 public:
  explicit Bounds(const JsonLimits& limits) : limits_(limits) {}
  bool null() override { return value(); }
  bool boolean(bool /*is*/) override { return value(); }
  bool number_integer(number_integer_t /*is*/) override { return value(); }
  bool number_unsigned(number_unsigned_t /*is*/) override { return value(); }
  bool number_float(number_float_t /*is*/, const string_t& /*text*/) override { return value(); }
  bool string(string_t& /*is*/) override { return value(); }
  bool binary(binary_t& /*is*/) override { return false; }
  bool key(string_t& /*is*/) override { return value(); }
  bool start_object(std::size_t /*elements*/) override { return begin(); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t /*elements*/) override { return begin(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  bool value() { return ++values_ <= limits_.values_max; }
  bool begin() { return ++depth_ <= limits_.depth_max && value(); }
  bool end() {
    --depth_;
    return true;
  }

  JsonLimits limits_;
  unsigned depth_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const JsonLimits& limits) {
  Bounds bounds{limits};
  if (text.size() > limits.bytes_max || !Json::sax_parse(text, &bounds)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace brdma::control
