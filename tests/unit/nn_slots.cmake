# The slots of memory and torch::nn against each torch that is found. The slots and a core that only keeps what it is
# told are a library of their own: the patcher leaves the object that it is in alone, and the test is the job.
if(NOT TENSORTAP_BUILD_BACKENDS)
  return()
endif()
set(_torch ${CMAKE_SOURCE_DIR}/probe/torch)
foreach(id ${TENSORTAP_TORCHES})
  if(NOT TENSORTAP_TORCH_${id}_CXX11)
    continue()  # Debian's GoogleTest has the other C++ ABI
  endif()
  if(TENSORTAP_TORCH_${id}_VERSION VERSION_GREATER_EQUAL 2.7)
    set(_standard 20)
  else()
    set(_standard 17)
  endif()
  add_library(nn_slots_library_${id} SHARED nn_slots/fake_core.cpp ${_torch}/nn_slots.cpp ${_torch}/memory_slots.cpp
    ${_torch}/module_tree.cpp ${_torch}/tensor_lists.cpp ${_torch}/job_memory.cpp ${_torch}/module_calls.cpp ${_torch}/module_settings.cpp ${_torch}/module_tensors.cpp
    ${_torch}/optimizer_gradients.cpp ${_torch}/self_memory.cpp ${_torch}/slots.cpp
    ${_torch}/elf_object.cpp)
  set_target_properties(nn_slots_library_${id} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  # torch's own inline functions would be exported, too: classes marked TORCH_API are visible whatever the flags say.
  target_link_options(nn_slots_library_${id} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/nn_slots/exports.map)
  add_library(nn_slots_plugin_${id} MODULE nn_slots/plugin.cpp)
  add_executable(nn_slots_test_${id} nn_slots/nn_slots_test.cpp ${_torch}/elf_object.cpp)
  target_compile_definitions(nn_slots_test_${id} PRIVATE NN_SLOTS_PLUGIN="$<TARGET_FILE:nn_slots_plugin_${id}>")
  target_link_libraries(nn_slots_test_${id} PRIVATE nn_slots_library_${id} GTest::gtest_main)
  add_dependencies(nn_slots_test_${id} nn_slots_plugin_${id})
  foreach(target nn_slots_library_${id} nn_slots_plugin_${id} nn_slots_test_${id})
    set_target_properties(${target} PROPERTIES CXX_STANDARD ${_standard}
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/nn_slots BUILD_RPATH ${TENSORTAP_TORCH_${id}_LIB})
    target_include_directories(${target} SYSTEM PRIVATE
      ${TENSORTAP_TORCH_${id}_INCLUDE} ${TENSORTAP_TORCH_${id}_INCLUDE}/torch/csrc/api/include)
    target_compile_options(${target} PRIVATE -O2 -g1 -UNDEBUG -DNDEBUG)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_USE_CXX11_ABI=${TENSORTAP_TORCH_${id}_CXX11})
    target_link_directories(${target} PRIVATE ${TENSORTAP_TORCH_${id}_LIB})
    target_link_libraries(${target} PRIVATE tensortap_options -Wl,--no-as-needed -ltorch_cpu -lc10
      -Wl,--as-needed ${CMAKE_DL_LIBS})
    target_link_options(${target} PRIVATE -Wl,--allow-shlib-undefined)
  endforeach()
  gtest_discover_tests(nn_slots_test_${id} TEST_PREFIX "${TENSORTAP_TORCH_${id}_VERSION}." DISCOVERY_TIMEOUT 60)
  set(_python ${TENSORTAP_TORCH_${id}_FROM})
  if(IS_DIRECTORY ${_python})
    set(_python /usr/bin/python3)
  endif()
  add_test(NAME ${TENSORTAP_TORCH_${id}_VERSION}.NnSlots.python
    COMMAND ${_python} ${CMAKE_CURRENT_LIST_DIR}/nn_slots/python_job.py $<TARGET_FILE:nn_slots_library_${id}>)
endforeach()
