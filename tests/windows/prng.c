// bcryptprimitives.dll of Windows 10 with the one function that Rust's standard library imports. Wine 8 has no such DLL.
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG); // RtlGenRandom of advapi32.dll

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) { return SystemFunction036(data, (ULONG)length); }
