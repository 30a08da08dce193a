// Built-in variables, vector types and intrinsics are there already where CUDA text is executed on the CPU.
#pragma once
