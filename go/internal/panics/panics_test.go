package panics

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestCatch(t *testing.T) {
	if err := Catch(func() error { return io.EOF }); err != io.EOF {
		t.Errorf("an error came as %v", err)
	}
	err := Catch(func() error { panic("two\nlines\xff" + strings.Repeat("x", 1000)) })
	var p *Panic
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "TestCatch") {
		t.Fatalf("a panic came as %#v", err)
	}
	if got := err.Error(); !strings.HasPrefix(got, "internal error: two linesxxx") || len(got) > 300 {
		t.Errorf("it reads %q", got)
	}
	if err := Catch(func() error { var none []int; none[len(none)] = 1; return nil }); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("an index out of range came as %v", err)
	}
}
