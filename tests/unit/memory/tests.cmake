brdma_unit_test(memory_table_test LINK brdma_memory)
brdma_unit_test(memory_copy_test LINK brdma_memory)
# Needs the handler of faults, which is io's.
brdma_unit_test(memory_guard_test LINK brdma_io)
# The code for machines without guarded.S, tested here: everything that it uses is separate.
if(TARGET brdma_io AND NOT BRDMA_SANITIZE)
  add_executable(memory_guard_by_jump_test ${CMAKE_CURRENT_LIST_DIR}/memory_guard_test.cc ${PROJECT_SOURCE_DIR}/libbitmaprdma/memory/guard.cc
    ${PROJECT_SOURCE_DIR}/libbitmaprdma/io/system/fault_handler.cc)
  target_compile_definitions(memory_guard_by_jump_test PRIVATE BRDMA_GUARD_BY_JUMP)
  target_link_libraries(memory_guard_by_jump_test PRIVATE brdma_wire brdma_base brdma_options GTest::gmock GTest::gtest_main)
  gtest_discover_tests(memory_guard_by_jump_test DISCOVERY_MODE PRE_TEST TEST_SUFFIX .by_jump PROPERTIES LABELS unit)
endif()
