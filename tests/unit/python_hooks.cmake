# The Python hooks with a stand-in for probe/core, in real interpreters with real torch: Debian's and the tests' virtual
# environment's. A test whose python can't import torch is skipped and says so.
include(${CMAKE_SOURCE_DIR}/probe/python/sources.cmake)

add_library(tensortap_fake_core SHARED python_fake_core.cpp ${CMAKE_SOURCE_DIR}/probe/core/process_group.cpp
  ${TENSORTAP_PROBE_PYTHON_SOURCES})
target_link_libraries(tensortap_fake_core PRIVATE tensortap_options)
set_target_properties(tensortap_fake_core PROPERTIES CXX_STANDARD 17
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

set(_cache $ENV{XDG_CACHE_HOME})
if(NOT _cache)
  set(_cache $ENV{HOME}/.cache)
endif()
foreach(_python system venv)
  if(_python STREQUAL "system")
    set(_program /usr/bin/python3)
  else()
    set(_program ${_cache}/tensortap/torch2-venv/bin/python)
  endif()
  add_test(NAME python_hooks.${_python}
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/python_hooks_test.py
      --python ${_program} --library $<TARGET_FILE:tensortap_fake_core>)
  set_tests_properties(python_hooks.${_python} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS python)
endforeach()
