brdma_unit_test(control_config_test LINK brdma_control)
if(TARGET control_config_test)
  target_compile_definitions(control_config_test PRIVATE
    BRDMA_CONFIGURATION_DOCUMENT="${CMAKE_CURRENT_LIST_DIR}/../../docs/configuration.md")
endif()
brdma_unit_test(control_statistics_test LINK brdma_control)
brdma_unit_test(control_alarms_test LINK brdma_control)
brdma_unit_test(daemon_slots_test LINK brdmad_parts)
brdma_unit_test(daemon_live_connections_test LINK brdmad_parts)
