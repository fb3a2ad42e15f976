foreach(test models_rate_test models_rdma_test models_rto_test models_switch_test models_tcp_scoreboard_test
             models_tcp_sender_test models_tcp_window_test models_theory_test)
  brdma_unit_test(${test} LINK brdma_sim_models)
endforeach()
