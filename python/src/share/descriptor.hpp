// A file descriptor that a Python object owns.
//
// What      The descriptor closes with the object, in C code: a signal whose handler raises can't come
//           between the call that opens it and the object, nor be lost in a destructor.
// Thread    With the GIL held.
// Fork      A child closes all of them (`close_all`): to other processes the end of a connection is the sign
//           that it is not needed any more, and a file keeps its memory as long as a descriptor is open.
#pragma once

namespace saeta::py {

class descriptor {
public:
  explicit descriptor(int number) noexcept;
  descriptor(descriptor&& other) noexcept;
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor();

  [[nodiscard]] int number() const noexcept { return number_; } ///< -1 once it is closed
  void close() noexcept;
  static void close_all() noexcept;

private:
  void link() noexcept;

  int number_;
  descriptor* next_ = nullptr; ///< the next one in the list of all open descriptors
  descriptor** link_ = nullptr;
};

/// Throws the OSError of the calling thread's `errno`.
[[noreturn]] void throw_system_error();

} // namespace saeta::py
