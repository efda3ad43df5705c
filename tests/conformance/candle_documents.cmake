# The documents candle-graph/summary/6 and overview/2: as expected.json and the public documents (candle/) say.
add_executable(candle_evidence_test ${CMAKE_CURRENT_LIST_DIR}/candle/evidence_test.cpp)
target_compile_definitions(candle_evidence_test PRIVATE TRACE10_FIXTURES="${CMAKE_CURRENT_LIST_DIR}/trace10")
target_link_libraries(candle_evidence_test PRIVATE tensortap_analyzers GTest::gtest_main)
gtest_discover_tests(candle_evidence_test TEST_PREFIX "conformance." DISCOVERY_TIMEOUT 60)

add_test(NAME conformance.candle_documents
         COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/candle_documents_test.py $<TARGET_FILE:trace-analyze>)
add_test(NAME conformance.candle_documents_against_the_crate
         COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/candle_crosscheck.py $<TARGET_FILE:trace-analyze>)
set_tests_properties(conformance.candle_documents_against_the_crate PROPERTIES SKIP_RETURN_CODE 77)
