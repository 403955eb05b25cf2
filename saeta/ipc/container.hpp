// The two forms of Arrow IPC data.
#pragma once

namespace saeta::ipc {

enum class container { file, stream };

} // namespace saeta::ipc
