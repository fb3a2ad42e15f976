// grammar/sim_commands.h - the rows of `brdma sim`, for grammar/objects.cc and for the program brdma-sim, whose command
// line is made from them.
#pragma once

#include <array>

#include "grammar/rows.h"

namespace brdma::grammar {

inline constexpr Option kSimOutput{"-o, --output", "DIR", "the results' folder: flows.tsv, summary.json, flows.svg"};
inline constexpr Option kSimSet{"--set", "KEY=VALUE",
                                "a value in place of the file's, such as workload.load=0.7; again for others"};
inline constexpr std::array kSimRunOptions{
    Option{"--seed", "N", "of every random decision; default: the file's, or 1"},
    kSimOutput,
    kSimSet,
};
inline constexpr std::array kSimSweepOptions{
    Option{"--loads", "LIST", "loads such as 0.1..0.9, 0.1..0.9/0.2 (with its step) or 0.3,0.5; default: the file's"},
    Option{"--seeds", "LIST", "seeds such as 1..10 or 1,5; default: the file's"},
    Option{"--each", "KEY=V,V", "further values to combine, such as protocol.name=bitmap,gobackn; again for others"},
    Option{"--jobs", "N", "points at the same time, 1 to 1024; default: one a core"},
    Option{"--part", "K/N",
           "only the K-th of N parts of the points; default: the place among MPI ranks or in a Slurm array"},
    kSimOutput,
    kSimSet,
};
inline constexpr std::array kSim{
    Command{"run", "SCENARIO [--seed N] [-o DIR] [--set KEY=VALUE] ...", "simulates the file's network and flows once",
            kSimRunOptions},
    Command{"sweep",
            "SCENARIO -o DIR [--loads LIST] [--seeds LIST] [--each KEY=V,V] ... [--jobs N] [--part K/N] [--set "
            "KEY=VALUE] ...",
            "runs one process for each point that is not done yet, then merges all", kSimSweepOptions},
};

}  // namespace brdma::grammar
