package panics

import (
	"errors"
	"io"
	"slices"
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

func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		got := make([]bool, n)
		if err := Each(n, func(i int) error { got[i] = true; return nil }); err != nil || slices.Contains(got, false) {
			t.Errorf("%d calls: %v, %v", n, got, err)
		}
	}
	err := Each(4, func(i int) error {
		if i > 0 {
			panic(i)
		}
		return nil
	})
	var p *Panic
	if !errors.As(err, &p) || p.Value != 1 || len(p.Stack) == 0 {
		t.Errorf("the first of several panics came as %v", err)
	}
}
