#include "verbs/verbs.h"

namespace brdma::provider {

void fill_operations(abi::OpTable& ops) {
  for_each_operation([&ops](std::string_view name, auto* function) { ops.set(name, function); });
}

}  // namespace brdma::provider
