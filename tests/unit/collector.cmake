add_executable(collector_test
  ${CMAKE_CURRENT_LIST_DIR}/collector/coverage_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/ledger_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/limits_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/listener_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/naming_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/ring_recovery_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/run_notes_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/producers_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/session_plain_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/session_probe_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collector/store_test.cpp)
target_link_libraries(collector_test PRIVATE tensortap_collector GTest::gtest_main)
gtest_discover_tests(collector_test TEST_PREFIX "collector." DISCOVERY_TIMEOUT 60)

# The daemon as a process (Python 3.11, standard library only).
find_package(Python3 3.8 REQUIRED COMPONENTS Interpreter)
add_test(NAME collector.e2e
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/../e2e/collector_e2e.py $<TARGET_FILE:collectord> -v)
set_tests_properties(collector.e2e PROPERTIES TIMEOUT 180)
