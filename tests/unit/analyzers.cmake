# Unit tests of analyzers/, and its text cases (analyzers_cases/*.case), which run the trace-analyze program.
add_executable(test_analyzers
  analyzers/building_blocks_test.cpp
  analyzers/call_tree_test.cpp
  analyzers/candle_activations_test.cpp
  analyzers/candle_capabilities_test.cpp
  analyzers/candle_graph_nodes_test.cpp
  analyzers/candle_graph_test.cpp
  analyzers/candle_planes_test.cpp
  analyzers/cases_test.cpp
  analyzers/cut_test.cpp
  analyzers/fixtures_test.cpp
  analyzers/health_test.cpp
  analyzers/memory_test.cpp
  analyzers/render_test.cpp
  analyzers/timing_test.cpp)
target_link_libraries(test_analyzers PRIVATE tensortap_analyzers GTest::gtest_main)
target_compile_definitions(test_analyzers PRIVATE
  CASES_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/analyzers_cases"
  TRACE10_FOLDER="${CMAKE_SOURCE_DIR}/tests/conformance/trace10"
  TRACE_ANALYZE="$<TARGET_FILE:trace-analyze>")
add_dependencies(test_analyzers trace-analyze)
gtest_discover_tests(test_analyzers TEST_PREFIX analyzers. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
