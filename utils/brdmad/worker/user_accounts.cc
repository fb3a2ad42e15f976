#include "worker/user_accounts.h"

#include <algorithm>

namespace brdma::daemon {
namespace {

constexpr std::size_t kAccountsMax = 4096;  // then those of users without a connection are dropped
// A user with a fifth of the time earns a second in five.
constexpr std::chrono::seconds kDebtMax{1};
constexpr int kOneEarnsIn = 5, kAllEarnThreeIn = 5;

}  // namespace

UserAccounts::Account& UserAccounts::of(std::uint32_t uid) {
  if (accounts_.size() >= kAccountsMax && !accounts_.contains(uid)) {
    std::erase_if(accounts_, [](const auto& entry) {
      const Account& account = entry.second;
      return account.connections == 0 && account.bytes == 0 && account.questions == 0;
    });
  }
  return accounts_[uid];
}

bool UserAccounts::admit(std::uint32_t uid, bool served) {
  Account& account = of(uid);
  if (limited(uid)) {
    const std::size_t most = served ? quotas_.connections : quotas_.connections_of_stranger;
    if (account.connections >= most || all_.connections >= quotas_.connections_of_all) return false;
    ++all_.connections;
  }
  ++account.connections;
  return true;
}

void UserAccounts::leave(std::uint32_t uid) {
  --of(uid).connections;
  if (limited(uid)) --all_.connections;
}

bool UserAccounts::hold(std::uint32_t uid, std::size_t bytes) {
  Account& account = of(uid);
  const bool bounded = limited(uid);
  if (account.bytes + bytes > (bounded ? kBytesMax : kOwnBytesMax)) return false;
  if (bounded && all_.bytes + bytes > kBytesOfAll) return false;
  account.bytes += bytes;
  if (bounded) all_.bytes += bytes;
  return true;
}

void UserAccounts::release(std::uint32_t uid, std::size_t bytes) {
  if (bytes == 0) return;
  of(uid).bytes -= bytes;
  if (limited(uid)) all_.bytes -= bytes;
}

bool UserAccounts::begin_question(std::uint32_t uid) {
  Account& account = of(uid);
  if (limited(uid) && account.questions >= kQuestionsMax) return false;
  ++account.questions;
  return true;
}

void UserAccounts::end_question(std::uint32_t uid) { --of(uid).questions; }

void UserAccounts::spend(std::uint32_t uid, Clock::duration time, Clock::time_point now) {
  if (!limited(uid)) return;
  const auto pay = [now](Account& account, Clock::duration earned_in) {
    account.paid_until = std::min(std::max(account.paid_until, now) + earned_in, now + kDebtMax);
  };
  // A user that has to wait may still open connections: only its own account pays for them, so that others need not
  // wait.
  Account& own = of(uid);
  const bool waits = own.paid_until > now + kBurst * kOneEarnsIn;
  pay(own, time * kOneEarnsIn);
  if (!waits) pay(all_, time * kAllEarnThreeIn / 3);
}

UserAccounts::Clock::duration UserAccounts::pause(std::uint32_t uid, Clock::time_point now) const {
  if (!limited(uid)) return {};
  const auto left = [now](const Account& account, Clock::duration at_once) {
    return std::max(account.paid_until - now - at_once, Clock::duration{});
  };
  const auto own = accounts_.find(uid);
  const auto of_one = own == accounts_.end() ? Clock::duration{} : left(own->second, kBurst * kOneEarnsIn);
  return std::max(of_one, left(all_, kBurst * kAllEarnThreeIn / 3));
}

}  // namespace brdma::daemon
