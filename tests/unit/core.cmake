add_executable(core_test core/capture_plan_test.cpp core/capture_test.cpp core/clock_test.cpp core/mask_summary_test.cpp core/op_counts_test.cpp
  core/process_group_test.cpp core/process_memory_test.cpp core/protocol_lines_test.cpp core/ring_test.cpp core/sdk_test.cpp core/tables_test.cpp)
target_link_libraries(core_test PRIVATE tensortap_core GTest::gtest_main)
gtest_discover_tests(core_test)
