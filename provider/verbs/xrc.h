// verbs/xrc.h - domains of extended reliable connections (IBTA annex A14), and what belongs to them. A domain is known
// by the inode of a file, within this process: processes do not share one, since each has its own engine.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "abi/abi.h"
#include "bitmaprdma/types.h"

namespace brdma::provider {

class OpenDevice;

struct XrcDomain {
  std::uint16_t number = 0;  // of the process, 0: none
  std::size_t shard = 0;     // of its queue pairs and shared receive queues
  const void* device = nullptr;
  bool has_file = false;  // else it is of one handle alone
  dev_t file_system = 0;
  ino_t inode = 0;
};

struct XrcDomainObject {
  union {
    ibv_xrcd xrcd;
    std::byte reserve[abi::kObjectReserve];
  } core{.reserve = {}};
  std::shared_ptr<const XrcDomain> domain;
  std::uint32_t users = 0;  // made by this handle; SharedDevice::objects() held
};
inline XrcDomainObject& object_of(ibv_xrcd* xrcd) { return *reinterpret_cast<XrcDomainObject*>(xrcd); }

namespace verbs {

// The half of an XRC connection that this type of queue pair is.
[[nodiscard]] inline XrcRole xrc_role(ibv_qp_type type) {
  if (type == IBV_QPT_XRC_SEND) return XrcRole::kInitiator;
  return type == IBV_QPT_XRC_RECV ? XrcRole::kTarget : XrcRole::kNone;
}

}  // namespace verbs
}  // namespace brdma::provider
