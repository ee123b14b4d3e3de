// What is between the C functions in door.c and the Go ones behind them.
#ifndef DOOR_H
#define DOOR_H

#include "libquern.h"

// Bytes of an error's text, with the 0 at its end.
#define DOOR_ERROR 1024

// cgo knows no const.
typedef const char door_text;

#endif
