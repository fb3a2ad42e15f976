// base/function_ref.h - a reference to a callable, for the parameter of a function that calls it and keeps nothing:
// std::function_ref of C++26, for objects alone. Two words, no allocation. What it refers to outlives the call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace brdma {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_object_v<std::remove_reference_t<Callable>> &&
           std::is_invocable_r_v<Result, Callable&, Arguments...>)
      FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor): lambdas are passed as they are
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Arguments... arguments) -> Result {
          return static_cast<Result>(
              (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Arguments>(arguments)...));
        }) {}
  Result operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace brdma
