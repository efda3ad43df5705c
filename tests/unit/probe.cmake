# The preload part in real programs, with a small library in torch's place (real torch: tests/e2e), and trace-run.
set(_parts ${CMAKE_CURRENT_BINARY_DIR}/probe_parts)
set(_here ${CMAKE_CURRENT_LIST_DIR}/probe)

# Libraries of torch's names: Debian's way (version in the soname, a build-id) and pip's (neither).
foreach(_torch debian pip)
  add_library(fake_torch_${_torch} SHARED ${_here}/fake_torch.c)
  set_target_properties(fake_torch_${_torch} PROPERTIES OUTPUT_NAME torch_cpu NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${_parts}/${_torch})
endforeach()
set_target_properties(fake_torch_debian PROPERTIES SUFFIX .so.1.13)
target_link_options(fake_torch_debian PRIVATE -Wl,-soname,libtorch_cpu.so.1.13 -Wl,--build-id=0x00c0ffee)
target_link_options(fake_torch_pip PRIVATE -Wl,-soname,libtorch_cpu.so -Wl,--build-id=none)

# Innocent names: one whose name only speaks of torch, one that brings libtorch along.
add_library(fake_speaks SHARED ${_here}/empty.c)
set_target_properties(fake_speaks PROPERTIES OUTPUT_NAME speaks_of_torch LIBRARY_OUTPUT_DIRECTORY ${_parts}/x)
add_library(fake_plugin SHARED ${_here}/empty.c)
set_target_properties(fake_plugin PROPERTIES OUTPUT_NAME plugin LIBRARY_OUTPUT_DIRECTORY ${_parts}/x)
target_link_options(fake_plugin PRIVATE -Wl,--no-as-needed)
target_link_libraries(fake_plugin PRIVATE fake_torch_debian)

foreach(_backend good other wrong_abi)
  add_library(fake_backend_${_backend} MODULE ${_here}/fake_backend.c)
  set_target_properties(fake_backend_${_backend} PROPERTIES OUTPUT_NAME ${_backend} PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${_parts}/backends)
  target_include_directories(fake_backend_${_backend} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(fake_backend_${_backend} PRIVATE _GNU_SOURCE FAKE_BACKEND_NAME="${_backend}"
    FAKE_BACKEND_ABI=$<IF:$<STREQUAL:${_backend},wrong_abi>,999,TENSORTAP_BACKEND_ABI>)
endforeach()

add_executable(preload_job ${_here}/preload_job.c)
target_compile_definitions(preload_job PRIVATE _GNU_SOURCE)
set_target_properties(preload_job PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${_parts} BUILD_RPATH "\$ORIGIN/x")
add_executable(preload_job_linked ${_here}/preload_job.c)
target_compile_definitions(preload_job_linked PRIVATE _GNU_SOURCE LINKED_TO_TORCH)
target_link_libraries(preload_job_linked PRIVATE fake_torch_debian)
set_target_properties(preload_job_linked PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${_parts})

add_library(preload_backend_list OBJECT ${CMAKE_SOURCE_DIR}/probe/preload/backend_list.c)
add_executable(preload_test ${_here}/preload_test.cpp ${_here}/backend_list_test.cpp)
target_link_libraries(preload_test PRIVATE preload_backend_list tensortap_options tensortap_sanitize GTest::gtest_main)
target_compile_definitions(preload_test PRIVATE PARTS="${_parts}" PRELOAD="$<TARGET_FILE:tensortap_preload>")
add_dependencies(preload_test tensortap_preload fake_torch_debian fake_torch_pip fake_speaks fake_plugin preload_job
  preload_job_linked fake_backend_good fake_backend_other fake_backend_wrong_abi)
gtest_discover_tests(preload_test PROPERTIES TIMEOUT 120)

add_executable(launch_test ${_here}/launch_test.cpp)
target_link_libraries(launch_test PRIVATE tensortap_options tensortap_sanitize tensortap_launch GTest::gtest_main)
gtest_discover_tests(launch_test)

# The real trace-run with the real collectord.
add_executable(trace_run_test ${_here}/trace_run_test.cpp)
target_link_libraries(trace_run_test PRIVATE tensortap_options tensortap_sanitize GTest::gtest_main)
target_compile_definitions(trace_run_test PRIVATE BIN_FOLDER="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  PRELOAD="$<TARGET_FILE:tensortap_preload>")
add_dependencies(trace_run_test trace-run collectord tensortap_preload)
gtest_discover_tests(trace_run_test PROPERTIES TIMEOUT 180)

if(TARGET tensortap_attach)
  add_executable(attach_call_test ${_here}/attach_call_test.cpp)
  target_compile_options(attach_call_test PRIVATE -mavx)
  target_link_libraries(attach_call_test PRIVATE tensortap_options tensortap_attach GTest::gtest_main)
  gtest_discover_tests(attach_call_test PROPERTIES TIMEOUT 120)
endif()
