# Memory and timing of the public traces, and of random ones against the crate's program.
add_executable(candle_planes_test ${CMAKE_CURRENT_LIST_DIR}/candle/planes_test.cpp)
target_compile_definitions(candle_planes_test PRIVATE TRACE10_FIXTURES="${CMAKE_CURRENT_LIST_DIR}/trace10")
target_link_libraries(candle_planes_test PRIVATE tensortap_analyzers GTest::gtest_main)
gtest_discover_tests(candle_planes_test TEST_PREFIX "conformance." DISCOVERY_TIMEOUT 60)

add_test(NAME conformance.candle_planes_against_the_crate
         COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/candle_planes_crosscheck.py $<TARGET_FILE:trace-analyze>)
set_tests_properties(conformance.candle_planes_against_the_crate PROPERTIES SKIP_RETURN_CODE 77)
