package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLoadBar(t *testing.T) {
	load := func(started time.Time) string {
		var out bytes.Buffer
		bar := &loadBar{w: &out, what: "loading", start: started}
		for done := uint64(0); done <= 5e9; done += 1e9 {
			bar.update(done, 5e9)
		}
		bar.done()
		return out.String()
	}
	if got := load(time.Now()); got != "" {
		t.Errorf("a quick load printed %q", got)
	}
	if got := load(time.Now().Add(-time.Second)); !strings.Contains(got, "loading 5.0 GB") || strings.Contains(got, "\n") {
		t.Errorf("a slow load printed %q", got)
	}
	var file bytes.Buffer
	bar := newLoadBar(&file)
	bar.update(1, 2)
	bar.done()
	if file.Len() > 0 {
		t.Errorf("a load printed %q to what is no terminal", file.String())
	}
}
