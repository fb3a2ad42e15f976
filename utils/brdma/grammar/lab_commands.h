// grammar/lab_commands.h - the rows of `brdma lab`, a part of grammar/objects.cc alone.
#pragma once

#include <array>

#include "grammar/table.h"

namespace brdma::grammar {

inline constexpr Option kLabName{"--name", "LAB", "the lab; default: lab, or that of the host"};
inline constexpr std::array kNameOnly{kLabName};
inline constexpr std::array kPairOptions{
    kLabName,
    Option{"--wait", "SECONDS", "until the server must listen, 0 to 3600; default 5"},
    Option{"--topology", "NAME|FILE", "several switches, with hosts at each"},
    Option{"--controller", "unix:PATH|ADDRESS:PORT",
           "of the switches and hosts of a topology (docs/explanation/wan.md)"},
    Option{"--controller-key", "FILE", "with --controller: the file of keys"},
};
inline constexpr std::array kUpOptions{
    kLabName,
    Option{"--hosts", "N", "1 to 64; default 2"},
    Option{"--topology", "NAME|FILE", "several switches, with hosts at each"},
    Option{"--controller", "unix:PATH|ADDRESS:PORT",
           "of the switches and hosts of a topology (docs/explanation/wan.md)"},
    Option{"--controller-key", "FILE", "with --controller: the file of keys"},
};
inline constexpr std::array kLabTopOptions{
    kLabName,
    Option{"--interval", "MS", "milliseconds between two samples, 10 to 3600000; default 1000"},
    Option{"--count", "N", "ends after so many"},
};
inline constexpr std::array kLab{
    Command{"help", "", "this text"},
    Command{"pair", "[NETWORK] [--wait SECONDS] -- PROGRAM [ARGUMENT ...]", "server on h1, client on h2, then tables",
            kPairOptions, kNetworkOptions | kSettingOptions},
    Command{"up", "[--hosts N | --topology NAME|FILE] [NETWORK]", "hosts h1, h2, ... at 10.77.0.1.. and fd77::1..",
            kUpOptions, kNetworkOptions},
    Command{"exec", "HOST [--] PROGRAM [ARGUMENT ...]", "runs a program there that sees the devices", kNameOnly,
            kNetworkOptions | kSettingOptions, 1},
    Command{"rsh", "[-n|-q|-T|-x] [-l USER] HOST COMMAND ...", "a remote shell for launchers (mpirun); also on a host",
            kNameOnly, 0, 1},
    Command{"set", "NETWORK", "changes the network while it runs", kNameOnly, kNetworkOptions},
    Command{"show", "", "counters of the network, and how the hosts recovered", kNameOnly},
    Command{"down", "", "ends the lab and all in it", kNameOnly},
    Command{"list", "", "the labs that run"},
    Command{"top", "", "the queues of its switch, live", kLabTopOptions},
    Command{"link", "LINK up|down", "cuts a link of a topology while traffic runs, or restores it", kNameOnly},
    Command{"link", "LINK set NETWORK", "changes it", kNameOnly, kNetworkOptions},
    Command{"route", "SWITCH add|replace PREFIX via PORT[,PORT...]", "a route of a topology's switch", kNameOnly},
    Command{"route", "SWITCH del PREFIX", "removes it", kNameOnly},
};
inline constexpr std::string_view kLabProse =
    "Hosts are network namespaces, joined by a switch with configurable loss, reordering, delay and queues. Without a "
    "NETWORK the hosts are joined directly, as fast as the kernel goes.";

}  // namespace brdma::grammar
