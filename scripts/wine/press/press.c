/*
 * press.c - runs a program in the console that it is started in, and presses Ctrl-C or Ctrl-Break there:
 *
 *	press.exe c|break WHEN OUT PROGRAM ARGS...
 *
 * when the file WHEN has bytes. What the program prints goes to the file OUT, which may be WHEN. It ends with the program's code.
 */
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

static BOOL WINAPI stay(DWORD event)
{
	(void)event;
	return TRUE;
}

static int fail(const char *what)
{
	fprintf(stderr, "press: %s: error %lu\n", what, GetLastError());
	return 200;
}

static HANDLE create(const wchar_t *name)
{
	SECURITY_ATTRIBUTES inherited = {sizeof(inherited), NULL, TRUE};

	return CreateFileW(name, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, &inherited,
			   CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
}

/* filled: whether a file is there and has bytes. */
static BOOL filled(const wchar_t *name)
{
	LARGE_INTEGER size = {0};
	HANDLE f = CreateFileW(name, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
			       OPEN_EXISTING, 0, NULL);

	if (f == INVALID_HANDLE_VALUE)
		return FALSE;
	GetFileSizeEx(f, &size);
	CloseHandle(f);
	return size.QuadPart > 0;
}

int wmain(int argc, wchar_t **argv)
{
	static wchar_t line[1 << 15];
	STARTUPINFOW start = {.cb = sizeof(start), .dwFlags = STARTF_USESTDHANDLES};
	PROCESS_INFORMATION made;
	DWORD code, event = CTRL_C_EVENT;
	int i;

	if (argc < 5)
		return fail("press c|break WHEN OUT PROGRAM ARGS");
	for (i = 4; i < argc; i++) { /* no argument of the tests has quotes in it */
		if (wcslen(line) + wcslen(argv[i]) + 4 > sizeof(line) / sizeof(line[0]))
			return fail("a longer command than Windows takes");
		swprintf(line + wcslen(line), sizeof(line) / sizeof(line[0]) - wcslen(line), L"\"%ls\" ", argv[i]);
	}
	if (!wcscmp(argv[1], L"break"))
		event = CTRL_BREAK_EVENT;
	SetConsoleCtrlHandler(stay, TRUE); /* the key is for all programs of the console */
	start.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
	start.hStdOutput = start.hStdError = create(argv[3]);
	if (start.hStdOutput == INVALID_HANDLE_VALUE)
		return fail("the file for what is printed");
	if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &made))
		return fail("the program");
	while (!filled(argv[2]) && WaitForSingleObject(made.hProcess, 20) == WAIT_TIMEOUT)
		;
	if (!GenerateConsoleCtrlEvent(event, 0)) {
		code = fail("the key");
		TerminateProcess(made.hProcess, code);
		return (int)code;
	}
	WaitForSingleObject(made.hProcess, INFINITE);
	if (!GetExitCodeProcess(made.hProcess, &code))
		return fail("its end");
	return (int)code;
}
