package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/mem"
)

// lineEvery is the time between two lines about a download where there is no terminal.
const lineEvery = 10 * time.Second

// A pullBar shows the progress of a download: a bar on a terminal, lines elsewhere.
type pullBar struct {
	w     io.Writer
	name  string
	bar   *progressbar.ProgressBar // nil: not begun, or there is no terminal
	stage hub.Stage
	total int64
	last  time.Time
	had   int64 // when the last line was written
	begun bool
	kept  int64 // bytes that are here
}

func newPullBar(w io.Writer, name string) *pullBar {
	return &pullBar{w: w, name: visible(name), stage: -1}
}

// update shows how far a pull is.
func (b *pullBar) update(p hub.Progress) {
	done, total := p.Bytes()
	b.kept = done
	if isTerminal(b.w) && !dumb() {
		b.draw(p.Stage, done, total)
		return
	}
	now := time.Now()
	switch {
	case p.Stage == hub.Waiting && b.stage != p.Stage:
		fmt.Fprintf(b.w, "%s: another program downloads it; this one waits\n", b.name)
	case p.Stage == hub.Downloading && !b.begun:
		b.begun, b.last, b.had = true, now, done
		if total < 0 || done < total {
			fmt.Fprintf(b.w, "%s: downloading %s\n", b.name, amount(done, total))
		}
	case p.Stage == hub.Downloading && now.Sub(b.last) >= lineEvery:
		rate := uint64(float64(done-b.had) / now.Sub(b.last).Seconds())
		fmt.Fprintf(b.w, "%s: %s, %s/s\n", b.name, amount(done, total), mem.FormatBytes(rate))
		b.last, b.had = now, done
	}
	b.stage = p.Stage
}

// amount is how much of a file there is.
func amount(done, total int64) string {
	if total < 0 {
		return mem.FormatBytes(uint64(done))
	}
	if done == 0 {
		return mem.FormatBytes(uint64(total))
	}
	return mem.FormatBytes(uint64(done)) + " of " + mem.FormatBytes(uint64(total))
}

var stages = map[hub.Stage]string{hub.Waiting: "waiting", hub.Checking: "checking", hub.Downloading: "pulling", hub.Finishing: "verifying"}

func (b *pullBar) draw(s hub.Stage, done, total int64) {
	if b.bar == nil || b.total != total {
		b.done()
		b.total = total
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.w), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
		)
	}
	if s != b.stage {
		b.stage = s
		b.bar.Describe(stages[s] + " " + b.name)
	}
	if done < total || total < 0 { // a full bar is cleared, and hashing goes on
		_ = b.bar.Set64(done) // the error would be the terminal's
	}
}

// done removes the bar.
func (b *pullBar) done() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
		b.stage = -1
	}
}
