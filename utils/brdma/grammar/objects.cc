// The rows of the table, all but those of `lab` (lab_commands.h).

#include <array>

#include "grammar/lab_commands.h"
#include "grammar/more.h"
#include "grammar/sim_commands.h"
#include "grammar/table.h"

namespace brdma::grammar {
namespace {

constexpr std::array kCommon{
    Option{"-j, --json", "", "JSON: an array of objects. New versions may add keys, never remove one"},
    Option{"-p, --pretty", "", "the same over several lines"},
    Option{"-d, --details", "", "everything, zeroes too; -dd: still more where there is more"},
    Option{"-o, --columns", "KEY,KEY", "these keys only: a table, or with -j objects that have no others"},
    Option{"-h, --help", "", "help for the words that stand before and behind it"},
    Option{"-V, --version", "", "the version"},
};

constexpr std::array kDev{Command{"show", "[DEV]", "the devices of this network namespace"}};
constexpr std::array kLink{Command{"show", "[DEV]", "their ports; -d: MTU and speed too"}};
constexpr std::array kResource{
    Command{"show", "[dev DEV]", "how many objects programs use, for each device"},
    Command{"show ctx", "[dev DEV]", "the processes that have the device open"},
    Command{"show qp", "[dev DEV] [lqpn QPN] [KEY VALUE] ...", "queue pairs"},
    Command{"show cq", "[dev DEV] [KEY VALUE] ...", "completion queues"},
    Command{"show mr", "[dev DEV] [KEY VALUE] ...", "memory regions"},
    Command{"show gap", "[link DEV] [lqpn QPN] [KEY VALUE] ...", "packets that are missing now"},
    Command{"show duplicate", "[link DEV] [lqpn QPN] [KEY VALUE] ...", "the last packets that came twice"},
    Command{"show cm_id", "", "RDMA-CM's identifiers that have a port"},
};
constexpr std::array kShutdown{Option{"--force", "", "also while programs use it: they lose their device"}};
constexpr std::array kSystem{
    Command{"show", "", "versions, where the library is, the daemon"},
    Command{"show config", "", "every setting and the source of its value"},
    Command{"shutdown", "[--force]", "ends the brdmad of this network namespace", kShutdown},
};
constexpr std::array kStatistic{
    Command{"show", "[DEV]", "counters of each device since its brdmad started; -d: of each running process too"},
    Command{"show qp", "[dev DEV] [lqpn QPN]", "counters of each queue pair"},
    Command{"show cm", "", "messages of connection managers; -d: of each running process too"},
};
constexpr std::array kRecovery{
    Command{"show", "", "the settings that a program gets when it starts now"},
    Command{"show", "[dev DEV] [qp QPN]", "settings made at run time, and those of running programs"},
    Command{"show capabilities", "", "each setting: default, range, and what a change reaches"},
    Command{"set", "[dev DEV] [qp QPN] KEY VALUE ...", "changes them, at run time"},
    Command{"retransmit", "[dev DEV] qp QPN [psn PSN [packets N] | gap PSN | gaps]",
            "retransmits packets of a queue pair, or requests missing ones from its peer"},
};
constexpr std::array kCongestion{
    Command{"show", "", "the settings that a program gets when it starts now"},
    Command{"show", "[dev DEV] [qp QPN]", "settings made at run time, and those of running programs"},
    Command{"show capabilities", "", "each setting: default, range, and what a change reaches"},
    Command{"set", "[dev DEV] [qp QPN] KEY VALUE ...", "changes them, at run time"},
};
constexpr std::array kManaged{
    Command{"show", "[dev DEV]", "destinations to which running programs send less"},
    Command{"add", "ADDRESS [dev DEV]", "lowers the rate of the programs that send there"},
    Command{"remove", "ADDRESS [dev DEV]", "restores it at once"},
};
constexpr std::array kController{
    Command{"show", "[links|switches|prefixes|hosts|counters] [at @NAME]", "a summary, or each of them"},
    Command{"stop", "[at @NAME]", "ends it; switches keep their routes"},
};
constexpr std::array kEventOptions{
    Option{"-f, --follow", "",
           "events from now on, until interrupted; waits for programs and a brdmad that come later"},
    Option{"--since", "TIME", "those of the last 10s, 5m or 2h (the word since does the same)"},
};
constexpr std::array kEvent{
    Command{"show", "[-f] [dev DEV] [qp QPN] [since TIME] [TYPE ...]", "past events, with their time", kEventOptions},
};
constexpr std::array kAlarm{
    Command{"show", "", "values, thresholds, raised alarms"},
    Command{"set", "KEY VALUE ...", "changes thresholds, until brdmad ends"},
};
constexpr std::array kRunOptions{
    Option{"--namespace", "",
           "for programs that start others with an empty environment, and for static ones: the library and the device "
           "files are there for any environment, in a mount namespace (without root in a user namespace). Settings "
           "given here are variables: put those of such programs into /etc/bitmaprdma.toml"},
    Option{"--require", "",
           "exit code 1, and a sentence, if neither the program nor its children made a queue pair of this library: a "
           "program that falls back to TCP is caught"},
    Option{"--with-kernel-devices", "",
           "shows the kernel's own RDMA devices too. Without it, and without the setting device.kernel_devices, this "
           "library's devices alone are shown"},
};
constexpr std::array kRun{
    Command{"", "[--namespace] [--require] [--with-kernel-devices] [--SETTING VALUE] ... [--] PROGRAM [ARGUMENT ...]",
            "runs the program; returns its exit code", kRunOptions, kSettingOptions, 0},
};
constexpr std::array kEnv{Command{"", "", "prints the variables: eval \"$(brdma env)\""}};
constexpr std::array kCheckOptions{
    Option{"--listen", "", "serves measurements of peers, one at a time, until interrupted"},
    Option{"--once", "", "with --listen: one"},
    Option{"--port", "N", "TCP port for the start of a measurement, 18491 by default; data is RoCEv2 on UDP port 4791"},
};
constexpr std::array kCheck{
    Command{"", "[PEER] [--listen [--once]] [--port N] [-- PROGRAM]",
            "what programs see, what was chosen and why, what is wrong", kCheckOptions},
};
constexpr std::array kEnableOptions{
    Option{"--user", "", "of this user's systemd manager: environment.d in the user's configuration"},
    Option{"--service", "UNIT", "of one service of the system; with --user, of the user's manager"},
    Option{"--system", "", "of all users and services, and log-in shells"},
    Option{"--container", "DIR", "of a container's file tree: as --system, in DIR"},
    Option{"--root", "DIR", "acts on another file tree; show, too"},
    Option{"--all-programs", "",
           "with --system or --container: by /etc/ld.so.preload in place of variables. It reaches every program that "
           "glibc's "
           "loader starts, root's and set-user-ID ones too. Each start maps the library, which costs time "
           "(docs/howto/enable.md), and prints an error once the library is gone"},
    Option{"--library", "PATH", "the library, as seen inside the tree; default: this program's own"},
};
constexpr std::string_view kEnableArguments =
    "--user | [--user] --service UNIT | --system | --container DIR [--all-programs] [--root DIR] [--library PATH]";
constexpr std::array kEnable{
    Command{"show", "[--root DIR]", "what makes programs see the devices without brdma run, and from where",
            std::span{kEnableOptions}.subspan(4, 1)},
    Command{"", kEnableArguments, "writes that into configuration files", kEnableOptions},
};
constexpr std::array kDisable{
    Command{"", "--user | [--user] --service UNIT | --system | --container DIR [--root DIR]", "takes all of it back",
            std::span{kEnableOptions}.first(5)},
};
constexpr std::array kMetricsOptions{
    Option{"--queue-pairs", "", "counters of each queue pair, too"},
    Option{"--listen", "ADDRESS:PORT|unix:PATH", "where to answer; default: the setting metrics.listen"},
};
constexpr std::array kMetrics{
    Command{"show", "[--queue-pairs]", "counters of the host in Prometheus' text", std::span{kMetricsOptions}.first(1)},
    Command{"serve", "[--listen ADDRESS:PORT|unix:PATH] [--queue-pairs]", "answers Prometheus' scrapes until SIGTERM",
            kMetricsOptions},
};
constexpr std::array kPerf{
    Command{"",
            "server | write|read|send|atomic [bw|lat|rate|fct] [ADDRESS] [OPTION ...]",
            "measures it; brdma perf --help lists the options",
            {},
            kNoGroup,
            0,
            true},
};
constexpr std::array kSysdump{Command{"", "[FILE]", "writes what a report of a problem needs; without keys and data"}};
constexpr std::array kTopOptions{
    Option{"--interval", "MS", "milliseconds between two samples, 10 to 3600000; default 1000"},
    Option{"--count", "N", "ends after so many"},
    Option{"--once", "", "the same as --count 1"},
};
constexpr std::array kTop{
    Command{"", "[dev DEV] [qp QPN]", "rates, retransmissions, round trips, losses by cause, refreshed", kTopOptions},
};
constexpr std::array kCompletion{Command{"", "bash|zsh|fish", "prints the completion for that shell"}};
constexpr std::array kManualOptions{Option{"--into", "FOLDER", "writes every page there, as PAGE.8"}};
constexpr std::array kManual{
    Command{"", "[PAGE]", "prints the manual page, as roff; without PAGE: their names", kManualOptions}};
constexpr std::array kHelp{Command{"", "[OBJECT [COMMAND]]", "prints it; with -j the whole table"}};

constexpr std::array<std::string_view, 2> kRunExamples{"brdma run -- ibv_devinfo",
                                                       "brdma run --recovery gobackn -- ib_write_bw"};
constexpr std::array<std::string_view, 3> kCheckExamples{"brdma check", "brdma check 10.0.0.2",
                                                         "brdma check -- /usr/bin/ib_write_bw"};
constexpr std::array<std::string_view, 2> kResourceExamples{"brdma resource show qp state RTS",
                                                            "brdma resource show qp -o lqpn,peer,srtt_us"};
constexpr std::array<std::string_view, 2> kRecoveryExamples{"brdma recovery set dev brdma_eth0 depth_max 100",
                                                            "brdma recovery retransmit qp 0x123456 gaps"};
constexpr std::array<std::string_view, 2> kEventExamples{"brdma event since 10m gap_promoted",
                                                         "brdma event -f qp_state"};
constexpr std::array<std::string_view, 2> kTopExamples{"brdma top --interval 500", "brdma -j top --once"};
constexpr std::array<std::string_view, 2> kLabExamples{"brdma lab pair --loss 1% -- ib_write_bw -s 65536",
                                                       "brdma lab up --hosts 3 --delay 50us"};
constexpr std::array<std::string_view, 2> kSimExamples{
    "brdma sim run incast.toml -o result", "brdma sim sweep tree.toml --loads 0.1..0.9 --seeds 1..10 -o results"};
constexpr std::array<std::string_view, 1> kCompletionExamples{"eval \"$(brdma completion bash)\""};

constexpr std::array kObjects{
    Object{"dev", dev_object, "RDMA devices: one for each network interface that is up", kDev,
           "Without a DEV all are shown. -d adds GIDs, capabilities, and the datapath of each program."},
    Object{"link", link_object, "the ports of the devices", kLink},
    Object{"resource", resource_object, "queue pairs, memory regions and other objects of programs", kResource,
           "KEY VALUE keeps the rows that have it; KEY is one of those that -d shows.", kResourceExamples},
    Object{"system", system_object, "versions; every setting and its source; the daemon's end", kSystem},
    Object{"statistic", statistic_object, "counters of devices, processes, queue pairs and RDMA-CM", kStatistic,
           "On a terminal counters that are zero are left out; -d shows them."},
    Object{"recovery", recovery_object, "loss detection and recovery: show, set, retransmit", kRecovery,
           "The target of set is one queue pair (qp), the running and later programs of a device (dev), or, without "
           "either, every device. Keys are those of configuration files, with or without \"recovery.\".",
           kRecoveryExamples},
    Object{"congestion", congestion_object, "congestion control: window, TIMELY, DCQCN or none", kCongestion,
           "The targets are those of brdma recovery; keys with or without \"congestion.\"."},
    Object{"managed", managed_object, "destinations with a reduced rate, because links are congested", kManaged},
    Object{"controller", controller_object, "the controller of a wide-area network and its routes", kController,
           "NAME is the name that the controller listens at; default brdma-controller."},
    Object{"event", event_object, "events of programs, past ones and as they happen", kEvent,
           "With -j and -f each event is one object a line.", kEventExamples, &event_types},
    Object{"alarm", alarm_object, "thresholds and raised alarms", kAlarm, {}, {}, &alarm_keys},
    Object{
        "run", run_object, "runs a program that sees the devices", kRun,
        "Each setting is an option, named as its variable: BRDMA_AGE_MAX_US is --age-max-us. brdma system show config "
        "lists them.",
        kRunExamples},
    Object{
        "check", check_object, "which device, path and mode programs get, and what is wrong", kCheck,
        "Exit code 1 where an error is found.\n\n"
        "PEER is an address or name, where brdma check --listen runs: the path to it is measured in both directions. "
        "Behind -- stands a program: can it load the library?",
        kCheckExamples},
    Object{"sysdump", sysdump_object, "all that a report of a problem needs, in one text file", kSysdump,
           "Only you can read the file; FILE - is standard output. It has names and addresses of interfaces, processes "
           "that "
           "use devices, settings and counters."},
    Object{"enable", enable_object, "devices in sight without run, by configuration", kEnable,
           "Programs that are started later see the devices."},
    Object{"disable", disable_object, "takes that back", kDisable},
    Object{"metrics", metrics_object, "counters for Prometheus", kMetrics},
    Object{"env", env_object, "the same for a shell: eval \"$(brdma env)\"", kEnv},
    Object{"lab", lab_object, "hosts on this machine and a network that loses packets", kLab, kLabProse, kLabExamples,
           &network_options_text},
    Object{"top", top_object, "queue pairs live: rates, retransmissions, round trips, losses by cause", kTop,
           "Where the output is no terminal each sample is printed below the one before; with -j each is one object.",
           kTopExamples},
    Object{"perf", perf_object, "measures a device, any that libibverbs finds", kPerf,
           "It is the program brdma-perf. Where there is no verbs device, or with --ours, it runs under the library."},
    Object{
        "sim", sim_object, "simulates a network and flows from a scenario file", kSim,
        "It is the program brdma-sim, which has --help and --version, too. docs/howto/simulator.md describes scenarios "
        "and results.\n\n"
        "The points of a sweep are processes of their own. A point that is done is not repeated, so further machines "
        "and later calls continue where others ended.",
        kSimExamples},
    Object{"completion",
           completion_object,
           "completion of these words for bash, zsh and fish",
           kCompletion,
           {},
           kCompletionExamples},
    Object{"manual", manual_object, "the manual pages", kManual},
    Object{"help", help_object, "this list, or help for an object or command", kHelp},
};

}  // namespace

std::span<const Object> objects() { return kObjects; }
std::span<const Option> common_options() { return kCommon; }

}  // namespace brdma::grammar
