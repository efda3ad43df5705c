# Compiled into each torch backend, with that torch's C++ ABI; include(…/probe/python/sources.cmake) gives the list.
set(TENSORTAP_PROBE_PYTHON_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/interpreter.cpp
  ${CMAKE_CURRENT_LIST_DIR}/module_table.cpp
  ${CMAKE_CURRENT_LIST_DIR}/module_facts.cpp
  ${CMAKE_CURRENT_LIST_DIR}/module_tensors.cpp
  ${CMAKE_CURRENT_LIST_DIR}/python_tensor.cpp
  ${CMAKE_CURRENT_LIST_DIR}/call_nodes.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gradients.cpp
  ${CMAKE_CURRENT_LIST_DIR}/module_calls.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hook_thread.cpp
  ${CMAKE_CURRENT_LIST_DIR}/process_group.cpp
  ${CMAKE_CURRENT_LIST_DIR}/output_stats.cpp
  ${CMAKE_CURRENT_LIST_DIR}/mask_stats.cpp
  ${CMAKE_CURRENT_LIST_DIR}/optimizer_frame.cpp)
