// The main function of every test program. Its exit codes tell CTest whether anything was tested:
//
// 0   tests ran and none failed
// 1   a test failed
// 2   no test was selected, because the filter matches none
// 77  every selected test was skipped, for example because the machine lacks the device
//
// GoogleTest returns 0 in the last two cases. Its summary also says "PASSED 0 tests" if every test failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc > 1) {
    std::cerr << argv[1] << " is not an option of GoogleTest\n";
    return 2;
  }
  const int failed = RUN_ALL_TESTS();
  const auto& ran = *::testing::UnitTest::GetInstance();
  if (failed != 0 || ::testing::GTEST_FLAG(list_tests)) {
    return failed;
  }
  if (ran.test_to_run_count() == 0) {
    std::cout << "no test was selected\n";
    return 2;
  }
  if (ran.skipped_test_count() == ran.test_to_run_count()) {
    std::cout << "every selected test was skipped\n";
    return 77;
  }
  return 0;
}
