// rights/rights.h - what this process may do about namespaces, by its capabilities and not by its user: root of a
// container has few of them, and a service may have them without being root.
#pragma once

#include <cstdint>
#include <string>

namespace brdma {

// Capabilities of the calling thread, a bit each (capabilities(7)).
struct CapabilitySets {
  std::uint64_t effective = 0;
  std::uint64_t ambient = 0;  // kept by exec without being root
};
[[nodiscard]] CapabilitySets own_capabilities();

// Whether a lab can be made without a user namespace: SYS_ADMIN (namespaces, mounts), NET_ADMIN (links) and NET_RAW
// (the switch's packet sockets) are effective, and the programs that it starts keep them: root's do, or they are
// ambient.
[[nodiscard]] bool can_make_lab_directly(const CapabilitySets& sets, bool is_root);

// Whether this user can be mapped into a user namespace that it makes: root needs SETFCAP for that (Linux 5.12), other
// users need nothing. Asked before the namespace is made: inside, all capabilities are there.
[[nodiscard]] bool can_map_itself(const CapabilitySets& sets, bool is_root);
// The next step where the kernel has refused that map.
[[nodiscard]] std::string cure_for_no_map(bool could_map_itself);

// Why namespaces are refused to this process, and the next step: what forbids them decides. `error`: of clone or
// unshare with a user namespace.
[[nodiscard]] std::string cure_for_no_namespaces(int error);

// The same as a pure function of the facts.
struct NamespaceFacts {
  int error = 0;
  bool filtered = false;   // a seccomp filter is in force
  std::string forbidding;  // "sysctl KEY=VALUE" that would allow user namespaces; "": none forbids them
};
[[nodiscard]] std::string cure_for_no_namespaces(const NamespaceFacts& facts);

}  // namespace brdma
