# The document candle-graph/graph/5: on the public traces, and on random ones against the crate's program.
add_test(NAME conformance.candle_graph
         COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/candle_graph_test.py $<TARGET_FILE:trace-analyze>)
add_test(NAME conformance.candle_graph_against_the_crate
         COMMAND ${_python} -B ${CMAKE_CURRENT_LIST_DIR}/candle_graph_crosscheck.py $<TARGET_FILE:trace-analyze>)
set_tests_properties(conformance.candle_graph_against_the_crate PROPERTIES SKIP_RETURN_CODE 77)
