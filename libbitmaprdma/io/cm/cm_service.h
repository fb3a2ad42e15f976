// io/cm/cm_service.h - RDMA-CM of this process: the identifiers (cm/rdma_cm.h), their connection to brdmad, and a
// thread that waits for messages and deadlines. The thread sleeps while nothing happens; all signals are blocked in it.
//
// Thread-safety: any. Session is the lock; outgoing messages of RdmaCm's calls leave when it ends. fork(): a child has
// no such thread and must not use its parent's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cm/rdma_cm.h"
#include "io/cm/cm_link.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

// Callbacks to the owner. Called with the service's lock held: must not call back.
struct CmServiceHost {
  virtual ~CmServiceHost() = default;
  // As cm::RdmaHost has it.
  virtual std::optional<cm::LocalDevice> device_of(const IpAddress& local, std::uint32_t scope) = 0;
  virtual void event_added(cm::ChannelNumber channel) = 0;
  virtual std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count) = 0;
};

class CmService final : private cm::RdmaHost {
 public:
  // Errors as acquire_lease() has them; EAGAIN no thread.
  static Result<std::unique_ptr<CmService>, ContextError> start(CmServiceHost& host);
  // Destroys every identifier and notifies peers.
  ~CmService() override;
  // The same for a program that ends, with threads that may still be in here. Does nothing when the lock is not soon
  // available: exit() may have been called anywhere.
  void leave();

  class Session {
   public:
    explicit Session(CmService& service);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    cm::RdmaCm* operator->() { return &*service_.cm_; }
    [[nodiscard]] Instant now() const { return now_; }

   private:
    CmService& service_;
    std::unique_lock<std::timed_mutex> lock_;
    Instant now_;
  };

 private:
  explicit CmService(CmServiceHost& host) : host_(host) {}
  void run();
  bool handle(const std::vector<CmFrame>& frames, int& timeout_ms);
  void sleep(int timeout_ms);
  void wake() const;
  void send_all();
  void tell_counters();

  Result<std::uint16_t, Status> take_port(wire::PortSpace space, const cm::SocketAddress& address,
                                          const cm::PortOptions& options) override;
  Status listen_port(wire::PortSpace space, const cm::SocketAddress& address) override;
  void release_port(wire::PortSpace space, const cm::SocketAddress& address, bool listening) override;
  bool lost_ports() override;
  Result<IpAddress, Status> source_for(const cm::SocketAddress& destination) override;
  std::optional<cm::LocalDevice> device_of(const IpAddress& local, std::uint32_t scope) override {
    return host_.device_of(local, scope);
  }
  void event_added(cm::ChannelNumber channel) override { host_.event_added(channel); }
  std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count) override {
    return host_.take_back_events(channel, count);
  }

  CmServiceHost& host_;
  CmLink link_;
  std::timed_mutex mutex_;
  std::optional<cm::RdmaCm> cm_;
  cm::Counters told_;  // counters last reported to brdmad
  bool stop_ = false;
  std::optional<Instant> armed_;  // deadline of the sleeping thread
  FileDescriptor wake_;
  std::thread thread_;
};

}  // namespace brdma::io
