package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quern-llm/quern/go/mem"
)

// quickLoad is how long a load takes before a bar is shown: a bar that flashes by is
// noise.
const quickLoad = 500 * time.Millisecond

// A loadBar shows the progress of loading a model. The zero value shows nothing.
type loadBar struct {
	w     io.Writer // nil shows nothing
	start time.Time
	bar   *progressbar.ProgressBar
}

// newLoadBar returns a bar on w if that is a terminal.
func newLoadBar(w io.Writer) *loadBar {
	if !isTerminal(w) {
		return &loadBar{}
	}
	return &loadBar{w: w, start: time.Now()}
}

// update sets the progress to done of total bytes.
func (b *loadBar) update(done, total uint64) {
	if b.w == nil {
		return
	}
	if b.bar == nil {
		if time.Since(b.start) < quickLoad {
			return
		}
		b.bar = progressbar.NewOptions64(int64(total),
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetDescription("loading "+mem.FormatBytes(total)),
			progressbar.OptionSetWidth(40),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionShowBytes(true),
			progressbar.OptionClearOnFinish(),
		)
	}
	// The error would be the terminal's; loading continues without the bar.
	_ = b.bar.Set64(int64(done))
}

// done removes the bar.
func (b *loadBar) done() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}
