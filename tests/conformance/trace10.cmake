# The public fixtures of trace/10 (trace10/), read by our readers.
add_executable(trace10_test
  ${CMAKE_CURRENT_LIST_DIR}/trace10_health_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace10_test.cpp)
target_compile_definitions(trace10_test PRIVATE TRACE10_FIXTURES="${CMAKE_CURRENT_LIST_DIR}/trace10"
  KNOWN_ANSWERS="${CMAKE_CURRENT_LIST_DIR}/known_answers"
  GOLDEN_SAMPLES="${CMAKE_SOURCE_DIR}/proto/samples")
target_link_libraries(trace10_test PRIVATE tensortap_analyzers GTest::gtest_main)
gtest_discover_tests(trace10_test TEST_PREFIX "conformance." DISCOVERY_TIMEOUT 60)

# What the Python tests below ask of our writer and reader.
add_executable(trace10_tool ${CMAKE_CURRENT_LIST_DIR}/trace10_tool.cpp)
target_link_libraries(trace10_tool PRIVATE tensortap_format tensortap_core)

# The JSON Schemas of proto/schemas against everything that we write, and every fixture.
add_test(NAME conformance.schemas
  COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/schemas_test.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(conformance.schemas PROPERTIES TIMEOUT 300)
# The candle-graph crate as a peer, where its program is installed.
add_test(NAME conformance.crate_differences
  COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/crate_differences_test.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(conformance.crate_differences PROPERTIES TIMEOUT 300)
