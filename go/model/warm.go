package model

import (
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/stream"
)

// warmBytes is how much of a file is requested at a time.
const warmBytes = 8 << 20

// A warming makes the kernel read parts of a file into the page cache in order of use, so that the first
// parts are used while the last are still being read.
type warming struct {
	stop atomic.Bool
	done sync.WaitGroup
}

// warm starts reading the panels that are used in place.
func (m *Model) warm() {
	var parts []stream.Range
	for _, x := range m.weights.mats {
		if x.inFile {
			parts = append(parts, stream.Range{File: x.panels.Shard, Off: int64(x.panels.Offset), N: len(x.Data)})
		}
	}
	m.warming.start(m.file, parts)
}

// start starts to read parts of a file. Those in the page cache cost next to nothing.
func (w *warming) start(f *File, parts []stream.Range) {
	w.done.Go(func() {
		for _, p := range parts {
			for at := 0; at < p.N; at += warmBytes {
				if w.stop.Load() || f.regions[p.File].Ahead(int(p.Off)+at, min(warmBytes, p.N-at)) != nil {
					return
				}
			}
		}
	})
}

func (w *warming) end() {
	w.stop.Store(true)
	w.done.Wait()
}
