// qp/shared/link_findings.h - results of inquiries about links (qp/inquiry/link_inquiry.cc), for the engine and the
// controller.
#pragma once

#include "base/ip_address.h"
#include "base/ring.h"
#include "recovery/link_inquiry.h"

namespace brdma::qp {

struct LinkFindings {
  Ring<IpAddress> congested_peers{};  // behind too many congested links
  Ring<recovery::LinkReport> reports{};
};

}  // namespace brdma::qp
