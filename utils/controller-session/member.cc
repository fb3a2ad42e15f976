#include "controller-session/member.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace brdma::session {
namespace {

using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kRetryMin{100}, kRetryMax{2000};

const std::pair<const std::string, Key>& only(const Keys& keys) {
  if (keys.size() != 1) throw std::runtime_error("a member's key file has one key, its own");
  return *keys.begin();
}

}  // namespace

Member::Member(asio::io_context& context, const std::string& controller, const Keys& keys, Handlers handlers)
    : context_(context),
      endpoint_(parse_endpoint(controller)),
      secure_(only(keys).first, only(keys).second),
      handlers_(std::move(handlers)),
      retry_(context),
      wait_(kRetryMin) {}

Member::~Member() {
  *living_ = false;
  if (stream_) stream_->abandon();
}

void Member::connect() {
  connecting_ = std::make_unique<Protocol::socket>(context_);
  connecting_->async_connect(endpoint_, [this, living = living_](ErrorCode error) {
    if (!*living) return;
    if (error) return ended(error.message());
    opened(std::move(*connecting_));
  });
}

void Member::opened(Protocol::socket socket) {
  stream_ = std::make_shared<SecureStream>(std::move(socket), secure_);
  stream_->start({[this, living = living_](const std::string&) {
                    if (*living) stream_->send(handlers_.greeting());
                  },
                  [this, living = living_](Message message) {
                    if (*living) received(std::move(message));
                  },
                  [this, living = living_](const std::string& reason) {
                    if (*living) ended(reason);
                  }});
}

void Member::received(Message message) {
  if (std::holds_alternative<Welcome>(message)) {
    wait_ = kRetryMin;
    if (!std::exchange(welcomed_, true)) handlers_.changed(true, "");
  } else if (welcomed_) {
    handlers_.received(message);
  }
}

void Member::ended(const std::string& reason) {
  stream_.reset();
  if (std::exchange(welcomed_, false)) handlers_.changed(false, reason);
  retry_.expires_after(wait_);
  wait_ = std::min(wait_ * 2, kRetryMax);
  retry_.async_wait([this, living = living_](ErrorCode error) {
    if (!error && *living) connect();
  });
}

void Member::send(const Message& message) {
  if (welcomed_) stream_->send(message);
}

void Member::renew(const std::string& reason) {
  if (const auto stream = stream_) stream->close(reason);
}

}  // namespace brdma::session
