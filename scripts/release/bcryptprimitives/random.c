/* random.c - bcryptprimitives.dll for a Wine that has none: the one function that Go's runtime asks for. */
#include <windows.h>

#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n)
{
	return RtlGenRandom(to, (ULONG)n);
}
