# The SDK's headers as a program of somebody else compiles them, its Python package, and a stand-in for the probe.
set(_parts ${CMAKE_CURRENT_BINARY_DIR}/sdk_parts)
set(_strict -Wall -Wextra -Wshadow -Werror -pedantic)

add_executable(sdk_calls ${CMAKE_CURRENT_LIST_DIR}/sdk/calls.c)
set_target_properties(sdk_calls PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
add_executable(sdk_scopes ${CMAKE_CURRENT_LIST_DIR}/sdk/scopes.cpp)
set_target_properties(sdk_scopes PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
target_compile_options(sdk_scopes PRIVATE -fno-exceptions -fno-rtti)
foreach(_program sdk_calls sdk_scopes)
  target_include_directories(${_program} PRIVATE ${CMAKE_SOURCE_DIR}/probe/sdk)
  target_compile_options(${_program} PRIVATE ${_strict})
  set_target_properties(${_program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${_parts})
endforeach()

add_library(fake_sdk_probe SHARED ${CMAKE_CURRENT_LIST_DIR}/sdk/fake_probe.c)
target_include_directories(fake_sdk_probe PRIVATE ${CMAKE_SOURCE_DIR})
set_target_properties(fake_sdk_probe PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${_parts})

# Python 3.8 or newer; torch's tensors are the end-to-end tests' business.
add_test(NAME sdk COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/sdk_test.py ${_parts} -v)
set_tests_properties(sdk PROPERTIES TIMEOUT 300 LABELS python)
