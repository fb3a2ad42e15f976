// fabric/network.h - NETWORK: the links between hosts of a lab or a simulated world, and its text form, the same on the
// command line (`--loss 1%`), on the switch's control socket and in scenario files (`loss=1%`).
//   chance   1%  0.05%  20ppm  0            parts per million, at most 100 %
//   time     50us  1.5ms  200ns  0          at most 10 s (jitter: 1 s)
//   rate     10gbit  2.5gbit  100mbit  off  decimal multiples of bit/s, 8 kbit .. 400 gbit; uplink: same, too
//   packet rate  2mpps  500kpps  off        packets a second, 1 kpps .. 16 gpps
//   size     256kb  1mb  1500               bytes; kb and mb are 1024 and 1024^2
//   chances  0,0,5%                         of the first path, the second, ...; those not named 0
//   curve    20kb,80kb,10%                  none below the first value, this chance just below the second, all from
//                                           there; of length, delay or occupancy: fabric/marking_text.h
//   classes  strict,4,1                     of traffic, the first served first; else weights
//   dscp     46=0,26=1                      which class has which DSCP; all others the last
//   ecn-to-rtt  200us,rule=fixed            fabric/switch/mark_translation.h
// Units must be given, save for 0: a bare 1 for one per cent would be read as one in a million by someone else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "fabric/link.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/link_state_limits.h"
#include "fabric/switch/mark_translation.h"
#include "fabric/switch/shared_buffer.h"

namespace brdma::fabric {

enum class Impaired : std::uint8_t {
  kRoce,  // faults apply to UDP port 4791 only, not to TCP hand-shakes of test programs (the default)
  kAll,   // every IP packet but neighbour discovery
};

// The link from a host to the switch: no faults, no delay, the link's queue length.
struct UplinkConfig {
  bool same = true;                 // the link's rate
  std::optional<Bandwidth> rate{};  // else this one; none: it takes no time, and queues form only before receivers
  friend bool operator==(const UplinkConfig&, const UplinkConfig&) = default;
};

struct NetworkConfig {
  LinkConfig link;  // from the switch to each host
  UplinkConfig uplink{};
  Impaired impaired = Impaired::kRoce;
  EdnForm edn = EdnForm::kOff;                  // the switch notifies senders of its drops (design DN-8)
  SharedBufferConfig buffer{};                  // shared by the queues towards the hosts
  std::optional<std::uint64_t> switch_rate{};   // packets a second that each switch can process (design WT-8)
  std::optional<MarkTranslation> ecn_to_rtt{};  // marks become round-trip time (design ER-17)
  std::optional<LinkStateLimits> link_state{};  // a topology's switches answer inquiries and report (design WT-7)
  std::uint32_t mtu = 4096;                     // path MTU of a RoCE device: 1024, 2048 or 4096
  std::uint64_t seed = 1;
  // Rate and queue of the link to the switch. The switch's faults do not apply to it.
  [[nodiscard]] LinkConfig uplink_config() const {
    return {.rate = uplink.same ? link.rate : uplink.rate, .queue_bytes = link.queue_bytes};
  }
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

struct NetworkOption {
  std::string_view name;   // "burst-loss": after two dashes on the command line
  std::string_view value;  // its value, for help texts: "P,LEN"
  std::string_view help;
  bool live;  // may change while the lab is up
};
[[nodiscard]] std::span<const NetworkOption> network_options();

// Sets one option. The error names the fault and a right value; the config is then unchanged.
[[nodiscard]] std::optional<std::string> set_option(NetworkConfig& config, std::string_view name,
                                                    std::string_view value);
// Settings that cannot take effect, as a sentence: a queue length has no effect where no queue forms.
[[nodiscard]] std::optional<std::string> check_network(const NetworkConfig& config);
// The option's value in the form that set_option takes. Precondition: `name` is one of network_options().
[[nodiscard]] std::string get_option(const NetworkConfig& config, std::string_view name);

// The increments of a switch with so many ports of this rate. Nothing: no translation, or D is to be computed and the
// ports have no rate: no queue forms there. Memory for D: the shared buffer; without one all ports' queues.
[[nodiscard]] std::optional<IncrementConfig> increment_of(const NetworkConfig& config, std::uint32_t ports,
                                                          const std::optional<Bandwidth>& rate);

// "delay=5us;rate=25gbit": every option but the seed that is not at its default, in the order of network_options(). Two
// networks with the same text are the same.
[[nodiscard]] std::string network_text(const NetworkConfig& config);

// The interface's MTU for a RoCE path MTU: the payload, our and RoCE's longest headers, and IPv6.
[[nodiscard]] std::uint32_t interface_mtu(std::uint32_t path_mtu);

}  // namespace brdma::fabric
