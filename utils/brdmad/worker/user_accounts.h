// brdmad/worker/user_accounts.h - each user's current use of the worker: connections, memory for input and answers,
// pending questions, and the worker's time. A user that has spent too much waits; the others do not. The daemon's own
// user and root are not limited.
//
//   connections   Quotas
//   memory        kBytesMax of one user, kBytesOfAll of all that are limited
//   questions     that wait for programs or events: kQuestionsMax of one user
//   time          a fifth of the worker's, three fifths of all that are limited together; kBurst at once
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "worker/quotas.h"

namespace brdma::daemon {

class UserAccounts {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kBytesMax = 12u << 20, kBytesOfAll = 24u << 20;
  static constexpr std::size_t kOwnBytesMax = 256u << 20;
  static constexpr unsigned kQuestionsMax = 4;
  static constexpr std::chrono::milliseconds kBurst{20};

  UserAccounts(const Quotas& quotas, std::uint32_t own) : quotas_(quotas), own_(own) {}

  // One connection more, and one fewer. False: limit reached.
  [[nodiscard]] bool admit(std::uint32_t uid, bool served);
  void leave(std::uint32_t uid);

  // False: the limit does not allow so many bytes more.
  [[nodiscard]] bool hold(std::uint32_t uid, std::size_t bytes);
  void release(std::uint32_t uid, std::size_t bytes);

  [[nodiscard]] bool begin_question(std::uint32_t uid);
  void end_question(std::uint32_t uid);

  void spend(std::uint32_t uid, Clock::duration time, Clock::time_point now);
  // How long to read nothing of that user. Zero: continue.
  [[nodiscard]] Clock::duration pause(std::uint32_t uid, Clock::time_point now) const;

  [[nodiscard]] bool limited(std::uint32_t uid) const { return has_quota(uid, own_); }

 private:
  struct Account {
    std::size_t connections = 0, bytes = 0;
    unsigned questions = 0;
    Clock::time_point paid_until{};  // time spent, plus the time that it takes to earn it
  };
  Account& of(std::uint32_t uid);

  Quotas quotas_;
  std::uint32_t own_;
  std::map<std::uint32_t, Account> accounts_;
  Account all_;  // of all limited users
};

// Time that is being spent on a user, as long as this lives.
class WorkFor {
 public:
  WorkFor(UserAccounts& accounts, std::uint32_t uid)
      : accounts_(accounts), uid_(uid), begin_(UserAccounts::Clock::now()) {}
  ~WorkFor() {
    const auto now = UserAccounts::Clock::now();
    accounts_.spend(uid_, now - begin_ + kAround, now);
  }
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;

 private:
  static constexpr std::chrono::microseconds kAround{20};  // the system's own time for it
  UserAccounts& accounts_;
  std::uint32_t uid_;
  UserAccounts::Clock::time_point begin_;
};

// Memory that is held for a user, as long as this lives.
class BytesFor {
 public:
  BytesFor(UserAccounts& accounts, std::uint32_t uid) : accounts_(&accounts), uid_(uid) {}
  ~BytesFor() { accounts_->release(uid_, bytes_); }
  BytesFor(BytesFor&& other) noexcept
      : accounts_(other.accounts_), uid_(other.uid_), bytes_(std::exchange(other.bytes_, 0)) {}
  BytesFor& operator=(BytesFor&&) = delete;

  // False: over the limit; the bytes held before stay held.
  [[nodiscard]] bool set(std::size_t bytes) {
    if (bytes > bytes_ && !accounts_->hold(uid_, bytes - bytes_)) return false;
    if (bytes < bytes_) accounts_->release(uid_, bytes_ - bytes);
    bytes_ = bytes;
    return true;
  }
  [[nodiscard]] bool add(std::size_t bytes) { return set(bytes_ + bytes); }

 private:
  UserAccounts* accounts_;
  std::uint32_t uid_;
  std::size_t bytes_ = 0;
};

}  // namespace brdma::daemon
