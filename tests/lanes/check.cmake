# Runs CTest over tests/lanes/probe.cpp and checks the result that it reports: a CTest test may count as skipped only
# if all its selected GoogleTest tests were skipped.
#
#   cmake -D PROBE=<program> -D FOLDER=<scratch> -D CTEST=<ctest> -P check.cmake

set(lanes "")
# lane(<name> <filter> <what CTest must say of it>)
function(lane name filter outcome)
  string(APPEND lanes "add_test(${name} \"${PROBE}\" \"--gtest_filter=${filter}\")\n"
                      "set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)\n")
  set(lanes "${lanes}" PARENT_SCOPE)
  set(expected_${name} "${outcome}" PARENT_SCOPE)
  list(APPEND names ${name})
  set(names "${names}" PARENT_SCOPE)
endfunction()

lane(all_pass "probe.passes" "Passed")
lane(some_are_skipped "probe.passes:probe.is_skipped" "Passed")
lane(all_are_skipped "probe.is_skipped" "Skipped")
lane(all_fail "probe.fails" "Failed")
lane(failed_and_skipped "probe.fails:probe.is_skipped" "Failed")
lane(one_test_failed_and_skipped "probe.fails_and_is_skipped" "Failed")
lane(nothing_selected "probe.does_not_exist" "Failed")
lane(unknown_option "probe.passes\" \"--no_such_option" "Failed")

file(WRITE "${FOLDER}/CTestTestfile.cmake" "${lanes}")
execute_process(COMMAND "${CTEST}" --test-dir "${FOLDER}" OUTPUT_VARIABLE output ERROR_VARIABLE output)
set(wrong "")
foreach(name IN LISTS names)
  if(NOT output MATCHES "${name} \\.+[ *]*${expected_${name}}")
    list(APPEND wrong "${name} (${expected_${name}} was expected)")
  endif()
endforeach()
if(wrong)
  message(FATAL_ERROR "CTest says otherwise of: ${wrong}\n${output}")
endif()
