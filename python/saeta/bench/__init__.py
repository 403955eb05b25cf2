"""What `saeta bench` measures: files and tables on their way to the device and back, beside what people use instead."""
