package model

import (
	"sync"
	"sync/atomic"
)

// warmBytes is how much of a file is asked for at a time.
const warmBytes = 8 << 20

// A warming has the kernel read panels that are used in place, in the order of their use and ahead of it: the first
// pass begins while the last ones are still on the disk.
type warming struct {
	stop atomic.Bool
	done sync.WaitGroup
}

// warm starts to read the panels. Those in the page cache cost next to nothing.
func (m *Model) warm() {
	region := m.file.regions[0]
	m.warming.done.Go(func() {
		for _, x := range m.weights.mats {
			if !x.inFile {
				continue
			}
			for at := 0; at < len(x.Data); at += warmBytes {
				if m.warming.stop.Load() || region.Ahead(int(x.panels.Offset)+at, min(warmBytes, len(x.Data)-at)) != nil {
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
