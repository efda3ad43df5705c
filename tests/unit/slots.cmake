# The relocation-slot patcher on small libraries: no torch needed, so it also runs under the sanitizers.
add_library(slots_target SHARED ${CMAKE_CURRENT_LIST_DIR}/slots/target.cpp)
target_include_directories(slots_target PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(slots_target PRIVATE -fsemantic-interposition -fno-inline)
target_link_options(slots_target PRIVATE -Wl,-z,lazy)
set(_slots_libraries slots_target)
foreach(_binding lazy now)
  add_library(slots_caller_${_binding} MODULE ${CMAKE_CURRENT_LIST_DIR}/slots/caller.cpp)
  set_target_properties(slots_caller_${_binding} PROPERTIES PREFIX lib)
  target_include_directories(slots_caller_${_binding} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_options(slots_caller_${_binding} PRIVATE -Wl,-z,${_binding},-z,relro)
  target_link_libraries(slots_caller_${_binding} PRIVATE slots_target)
  list(APPEND _slots_libraries slots_caller_${_binding})
endforeach()
set_target_properties(${_slots_libraries} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/slots)

add_executable(slots_test ${CMAKE_CURRENT_LIST_DIR}/slots/slots_test.cpp ${CMAKE_SOURCE_DIR}/probe/torch/slots.cpp
  ${CMAKE_SOURCE_DIR}/probe/torch/elf_object.cpp)
target_compile_definitions(slots_test PRIVATE SLOTS_LIBRARY_DIR="${CMAKE_CURRENT_BINARY_DIR}/slots")
target_link_libraries(slots_test PRIVATE tensortap_options tensortap_sanitize slots_target GTest::gtest_main
  ${CMAKE_DL_LIBS})
add_dependencies(slots_test ${_slots_libraries})
gtest_discover_tests(slots_test)
