package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
)

// quickLoad is how long a load takes before a bar is shown: a bar that flashes by is
// noise.
const quickLoad = 500 * time.Millisecond

// A loadBar shows the progress of loading a model. The zero value shows nothing. It is safe for concurrent use.
type loadBar struct {
	mu    sync.Mutex
	w     io.Writer // nil shows nothing
	what  string    // is done
	start time.Time
	bar   *progressbar.ProgressBar
}

// newLoadBar returns a bar on w if that is a terminal.
func newLoadBar(w io.Writer) *loadBar { return newBar(w, "loading") }

// newBar returns a bar of something else that is done.
func newBar(w io.Writer, what string) *loadBar {
	if !isTerminal(w) {
		return &loadBar{}
	}
	return &loadBar{w: w, what: what, start: time.Now()}
}

// barOn returns a bar on w each time that something is done.
func barOn(w io.Writer, what string) launch.Bar {
	return func() (update func(done, total uint64), end func()) {
		b := newBar(w, what)
		return b.update, b.done
	}
}

// update sets the progress to done of total bytes.
func (b *loadBar) update(done, total uint64) {
	if b.w == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		if time.Since(b.start) < quickLoad {
			return
		}
		b.bar = progressbar.NewOptions64(int64(total),
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetDescription(b.what+" "+mem.FormatBytes(total)),
			progressbar.OptionSetWidth(40),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	// The error would be the terminal's; loading continues without the bar.
	if _ = b.bar.Set64(int64(done)); done >= total {
		b.remove()
	}
}

// done removes the bar. It is removed by itself when all is loaded.
func (b *loadBar) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove()
}

func (b *loadBar) remove() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}
