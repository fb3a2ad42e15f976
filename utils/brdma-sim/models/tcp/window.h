// models/tcp/window.h - congestion windows of TCP, in bytes. Policies: they decide, the sender acts.
// Reno: RFC 5681 section 3.1.
//   below ssthresh: + min(acked, SMSS) per ACK; else + SMSS * SMSS / cwnd (1 byte at the smallest)
//   loss: ssthresh = cwnd = max(flight / 2, 2 SMSS);  timeout: the same ssthresh, cwnd = SMSS
//   A further timeout of the same segment keeps ssthresh.
// CUBIC: RFC 9438 sections 4.1 to 4.8; segments and seconds in its formulas.
//   W(t) = C (t - K)^3 + Wmax, K = cbrt((Wmax - cwnd at the epoch's start) / C), C = 0.4, beta = 0.7
//   below West: cwnd = West (Reno-friendly), which grows by alpha / cwnd per segment, alpha = 3 (1 - beta) / (1 + beta)
//   = 0.529, and 1 once West is at the window before the loss; else + (target - cwnd) / cwnd with target = W(t + RTT)
//   within [cwnd, 1.5 cwnd]. Fast convergence: a loss below Wmax lets Wmax = cwnd (1 + beta) / 2.
// Worked: Wmax 100 segments, loss at 100: cwnd 70, K = cbrt(30 / 0.4) = 4.217 s.
#pragma once

#include <limits>
#include <memory>
#include <optional>

#include "models/tcp/settings.h"

namespace brdma::models::tcp {

class Window {
 public:
  virtual ~Window() = default;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  // acked > 0 bytes, outside of fast recovery.
  virtual void on_ack(std::uint64_t acked, Duration rtt, Instant now) = 0;
  // flight: bytes, at most the window.
  virtual void on_loss(std::uint64_t flight, Instant now) = 0;
  // repeated: the timer expired before since the last acknowledgement.
  virtual void on_timeout(std::uint64_t flight, bool repeated) = 0;
};

class RenoWindow final : public Window {
 public:
  explicit RenoWindow(const Settings& settings);
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
  void on_ack(std::uint64_t acked, Duration rtt, Instant now) override;
  void on_loss(std::uint64_t flight, Instant now) override;
  void on_timeout(std::uint64_t flight, bool repeated) override;
  [[nodiscard]] std::uint64_t ssthresh() const { return ssthresh_; }

 private:
  std::uint64_t segment_;
  std::uint64_t bytes_;
  std::uint64_t ssthresh_ = std::numeric_limits<std::uint64_t>::max();
};

class CubicWindow final : public Window {
 public:
  static constexpr double kC = 0.4;
  static constexpr double kBeta = 0.7;
  static constexpr double kAlpha = 3 * (1 - kBeta) / (1 + kBeta);

  explicit CubicWindow(const Settings& settings);
  [[nodiscard]] std::uint64_t bytes() const override;
  void on_ack(std::uint64_t acked, Duration rtt, Instant now) override;
  void on_loss(std::uint64_t flight, Instant now) override;
  void on_timeout(std::uint64_t flight, bool repeated) override;
  [[nodiscard]] double k() const { return k_; }          // seconds
  [[nodiscard]] double w_max() const { return w_max_; }  // segments
  [[nodiscard]] double cubic(double seconds) const;      // W(t), segments

 private:
  void reduce(std::uint64_t flight);
  void begin_epoch(Instant now);

  double segment_;
  double window_;  // segments, as all below
  double ssthresh_ = std::numeric_limits<double>::infinity();
  double w_max_ = 0;
  double w_est_ = 0;
  double prior_ = 0;  // the window before the last reduction
  double k_ = 0;
  std::optional<Instant> epoch_;  // the first ACK in congestion avoidance since the last reduction
};

[[nodiscard]] std::unique_ptr<Window> make_window(const Settings& settings);

}  // namespace brdma::models::tcp
