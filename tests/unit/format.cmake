set(_format_tests
  format_byte_source_test.cpp
  format_container_fuzz_test.cpp
  format_container_test.cpp
  format_health_content_test.cpp
  format_health_fuzz_test.cpp
  format_health_test.cpp
  format_line_blocks_test.cpp
  format_line_facts_test.cpp
  format_float_text_test.cpp
  format_line_reader_test.cpp
  format_line_writer_test.cpp
  format_many_lines_test.cpp
  format_paging_test.cpp
  format_ring_lines_test.cpp
  format_round_trip_test.cpp
  format_stream_rules_test.cpp
  format_trace_index_test.cpp
  format_trace_reader_test.cpp)
list(TRANSFORM _format_tests PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
add_executable(format_test ${_format_tests})
target_compile_definitions(format_test PRIVATE TRACE10_FIXTURES="${CMAKE_SOURCE_DIR}/tests/conformance/trace10")
target_link_libraries(format_test PRIVATE tensortap_format zstd::libzstd_shared ZLIB::ZLIB PkgConfig::xxhash GTest::gtest_main)
gtest_discover_tests(format_test TEST_PREFIX "format." DISCOVERY_TIMEOUT 60)

# A program of its own: it counts the allocations of all that runs in it.
add_executable(format_allocation_test ${CMAKE_CURRENT_LIST_DIR}/format_allocation_test.cpp)
target_link_libraries(format_allocation_test PRIVATE tensortap_format GTest::gtest_main)
gtest_discover_tests(format_allocation_test TEST_PREFIX "format." DISCOVERY_TIMEOUT 60)
