# The libraries of the programs, and the oldest versions with which this tree was built (docs/reference/systems.md). All missing
# ones are named at once: the library, its version, Debian's package. Targets made here are visible in every folder.
set(missing "")

function(brdma_missing what package)
  string(APPEND missing "\n  ${what}  (Debian's package: ${package})")
  set(missing "${missing}" PARENT_SCOPE)
endfunction()

if((CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11) OR
   (CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  brdma_missing("g++ 11 or clang++ 14 (here: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})" g++)
endif()

# Libraries that pkg-config knows: PREFIX (of the target PkgConfig::PREFIX), module, least version, name, package.
find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
  brdma_missing("pkg-config" pkg-config)
endif()
function(brdma_module prefix module version what package)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${prefix} IMPORTED_TARGET GLOBAL QUIET "${module}>=${version}")
  endif()
  if(NOT ${prefix}_FOUND)
    brdma_missing("${what} ${version}" ${package})
    set(missing "${missing}" PARENT_SCOPE)
  endif()
endfunction()
brdma_module(ISAL libisal 2.30 "ISA-L" libisal-dev)
brdma_module(LIBDEFLATE libdeflate 1.10 "libdeflate" libdeflate-dev)
brdma_module(LIBNL libnl-genl-3.0 3.5 "libnl, with generic netlink" libnl-genl-3-dev)
brdma_module(LIBBPF libbpf 0.5 "libbpf" libbpf-dev)
brdma_module(IBVERBS libibverbs 1.14.39 "rdma-core's libibverbs" libibverbs-dev)
brdma_module(RDMACM librdmacm 1.3.39 "rdma-core's librdmacm" librdmacm-dev)

# Without it brdmad is not confined to the system calls that it makes (utils/brdmad/process/system_calls.h), and logs so.
if(PKG_CONFIG_FOUND)
  pkg_check_modules(SECCOMP IMPORTED_TARGET GLOBAL QUIET "libseccomp>=2.5")
endif()

# Without it there is no brdma-metrics (utils/brdma-metrics); `brdma system show` reports that. Not on Ubuntu 22.04.
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PROMETHEUS IMPORTED_TARGET GLOBAL QUIET "prometheus-cpp-core>=1.0")
endif()

# Libraries with a CMake package.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost brings its own package
endif()
macro(brdma_package name version what package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND OR (${name}_VERSION AND ${name}_VERSION VERSION_LESS ${version}))
    brdma_missing("${what} ${version}" ${package})
  endif()
endmacro()
brdma_package(Threads 0 "threads of the C library" libc6-dev)
brdma_package(Boost 1.74 "Boost, headers alone" libboost-dev)
brdma_package(CLI11 2.1 "CLI11" libcli11-dev)
brdma_package(spdlog 1.9 "spdlog" libspdlog-dev)
brdma_package(nlohmann_json 3.10 "JSON for Modern C++ (nlohmann)" nlohmann-json3-dev)
brdma_package(OpenSSL 3.0 "OpenSSL" libssl-dev)

# toml++ is a header.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  brdma_missing("toml++ 3.3, a header: toml++/toml.h; Ubuntu 22.04 has no package, see docs/reference/systems.md" libtomlplusplus-dev)
else()
  add_library(brdma_toml INTERFACE)
  target_include_directories(brdma_toml SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
endif()

if(BRDMA_TESTS)
  brdma_package(GTest 1.11 "GoogleTest and GoogleMock" "libgtest-dev libgmock-dev")
endif()

if(missing)
  message(FATAL_ERROR "Missing, each with the least version:${missing}\n")
endif()
