package nn

// A stop is a panic with the first error of a file. It ends the reading of its keys, or the building of its program,
// so that architectures read as lists of steps, each of which may rely on those before it.
type stop struct{ err error }

// check stops at an error.
func check(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// must returns v, or stops at an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// stopped is deferred. It returns the error of a stop, and lets other panics be: they are bugs.
func stopped(err *error) {
	switch r := recover().(type) {
	case nil:
	case stop:
		*err = r.err
	default:
		panic(r)
	}
}
